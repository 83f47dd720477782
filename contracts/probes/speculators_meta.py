"""Runs one speculators draft on the meta device, watched: which weights take part in what."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch

from contracts.probes import speculators_release
from contracts.probes.dataflow import Dataflow, Names
from contracts.probes.observe import watcher

TOKENS = 4
STEPS = 2
"""The state that the draft feeds back is what the second step takes in."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What one forward pass showed."""

    logits_from: Names
    recurrent_from: Names
    recurrent_width: int
    residual_from: Names
    """Origins of what the first layer passes on with its attention and MLP muted: its residual alone."""


def forward(model: Any) -> Ran:
    """Two steps of the draft on the meta device, then one step with attention and MLP muted."""
    draft = speculators_release.with_dense_attention(copy.deepcopy(model)).to("meta").eval()
    logits: list[torch.Tensor] = []
    entering: list[torch.Tensor] = []
    draft.lm_head.register_forward_hook(lambda _module, _inputs, output: logits.append(output))
    draft.layers[0].register_forward_pre_hook(lambda _module, inputs: entering.append(inputs[0]))
    flow = _run(draft, steps=STEPS)
    # The first layer takes embeddings and state side by side; the state is the second part.
    width, recurrent_from = flow.parts(entering[1])[1]
    logits_from = flow.origins(logits[0])

    leaving: list[torch.Tensor] = []
    for layer in draft.layers:
        layer.self_attn.register_forward_hook(lambda _module, _inputs, out: (torch.zeros_like(out[0]), None))
        layer.mlp.register_forward_hook(lambda _module, _inputs, out: torch.zeros_like(out))
    draft.layers[0].register_forward_hook(lambda _module, _inputs, output: leaving.append(output))
    muted = _run(draft, steps=1)
    return Ran(
        logits_from=logits_from,
        recurrent_from=recurrent_from,
        recurrent_width=width,
        residual_from=muted.origins(leaving[0]),
    )


def _run(draft: Any, *, steps: int) -> Dataflow:
    """The library's own forward pass, from the target's hidden states to the logits of each step."""
    state = torch.zeros(1, TOKENS, draft.fc.in_features, device="meta")
    flow = watcher(draft, state)
    tokens = torch.zeros(1, TOKENS, dtype=torch.int64, device="meta")
    sequence = speculators_release.sequence(TOKENS)
    with torch.no_grad(), flow, speculators_release.on_the_meta_device():
        draft(hidden_states=state, input_ids=tokens, ttt_steps=steps, **sequence)
    return flow
