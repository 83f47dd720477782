"""What changed between two recorded releases of a library, and what each change means for whom.

Consequences come from rules over the surfaces, never from a list of releases. The measure for the serving
side is what training means: a value that was as trained and is not any more loses acceptance in silence; one
that has become as trained is a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from contracts import records
from contracts.export import exported_name
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


class _Absent:
    """In place of a value where a surface has none; None is a value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A difference before it is judged."""

    path: str
    before: Any
    after: Any
    trained: Any = ABSENT
    """What training means, where that is known."""


def between(library: str, old: str, new: str) -> Drift:
    """What changed from release `old` to `new` of `library`, as recorded; works without either installed.

    Raises:
        NotRecorded: one of them has no record, or one that cannot be read.

    """
    before, after = _record(library, old), _record(library, new)
    recipes = [
        recipe.name for recipe in RECIPES if recipe.name in before.facts and recipe.name in after.facts
    ]
    grouped: dict[str, list[str]] = {}
    changes: dict[str, Change] = {}
    for name in recipes:
        trained = _meant(name) if library != REFERENCE else {}
        for seen in _of_recipe(_shown(before, name), _shown(after, name), trained):
            change = _judge(seen, _of_training if library == REFERENCE else None)
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


def _meant(recipe: str) -> dict[str, Any]:
    """What the newest training release means by a recipe, leaf by leaf, in the serving side's words."""
    facts = records.surface(REFERENCE, records.recorded_releases(REFERENCE)[-1])
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


def _of_recipe(before: Shown, after: Shown, trained: Mapping[str, Any]) -> Iterator[_Seen]:
    """Differences of one recipe; where one side was refused, the other is compared with training instead."""
    if bool(before.refusals) != bool(after.refusals):
        yield _Seen(path="refusals", before=_told(before), after=_told(after), trained=NOTHING)
        if before.refusals:  # what was loud may have become silent
            yield from _not_as_trained(leaves(after), trained)
        return
    if _told(before) != _told(after):
        yield _Seen(path="refusals", before=_told(before), after=_told(after), trained=NOTHING)
    yield from _differences(leaves(before), leaves(after), trained)


def _not_as_trained(seen: Mapping[str, Any], trained: Mapping[str, Any]) -> Iterator[_Seen]:
    for path, value in seen.items():
        dropped = path in ("weight_names.ignored", "weight_names.unwritten") and value
        rule = _RULES.get(path.partition(".")[0])
        compared = rule is not None and rule[1] is _as_trained and path in trained
        if dropped:
            yield _Seen(path=path, before="refused", after=value)
        elif compared and value != trained[path]:
            yield _Seen(path=path, before="refused", after=value, trained=trained[path])


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any], trained: Mapping[str, Any]
) -> Iterator[_Seen]:
    """Leaves that differ; of lists of words, what each has and the other has not."""
    for path in sorted(old.keys() | new.keys()):
        one, other = old.get(path, ABSENT), new.get(path, ABSENT)
        if one == other or path.startswith("refusals."):
            continue
        if _is_set(one) and _is_set(other):
            one, other = (sorted(set(a) - set(b)) for a, b in ((one, other), (other, one)))
        yield _Seen(path=path, before=one, after=other, trained=trained.get(path, ABSENT))


def _trait_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Seen]:
    """Target classes that came or went, together; those that changed alike, together; then the rest."""
    one, other = (dict(traits.get("targets", {})) for traits in (old, new))
    gone, came = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
    if gone or came:
        yield _Seen(path="targets", before=gone, after=came)
    alike: dict[tuple[str, str, str], list[str]] = {}
    changed: dict[tuple[str, str, str], _Seen] = {}
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


# ---------------------------------------------------------------------------------------- the rules


Told = tuple[Consequence, str, str]
Rule = Callable[[_Seen], Told]
NOTHING = "nothing is refused"
KEEP = "Nothing to do."
CHECK = (
    "Ask contracts export for this release: it writes what can be expressed and refuses the rest. "
    "What it refuses needs the other release, or training without it."
)
STAY = (
    "Stay, or change the draft as the message says; contracts export refuses what this release cannot serve."
)
EXPORT = "Export the drafts that are trained from now on; those exported before stay as they are."


