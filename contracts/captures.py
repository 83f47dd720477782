"""How the target classes of a sglang release number their layers, and which ids deliver given states.

The one place that tells ids and hidden states from each other, for export, for the contracts and for
`contracts check`. Two kinds of evidence are recorded per release: what each class's own setter does alone
with some lists of ids (contracts/probes/sglang_captures.py, every class), and which hidden states reached a
draft when the class was run beside transformers (contracts/targets/recorded.py, every class with a recipe).
The second counts where both are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from pydantic import BaseModel, ConfigDict, TypeAdapter

from contracts import records
from contracts.causes import Cause
from contracts.targets import recorded
from contracts.targets.recipes import LAYERS, TARGETS
from contracts.targets.recorded import Seen, Shifts
from contracts.targets.situations import OUTPUTS


class Rule(BaseModel):
    """One target class: hidden-state index minus id, by what is particular about a list of ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    usual: int | None
    first_is_1: int | None
    one_is_not_first: int | None
    with_the_last: int | None = None
    """Where the number of layers is among the ids."""
    delivers_last: bool | None = None
    """Whether the last layer's output is ever delivered; None where nobody has seen it run."""
    shares_embedding: bool
    """Whether the draft worker can take the target's embedding, which it does for every EAGLE-3 draft."""
    setter: str
    """Module and class in which the setter is defined."""
    without_ids: tuple[int, ...] | str | None
    """Hidden states of a target of eight layers that are captured when no ids are given; what the setter
    raises then; None where nothing is known of it."""
    unknown: str | None = None
    """Why nothing is known of it."""

    def shift(self, ids: Sequence[int], num_layers: int | None = None) -> int | None:
        """What the class adds to each of these ids, for a target of `num_layers`; None where nobody knows."""
        if num_layers in ids and self.with_the_last is not None:
            return self.with_the_last
        if ids[0] == 1:
            return self.first_is_1
        return self.one_is_not_first if 1 in ids else self.usual


class NotCaptured(Exception):
    """A target cannot deliver the states: why, as a cause and the thing in question."""

    def __init__(self, cause: Cause, what: str) -> None:
        self.cause, self.what = cause, what
        super().__init__(f"{what} ({cause})")


USUAL = recorded.spelled(OUTPUTS)
"""The list of ids that says in which form a class delivers states."""
_RULES = TypeAdapter(dict[str, Rule])


@dataclass(frozen=True, kw_only=True)
class Captures:
    """The target classes of one release."""

    release: str
    rules: Mapping[str, Rule]
    """By class: as its capture was seen to run, else as its setter does alone."""
    seen: Mapping[str, Seen] = field(default_factory=dict)
    """What was seen to run, by class."""

    @classmethod
    def for_release(cls, serving: str) -> Captures:
        """What is recorded for sglang `serving`, or for the newest release before it."""
        release = records.baseline("sglang", serving)
        assert release is not None
        if release not in recorded.releases():
            return cls(release=release, rules=_rules(release))
        return cls(release=release, rules=_rules(release) | _ran(release), seen=_seen(release))

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
        self._check_served(architectures)
        rule = self.rule(architectures)
        if rule is None:
            raise NotCaptured(
                Cause.CAPTURE_UNKNOWN, f"target {' / '.join(architectures) or 'without a class'}"
            )
        if not rule.shares_embedding:
            raise NotCaptured(Cause.TARGET_REFUSED, f"target {architectures[0]} has no get_embed_and_head")
        if num_layers is not None and max(states) > num_layers:
            raise NotCaptured(Cause.LAYER_OUT_OF_RANGE, f"hidden state {max(states)} of {num_layers} layers")
        if max(states) == num_layers and not rule.delivers_last:
            cause = Cause.CAPTURE_UNKNOWN if rule.delivers_last is None else Cause.LAST_LAYER_NOT_CAPTURED
            raise NotCaptured(cause, f"the last hidden state of target {architectures[0]}")
        for ids in candidates(states):
            shift = rule.shift(ids, num_layers)
            wanted = shift is not None and sorted(layer_id + shift for layer_id in ids) == sorted(states)
            if wanted and not self._was_refused(architectures, ids):
                return ids
        raise NotCaptured(
            Cause.WRONG_LAYERS, f"target {architectures[0]} delivers hidden states {list(states)} for no ids"
        )

    def states(
        self, architectures: Sequence[str], ids: Sequence[int] | None, num_layers: int
    ) -> tuple[int, ...] | None:
        """Hidden states that a target delivers for `ids`, ascending; None where nobody knows.

        Args:
            architectures: class of the target, then that of its language model if it wraps one.
            ids: as the draft names them; None or none of them: the class's defaults.
            num_layers: of the target.

        """
        rule = self.rule(architectures)
        if rule is None:
            return None
        if not ids:
            return _defaults(rule.without_ids, num_layers)
        shift = rule.shift(ids, num_layers)
        return None if shift is None else tuple(sorted({item + shift for item in ids}))

    def evidence(self, architectures: Sequence[str]) -> str:
        """Where what is known of a target comes from."""
        name = self._known(architectures)
        if name is None:
            return f"nothing is recorded of {' / '.join(architectures) or 'a target without a class'}"
        ran = f"was run beside transformers (contracts/releases/targets, {self.release})"
        if self.was_run(architectures):
            return f"{name} {ran}"
        unjudged = self.seen[name].unjudged if name in self.seen else None
        why = f"could not be judged ({unjudged})" if unjudged else "was never run"
        kin = self.inherits_from(architectures)
        if kin is not None:
            return f"{name} {why}; it has the setter of {kin}, which {ran}"
        return f"{name} {why}; taken to count as its setter does ({self.rules[name].setter}, {self.release})"

    def was_run(self, architectures: Sequence[str]) -> bool:
        """Whether how a target numbers its layers was seen by running its class."""
        name = self._known(architectures)
        return name is not None and name in self.seen and bool(self.seen[name].states)

    def inherits_from(self, architectures: Sequence[str]) -> str | None:
        """The first class that was run and has the setter of a target's, which was not."""
        name = self._known(architectures)
        if name is None or self.was_run(architectures):
            return None
        return next((other for other in self._kin(name) if self.seen[other].states), None)

    def refused_kin(self, architectures: Sequence[str]) -> str | None:
        """A class that has the setter of a target's, which was never run, and that the release refuses."""
        name = self._known(architectures)
        if name is None or self.was_run(architectures):
            return None
        return next((other for other in self._kin(name) if not self.seen[other].states), None)

    def _kin(self, name: str) -> list[str]:
        """The other classes that were judged and have the setter of a class."""
        judged = [other for other, it in self.seen.items() if not it.unjudged and not it.absent]
        setter = self.rules[name].setter
        return [
            other
            for other in judged
            if other != name and other in self.rules and self.rules[other].setter == setter
        ]

    def missed(self, architectures: Sequence[str], keys: Collection[str]) -> dict[str, str]:
        """Keys that a config.json lacks and the target's class was seen to miss -> what became of it then.

        A class that was never run is taken to miss what the one does that it inherits its setter from.
        """
        run = next((name for name in architectures if name in self.seen), None)
        name = run or self.inherits_from(architectures)
        needs = self.seen[name].needs if name else {}
        return {key: said for key, said in needs.items() if key not in keys}

    def right(self, architectures: Sequence[str]) -> bool:
        """Whether the usual hidden states can be had of a target, as far as is known."""
        try:
            self.ids(architectures, default_states(LAYERS), LAYERS)
        except NotCaptured:
            return False
        return True

    def rule(self, architectures: Sequence[str]) -> Rule | None:
        """How the first of these classes numbers its layers of which anything is known."""
        name = self._known(architectures)
        return None if name is None else self.rules[name]

    def _known(self, architectures: Sequence[str]) -> str | None:
        """The first of these classes whose numbering is known."""
        known = (name for name in architectures if name in self.rules)
        return next((name for name in known if self.rules[name].usual is not None), None)

    def _was_refused(self, architectures: Sequence[str], ids: tuple[int, ...]) -> bool:
        """Whether a class was seen to end in an error for these very ids, and not for want of layers."""
        seen = next((self.seen[name] for name in architectures if name in self.seen), None)
        return seen is not None and max(ids) < LAYERS - 1 and recorded.spelled(ids) in seen.refused

    def _check_served(self, architectures: Sequence[str]) -> None:
        """Refuse a class that was seen to deliver what no draft is trained on, or not to be served."""
        for name in architectures:
            seen = self.seen.get(name)
            if seen is None or seen.unjudged or seen.absent:
                continue
            if not seen.states:
                raise NotCaptured(Cause.TARGET_REFUSED, f"target {name}: {next(iter(seen.refused.values()))}")
            odd = next((item for item in seen.states.get(USUAL, ()) if isinstance(item, str)), None)
            if odd is not None:
                bare = "without residual" in odd
                raise NotCaptured(
                    Cause.STATE_WITHOUT_RESIDUAL if bare else Cause.WRONG_LAYERS,
                    f"target {name} was seen to deliver hidden state {odd}",
                )
            return


