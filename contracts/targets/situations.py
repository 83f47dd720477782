"""What each target class is asked to capture: lists of ids as they stand in drafts, and states trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from contracts.targets.recipes import LAYERS

Ids = tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A list of ids, and what is particular about it."""

    name: str
    about: str
    ids: Ids


SITUATIONS = (
    Situation(name="no_ids", about="a draft that names none", ids=None),
    Situation(
        name="outputs", about="ids of the layers whose outputs are meant, as SpecForge writes", ids=(1, 3, 4)
    ),
    Situation(
        name="inputs", about="ids of the layers whose inputs are meant, as speculators writes", ids=(2, 4, 5)
    ),
    Situation(name="first_layer", about="the first layer", ids=(0, 3, 6)),
    Situation(name="last_layer", about="the last layer", ids=(1, 3, LAYERS - 1)),
    Situation(name="number_of_layers", about="the number of layers", ids=(2, 5, LAYERS)),
    Situation(name="four", about="four layers", ids=(1, 3, 4, 6)),
    Situation(name="unordered", about="not in order", ids=(3, 1, 4)),
    Situation(name="embeddings", about="the layer before the first", ids=(-1, 2, 5)),
    Situation(name="repeated", about="one twice", ids=(2, 2, 5)),
    Situation(name="outside", about="more than the number of layers", ids=(2, 5, LAYERS + 1)),
)
BY_NAME: Mapping[str, Situation] = MappingProxyType({item.name: item for item in SITUATIONS})
OUTPUTS = BY_NAME["outputs"].ids
"""The list by which a class is judged to run at all."""

TRAINED: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "usual": (2, LAYERS // 2, LAYERS - 3),
        "one_later": (3, LAYERS // 2 + 1, LAYERS - 2),
        "first_output": (1, 4, 7),
        "embeddings": (0, 3, 6),
        "last_output": (2, 5, LAYERS),
        "four_states": (2, 4, 5, 7),
    }
)
"""Hidden states that a draft may be trained on, index i the output of layer i - 1."""

EXTRACTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "last": ("--enable-return-hidden-states",),
        "aux": (
            *("--enable-return-hidden-states", "--enable-return-aux-hidden-states"),
            *("--speculative-algorithm", "EAGLE3", "--return-aux-hidden-state-layer-ids"),
            *map(str, OUTPUTS or ()),
        ),
    }
)
"""How a server is told to return hidden states without a draft: the last one, and those of OUTPUTS."""

PROMPTS = (
    (155, 28, 242, 91, 17, 203, 64, 130, 49, 188, 77, 222),
    (210, 33, 146, 59, 181, 95, 24, 117, 238),
)
"""Served in one batch."""
TOKENS = 5
"""Generated per prompt."""
