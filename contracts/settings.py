"""Ways of serving in which acceptance is measured, as declarative values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contracts.gpus import BACKENDS
from contracts.recipes import DType

HEAD_DIM = 64
"""Of targets and drafts as GPU kernels serve them: of 16, which the recipes have, some know nothing."""
TOKENS = 33
"""Generated per prompt: one by the prefill, then eight full rounds."""
STEPS = 3
"""Draft tokens in a row; with all of them accepted, the accept length is one more."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way of serving: what it is called, and how the server is told."""

    name: str
    about: str
    topk: int = 1
    """Branches to a node of the draft tree."""
    draft_tokens: int = STEPS + 1
    """Nodes of the tree, the last committed token included."""
    running: int | None = None
    """Requests at a time, at the most; None: as many as there are."""
    chunk: int | None = None
    """Tokens of prompts that are read at a time, at the most; None: all of them."""
    dtype: DType | None = None
    """What is computed in; None: what the recipe is served in, float32."""
    backend: str | None = None
    """Attention backend of a GPU; None: the one that knows float32."""
    page: int = 1
    """Tokens to a page of the cache."""
    graphs: bool = False
    """Whether decoding is captured in CUDA graphs, as in production."""

    @property
    def of_gpus(self) -> bool:
        """Whether only a GPU can serve so."""
        return self.graphs or self.backend is not None

    @property
    def server_args(self) -> tuple[str, ...]:
        """Arguments of the server that every release takes."""
        told = {
            "--speculative-eagle-topk": self.topk,
            "--speculative-num-draft-tokens": self.draft_tokens,
            "--max-running-requests": self.running,
            "--chunked-prefill-size": self.chunk,
            "--attention-backend": self.backend,
            "--page-size": None if self.page == 1 else self.page,
        }
        return tuple(word for name, value in told.items() if value for word in (name, str(value)))


SETTINGS = (
    Setting(name="chain", about="chains of three draft tokens, all prompts in one batch"),
    Setting(name="tree", about="trees of seven draft tokens, two to a node", topk=2, draft_tokens=8),
    Setting(name="single", about="one request at a time", running=1),
    Setting(name="chunked", about="prompts prefilled in parts", chunk=4),
    Setting(name="bfloat16", about="chains, computed in bfloat16", dtype="bfloat16"),
)
"""On a CPU sglang drafts with one attention backend (intel_amx) and pages of one token only: it says so of
another backend, and with longer pages it asks a Triton kernel for the last slot (mem_cache/allocation.py)."""


def _of_gpus() -> Iterator[Setting]:
    """As in production: bfloat16 and CUDA graphs, with each attention backend; then without graphs."""
    for backend in BACKENDS:
        for graphs in (True, False) if backend.name == "triton" else (True,):
            told = f"attention by {backend.name}, {'with' if graphs else 'without'} CUDA graphs"
            name = backend.name if graphs else f"{backend.name}_eager"
            how = Setting(
                name=f"{name}_chain", about=f"chains, {told}", dtype="bfloat16", backend=backend.name,
                page=backend.page, graphs=graphs,
            )  # fmt: skip
            yield how
            if not backend.trees:
                continue
            yield Setting(
                **{
                    **vars(how),
                    "name": f"{name}_tree",
                    "about": f"trees, {told}",
                    "topk": 2,
                    "draft_tokens": 8,
                }
            )


GPU_SETTINGS = tuple(_of_gpus())
"""What only a GPU can serve: `pytest -m "contracts and gpu"`."""