def _judge(seen: _Seen, override: Rule | None) -> Change:
    term, rule = _RULES.get(seen.path.partition(".")[0], (seen.path.partition(".")[0], _unknown))
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


def _refusals(seen: _Seen) -> Told:
    if seen.after == seen.trained:
        return Consequence.NONE, "the library takes these drafts now, and refused them before", KEEP
    if seen.before == seen.trained:
        return Consequence.LOUD, "the library refuses these drafts now", STAY
    return Consequence.NONE, "the library refuses these drafts in both, and says so otherwise", KEEP


def _as_trained(seen: _Seen) -> Told:
    """For what both sides state in the same words."""
    if seen.trained is ABSENT:
        return Consequence.SILENT, "served otherwise than before; what training means is not recorded", CHECK
    if seen.after == seen.trained:
        return Consequence.NONE, "served as trained now, and not before: expect more acceptance", KEEP
    if seen.after is ABSENT:
        return Consequence.SILENT, "the serving side does not show this any more", CHECK
    if seen.before == seen.trained:
        return Consequence.SILENT, "served as trained before, and not any more: expect lost acceptance", CHECK
    return Consequence.SILENT, "not served as trained, and otherwise than before", CHECK


def _aux_layers(seen: _Seen) -> Told:
    if not seen.path.endswith(".layer_ids"):
        return _as_trained(seen)
    if seen.after is None:
        return (
            Consequence.SILENT,
            "the ids in config.json are not used any more: the class's defaults are",
            CHECK,
        )
    return Consequence.NONE, "the same states go by other ids", KEEP


def _sharing(seen: _Seen) -> Told:
    if seen.trained == "target":
        return Consequence.NONE, "the draft's own copy and the target's are the same values here", KEEP
    return _as_trained(seen)


def _weights(seen: _Seen) -> Told:
    if seen.path == "weight_names.names":
        return Consequence.NONE, "the loader reads other tensors; see those that are ignored", KEEP
    ignored = seen.path.endswith("ignored")
    if seen.after is not ABSENT and seen.after:
        what = "tensors are ignored" if ignored else "parameters are left unwritten"
        return Consequence.SILENT, f"{what} now: {', '.join(seen.after)}", CHECK
    what = "tensors are read now that were dropped before" if ignored else "parameters are written now"
    return Consequence.NONE, what, KEEP


def _places(seen: _Seen) -> Told:
    if seen.path.startswith("tensor_shapes.places"):
        return Consequence.NONE, "the parameter has another name inside the library", KEEP
    if seen.path.startswith("tensor_shapes.dtypes"):
        return Consequence.NONE, "the parameter is held in another type", KEEP
    if ABSENT in (seen.before, seen.after):
        return (
            Consequence.NONE,
            "the tensor has a place in one of the two only; see those that are ignored",
            KEEP,
        )
    return _as_trained(seen)


def _config_keys(seen: _Seen) -> Told:
    return Consequence.NONE, "other keys of config.json are asked for", KEEP


def _target(seen: _Seen) -> Told:
    """Of a target class: where its setter is, how it maps ids, and what it does without any."""
    if seen.path == "targets":
        if _gone(seen):
            return Consequence.LOUD, "target classes cannot be captured any more", "Stay on the old release."
        return Consequence.NONE, "more target classes can be captured; before, a server refused them", KEEP
    name, _, what = seen.path.removeprefix("targets.").partition(".")
    if what in ("setter", "unknown"):
        return (
            Consequence.NONE,
            f"the setter of {name} is defined elsewhere, or asks for something else",
            KEEP,
        )
    if what == "shares_embedding":
        if seen.after:
            return Consequence.NONE, f"EAGLE-3 starts with {name} now", KEEP
        return Consequence.LOUD, f"EAGLE-3 does not start with {name} any more", "Stay on the old release."
    if what not in WHOM:
        return _unknown(seen)
    if None in (seen.before, seen.after):
        return Consequence.NONE, f"how {name} numbers layers is known in one of the two only", KEEP
    if isinstance(seen.after, str):
        return Consequence.LOUD, f"{WHOM[what]} are refused for {name}: {seen.after}", STAY
    if isinstance(seen.before, str):
        return Consequence.NONE, f"{WHOM[what]} are taken for {name}, and were refused", KEEP
    meaning = f"{WHOM[what]} get other layers of {name}: expect lost acceptance where they were right before"
    action = "Write the ids that it was trained with into config.json." if what == "without_ids" else CHECK
    return Consequence.SILENT, meaning, action


