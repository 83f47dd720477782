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
    further_args: tuple[str, ...] = ()

    @property
    def server_args(self) -> tuple[str, ...]:
        """Arguments of the server."""
        topk, tokens = str(self.topk), str(self.draft_tokens)
        return (
            *("--speculative-eagle-topk", topk, "--speculative-num-draft-tokens", tokens),
            *self.further_args,
        )


SETTINGS = (
    Setting(name="chain", about="chains of three draft tokens, all prompts in one batch"),
    Setting(name="tree", about="trees of seven draft tokens, two to a node", topk=2, draft_tokens=8),
    Setting(name="single", about="one request at a time", further_args=("--max-running-requests", "1")),
    Setting(name="chunked", about="prompts prefilled in parts", further_args=("--chunked-prefill-size", "4")),
)
"""On a CPU sglang drafts with one attention backend (intel_amx) and pages of one token only: it says so of
another backend, and with longer pages it asks a Triton kernel for the last slot (mem_cache/allocation.py)."""
