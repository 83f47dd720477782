"""What the engine costs on a CPU: importing sglang, the whole engine, its HTTP server, and their memory.

    python benchmarks/engine.py        # from a clone, in an environment that has both libraries

Builds the trained draft first, if the cache has none. Prints one line per measurement. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
from contracts_run import peak_memory
from platformdirs import user_cache_path

from contracts.probes import language
from contracts.settings import TOKENS
from contracts.workbench import Workbench

ROOT = Path(__file__).parent.parent
DRAFT = "trained"
IMPORT = "from contracts.probes import sglang; sglang.setup()"


@contextmanager
def measured(label: str, command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program and all that it starts, ended at the end; prints its seconds and its peak memory."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    started, peak, stop = time.monotonic(), [0], threading.Event()
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    sampler = threading.Thread(target=peak_memory, args=(psutil.Process(process.pid), stop, peak))
    sampler.start()
    try:
        yield process
    finally:
        seconds = time.monotonic() - started
        stop.set()
        sampler.join()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        print(f"{label:<44} {seconds:6.1f} s  {peak[0] / 2**20:6.0f} MiB", flush=True)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for a program that has to succeed."""
    status = process.wait()
    if status:
        raise SystemExit(f"it ended with {status}; run it by hand: {process.args!r}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    pythons = {"training": sys.executable, "serving": sys.executable}
    group = Workbench(pythons=pythons, cache=user_cache_path("draft-contracts")).group(DRAFT)
    target = str(group.target_folder(DRAFT))
    arguments = [
        *("--model-path", target, "--skip-tokenizer-init", "--dtype", "float32"),
        *("--speculative-draft-model-path", str(group.draft_folder(DRAFT, "exported"))),
        *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
        *("--max-running-requests", "8"),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with measured("importing sglang", [sys.executable, "-c", IMPORT], folder) as process:
            finish(process)

        case = {"server_args": arguments, "prompts": language.prompts(), "tokens": TOKENS}
        (folder / "case.json").write_text(json.dumps(case))
        files = [str(folder / file) for file in ("case.json", "answers.json")]
        script = str(ROOT / "tests" / "full_engine.py")
        with measured(
            "sglang.Engine: start, 8 prompts, end", [sys.executable, script, *files], folder
        ) as process:
            finish(process)

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        url = f"http://127.0.0.1:{port}"
        server = [sys.executable, "-m", "contracts.probes.sglang_server", *arguments, "--port", port]
        prompts = folder / "prompts.jsonl"
        prompts.write_text("\n".join(map(json.dumps, language.prompts())))
        command = ["acceptance", "--url", url, "--prompts", str(prompts), "--tokens", str(TOKENS)]
        with measured("HTTP server: start, and what follows", server, folder) as process:
            started = time.monotonic()
            while not answers(url):
                if process.poll() is not None:
                    finish(process)
                time.sleep(0.2)
            print(f"{'HTTP server: until it answers':<44} {time.monotonic() - started:6.1f} s")
            asked = [sys.executable, "-m", "contracts", *command]
            with measured("contracts acceptance, 8 prompts", asked, folder) as client:
                finish(client)


def answers(url: str) -> bool:
    """Whether the server is up."""
    try:
        return httpx.get(f"{url}/health", timeout=20).is_success
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    main()
