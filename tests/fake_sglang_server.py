"""A program that stands for the library's server: ready, slow, refusing, or leaving something behind."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

how = sys.argv[1]
port = int(sys.argv[sys.argv.index("--port") + 1])


class Ready(BaseHTTPRequestHandler):
    """Answers every question."""

    def do_GET(self) -> None:
        """As /health."""
        self.send_response(503 if how == "never ready" else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


print("loading ...", flush=True)
if how == "refuses":
    sys.exit("Traceback (most recent call last):\n  ...\nValueError: Unsupported architecture")
if how == "warns and refuses":
    print("[Gloo] Rank 0 is connected to 0 peer ranks.", flush=True)
    sys.exit("ValueError: Unsupported architecture")
if how == "out of memory":
    sys.exit("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
if how == "old driver":
    sys.exit("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).")
if how == "port taken":
    sys.exit(
        "ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address already in use"
    )
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "leaves a child":
    subprocess.Popen(["sleep", "600"])
if how == "has a slow child":
    subprocess.Popen(["sleep", "2"])
if how.startswith("maps "):
    with open(how.removeprefix("maps ")) as file:  # noqa: PTH123
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
if how == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "silent":
    time.sleep(600)
HTTPServer(("127.0.0.1", port), Ready).serve_forever()
