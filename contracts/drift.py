"""What changed between two recorded releases of a library, and what each change means for whom.

Consequences come from rules over the surfaces, never from a list of releases. The measure for the serving
side is what training means: a value that was as trained and is not any more loses acceptance in silence; one
that has become as trained is a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from contracts import records
from contracts.recipes import RECIPES
from contracts.surfaces import Shown, leaves

REFERENCE = "speculators"
"""Whose newest record says what the recipes mean."""


class Consequence(StrEnum):
    """What a change does to drafts already trained."""

    LOUD = "loud"
    """Something is refused that was not."""
    SILENT = "silent"
    """Acceptance, or what is reported of it, changes without a word."""
    NONE = "none"
    """Nothing, or something works that did not."""


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


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A difference before it is judged."""

    path: str
    before: Any
    after: Any
    trained: Any
    """What training means, where that is known; None elsewhere."""


def between(library: str, old: str, new: str) -> Drift:
    """What changed from release `old` to `new` of `library`, as recorded; works without either installed.

    Raises:
        NotRecorded: one of them has no record.

    """
    before, after = _record(library, old), _record(library, new)
    found: dict[tuple[str, str, str], list[str]] = {}
    changes: dict[tuple[str, str, str], _Seen] = {}
    meant = records.surface(REFERENCE, records.recorded_releases(REFERENCE)[-1])
    recipes = [
        recipe.name for recipe in RECIPES if recipe.name in before.facts and recipe.name in after.facts
    ]
    for name in recipes:
        trained = leaves(Shown(facts=meant[name])) if library != REFERENCE and name in meant else {}
        for seen in _differences(_shown(before, name), _shown(after, name), trained):
            key = (seen.path, repr(seen.before), repr(seen.after))
            found.setdefault(key, []).append(name)
            changes[key] = seen
    whole = len(recipes)
    judged = [
        _judge(library, seen, tuple(found[key]) if len(found[key]) < whole else (), every=True)
        for key, seen in changes.items()
    ]
    for seen in _trait_differences(before.traits, after.traits):
        judged.append(_judge(library, seen, (), every=False))
    order = {Consequence.LOUD: 0, Consequence.SILENT: 1, Consequence.NONE: 2}
    judged.sort(key=lambda item: (order[item.consequence], item.term, item.path))
    return Drift(library=library, old=old, new=new, changes=tuple(judged))


class NotRecorded(Exception):
    """A release has no record. One line, with those that have."""


def _record(library: str, release: str) -> records.Record:
    known = records.recorded_releases(library)
    if release not in known:
        raise NotRecorded(f"{library} {release} is not recorded; recorded are {', '.join(known)}")
    return records.read(library, release)


def _shown(record: records.Record, recipe: str) -> Shown:
    return Shown(facts=record.facts[recipe], refusals=record.refusals.get(recipe, ()))


def _differences(before: Shown, after: Shown, trained: Mapping[str, Any]) -> Iterator[_Seen]:
    """Leaves that differ; where one side was refused, the refusal alone, because nothing else is known."""
    old, new = leaves(before), leaves(after)
    if bool(before.refusals) != bool(after.refusals) or (
        before.refusals and before.refusals != after.refusals
    ):
        yield _Seen(path="refusals", before=_told(before), after=_told(after), trained="nothing is refused")
        return
    for path in sorted(old.keys() | new.keys()):
        one, other = old.get(path), new.get(path)
        if one == other or path.startswith("refusals."):
            continue
        if (
            one is not None and other is not None and _is_set(one) and _is_set(other)
        ):  # what each has and the other has not
            one, other = (sorted(set(a) - set(b)) for a, b in ((one, other), (other, one)))
        yield _Seen(path=path, before=one, after=other, trained=trained.get(path))


def _trait_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Seen]:
    """Target classes that came or went, together; then what changed about those that are in both."""
    one, other = (dict(traits.get("targets", {})) for traits in (old, new))
    gone, came = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
    if gone or came:
        yield _Seen(path="targets", before=gone, after=came, trained=None)
    both = one.keys() & other.keys()
    before = {**old, "targets": {name: one[name] for name in sorted(both)}}
    after = {**new, "targets": {name: other[name] for name in sorted(both)}}
    yield from _differences(Shown(traits=before), Shown(traits=after), {})


