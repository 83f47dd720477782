"""What a target says about a prompt, by transformers: the reference that hidden states are compared with."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

MAJOR = int(metadata.version("transformers").partition(".")[0])
"""Of transformers, which spells RoPE otherwise from 5 on."""


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


def rope(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a config that state `parameters`, as the installed transformers spells them.

    Args:
        parameters: `rope_type`, `rope_theta` and what the type needs, as transformers 5 has them in one.

    """
    if MAJOR >= 5:
        return {"rope_parameters": dict(parameters)}
    scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
    scaled = scaling["rope_type"] != "default"
    return {"rope_theta": parameters["rope_theta"], "rope_scaling": scaling if scaled else None}


def rope_of(config: Any) -> dict[str, Any]:
    """The keys of a loaded config that state its RoPE."""
    names = ("rope_parameters",) if MAJOR >= 5 else ("rope_theta", "rope_scaling")
    return {name: copy.deepcopy(getattr(config, name)) for name in names}


def read_rope(config: Any) -> None:
    """Let transformers 4 go by the RoPE of a config that 5 wrote, which it keeps and does not look at."""
    written = getattr(config, "rope_parameters", None)
    if MAJOR < 5 and written:
        for name, value in rope(written).items():
            setattr(config, name, value)


def rope_parameters(config: Any) -> dict[str, Any]:
    """RoPE of a loaded config, in one, as transformers 5 has it."""
    if MAJOR >= 5:
        return dict(config.rope_parameters)
    return {"rope_type": "default", **(config.rope_scaling or {}), "rope_theta": config.rope_theta}


def spell_for_all(folder: Path) -> None:
    """Let the configs of a target read the same whichever transformers saved it, so that any can read them.

    RoPE and dtype stand there in the spellings of both transformers 4 and 5.
    """
    for file in folder.glob("*config.json"):
        config = json.loads(file.read_text())
        config.pop("transformers_version", None)
        file.write_text(json.dumps(config, indent=2, sort_keys=True))
    file = folder / "config.json"
    config = json.loads(file.read_text())
    dtype = config.get("dtype") or config.get("torch_dtype")
    config |= {"dtype": dtype, "torch_dtype": dtype}
    base = {
        "rope_theta": config.get("rope_theta"),
        "rope_type": "default",
        **(config.get("rope_scaling") or {}),
    }
    parameters = config.get("rope_parameters") or base
    scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
    config |= {
        "rope_parameters": parameters,
        "rope_theta": parameters["rope_theta"],
        "rope_scaling": scaling if scaling["rope_type"] != "default" else None,
    }
    file.write_text(json.dumps(config, indent=2, sort_keys=True))


def num_layers(folder: Path) -> int:
    """Decoder layers of the target in `folder`."""
    return int(json.loads((folder / "config.json").read_text())["num_hidden_layers"])


def observe(folder: Path, prompt: torch.Tensor) -> TargetStates:
    """Run the target in `folder` on `prompt` (shape [P]) with transformers' own class, in float32."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    states, bare, logits, _ = run(model, model.model.layers, prompt.tolist())
    with torch.no_grad():
        normed = model.model.norm(states)
    return TargetStates(
        tokens=torch.cat([prompt, logits[-1].argmax()[None]]),
        states=states,
        normed=normed,
        bare=bare,
        embedding=model.get_input_embeddings().weight.detach(),
    )


def of_all_streams(states: torch.Tensor, width: int) -> torch.Tensor:
    """States of `width`; those of one residual stream, where a model has several, are repeated for each."""
    return states if states.shape[-1] >= width else torch.cat([states] * (width // states.shape[-1]), -1)


def run(model: Any, layers: Any, text: list[int]) -> tuple[torch.Tensor, ...]:
    """What a model computes over `text`, [T], told by what enters and leaves its layers.

    Returns:
        Its hidden states, [n + 1, T, H], the last before the final norm; what the last part of each layer
        that adds to the residual added, likewise, zeros for index 0; logits, [T, vocabulary]; the hidden
        states that transformers itself returns, [n + 1, T, H]. With several residual streams H counts all.

    """
    states: list[torch.Tensor] = []

    def entering(_module: Any, inputs: Any, named: Any) -> None:
        states.append((inputs[0] if inputs else named["hidden_states"])[0])

    def leaving(_module: Any, _inputs: Any, output: Any) -> None:
        states.append((output[0] if isinstance(output, tuple) else output)[0])

    added: dict[int, torch.Tensor] = {}

    def adding(number: int) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor) and output.shape == (1, *states[0].shape):
                added[number] = output[0]  # of the last part of the layer that adds to the residual

        return hook

    hooks = [layers[0].register_forward_pre_hook(entering, with_kwargs=True)]
    hooks += [layer.register_forward_hook(leaving) for layer in layers]
    hooks += [
        part.register_forward_hook(adding(number))
        for number, layer in enumerate(layers, start=1)
        for part in layer.children()
    ]
    with torch.no_grad():
        output = model(input_ids=torch.tensor([text]), use_cache=False, output_hidden_states=True)
    for hook in hooks:
        hook.remove()
    stacked = torch.stack([state.reshape(len(text), -1) for state in states])
    bare = torch.zeros_like(stacked)
    for number, tensor in added.items():
        bare[number] = tensor
    width = stacked.shape[-1]
    returned = torch.stack(
        [of_all_streams(state[0].reshape(len(text), -1), width) for state in output.hidden_states]
    )
    return stacked, bare, output.logits[0].float(), returned
