"""Makes a tiny target by transformers' own class, and says what that class computes over some prompts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from contracts.probes import transformers_target
from contracts.probes.stream import OutOfReach

SEED = 11
PATHS = (
    "model.layers",
    "model.language_model.layers",
    "language_model.model.layers",
    "model.language_model.model.layers",
)
"""Where transformers keeps the decoder layers of a model."""
UNTOUCHED = ("inv_freq", "A_log", "dt_bias", "embed_scale", "layer_scalar", "std_", ".beta", ".eps")
"""Parts of the names of parameters that keep what their class gave them."""


def make(recipe: Mapping[str, Any], folder: Path) -> None:
    """Write the target of `recipe` to `folder`, with weights that tell its layers apart.

    Raises:
        OutOfReach: the installed transformers has no such class.

    """
    model_class = recipe["model"] or recipe["architecture"]
    config = _class(recipe["config"])(**_spelled(recipe["settings"]))
    config._attn_implementation = "eager"
    torch.manual_seed(SEED)
    model = _class(model_class)(config).float().eval()
    _fill(model, recipe["values"])
    reference = folder.with_name("reference")
    model.save_pretrained(reference)
    shutil.copytree(reference, folder)
    _complete(folder, recipe)


def _class(name: str) -> Any:
    import transformers

    try:
        return getattr(transformers, name)
    except AttributeError:
        raise OutOfReach(f"transformers {transformers.__version__} has no {name}") from None


def _spelled(settings: Any) -> Any:
    """Settings as the installed transformers takes them, which spells RoPE otherwise before 5."""
    if not isinstance(settings, Mapping):
        return settings
    spelled = {key: _spelled(value) for key, value in settings.items() if key != "rope_parameters"}
    if "rope_parameters" in settings:
        spelled |= _rope(settings["rope_parameters"])
    return spelled


def _rope(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if transformers_target.MAJOR >= 5:
        return {"rope_parameters": dict(parameters)}
    if "mrope_section" in parameters:
        scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
        return {"rope_theta": parameters["rope_theta"], "rope_scaling": scaling}
    return transformers_target.rope(parameters)


def _fill(model: Any, values: Mapping[str, float]) -> None:
    """Seeded weights, large enough that neighbouring layers' outputs differ by far more than rounding."""
    generator = torch.Generator().manual_seed(SEED)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.is_floating_point() or any(part in name for part in UNTOUCHED):
            continue
        drawn = torch.randn(tensor.shape, generator=generator)
        given = next((value for part, value in values.items() if part in name), None)
        with torch.no_grad():
            if given is not None:
                tensor.fill_(given)
            elif "correction_bias" in name:
                tensor.copy_(0.05 * drawn)
            elif "norm" in name:
                if tensor.requires_grad:
                    tensor.add_(0.1 * drawn)
            elif "sink" in name:
                tensor.copy_(drawn.bfloat16().float())  # which some classes store them in
            elif "bias" in name:
                tensor.copy_(0.1 * drawn)
            elif tensor.dim() == 1:
                if tensor.requires_grad:
                    tensor.add_(0.1 * drawn)
            else:
                tensor.copy_((0.5 if "embed" in name else 0.12) * drawn)


def _complete(folder: Path, recipe: Mapping[str, Any]) -> None:
    """What sglang's class needs beyond, or instead of, what transformers wrote."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    conversion = recipe["conversion"]
    if conversion and conversion["kept"]:
        config = config[conversion["kept"]]
    config["architectures"] = [recipe["architecture"]]
    config["dtype"] = config["torch_dtype"] = "float32"
    for key, value in recipe["further"].items():
        place, last = _place(config, key)
        place[last] = value
    for key in conversion["without"] if conversion else ():
        place, last = _place(config, key)
        del place[last]
    if conversion:
        if conversion["config"]:
            config = {
                key: config if key == "text_config" and value is None else value
                for key, value in conversion["config"].items()
            }
        _convert(folder, conversion)
    file.write_text(json.dumps(config, indent=1, sort_keys=True))


def _place(config: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The config that a dotted key is of, and its last part."""
    *path, last = key.split(".")
    for part in path:
        config = config[part]
    return config, last


def _convert(folder: Path, conversion: Mapping[str, Any]) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name, parts in conversion["fused"].items():
        first, *others = parts
        for key in [key for key in tensors if first in key]:
            halves = [tensors.pop(key), *(tensors.pop(key.replace(first, part)) for part in others)]
            tensors[key.replace(first, name)] = torch.cat(halves)
    renamed = {}
    for key, tensor in tensors.items():
        if any(part in key for part in conversion["dropped"]):
            continue
        for before, after in conversion["renames"].items():
            key = key.replace(before, after)
        renamed[conversion["prefix"] + key] = tensor.contiguous()
    save_file(renamed, file, metadata={"format": "pt"})


def observe(
    recipe: Mapping[str, Any], folder: Path, prompts: list[list[int]], tokens: int
) -> dict[str, torch.Tensor]:
    """What transformers' class computes over each prompt and the `tokens` that it ranks first after it.

    Returns, for prompt number i of P tokens and T = P + tokens - 1 positions, of n layers and hidden size H
    (of all residual streams, one behind the other, if there are several):
        text/i: prompt and continuation, [P + tokens].
        plain/i: hidden state 0 (the embeddings) to n (the last layer's output), before the final norm,
            [n + 1, T, H]. transformers' own tuple has its last entry after that norm, so it is not used.
        normed/i: the same after the final norm.
        bare/i: the same without the residual, that is what the last sub-layer added; zeros for index 0.
        logits/i: [T, vocabulary].
        tuple/i: the hidden states that transformers itself returns, [n + 1, T, H].

    """
    model_class = recipe["model"] or recipe["architecture"]
    model = (
        _class(model_class).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    )
    layers, inner = _layers(model)
    found: dict[str, torch.Tensor] = {}
    for number, prompt in enumerate(prompts):
        text = list(prompt)
        for _ in range(tokens):
            states, bare, logits, returned = transformers_target.run(model, layers, text)
            text.append(int(logits[-1].argmax()))
        with torch.no_grad():
            normed = _normed(inner, states)
        found |= {
            f"text/{number}": torch.tensor(text),
            f"plain/{number}": states,
            f"normed/{number}": normed,
            f"bare/{number}": bare,
            f"logits/{number}": logits,
            f"tuple/{number}": returned,
        }
    return {name: tensor.contiguous() for name, tensor in found.items()}


def _normed(inner: Any, states: torch.Tensor) -> torch.Tensor:
    """States after the final norm, before which a model with several residual streams makes one of them."""
    if not hasattr(inner, "hc_head"):
        normed: torch.Tensor = inner.norm(states)
        return normed
    layers, tokens, width = states.shape
    streams = states.view(layers, tokens, -1, inner.norm.weight.shape[0])
    return transformers_target.of_all_streams(inner.norm(inner.hc_head(streams)), width)


def _layers(model: Any) -> tuple[Any, Any]:
    """The decoder layers of a model, and the module that holds them and the final norm."""
    for path in PATHS:
        try:
            return model.get_submodule(path), model.get_submodule(path.rpartition(".")[0])
        except AttributeError:
            continue
    raise OutOfReach(f"{type(model).__name__} keeps its layers in none of {', '.join(PATHS)}")
