"""What both probes read off a model in the same way."""

from __future__ import annotations

from typing import Any

import torch

from contracts.probes.dataflow import Dataflow, Names

STATE = "<target state>"
"""Name that the delivered hidden state carries through a draft."""


def watcher(model: Any, state: torch.Tensor | None = None) -> Dataflow:
    """A watcher that knows every weight of `model` by its name, and the delivered `state` as STATE."""
    flow = Dataflow()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        flow.name(tensor, name)
    if state is not None:
        flow.name(state, STATE)
    return flow


def angles(cos: torch.Tensor, sin: torch.Tensor) -> tuple[tuple[float, ...], float]:
    """Angle per position of each rotated pair, and the factor on cosine and sine.

    Args:
        cos: of positions 0 and 1, shape [2, pairs].
        sin: likewise.

    Read off what the library tabulates, whatever formula and scaling stand behind it.

    """
    radians = torch.atan2(sin[1].double(), cos[1].double())
    return tuple(radians.float().tolist()), float(torch.hypot(cos[0].double(), sin[0].double())[0])


def reads(names: Names, part: str) -> bool:
    """Whether a tensor whose name begins with `part` is among the origins."""
    return any(name.startswith(part) for name in names)


def epsilon(model: Any) -> float:
    """Epsilon of the model's RMS norms; where they differ, the one furthest from the first layer's."""
    first = float(model.get_submodule(first_hidden_norm(model)).variance_epsilon)
    found = [
        float(module.variance_epsilon) for module in model.modules() if hasattr(module, "variance_epsilon")
    ]
    return max(found, key=lambda value: abs(value - first))


def first_hidden_norm(model: Any) -> str:
    """Name of the norm that the delivered state passes before the first layer attends."""
    return next(name for name, _ in model.named_modules() if name.endswith(".hidden_norm"))
