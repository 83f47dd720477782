"""A script on a machine without a GPU: `python -m contracts.probes.sglang_script SCRIPT ARGUMENTS`.

Every process that the script starts imports this module again, and with it the stand-ins; that is how the
reproductions of contracts/reproductions, which are written for a GPU, are tried out on a CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

from contracts.probes import sglang as probe
from contracts.probes.kernels import target_kernels

if __name__ in ("__main__", "__mp_main__"):
    probe.setup()
    target_kernels.install()
if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    # not runpy, which would have the script imported by those processes instead
    source = compile(Path(sys.argv[0]).read_text(encoding="utf-8"), sys.argv[0], "exec")
    exec(source, {"__name__": "__main__"})
