"""What each release was seen to capture from its target classes: one file per release, made by running it.

`releases/targets/<release>.json` holds, by recipe and list of ids, the hidden states that reached the draft,
or what the library raised. `python -m tests.target_table --record` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from contracts.placing import write_whole
from contracts.targets.recipes import LAYERS, TARGETS
from contracts.targets.situations import BY_NAME, Ids

FOLDER = Path(__file__).parent.parent / "releases" / "targets"
FORMAT = 1
REFUSED, ABSENT, UNJUDGED = "refused", "absent", "unjudged"
"""What stands in the place of states: the library raised, it has no such class, nobody could judge it."""
COMPUTES_OTHERWISE = "computes something else than transformers"
"""What becomes of a target that lacks a key which its class does without."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One target class in one release."""

    states: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    """By list of ids: hidden-state indices, with a word where a state came in another form."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By list of ids: what the library raised instead."""
    absent: str | None = None
    """Why the release cannot capture from the class at all."""
    unjudged: str | None = None
    """Why nothing of it could be judged on the machine that recorded it."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """Keys of config.json that transformers does not write -> what became of a target without them: what the
    library raised, or `COMPUTES_OTHERWISE`."""
    differs: tuple[str, ...] = ()
    """Variations with which the class computes something else than transformers."""

    def of(self, ids: Ids) -> tuple[int, ...] | None:
        """The hidden states that were delivered for `ids`; None if others were, or none."""
        found = self.states.get(spelled(ids))
        return tuple(map(int, found)) if found and all(isinstance(item, int) for item in found) else None


def spelled(ids: Ids) -> str:
    """A list of ids as the record names it."""
    return "none" if ids is None else ",".join(map(str, ids))


def releases() -> list[str]:
    """Releases of sglang whose target classes are recorded, oldest first."""
    return sorted((file.stem for file in FOLDER.glob("*.json")), key=Version)


@cache
def read(release: str) -> Mapping[str, Seen]:
    """What is recorded of a release, by recipe.

    Raises:
        FileNotFoundError: nothing is.
        ValueError: it is of another format.

    """
    return {name: _seen(item) for name, item in _file(release)["targets"].items()}


def _file(release: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise ValueError(f"a record of format {data.get('format')}, and this is format {FORMAT}")
    return data


def _seen(data: Mapping[str, Any]) -> Seen:
    return Seen(
        states={ids: tuple(states) for ids, states in data.get("states", {}).items()},
        refused=data.get(REFUSED, {}),
        absent=data.get(ABSENT),
        unjudged=data.get(UNJUDGED),
        needs=data.get("needs", {}),
        differs=tuple(data.get("differs", ())),
    )


def write(
    release: str, packages: Mapping[str, str], seen: Mapping[str, Seen], classes: Mapping[str, Any]
) -> None:
    """Record what a release was seen to capture; a line per list of ids, so that differences read well."""
    targets = {
        name: {key: value for key, value in vars(item).items() if value}
        for name, item in sorted(seen.items())
    }
    data = {"format": FORMAT, "release": release, "packages": dict(packages), "targets": targets}
    data["classes"] = classes
    FOLDER.mkdir(exist_ok=True)
    write_whole(FOLDER / f"{release}.json", _layout(data) + "\n")


def _layout(data: Any, indent: str = "") -> str:
    if not isinstance(data, Mapping) or not data:
        return json.dumps(data)
    inner = indent + " "
    lines = [f"{inner}{json.dumps(key)}: {_layout(value, inner)}" for key, value in sorted(data.items())]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


WATCHED = (
    "KimiVLForConditionalGeneration",
    "KimiLinearForCausalLM",
    "KimiK3ForConditionalGeneration",
    "Glm4vForConditionalGeneration",
    "Glm4vMoeForConditionalGeneration",
    "Glm4ForCausalLM",
    "MiMoForCausalLM",
    "MiMoV2FlashForCausalLM",
    "DeepseekV4ForCausalLM",
    "GlmMoeDsaForCausalLM",
)
"""Classes that people ask for and nobody has run: whether a release has them, and captures from them."""


def said(release: str) -> Mapping[str, Any]:
    """What a release says of target classes: `setters`, `without` (of those watched) and `quantizations`."""
    found: dict[str, Any] = _file(release)["classes"]
    return found


@dataclass(frozen=True, kw_only=True)
class Shifts:
    """Hidden-state index minus id of one class, by what is particular about a list of ids, as it was seen."""

    usual: int | None
    first_is_1: int | None
    one_is_not_first: int | None
    with_the_last: int | None
    """Where the number of layers is among the ids."""
    delivers_last: bool
    """Whether the last layer's output was ever delivered."""
    without_ids: tuple[int, ...] | str | None


@cache
def shifts(release: str) -> Mapping[str, Shifts]:
    """What the recorded runs of a release say about each class, by the name of the class."""
    found = {}
    for recipe in TARGETS:
        seen = read(release).get(recipe.name)
        if seen is not None and seen.states and not seen.unjudged:
            found[recipe.architecture] = shifts_of(seen)
    return found


def shifts_of(seen: Seen) -> Shifts:
    """How a class numbers its layers, by what it was seen to deliver."""
    last = [seen.of(BY_NAME[name].ids) for name in ("last_layer", "number_of_layers")]
    without = seen.of(None)
    return Shifts(
        usual=_shift(seen, "inputs"),
        first_is_1=_shift(seen, "outputs"),
        one_is_not_first=_shift(seen, "unordered"),
        with_the_last=_shift(seen, "number_of_layers"),
        delivers_last=any(states is not None and LAYERS in states for states in last),
        without_ids=without if without is not None else seen.refused.get(spelled(None)),
    )


def _shift(seen: Seen, situation: str) -> int | None:
    ids = BY_NAME[situation].ids
    states = seen.of(ids)
    if ids is None or states is None or len(ids) != len(states):
        return None
    differences = {state - item for item, state in zip(sorted(ids), sorted(states), strict=True)}
    return differences.pop() if len(differences) == 1 else None
