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
    _extend_after_verification: str

    @classmethod
    def of(cls, scheduler: Any) -> Drafter:
        """That of a running scheduler."""
        if sglang_release.has("one-worker"):
            worker = scheduler.draft_worker.draft_worker
            return cls(
                worker, worker.draft_runner.model, "_draft_extend_for_prefill", "_draft_extend_for_decode"
            )
        worker = scheduler.draft_worker
        draft = worker.draft_model_runner.model
        return cls(worker, draft, "forward_draft_extend", "forward_draft_extend_after_decode")

    def extending(self, replacement: Callable[[Any], Any]) -> None:
        """Replace its pass over a prompt, called with the batch, the target's states and the next token.

        `replacement` makes of that pass what is called in its place.
        """
        setattr(self.worker, self._extend, replacement(getattr(self.worker, self._extend)))

    def handing(self, note: Callable[[Any], None]) -> None:
        """Tell `note` the target's states whenever the worker hands them to the draft, before it does.

        The same rows reach the model; where its forward pass is replayed from a CUDA graph, no hook of its
        own is called. After a verification they are those of all nodes, or (before "one-worker") of the
        accepted ones.
        """

        def after_prefill(extend: Any) -> Any:
            def handed(batch: Any, states: Any, *rest: Any, **more: Any) -> Any:
                note(states)
                return extend(batch, states, *rest, **more)

            return handed

        def after_verification(extend: Any) -> Any:
            def handed(batch: Any, *rest: Any, **more: Any) -> Any:
                note(rest[0].logits_output.hidden_states if rest else batch.spec_info.hidden_states)
                return extend(batch, *rest, **more)

            return handed

        self.extending(after_prefill)
        after = self._extend_after_verification
        setattr(self.worker, after, after_verification(getattr(self.worker, after)))
