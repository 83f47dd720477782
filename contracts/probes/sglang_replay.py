"""The serving side at depth "forward": the real scheduler and worker run one prompt and its draft chain.

What runs is the library's own: loader, target, draft worker, attention backend, cache, positions, feedback.
The draft is given the golden hidden states and next token instead of the target's, so that both sides
compute on the same inputs; what the target delivered and chose is reported beside it. (A width that makes the
draft skip `fc` is thus seen at depth "load", not here.)
"""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import load_file, save_file

from contracts.facts import DraftFacts
from contracts.probes import sglang_drafter, sglang_scheduler
from contracts.probes import sglang_meta as meta
from contracts.probes.stream import Refusals

ALONE = ("--max-running-requests", "1")
TOKENS = 8
"""Asked for; the chain ends before."""
BATCHES = 4
"""Prefill and decode take one each; more would mean that the chain never ran."""


class _ChainEnded(Exception):
    """The draft chain is complete; verification is another matter."""


def observe(case: dict[str, Any], refusals: Refusals) -> DraftFacts:
    """Replay the inputs in `case["inputs"]` and write what came out to `case["replay"]`."""
    golden = load_file(case["inputs"])
    chain = int(golden["steps"])
    with refusals.stage("replay"):
        engine = sglang_scheduler.arguments(case["device"])
        arguments = [*case["server_args"], "--dtype", case["dtype"], *engine, *ALONE]
        line = meta.command_line(case["target"], case["folder"], arguments, steps=chain)
        scheduler = sglang_scheduler.start(line, case["server_args"])
        replay = _Replay(scheduler, golden)
        replay.run()
        save_file(replay.tensors(), case["replay"])
    return DraftFacts()


class _Replay:
    """One prompt through a scheduler, and what its draft worker computed on the way."""

    def __init__(self, scheduler: Any, golden: dict[str, torch.Tensor]) -> None:
        self.scheduler = scheduler
        self.golden = golden
        self.taps: torch.Tensor | None = None
        self.next_token: torch.Tensor | None = None
        self.fused: list[torch.Tensor] = []
        self.recurrent: list[torch.Tensor] = []
        self.logits: list[torch.Tensor] = []
        self.positions: list[torch.Tensor] = []
        self.draft_tokens: torch.Tensor | None = None
        self.drafter = sglang_drafter.Drafter.of(scheduler)
        self._watch(self.drafter.model)
        self._give_golden_inputs()
        self._stop_after_chain()

    def _watch(self, draft: Any) -> None:
        def entering(_module: Any, inputs: Any) -> None:
            self.positions.append(inputs[1].clone())

        def leaving(_module: Any, _inputs: Any, output: Any) -> None:
            self.recurrent.append(output[1][0].clone())

        draft.model.register_forward_pre_hook(entering)
        draft.model.register_forward_hook(leaving)
        draft.model.fc.register_forward_hook(
            lambda _module, _inputs, output: self.fused.append(output.clone())
        )
        draft.logits_processor.register_forward_hook(
            lambda _module, _inputs, output: self.logits.append(output.next_token_logits.clone())
        )

    def _give_golden_inputs(self) -> None:
        """Let the draft worker take the golden states and next token for those of the target."""

        def giving(extend: Any) -> Any:
            def given(batch: Any, states: torch.Tensor, token: torch.Tensor, *rest: Any, **more: Any) -> Any:
                self.taps, self.next_token = states.clone(), token.clone()
                golden_states = self.golden["given"].to(states)
                golden_next = self.golden["tokens"][-1:].to(token)
                return extend(batch, golden_states, golden_next, *rest, **more)

            return given

        self.drafter.extending(giving)

    def _stop_after_chain(self) -> None:
        worker = self.drafter.worker
        draft_forward = worker.draft_forward

        def ended(batch: Any) -> Any:
            self.draft_tokens = draft_forward(batch)[2]
            raise _ChainEnded

        worker.draft_forward = ended

    def run(self) -> None:
        """Feed the prompt and let the scheduler work until the draft chain is complete."""
        prompt = self.golden["tokens"][:-1].tolist()
        requests = sglang_scheduler.submit(self.scheduler, [prompt], TOKENS)
        try:
            for number, _ in enumerate(sglang_scheduler.batches(self.scheduler, requests), start=1):
                if number == BATCHES:
                    break
        except _ChainEnded:
            return
        raise RuntimeError(f"the scheduler ran {BATCHES} batches and never drafted")

    def tensors(self) -> dict[str, torch.Tensor]:
        """What was computed, by name; floats as float32."""
        assert self.taps is not None
        assert self.next_token is not None
        assert self.draft_tokens is not None
        found = {
            "taps": self.taps,
            "next_token": self.next_token,
            "recurrent": torch.cat(self.recurrent),
            "logits": torch.cat(self.logits),
            "positions": torch.cat(self.positions),
            "draft_tokens": self.draft_tokens.flatten(),
        }
        if self.fused:
            found["fused"] = torch.cat(self.fused)
        return {
            name: (item.float() if item.is_floating_point() else item.long()).contiguous()
            for name, item in found.items()
        }
