"""What a target says about a prompt, by transformers: the reference that hidden states are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class TargetStates:
    """Hidden states of a target over a prompt of P tokens; n layers, hidden size H; float32."""

    tokens: torch.Tensor
    """The prompt, and the token that the target ranks first after it; shape [P + 1]."""
    states: torch.Tensor
    """Every hidden state before the final norm, by index: 0 the embeddings, i the output of decoder layer
    i-1; shape [n + 1, P, H]."""
    normed: torch.Tensor
    """The same after the final norm; shape [n + 1, P, H]."""
    bare: torch.Tensor
    """The same without the residual: what the last MLP added; zeros for index 0; shape [n + 1, P, H]."""
    embedding: torch.Tensor
    """The target's input embedding; shape [vocabulary, H]."""


def observe(folder: Path, prompt: torch.Tensor) -> TargetStates:
    """Run the target in `folder` on `prompt` (shape [P]) with transformers' own class, in float32."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    states: list[torch.Tensor] = []
    bare: list[torch.Tensor] = []

    def entering(_module: Any, inputs: Any) -> None:
        states.append(inputs[0][0])

    def leaving(_module: Any, _inputs: Any, output: Any) -> None:
        # transformers' own tuple shows the last state after the final norm, so it is taken off the layers
        states.append((output[0] if isinstance(output, tuple) else output)[0])

    layers = model.model.layers
    layers[0].register_forward_pre_hook(entering)
    for layer in layers:
        layer.register_forward_hook(leaving)
        layer.mlp.register_forward_hook(lambda _module, _inputs, output: bare.append(output[0]))
    with torch.no_grad():
        logits = model(prompt[None]).logits
        stacked = torch.stack([state.reshape(len(prompt), -1) for state in states])
        normed = model.model.norm(stacked)
    return TargetStates(
        tokens=torch.cat([prompt, logits[0, -1].argmax()[None]]),
        states=stacked,
        normed=normed,
        bare=torch.stack([torch.zeros_like(stacked[0]), *(item.reshape(len(prompt), -1) for item in bare)]),
        embedding=model.get_input_embeddings().weight.detach(),
    )
