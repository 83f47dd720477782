"""The part of sglang's scheduler that drafts, which releases keep in different places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contracts.probes import sglang_release


@dataclass(frozen=True)
class Drafter:
    """The draft worker of a scheduler, and the draft that it runs."""

    worker: Any
    """Has `draft` and `draft_forward`."""
    model: Any
    _extend: str

    @classmethod
    def of(cls, scheduler: Any) -> Drafter:
        """That of a running scheduler."""
        if sglang_release.has("one-worker"):
            worker = scheduler.draft_worker.draft_worker
            return cls(worker, worker.draft_runner.model, "_draft_extend_for_prefill")
        worker = scheduler.draft_worker
        return cls(worker, worker.draft_model_runner.model, "forward_draft_extend")

    def extending(self, replacement: Callable[[Any], Any]) -> None:
        """Replace its pass over a prompt, called with the batch, the target's states and the next token.

        `replacement` makes of that pass what is called in its place.
        """
        setattr(self.worker, self._extend, replacement(getattr(self.worker, self._extend)))
