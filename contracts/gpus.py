"""What a serving side has to work with on a GPU, and which attention backends of a release suit it.

A backend that a release offers and that this table does not know is told: none is left out in silence.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from contracts.conversation import PROBES

LOOK_TIMEOUT = 180.0
"""Seconds to import torch and the library's arguments, and to ask the driver."""

Capability = tuple[int, int]
"""Compute capability, major and minor."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """An attention backend for NVIDIA GPUs that serves targets with ordinary attention."""

    name: str
    first: Capability
    """Oldest compute capability that it runs on."""
    last: Capability = (99, 0)
    page: int = 1
    """Tokens to a page of the cache; sglang sets others where a GPU needs them."""
    trees: bool = True
    """Whether it verifies trees (topk above 1)."""


BACKENDS = (
    Backend(name="triton", first=(7, 5)),
    Backend(name="flashinfer", first=(7, 5)),
    Backend(name="fa3", first=(8, 0), last=(9, 0)),
    Backend(name="fa4", first=(9, 0)),
    Backend(name="trtllm_mha", first=(9, 0), page=64, trees=False),
)
"""Read from sglang 0.5.6.post2 to 0.5.23, not run; what else a release asks for, it says: `UNSUITED`."""
UNSUITED = re.compile(
    r"is not supported in (decode )?attention backend|only supports topk ?= ?1|requires SM"
    r"|only supported (on|for)\b.*(Blackwell|SM\d|prefill)|is only supported on \("
    r"|Invalid configuration : NUM_MMA|failed to dispatch data type"
)
"""What releases say of kernels that do not suit the GPU, the page size, the dtype, or speculation."""
NOT_JUDGED = {
    "torch_native": "sglang refuses it with EAGLE on a GPU",
    "flex_attention": "sglang refuses it with speculation",
    "flashmla": "it is for latent attention (MLA)",
    "cutlass_mla": "it is for latent attention (MLA)",
    "trtllm_mla": "it is for latent attention (MLA)",
    "tokenspeed_mla": "it is for latent attention (MLA)",
    "cutedsl_mla": "it is for latent attention (MLA)",
    "nsa": "it is for sparse attention",
    "dsa": "it is for sparse attention",
    "dsv4": "it is for sparse attention",
    "qsa": "it is for sparse attention",
    "compressed": "it is for sparse attention",
    "minicpm_flashattn": "it is for MiniCPM",
    "minicpm_flashinfer": "it is for MiniCPM",
    "llada2_cfg_flashinfer": "it is for diffusion models",
    "hpc_ops": "it does not support speculation",
    "dual_chunk_flash_attn": "it is for Qwen's models of a million tokens",
    "aiter": "it is for AMD",
    "wave": "it is for AMD",
    "intel_amx": "it is for CPUs",
    "intel_xpu": "it is for Intel GPUs",
    "ascend": "it is for NPUs",
}
"""Why the other backends are not among those."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU."""

    name: str
    capability: Capability
    memory: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the interpreter of a serving side finds."""

    gpus: tuple[Gpu, ...] = ()
    reason: str | None = None
    """Why it finds none."""
    torch: str = ""
    backends: tuple[str, ...] = ()
    """Attention backends that the release's command line takes."""

    def why_not(self, name: str, topk: int = 1) -> str | None:
        """Why this machine does not serve with an attention backend; None if it does."""
        backend = next(item for item in BACKENDS if item.name == name)
        if not self.gpus:
            return self.reason
        if name not in self.backends:
            return f"this release has no attention backend {name}"
        found = self.gpus[0]
        if not backend.first <= found.capability <= backend.last:
            last = "" if backend.last[0] == 99 else f" to {_dotted(backend.last)}"
            due = f"{_dotted(backend.first)}{last or ' or later'}"
            has = _dotted(found.capability)
            return f"{name} needs compute capability {due}; {found.name} has {has}"
        if topk > 1 and not backend.trees:
            return f"{name} verifies chains only (topk 1)"
        return None

    def unknown(self) -> tuple[str, ...]:
        """Backends of the release that nothing here knows."""
        known = {item.name for item in BACKENDS} | NOT_JUDGED.keys()
        return tuple(sorted(set(self.backends) - known))


_MACHINE = TypeAdapter(Machine)


def look(python: str) -> Machine:
    """What the interpreter `python` of a serving side finds on this machine. A lack is no exception."""
    command = [python, str(PROBES / "__main__.py"), "machine", "sglang"]
    done = None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_TIMEOUT, check=False)
        lines = done.stdout.strip().splitlines()
        return _MACHINE.validate_json(lines[-1])
    except subprocess.TimeoutExpired:
        return Machine(
            reason=f"{python}: the GPUs were not told within {LOOK_TIMEOUT:g} s; is the driver hung?"
        )
    except (OSError, IndexError, ValidationError):
        said = done.stderr.strip().splitlines() if done else []
        return Machine(reason=f"{python} could not tell its GPUs: {(said or ['no output'])[-1]}")


def _dotted(capability: Sequence[int]) -> str:
    return ".".join(map(str, capability))
