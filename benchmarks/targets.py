"""How long target classes take, each and together, and how much is stood in for.

python benchmarks/targets.py               # those of --targets core
python benchmarks/targets.py all
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from contracts.group import Options
from contracts.probes.kernels import linear_attention, reference, target_kernels
from contracts.sides import Side
from contracts.targets.bench import Targets
from contracts.targets.recipes import selected


def main() -> None:
    targets = selected(sys.argv[1] if len(sys.argv) > 1 else "core")
    side = Side.find("serving", sys.executable)
    with tempfile.TemporaryDirectory() as cache:
        options = Options(cache=Path(cache), session="", case_timeout=60.0, progress=None)
        bench = Targets(targets, lambda _: side, options)
        begun = time.monotonic()
        results = bench.ran.results
        seconds = time.monotonic() - begun
    spent: dict[str, list[float]] = defaultdict(list)
    for name, result in results.items():
        spent[name.split("/")[1] if "/" in name else "the list of classes"].append(result.seconds)
    for name, times in spent.items():
        print(f"{name:<20} {len(times):>3} cases {sum(times):6.1f} s, {sum(times) / len(times):.1f} s each")
    print(f"\nsglang {side.version}, {len(targets)} classes: {seconds:.0f} s on {os.cpu_count()} cores\n")
    for module in (reference, linear_attention, target_kernels):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_") and name != "install":
                lines = len(inspect.getsource(function).splitlines())
                whose = ", ".join(re.findall(r"\((\w+)", function.__doc__ or "")[:2])
                print(f"{module.__name__.rpartition('.')[2]}.{name:<42} {lines:>3} lines  {whose}")


if __name__ == "__main__":
    main()
