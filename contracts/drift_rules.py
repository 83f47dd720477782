"""What a difference of two surfaces means for drafts already trained: one rule per term of the interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Consequence(StrEnum):
    """What a change does to drafts already trained."""

    LOUD = "loud"
    """Something is refused that was not."""
    SILENT = "silent"
    """Acceptance, or what is reported of it, changes without a word."""
    NONE = "none"
    """Nothing, or something works that did not."""


class _Absent:
    """In place of a value where a surface has none; None is a value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A difference before it is judged."""

    path: str
    before: Any
    after: Any
    trained: Any = ABSENT
    """What training means, where that is known."""


Told = tuple[Consequence, str, str]
Rule = Callable[[Seen], Told]
NOTHING = "nothing is refused"
KEEP = "Nothing to do."
ASK_CHECK = "Ask contracts check about your draft: it says what this release makes of it."
CHECK = (
    "Ask contracts export for this release: it writes what can be expressed and refuses the rest. "
    "What it refuses needs the other release, or training without it."
)
STAY = (
    "Stay, or change the draft as the message says; contracts export refuses what this release cannot serve."
)
EXPORT = "Export the drafts that are trained from now on; those exported before stay as they are."


def _refusals(seen: Seen) -> Told:
    if seen.after == seen.trained:
        return Consequence.NONE, "the library takes these drafts now, and refused them before", KEEP
    if seen.before == seen.trained:
        return Consequence.LOUD, "the library refuses these drafts now", STAY
    return Consequence.NONE, "the library refuses these drafts in both, and says so otherwise", KEEP


def as_trained(seen: Seen) -> Told:
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


def _aux_layers(seen: Seen) -> Told:
    if not seen.path.endswith(".layer_ids"):
        return as_trained(seen)
    if seen.after is None:
        return (
            Consequence.SILENT,
            "the ids in config.json are not used any more: the class's defaults are",
            CHECK,
        )
    return Consequence.NONE, "the same states go by other ids", KEEP


def _sharing(seen: Seen) -> Told:
    if seen.trained == "target":
        return Consequence.NONE, "the draft's own copy and the target's are the same values here", KEEP
    return as_trained(seen)


def _weights(seen: Seen) -> Told:
    if seen.path == "weight_names.names":
        return Consequence.NONE, "the loader reads other tensors; see those that are ignored", KEEP
    ignored = seen.path.endswith("ignored")
    if seen.after is not ABSENT and seen.after:
        what = "tensors are ignored" if ignored else "parameters are left unwritten"
        return Consequence.SILENT, f"{what} now: {', '.join(seen.after)}", CHECK
    what = "tensors are read now that were dropped before" if ignored else "parameters are written now"
    return Consequence.NONE, what, KEEP


def _places(seen: Seen) -> Told:
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
    return as_trained(seen)


def _config_keys(seen: Seen) -> Told:
    return Consequence.NONE, "other keys of config.json are asked for", KEEP


def _target(seen: Seen) -> Told:
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
        return unknown(seen)
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


def _gone(seen: Seen) -> list[str]:
    """Words of a list that went; none where one of the releases has no such list."""
    return list(seen.before) if ABSENT not in (seen.before, seen.after) else []


def _speculation(seen: Seen) -> Told:
    name = seen.path.split(".")[1]
    meaning = (
        f"a server for {name} that is told nothing drafts another number of tokens: accept lengths change"
    )
    return Consequence.SILENT, meaning, SPECULATION


def _options(seen: Seen) -> Told:
    if gone := _gone(seen):
        return Consequence.LOUD, f"commands are refused that name {', '.join(gone)}", "Leave the option out."
    return Consequence.NONE, "the server has more options", KEEP


def _draft_classes(seen: Seen) -> Told:
    if gone := _gone(seen):
        return Consequence.LOUD, f"drafts of these classes are refused now: {', '.join(gone)}", STAY
    return Consequence.NONE, "there are more classes of EAGLE-3 drafts; before, they were refused", KEEP


def _python(seen: Seen) -> Told:
    meaning = f"the release installs on Python {seen.after} alone; the one before on {seen.before}"
    return Consequence.LOUD, meaning, "Upgrade Python first."


def _defaults(seen: Seen) -> Told:
    if ABSENT in (seen.before, seen.after):
        return Consequence.NONE, "an option of the draft's config came or went", KEEP
    return (
        Consequence.SILENT,
        "a draft config that says nothing means something else",
        "Write the value down.",
    )


def _types(seen: Seen) -> Told:
    if gone := _gone(seen):
        return Consequence.LOUD, f"drafts of these types cannot be loaded any more: {', '.join(gone)}", STAY
    return Consequence.NONE, "there are more types of drafts", KEEP


def of_training(seen: Seen) -> Told:
    """A change of what the training side saves: it concerns drafts that are trained from now on."""
    if seen.path == "refusals":
        return _refusals(seen)
    if seen.path.startswith("aux_layers.states"):
        return (
            Consequence.SILENT,
            "the same ids mean other layers: drafts trained before and after need other ids when served",
            "Write into each config.json the ids of the release that trained it, then export.",
        )
    if seen.path == "agrees_with_itself":
        return _agreement(seen)
    if seen.path == "config_keys":
        return Consequence.NONE, "other keys are written to config.json", EXPORT
    if seen.path == "aux_layers.layer_ids":
        return Consequence.NONE, "config.json names other ids, or names them now", EXPORT
    if seen.path.startswith(("weight_names", "tensor_shapes")):
        return Consequence.SILENT, "newly trained drafts save other tensors", EXPORT
    return Consequence.SILENT, "newly trained drafts are another model than before", EXPORT


def _agreement(seen: Seen) -> Told:
    """Whether chained steps are trained as an engine runs them."""
    if seen.after is True:
        return Consequence.NONE, "chained steps are trained as an engine runs them now, and were not", EXPORT
    if seen.before is True:
        meaning = "chained steps are not trained as an engine runs them any more: expect lost acceptance"
        return Consequence.SILENT, meaning, "Train with the other release, or without this option."
    return Consequence.NONE, "whether chained steps are trained as an engine runs them is not known", KEEP


def unknown(seen: Seen) -> Told:
    """For a place that no rule is about."""
    return Consequence.SILENT, "the surface changed here, and no rule says what that means", "Look at it."


def _algorithms(seen: Seen) -> Told:
    if seen.before is not ABSENT and seen.before:
        return (
            Consequence.LOUD,
            f"no server runs {', '.join(seen.before)} any more",
            "Stay on the old release.",
        )
    return Consequence.NONE, f"a server can be told {', '.join(seen.after)}", KEEP


def _spelling(seen: Seen) -> Told:
    """Of a draft that is written in another way: whether it is refused, and how it is understood."""
    name = seen.path.removeprefix("spellings.").rpartition(".refused")[0]
    if name and seen.before is ABSENT:
        return Consequence.LOUD, f"drafts written as {name} are refused now", ASK_CHECK
    if name and seen.after is ABSENT:
        return Consequence.NONE, f"drafts written as {name} are taken now", KEEP
    if name:
        return Consequence.NONE, "the refusal reads otherwise", KEEP
    return Consequence.NONE, "drafts written in this way are understood otherwise", ASK_CHECK


RULES: Mapping[str, tuple[str, Rule]] = {
    "refusals": ("config", _refusals),
    "weight_names": ("weight_names", _weights),
    "tensor_shapes": ("tensor_shapes", _places),
    "aux_layers": ("aux_layers", _aux_layers),
    "vocab_map": ("vocab_map", as_trained),
    "hidden_dims": ("hidden_dims", as_trained),
    "norms": ("norms", as_trained),
    "norm_eps": ("norms", as_trained),
    "rope": ("rope", as_trained),
    "attention": ("attention", as_trained),
    "sharing": ("sharing", _sharing),
    "reads_target_state": ("hidden_dims", as_trained),
    "algorithm": ("config", as_trained),
    "architecture": ("config", lambda seen: (Consequence.NONE, "another class runs the draft", KEEP)),
    "config_keys": ("config", _config_keys),
    "agrees_with_itself": ("forward", _agreement),
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
    "spellings": ("spellings", _spelling),
    "algorithms": ("options", _algorithms),
}
"""By the first part of a path: the term of the interface, and the rule for it."""
