"""A draft in memory that a test breaks: what is in it, and what may be changed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from contracts import blank
from contracts.blank import Blank
from contracts.header.draft import canonical
from contracts.spellings import NEST
from contracts.targets import recorded
from contracts.targets.recipes import TARGETS
from tests.good_drafts import IDS, Good
from tests.memory import Memory


class DoesNotApply(Exception):
    """The good draft has not what the fault is about."""


@dataclass
class Patient:
    """A draft that is being broken."""

    config: dict[str, Any]
    tensors: dict[str, Blank]
    target: dict[str, Any]
    beside: list[str] = field(default_factory=list)
    server_args: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, good: Good) -> Patient:
        return cls(
            config=copy.deepcopy(dict(good.config)),
            tensors=dict(good.tensors),
            target=copy.deepcopy(dict(good.target)),
            beside=list(good.beside),
            server_args=list(good.server_args),
        )

    def place(self) -> Memory:
        return Memory(self.config, self.tensors, tuple(self.beside))

    @property
    def is_nested(self) -> bool:
        return "transformer_layer_config" in self.config

    @property
    def layer(self) -> dict[str, Any]:
        """Where the keys of the decoder layer are."""
        found: dict[str, Any] = self.config["transformer_layer_config"] if self.is_nested else self.config
        return found

    @property
    def nest(self) -> dict[str, Any]:
        self.need(not self.is_nested)
        found: dict[str, Any] = self.config.setdefault(NEST, {"use_aux_hidden_state": True})
        return found

    def need(self, condition: object) -> None:
        if not condition:
            raise DoesNotApply

    def name(self, wanted: str) -> str:
        """What the tensor of a canonical name is called here."""
        found = next((name for name in self.tensors if canonical(name) == wanted), None)
        self.need(found)
        assert found is not None
        return found

    def pop(self, wanted: str) -> Blank:
        return self.tensors.pop(self.name(wanted))

    def put(self, wanted: str, tensor: Blank) -> None:
        """Add a tensor, called in the way of the others."""
        first = self.name("layers.0.self_attn.q_proj.weight").removesuffix("self_attn.q_proj.weight")
        begin = (
            "model." if first.startswith("model.") and wanted not in ("d2t", "t2d", "lm_head.weight") else ""
        )
        self.tensors[
            wanted.replace("layers.0.", first) if wanted.startswith("layers.0.") else begin + wanted
        ] = tensor

    @property
    def map(self) -> list[int]:
        values = self.tensors[self.name("d2t")].values
        assert values is not None
        return list(values)

    def set_map(self, values: list[int]) -> None:
        name = self.name("d2t")
        self.tensors[name] = blank.integers(values, self.tensors[name].dtype)

    @property
    def ids(self) -> list[int]:
        found = self.config.get(IDS) if self.is_nested else self.config.get(NEST, {}).get(IDS)
        self.need(found)
        assert found is not None
        return list(found)

    def target_of(self, architecture: str) -> None:
        """Name the target's class, and give its config the keys that the class asks for."""
        self.target["architectures"] = [architecture]
        newest = recorded.releases()[-1]
        recipe = next(recipe for recipe in TARGETS if recipe.architecture == architecture)
        for key in recorded.read(newest)[recipe.name].needs:
            *path, last = key.split(".")
            place = self.target
            for part in path:
                place = place.setdefault(part, {})
            place[last] = 1

    def set_ids(self, ids: list[int]) -> None:
        (self.config if self.is_nested else self.nest)[IDS] = ids
