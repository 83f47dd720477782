"""How long the real HTTP server takes on this machine: until it answers, and from its start to its end.

    python benchmarks/server.py

Run by hand, in an environment that has both libraries; uses the committed target and canary.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contracts import service
from contracts.group import FIXTURES
from contracts.probes import language
from contracts.settings import TOKENS


def main() -> None:
    """Export the canary, serve it in each way that a CPU knows, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "draft"
        export = [sys.executable, "-m", "contracts", "export", str(FIXTURES / "canary")]
        subprocess.run([*export, "--target", str(FIXTURES / "target"), "-o", str(draft)], check=True)
        for serving in service.SERVINGS:
            if serving.of_gpus:
                continue
            place = Path(folder) / serving.name
            place.mkdir()
            chain = ("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3")
            shape = ("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")
            case = {
                "case": serving.name,
                "device": "cpu",
                "draft": str(draft),
                "target": str(FIXTURES / "target"),
                "dtype": "float32",
                "server_args": [*chain, *shape, *serving.server_args],
                "prompts": language.prompts(),
                "tokens": TOKENS,
                "service": str(place / "service.json"),
            }
            started = time.monotonic()
            result = service.serve(sys.executable, case, place, lambda _: None)
            whole = time.monotonic() - started
            if result.error or result.refusals:
                sys.exit(f"{serving.name}: {result.error or result.refusals}")
            found = service.read(place / "service.json")
            print(
                f"{serving.name}: answers after {found.seconds:.1f} s, ended after {whole:.1f} s, "
                f"accept length {found.accept_length:.2f}"
            )


if __name__ == "__main__":
    main()
