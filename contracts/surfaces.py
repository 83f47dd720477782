"""What a side shows at the interface, about a recipe or about none, as it is recorded and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from contracts import records
from contracts.facts import DraftFacts, Refusal


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one side shows about one recipe, or about no recipe in particular."""

    facts: DraftFacts = field(default_factory=DraftFacts)
    refusals: tuple[Refusal, ...] = ()
    traits: Mapping[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Floats by their six digits."""
        return isinstance(other, Shown) and as_text(self) == as_text(other)

    __hash__ = None  # type: ignore[assignment]


_SHOWN = TypeAdapter(Shown)


def draft_of(facts: DraftFacts) -> str:
    """What a training side shows of the draft itself, without how it was saved or how it trains."""
    told = replace(facts, architecture=None, config_keys=(), agrees_with_itself=None, compute=None)
    return records.as_json(told)


def as_text(shown: Shown) -> str:
    """What was shown, as JSON; floats to six digits, so that equal surfaces have equal texts."""
    data = json.loads(_SHOWN.dump_json(shown))
    return json.dumps({**data, "facts": json.loads(records.as_json(shown.facts))}, sort_keys=True)


def recorded(library: str, release: str, recipe: str, root: Path = records.RELEASES) -> Shown | None:
    """What is recorded of a release about a recipe, or about the release if that is empty; None: nothing."""
    if not records.record_file(library, release, root).exists():
        return None
    record = records.read(library, release, root)
    if not recipe:
        return Shown(traits=record.traits) if record.traits else None
    if recipe not in record.facts:
        return None
    return Shown(facts=record.facts[recipe], refusals=record.refusals.get(recipe, ()))


def from_text(text: str) -> Shown:
    """What `as_text` wrote."""
    return _SHOWN.validate_json(text)


def leaves(shown: Shown) -> dict[str, Any]:
    """What is shown, leaf by leaf, by dotted path."""
    data = json.loads(records.as_json(shown.facts)) if shown.facts != DraftFacts() else {}
    refusals = {item.stage: f"{item.error}: {item.message}" for item in shown.refusals}
    found: dict[str, Any] = {"refusals": refusals, **shown.traits, **data}
    return records.flatten({key: value for key, value in found.items() if value != {}})
