"""What changed between two recorded releases of a library, and what each change means for whom.

Consequences come from rules over the surfaces (contracts.drift_rules), never from a list of releases. The
measure for the serving side is what training means: a value that was as trained and is not any more loses
acceptance in silence; one that has become as trained is a repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contracts import records
from contracts.conventions import exported_name
from contracts.drift_rules import (
    ABSENT,
    NOTHING,
    RULES,
    Consequence,
    Rule,
    Seen,
    as_trained,
    of_training,
    unknown,
)
from contracts.facts import DraftFacts
from contracts.recipes import RECIPES
from contracts.surfaces import Shown, leaves

REFERENCE = "speculators"
"""Whose newest record says what the recipes mean."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One place where two surfaces differ, for all recipes that it is the same for."""

    term: str
    """Of the interface: the module of the contracts that look at it, `targets`, `options` and the like."""
    path: str
    before: Any
    after: Any
    recipes: tuple[str, ...]
    """Empty: it does not depend on the recipe."""
    consequence: Consequence
    meaning: str
    action: str


@dataclass(frozen=True, kw_only=True)
class Drift:
    """All that changed from one release to another."""

    library: str
    old: str
    new: str
    changes: tuple[Change, ...]


def between(library: str, old: str, new: str) -> Drift:
    """What changed from release `old` to `new` of `library`, as recorded; works without either installed.

    Raises:
        NotRecorded: one of them has no record, or one that cannot be read.

    """
    before, after = _record(library, old), _record(library, new)
    recipes = [
        recipe.name for recipe in RECIPES if recipe.name in before.facts and recipe.name in after.facts
    ]
    reference = records.surface(REFERENCE, records.recorded_releases(REFERENCE)[-1])
    grouped: dict[str, list[str]] = {}
    changes: dict[str, Change] = {}
    for name in recipes:
        trained = _meant(reference, name) if library != REFERENCE else {}
        for seen in _of_recipe(_shown(before, name), _shown(after, name), trained):
            change = _judge(seen, of_training if library == REFERENCE else None)
            key = repr(change)
            grouped.setdefault(key, []).append(name)
            changes[key] = change
    found = [
        replace(change, recipes=tuple(grouped[key]) if len(grouped[key]) < len(recipes) else ())
        for key, change in changes.items()
    ]
    found += [_judge(seen, None) for seen in _trait_differences(before.traits, after.traits)]
    order = list(Consequence)
    found.sort(key=lambda item: (order.index(item.consequence), item.term, item.path))
    return Drift(library=library, old=old, new=new, changes=tuple(found))


class NotRecorded(Exception):
    """A release has no record, or one that cannot be read. One line."""


def _record(library: str, release: str) -> records.Record:
    known = records.recorded_releases(library)
    if release not in known:
        raise NotRecorded(f"{library} {release} is not recorded; recorded are {', '.join(known)}")
    try:
        return records.read(library, release)
    except (ValueError, KeyError, AttributeError, OSError) as error:
        file = records.record_file(library, release)
        raise NotRecorded(
            f"{file} cannot be read ({error}); restore it from the release of this package"
        ) from None


def _meant(facts: Mapping[str, DraftFacts], recipe: str) -> dict[str, Any]:
    """What the newest training release means by a recipe, leaf by leaf, in the serving side's words."""
    found = leaves(Shown(facts=facts[recipe])) if recipe in facts else {}
    shapes = "tensor_shapes.shapes."
    for path in [path for path in found if path.startswith(shapes)]:
        found[shapes + exported_name(path.removeprefix(shapes))] = found[path]
    return {
        path: value
        for path, value in found.items()
        if not path.startswith(("aux_layers.layer_ids", "weight"))
    }


def _shown(record: records.Record, recipe: str) -> Shown:
    return Shown(facts=record.facts[recipe], refusals=record.refusals.get(recipe, ()))


def _of_recipe(before: Shown, after: Shown, trained: Mapping[str, Any]) -> Iterator[Seen]:
    """Differences of one recipe; where one side was refused, the other is compared with training instead."""
    if bool(before.refusals) != bool(after.refusals):
        yield Seen(path="refusals", before=_told(before), after=_told(after), trained=NOTHING)
        if before.refusals:  # what was loud may have become silent
            yield from _not_as_trained(leaves(after), trained)
        return
    if _told(before) != _told(after):
        yield Seen(path="refusals", before=_told(before), after=_told(after), trained=NOTHING)
    yield from _differences(leaves(before), leaves(after), trained)


def _not_as_trained(seen: Mapping[str, Any], trained: Mapping[str, Any]) -> Iterator[Seen]:
    for path, value in seen.items():
        dropped = path in ("weight_names.ignored", "weight_names.unwritten") and value
        rule = RULES.get(path.partition(".")[0])
        compared = rule is not None and rule[1] is as_trained and path in trained
        if dropped:
            yield Seen(path=path, before="refused", after=value)
        elif compared and value != trained[path]:
            yield Seen(path=path, before="refused", after=value, trained=trained[path])


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any], trained: Mapping[str, Any]
) -> Iterator[Seen]:
    """Leaves that differ; of lists of words, what each has and the other has not."""
    for path in sorted(old.keys() | new.keys()):
        one, other = old.get(path, ABSENT), new.get(path, ABSENT)
        if one == other or path.startswith("refusals."):
            continue
        if _is_set(one) and _is_set(other):
            one, other = (sorted(set(a) - set(b)) for a, b in ((one, other), (other, one)))
        yield Seen(path=path, before=one, after=other, trained=trained.get(path, ABSENT))


def _trait_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Seen]:
    """Target classes that came or went, together; those that changed alike, together; then the rest."""
    one, other = (dict(traits.get("targets", {})) for traits in (old, new))
    gone, came = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
    if gone or came:
        yield Seen(path="targets", before=gone, after=came)
    alike: dict[tuple[str, str, str], list[str]] = {}
    changed: dict[tuple[str, str, str], Seen] = {}
    for name in sorted(one.keys() & other.keys()):
        for seen in _differences(one[name], other[name], {}):
            key = (seen.path, repr(seen.before), repr(seen.after))
            alike.setdefault(key, []).append(name)
            changed[key] = seen
    for key, names in alike.items():
        yield replace(changed[key], path=f"targets.{', '.join(names)}.{changed[key].path}")
    before, after = ({key: item for key, item in traits.items() if key != "targets"} for traits in (old, new))
    yield from _differences(leaves(Shown(traits=before)), leaves(Shown(traits=after)), {})


def _is_set(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _told(shown: Shown) -> str:
    return "; ".join(f"{item.stage}: {item.error}: {item.message}" for item in shown.refusals) or NOTHING


def _judge(seen: Seen, override: Rule | None) -> Change:
    term, rule = RULES.get(seen.path.partition(".")[0], (seen.path.partition(".")[0], unknown))
    consequence, meaning, action = (override or rule)(seen)
    return Change(
        term=term,
        path=seen.path,
        before=_plain(seen.before),
        after=_plain(seen.after),
        recipes=(),
        consequence=consequence,
        meaning=meaning,
        action=action,
    )


def _plain(value: Any) -> Any:
    return str(value) if value is ABSENT else value
