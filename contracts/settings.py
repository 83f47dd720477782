"""Ways of serving in which acceptance is measured, as declarative values."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def server_args(self) -> tuple[str, ...]:
        """Arguments of the server."""
        told = {
            "--speculative-eagle-topk": self.topk,
            "--speculative-num-draft-tokens": self.draft_tokens,
            "--max-running-requests": self.running,
            "--chunked-prefill-size": self.chunk,
        }
        return tuple(word for name, value in told.items() if value for word in (name, str(value)))


SETTINGS = (
    Setting(name="chain", about="chains of three draft tokens, all prompts in one batch"),
    Setting(name="tree", about="trees of seven draft tokens, two to a node", topk=2, draft_tokens=8),
    Setting(name="single", about="one request at a time", running=1),
    Setting(name="chunked", about="prompts prefilled in parts", chunk=4),
)
"""On a CPU sglang drafts with one attention backend (intel_amx) and pages of one token only: it says so of
another backend, and with longer pages it asks a Triton kernel for the last slot (mem_cache/allocation.py)."""
