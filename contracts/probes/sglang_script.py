"""A script on a machine without a GPU: `python -m contracts.probes.sglang_script SCRIPT ARGUMENTS`.

Every process that the script starts imports this module again, and with it the stand-ins; that is how the
reproductions of contracts/reproductions, which are written for a GPU, are tried out on a CPU.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from contracts.probes import sglang as probe
from contracts.probes.kernels import target_kernels

ENGINE = {
    "device": "cpu",
    "attention_backend": "triton",
    "prefill_attention_backend": "intel_amx",
    "decode_attention_backend": "intel_amx",
    "max_total_tokens": 2048,
    "page_size": 1,
    "disable_overlap_schedule": True,
    "disable_radix_cache": True,
    "chunked_prefill_size": -1,
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "log_level": "error",
}
"""What the engine of a reproduction is told on a CPU, unless variable ENGINE says otherwise."""

if __name__ in ("__main__", "__mp_main__"):
    os.environ.setdefault("ENGINE", json.dumps(ENGINE))
    probe.setup()
    target_kernels.install()
if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    # not runpy, which would have the script imported by those processes instead
    source = compile(Path(sys.argv[0]).read_text(encoding="utf-8"), sys.argv[0], "exec")
    exec(source, {"__name__": "__main__"})
