"""How the target classes of a sglang release number their layers, and which ids deliver given states.

The record of each release holds what each class's own capture setter did with three lists of ids
(contracts/probes/sglang_captures.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from packaging.specifiers import SpecifierSet
from pydantic import BaseModel, ConfigDict, TypeAdapter

from contracts import records
from contracts.causes import Cause


@dataclass(frozen=True, kw_only=True)
class Defect:
    """Target classes whose capture is wrong whatever the ids."""

    classes: frozenset[str]
    releases: str
    """Range of sglang; closed, so that each new release is looked at."""
    cause: Cause
    source: str
    """Where it can be read."""

    def affects(self, architectures: Sequence[str], release: str) -> bool:
        """Whether a target of these classes is affected in a release."""
        return bool(self.classes & set(architectures)) and release in SpecifierSet(self.releases)


DEFECTS = (
    Defect(
        classes=frozenset({"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"}),
        releases=">=0.5.22,<=0.5.23",
        cause=Cause.STATE_WITHOUT_RESIDUAL,
        source="models/gemma3_causal.py appends hidden_states without residual",
    ),
)


class Rule(BaseModel):
    """One target class: hidden-state index minus id, by what is particular about a list of ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    usual: int | None
    first_is_1: int | None
    one_is_not_first: int | None
    with_the_last: int | None = None
    """Where the number of layers is among the ids."""
    shares_embedding: bool
    """Whether the draft worker can take the target's embedding, which it does for every EAGLE-3 draft."""
    setter: str
    """Module and class in which the setter is defined."""
    without_ids: tuple[int, ...] | str | None
    """Hidden states of a target of eight layers that are captured when no ids are given; what the setter
    raises then; None where nothing is known of it."""
    unknown: str | None = None
    """Why nothing is known of it."""

    def shift(self, ids: Sequence[int]) -> int | None:
        """What the class adds to each of these ids, of which none is the number of layers."""
        if ids[0] == 1:
            return self.first_is_1
        return self.one_is_not_first if 1 in ids else self.usual


class NotCaptured(Exception):
    """A target cannot deliver the states: why, as a cause and the thing in question."""

    def __init__(self, cause: Cause, what: str) -> None:
        self.cause, self.what = cause, what
        super().__init__(f"{what} ({cause})")


_RULES = TypeAdapter(dict[str, Rule])


@dataclass(frozen=True, kw_only=True)
class Captures:
    """The target classes of one release."""

    release: str
    rules: Mapping[str, Rule]

    @classmethod
    def for_release(cls, serving: str) -> Captures:
        """What is recorded for sglang `serving`, or for the newest release before it."""
        release = records.baseline("sglang", serving)
        assert release is not None
        return cls(release=release, rules=_rules(release))

    def ids(
        self, architectures: Sequence[str], states: Sequence[int], num_layers: int | None
    ) -> tuple[int, ...]:
        """Layer ids with which a target delivers `states`, hidden-state indices in ascending order.

        Args:
            architectures: class of the target, then that of its language model if it wraps one.
            states: wanted.
            num_layers: of the target; None where nobody knows.

        Raises:
            NotCaptured: no ids do, or nothing is known about the class.

        """
        for defect in DEFECTS:
            if defect.affects(architectures, self.release):
                raise NotCaptured(defect.cause, f"target {architectures[0]} ({defect.source})")
        rule = next((rule for name in architectures if (rule := self._known(name))), None)
        if rule is None:
            raise NotCaptured(
                Cause.CAPTURE_UNKNOWN, f"target {' / '.join(architectures) or 'without a class'}"
            )
        if not rule.shares_embedding:
            raise NotCaptured(Cause.DRAFT_REFUSED, f"target {architectures[0]} has no get_embed_and_head")
        if num_layers is not None and max(states) > num_layers:
            raise NotCaptured(Cause.LAYER_OUT_OF_RANGE, f"hidden state {max(states)} of {num_layers} layers")
        if max(states) == num_layers:  # few classes deliver it, and their setters do not tell
            raise NotCaptured(Cause.CAPTURE_UNKNOWN, f"the last hidden state of target {architectures[0]}")
        for ids in _candidates(states):
            shift = rule.shift(ids)
            if shift is not None and sorted(layer_id + shift for layer_id in ids) == sorted(states):
                return ids
        raise NotCaptured(
            Cause.WRONG_LAYERS, f"target {architectures[0]} delivers hidden states {list(states)} for no ids"
        )

    def _known(self, name: str) -> Rule | None:
        rule = self.rules.get(name)
        return rule if rule is not None and rule.usual is not None else None


@cache
def _rules(release: str) -> dict[str, Rule]:
    return _RULES.validate_python(records.raw("sglang", release)["traits"]["targets"])


def _candidates(states: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Lists of ids that might deliver states: as outputs, as inputs, and with a 1 not in front.

    The order of ids says nothing in sglang, which captures ascending; but some setters look at the first.
    """
    for shift in (1, 0):
        ids = tuple(state - shift for state in states)
        yield ids
        if ids[0] == 1 and len(ids) > 1:
            yield (ids[1], ids[0], *ids[2:])