@cache
def _rules(release: str) -> dict[str, Rule]:
    return _RULES.validate_python(records.raw("sglang", release)["traits"]["targets"])


@cache
def _seen(release: str) -> dict[str, Seen]:
    seen = recorded.read(release)
    return {recipe.architecture: seen[recipe.name] for recipe in TARGETS if recipe.name in seen}


@cache
def _ran(release: str) -> dict[str, Rule]:
    """The rules that the recorded runs show, for classes that the release has."""
    setters, seen = _rules(release), recorded.shifts(release)
    by_setter: dict[str, Shifts] = {}
    for name, own_shifts in seen.items():  # the first, as inherits_from says
        if name in setters:
            by_setter.setdefault(setters[name].setter, own_shifts)
    found = {}
    for name, rule in setters.items():  # a class that was not run itself does as one with the same setter
        shifts = seen.get(name) or by_setter.get(rule.setter)
        if shifts is not None:
            # the last layer's output is the matter of a class's own forward pass
            own = {} if name in seen else {"delivers_last": None}
            found[name] = rule.model_copy(update={**vars(shifts), **own, "unknown": None})
    return found


def default_states(layers: int) -> tuple[int, int, int]:
    """Hidden states that most target classes deliver where no ids are given, and that EAGLE-3 trains on.

    Source: eagle/model/modeling_llama_kv.py of the EAGLE reference; the recorded setters say the same.
    """
    return 2, layers // 2, layers - 3


def _defaults(without_ids: tuple[int, ...] | str | None, num_layers: int) -> tuple[int, ...] | None:
    """Defaults of a target of `num_layers`, told from those of one of eight layers."""
    if not isinstance(without_ids, tuple):
        return None
    of_eight = default_states(LAYERS)
    late = {state - usual for state, usual in zip(without_ids, of_eight, strict=False)}
    if len(without_ids) != len(of_eight) or len(late) != 1:
        return None
    shift = late.pop()
    return tuple(state + shift for state in default_states(num_layers))


def candidates(states: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Lists of ids that might deliver states: as outputs, as inputs, and with a 1 not in front.

    The order of ids says nothing in sglang, which captures ascending; but some setters look at the first.
    """
    for shift in (1, 0):
        ids = tuple(state - shift for state in states)
        yield ids
        if ids[0] == 1 and len(ids) > 1:
            yield (ids[1], ids[0], *ids[2:])
