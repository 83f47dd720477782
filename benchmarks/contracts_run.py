"""Wall time and peak memory of `pytest -m contracts`, cold and warm, with and without workers.

    python benchmarks/contracts_run.py            # in an environment that has both libraries
    python benchmarks/contracts_run.py --repeat 3

Prints one line per run and the time per recipe. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from contracts.kept import RECORD


def peak_memory(process: psutil.Process, stop: threading.Event, peak: list[int]) -> None:
    """Highest sum of proportional set sizes over the process tree, in bytes."""
    while not stop.wait(0.2):
        total = 0
        for member in [process, *process.children(recursive=True)]:
            try:
                total += member.memory_full_info().pss
            except psutil.Error:
                continue
        peak[0] = max(peak[0], total)


def run(arguments: Sequence[str], cache: Path) -> tuple[float, float]:
    """Seconds and peak MiB of one session."""
    command = [sys.executable, "-m", "pytest", "--pyargs", "contracts", "-m", "contracts", "-q"]
    started, peak, stop = time.monotonic(), [0], threading.Event()
    process = subprocess.Popen(
        [*command, "-p", "no:cacheprovider", f"--contracts-cache={cache}", "--require-sides", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sampler = threading.Thread(target=peak_memory, args=(psutil.Process(process.pid), stop, peak))
    sampler.start()
    status = process.wait()
    stop.set()
    sampler.join()
    if status:
        raise SystemExit(f"pytest ended with {status}; run it by hand: {' '.join(command)}")
    return time.monotonic() - started, peak[0] / 2**20


def seconds_per_case(cache: Path) -> dict[str, list[float]]:
    """Seconds that each probe spent on each case, by library and kind of case."""
    spent: dict[str, list[float]] = {}
    for record in sorted(cache.glob(f"*/{RECORD}")):
        library = record.parent.name.rsplit("-", 1)[0]
        result = json.loads(record.read_text())["result"]
        kind = result["case"].rpartition("/")[0]
        spent.setdefault(f"{library} {kind}".strip(), []).append(result["seconds"])
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs of each kind [default: 1]")
    options = parser.parse_args()
    for workers in ([], ["-n", "2"]):
        for _ in range(options.repeat):
            with tempfile.TemporaryDirectory() as folder:
                cache = Path(folder)
                for state in ("cold", "warm"):
                    seconds, memory = run(workers, cache)
                    label = " ".join(workers) or "one process"
                    print(f"{state}, {label:<12} {seconds:6.1f} s  {memory:6.0f} MiB", flush=True)
                for kind, cases in seconds_per_case(cache).items():
                    mean = sum(cases) / len(cases)
                    print(f"      {kind}: {len(cases)} cases, {mean:.2f} s each", flush=True)


if __name__ == "__main__":
    main()
