"""How one release of the serving library reads a checkpoint: what it made of every spelling, as recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from contracts import records
from contracts.spelled import BASE, REFUSED, from_trait
from contracts.spellings import TARGET_IDS

LIBRARY = "sglang"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Spelled:
    """What became of one spelling."""

    name: str
    facts: Mapping[str, Any]

    @property
    def refused(self) -> str | None:
        """What the library raised: stage, exception and message; None if it took the draft."""
        return self.facts.get(REFUSED)

    @property
    def names(self) -> frozenset[str]:
        """Tensors that reached the model, numbers as `*`; none if the draft was refused."""
        return frozenset(map(pattern, self._weights.get("names", ())))

    @property
    def unwritten(self) -> tuple[str, ...]:
        """Parameters that the forward pass reads and nothing filled."""
        return tuple(self._weights.get("unwritten", ()))

    @property
    def _weights(self) -> Mapping[str, Any]:
        return self.facts.get("weight_names") or {}

    def applies(self, norm: str) -> bool:
        """Whether an optional norm takes part."""
        return bool((self.facts.get("norms") or {}).get(norm))

    @property
    def states(self) -> tuple[int, ...]:
        """Hidden states that are delivered."""
        return tuple((self.facts.get("aux_layers") or {}).get("states", ()))

    @property
    def layer_ids(self) -> list[int] | None:
        """Layer ids that the library understood; None if it went by defaults of its own."""
        found: list[int] | None = (self.facts.get("aux_layers") or {}).get("layer_ids")
        return found


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One release of the serving library."""

    release: str
    spelled: Mapping[str, Spelled] = field(repr=False)
    traits: Mapping[str, Any] = field(repr=False)
    refusals: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What it raised for the drafts of recipes, at whatever depth; recipes that it took are left out."""

    def __getitem__(self, name: str) -> Spelled:
        """What became of the spelling called `name`."""
        return self.spelled[name]

    @property
    def plain(self) -> Spelled:
        """What became of the spelling that every other one differs from."""
        return self.spelled[BASE]

    def same(self, name: str, other: str, fact: str) -> bool:
        """Whether two spellings show the same in one fact."""
        return bool(self[name].facts.get(fact) == self[other].facts.get(fact))

    def read(self, spellings: Iterable[str]) -> frozenset[str]:
        """Patterns of all tensors that reach the model in any of these spellings."""
        return frozenset().union(*(self[name].names for name in spellings))

    @property
    def draft_classes(self) -> tuple[str, ...]:
        """Classes that run EAGLE-3 drafts."""
        return tuple(self.traits["draft_classes"])

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Speculative algorithms that the server can be told."""
        return tuple(self.traits.get("algorithms", ()))

    @cached_property
    def reads_offsets(self) -> bool:
        """Whether d2t is read as target id minus draft id."""
        return bool(self.plain.facts["vocab_map"]["target_ids"] == list(TARGET_IDS))


def pattern(name: str) -> str:
    """The name of a tensor with numbers as `*`."""
    return _NUMBER.sub("*", name)


class NothingRecorded(Exception):
    """Nothing is recorded that a draft could be judged by. One line."""


@cache
def reading(release: str, root: Path = records.RELEASES) -> Reading:
    """What is recorded of a release.

    Raises:
        NothingRecorded: there is no record, or one without spellings.

    """
    file = records.record_file(LIBRARY, release, root)
    try:
        data = records.raw(LIBRARY, release, root)
        traits = data["traits"]
        spelled = from_trait(traits["spellings"])
        refusals = {
            recipe: f"{first['stage']}: {first['error']}: {first['message']}"
            for recipe, (first, *_) in data["refusals"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NothingRecorded(f"{file}: holds no record of {LIBRARY} {release} ({error})") from None
    return Reading(
        release=release,
        spelled={name: Spelled(name, facts) for name, facts in spelled.items()},
        traits=traits,
        refusals=refusals,
    )


@cache
def readings() -> tuple[Reading, ...]:
    """All that is recorded, oldest first."""
    return tuple(reading(release) for release in records.recorded_releases(LIBRARY))
