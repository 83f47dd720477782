"""Drafts with one thing changed, for the real sglang to judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]
Config = dict[str, Any]
Mutation = Callable[[Tensors, Config], None]


def edit(**changes: Any) -> Mutation:
    """A fault in config.json alone."""

    def apply(tensors: Tensors, config: Config) -> None:
        config.update(changes)

    return apply


def ids(*layer_ids: int) -> Mutation:
    def apply(tensors: Tensors, config: Config) -> None:
        config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = list(layer_ids)

    return apply


def drop(*names: str) -> Mutation:
    """A fault in the tensors alone."""

    def apply(tensors: Tensors, config: Config) -> None:
        for name in names:
            del tensors[name]

    return apply


def capture_off(tensors: Tensors, config: Config) -> None:
    config["eagle_config"]["use_aux_hidden_state"] = False


def absolute_d2t(tensors: Tensors, config: Config) -> None:
    tensors["d2t"] = tensors["d2t"] + torch.arange(len(tensors["d2t"]))


def other_rope(tensors: Tensors, config: Config) -> None:
    config["rope_theta"] = config["rope_parameters"]["rope_theta"] = 10_000.0


def rename(old: str, new: str) -> Mutation:
    """Every tensor whose name begins with `old`, under another name."""

    def apply(tensors: Tensors, config: Config) -> None:
        for name in [name for name in tensors if name.startswith(old)]:
            tensors[new + name.removeprefix(old)] = tensors.pop(name)

    return apply


def swap(one: str, other: str) -> Mutation:
    """Two tensors of the same shape under each other's name."""

    def apply(tensors: Tensors, config: Config) -> None:
        tensors[one], tensors[other] = tensors[other], tensors[one]

    return apply


def swap_halves(tensors: Tensors, config: Config) -> None:
    for part in ("q", "k", "v"):
        name = f"midlayer.self_attn.{part}_proj.weight"
        tensors[name] = tensors[name].roll(config["hidden_size"], 1)


def permute_fc(tensors: Tensors, config: Config) -> None:
    first, second, third = tensors["fc.weight"].chunk(3, 1)
    tensors["fc.weight"] = torch.cat([third, first, second], 1)


def norm_before_fc(tensors: Tensors, config: Config, *, value: bool) -> None:
    config["norm_before_fc"] = config["eagle_config"]["norm_before_fc"] = value


def linear_rope(tensors: Tensors, config: Config) -> None:
    config["rope_parameters"] = {"rope_type": "linear", "rope_theta": 50_000.0, "factor": 4.0}
    config["rope_scaling"] = {"rope_type": "linear", "factor": 4.0}


def nothing(tensors: Tensors, config: Config) -> None:
    """No fault at all."""


def mutate(source: Path, folder: Path, fault: Mutation) -> None:
    """Copy the draft in `source` to `folder`, changed."""
    folder.mkdir(parents=True)
    tensors = load_file(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    fault(tensors, config)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
