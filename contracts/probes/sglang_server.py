"""sglang's own HTTP server on a machine without a GPU: `python -m contracts.probes.sglang_server ARGUMENTS`.

Arguments are those of `python -m sglang.launch_server`; what a CPU needs is set before them, so that any of
them overrides it. Every process that the server starts imports this module again, and with it the stand-ins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from contracts.probes import sglang as probe
from contracts.probes import sglang_scheduler

RANKS = "SGLANG_CPU_OMP_THREADS_BIND"
"""Cores of each rank; sglang wants to be told where there are more ranks than NUMA nodes."""
MOST_RANKS = 8


def prepare() -> None:
    """Import the library, with what stands in."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    if any(word.startswith(("--tp", "--tensor-parallel-size")) for word in sys.argv):
        os.environ.setdefault(RANKS, "|".join(map(str, cores[:MOST_RANKS])))
    probe.setup()


def main(arguments: Sequence[str]) -> None:
    """Serve until the process is ended."""
    prepare()
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import prepare_server_args

    launch_server(prepare_server_args([*sglang_scheduler.arguments("cpu"), *arguments]))


if __name__ == "__mp_main__":
    prepare()
if __name__ == "__main__":
    main(sys.argv[1:])
