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


def mutate(source: Path, folder: Path, fault: Mutation) -> None:
    """Copy the draft in `source` to `folder`, changed."""
    folder.mkdir(parents=True)
    tensors = load_file(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    fault(tensors, config)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