WHOM = {
    "usual": "drafts whose ids contain no 1",
    "first_is_1": "drafts whose first id is 1",
    "one_is_not_first": "drafts with a 1 among their ids that is not the first",
    "with_the_last": "drafts whose ids contain the number of layers",
    "without_ids": "drafts whose config names no ids",
}
"""Whom a rule of a target class is for."""


SPECULATION = "Name --speculative-num-steps, --speculative-eagle-topk and --speculative-num-draft-tokens."


def _gone(seen: _Seen) -> list[str]:
    """Words of a list that went; none where one of the releases has no such list."""
    return list(seen.before) if ABSENT not in (seen.before, seen.after) else []


def _speculation(seen: _Seen) -> Told:
    name = seen.path.split(".")[1]
    meaning = (
        f"a server for {name} that is told nothing drafts another number of tokens: accept lengths change"
    )
    return Consequence.SILENT, meaning, SPECULATION


def _options(seen: _Seen) -> Told:
    if gone := _gone(seen):
        return Consequence.LOUD, f"commands are refused that name {', '.join(gone)}", "Leave the option out."
    return Consequence.NONE, "the server has more options", KEEP


def _draft_classes(seen: _Seen) -> Told:
    if gone := _gone(seen):
        return Consequence.LOUD, f"drafts of these classes are refused now: {', '.join(gone)}", STAY
    return Consequence.NONE, "there are more classes of EAGLE-3 drafts; before, they were refused", KEEP


def _python(seen: _Seen) -> Told:
    meaning = f"the release installs on Python {seen.after} alone; the one before on {seen.before}"
    return Consequence.LOUD, meaning, "Upgrade Python first."


def _defaults(seen: _Seen) -> Told:
    if ABSENT in (seen.before, seen.after):
        return Consequence.NONE, "an option of the draft's config came or went", KEEP
    return (
        Consequence.SILENT,
        "a draft config that says nothing means something else",
        "Write the value down.",
    )


def _types(seen: _Seen) -> Told:
    if gone := _gone(seen):
        return Consequence.LOUD, f"drafts of these types cannot be loaded any more: {', '.join(gone)}", STAY
    return Consequence.NONE, "there are more types of drafts", KEEP


def _of_training(seen: _Seen) -> Told:
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
    if seen.path == "aux_layers.layer_ids":
        return Consequence.NONE, "config.json names other ids, or names them now", EXPORT
    if seen.path.startswith(("weight_names", "tensor_shapes")):
        return Consequence.SILENT, "newly trained drafts save other tensors", EXPORT
    return Consequence.SILENT, "newly trained drafts are another model than before", EXPORT


def _unknown(seen: _Seen) -> Told:
    return Consequence.SILENT, "the surface changed here, and no rule says what that means", "Look at it."


_RULES: Mapping[str, tuple[str, Rule]] = {
    "refusals": ("config", _refusals),
    "weight_names": ("weight_names", _weights),
    "tensor_shapes": ("tensor_shapes", _places),
    "aux_layers": ("aux_layers", _aux_layers),
    "vocab_map": ("vocab_map", _as_trained),
    "hidden_dims": ("hidden_dims", _as_trained),
    "norms": ("norms", _as_trained),
    "norm_eps": ("norms", _as_trained),
    "rope": ("rope", _as_trained),
    "attention": ("attention", _as_trained),
    "sharing": ("sharing", _sharing),
    "reads_target_state": ("hidden_dims", _as_trained),
    "algorithm": ("config", _as_trained),
    "architecture": ("config", lambda seen: (Consequence.NONE, "another class runs the draft", KEEP)),
    "config_keys": ("config", _config_keys),
    "compute": (
        "config",
        lambda seen: (Consequence.SILENT, "drafts are computed in another precision", "Name --dtype."),
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