def _is_set(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _told(shown: Shown) -> str:
    said = "; ".join(f"{item.stage}: {item.error}: {item.message}" for item in shown.refusals)
    return said or "nothing is refused"


# ---------------------------------------------------------------------------------------- the rules


KEEP = "Nothing to do."
EXPORT = (
    "Export the draft again for this release (contracts export --for); check it with pytest -m contracts."
)
STAY = (
    "Stay, or change the draft as the message says; contracts export refuses what this release cannot serve."
)


def _judge(library: str, seen: _Seen, recipes: tuple[str, ...], *, every: bool) -> Change:
    prefix = seen.path.partition(".")[0]
    term, rule = _RULES.get(prefix, (prefix, _unknown))
    consequence, meaning, action = (_of_training if every and library == REFERENCE else rule)(seen)
    return Change(
        term=term,
        path=seen.path,
        before=seen.before,
        after=seen.after,
        recipes=recipes,
        consequence=consequence,
        meaning=meaning,
        action=action,
    )


def _refusals(seen: _Seen) -> tuple[Consequence, str, str]:
    if seen.after == seen.trained:
        return Consequence.NONE, "the library takes these drafts now, and refused them before", KEEP
    if seen.before == seen.trained:
        return Consequence.LOUD, "the library refuses these drafts now", STAY
    return Consequence.NONE, "the library refuses these drafts in both, and says so otherwise", KEEP


def _as_trained(seen: _Seen) -> tuple[Consequence, str, str]:
    """For what both sides state in the same words."""
    if seen.before is None or seen.after is None:
        return Consequence.NONE, "only one of the two releases shows this", KEEP
    if seen.after == seen.trained:
        return Consequence.NONE, "served as trained now, and not before: expect more acceptance", KEEP
    if seen.before == seen.trained:
        return (
            Consequence.SILENT,
            "served as trained before, and not any more: expect lost acceptance",
            EXPORT,
        )
    return Consequence.SILENT, "served otherwise than trained in both, and in another way now", EXPORT


def _weights(seen: _Seen) -> tuple[Consequence, str, str]:
    if seen.path == "weight_names.names":
        return Consequence.NONE, "the loader reads other tensors; see those that are ignored", KEEP
    if came := seen.after or ():
        what = "ignored" if seen.path.endswith("ignored") else "left unwritten"
        return Consequence.SILENT, f"tensors are {what} now: {', '.join(came)}", EXPORT
    return Consequence.NONE, "tensors are read now that were dropped before", KEEP


def _places(seen: _Seen) -> tuple[Consequence, str, str]:
    if seen.path.startswith("tensor_shapes.places"):
        return Consequence.NONE, "the parameter has another name inside the library", KEEP
    if seen.path.startswith("tensor_shapes.dtypes"):
        return Consequence.NONE, "the parameter is held in another type", KEEP
    return _as_trained(seen)


def _config_keys(seen: _Seen) -> tuple[Consequence, str, str]:
    return Consequence.NONE, "other keys of config.json are asked for", KEEP


def _target(seen: _Seen) -> tuple[Consequence, str, str]:
    """Of a target class: where its setter is, how it maps ids, and what it does without any."""
    if seen.path == "targets":
        if seen.before:
            return Consequence.LOUD, "target classes cannot be captured any more", "Stay on the old release."
        return Consequence.NONE, "more target classes can be captured; before, a server refused them", KEEP
    name, _, what = seen.path.removeprefix("targets.").partition(".")
    if what == "setter":
        return Consequence.NONE, f"the setter of {name} is defined elsewhere", KEEP
    if what == "shares_embedding":
        if seen.after:
            return Consequence.NONE, f"EAGLE-3 starts with {name} now", KEEP
        return Consequence.LOUD, f"EAGLE-3 does not start with {name} any more", "Stay on the old release."
    whom = {
        "usual": "drafts whose ids contain no 1",
        "first_is_1": "drafts whose first id is 1",
        "one_is_not_first": "drafts with a 1 among their ids that is not the first",
        "with_the_last": "drafts whose ids contain the number of layers",
        "without_ids": "drafts whose config names no ids",
    }[what]
    return (
        Consequence.SILENT,
        f"{whom} get other layers of {name}: expect lost acceptance where they were right before",
        EXPORT,
    )


def _speculation(seen: _Seen) -> tuple[Consequence, str, str]:
    name = seen.path.split(".")[1]
    meaning = (
        f"a server for {name} that is told nothing drafts another number of tokens: accept lengths change"
    )
    return Consequence.SILENT, meaning, "Name --speculative-num-steps, -eagle-topk and -num-draft-tokens."


def _options(seen: _Seen) -> tuple[Consequence, str, str]:
    if gone := seen.before:
        return Consequence.LOUD, f"commands are refused that name {', '.join(gone)}", "Leave the option out."
    return Consequence.NONE, "the server has more options", KEEP


def _draft_classes(seen: _Seen) -> tuple[Consequence, str, str]:
    if gone := seen.before:
        return Consequence.LOUD, f"drafts of these classes are refused now: {', '.join(gone)}", STAY
    return Consequence.NONE, "there are more classes of EAGLE-3 drafts; before, they were refused", KEEP


def _python(seen: _Seen) -> tuple[Consequence, str, str]:
    meaning = f"the release installs on Python {seen.after} alone; the one before on {seen.before}"
    return Consequence.LOUD, meaning, "Upgrade Python first."


def _defaults(seen: _Seen) -> tuple[Consequence, str, str]:
    if seen.before is None or seen.after is None:
        return Consequence.NONE, "an option of the draft's config came or went", KEEP
    return (
        Consequence.SILENT,
        "a draft config that says nothing means something else",
        "Write the value down.",
    )


def _types(seen: _Seen) -> tuple[Consequence, str, str]:
    if gone := seen.before:
        return Consequence.LOUD, f"drafts of these types cannot be loaded any more: {', '.join(gone)}", STAY
    return Consequence.NONE, "there are more types of drafts", KEEP


def _of_training(seen: _Seen) -> tuple[Consequence, str, str]:
    """A change of what the training side saves: it concerns drafts that are trained from now on."""
    if seen.path == "refusals":
        return _refusals(seen)
    if seen.path.startswith("aux_layers.states"):
        return (
            Consequence.SILENT,
            "the same ids mean other layers: drafts trained before and after need other ids when served",
            "Write into each config.json the ids of the release that trained it, then export.",
        )
    if seen.path == "config_keys":
        return Consequence.NONE, "other keys are written to config.json", EXPORT
    if seen.path.startswith(("weight_names", "tensor_shapes")):
        return Consequence.SILENT, "newly trained drafts save other tensors", EXPORT
    return Consequence.SILENT, "newly trained drafts are another model than before", EXPORT


def _unknown(seen: _Seen) -> tuple[Consequence, str, str]:
    return Consequence.SILENT, "the surface changed here, and no rule says what that means", "Look at it."


_RULES: Mapping[str, tuple[str, Callable[[_Seen], tuple[Consequence, str, str]]]] = {
    "refusals": ("config", _refusals),
    "weight_names": ("weight_names", _weights),
    "tensor_shapes": ("tensor_shapes", _places),
    "aux_layers": ("aux_layers", _as_trained),
    "vocab_map": ("vocab_map", _as_trained),
    "hidden_dims": ("hidden_dims", _as_trained),
    "norms": ("norms", _as_trained),
    "norm_eps": ("norms", _as_trained),
    "rope": ("rope", _as_trained),
    "attention": ("attention", _as_trained),
    "sharing": ("sharing", _as_trained),
    "reads_target_state": ("hidden_dims", _as_trained),
    "algorithm": ("config", _as_trained),
    "architecture": ("config", lambda seen: (Consequence.NONE, "another class runs the draft", KEEP)),
    "config_keys": ("config", _config_keys),
    "compute": (
        "config",
        lambda seen: (Consequence.SILENT, "drafts are computed in another precision", KEEP),
    ),
    "targets": ("targets", _target),
    "speculation": ("speculation", _speculation),
    "server_options": ("options", _options),
    "config_defaults": ("options", _defaults),
    "types": ("options", _types),
    "draft_classes": ("config", _draft_classes),
    "requires_python": ("options", _python),
}
"""By the first part of a path: the term of the interface, and the rule for it."""
