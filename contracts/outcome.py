"""What became of contracts, as values: outcomes, and the line of the record that every view is made from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Literal, get_args

from contracts.causes import Cause

Kind = Literal["exported", "raw"]
"""Which checkpoint is served: as exported for the serving release, or as training saved it."""
FORMAT = 1
"""Number of the format of recorded verdicts."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Outcome(StrEnum):
    """What became of one contract for one recipe. Ours, theirs and unknown are kept apart."""

    HOLDS = "holds"
    KNOWN = "known"
    """Does not hold, as known.toml records, for the recorded cause."""
    BROKEN = "broken"
    CHANGED = "changed"
    """The surface differs from what was recorded."""
    FIXED = "fixed"
    """Recorded in known.toml as not holding, and holds: the entry has to go."""
    ERROR = "error"
    """The suite or the machine failed; nothing is known about the interface."""
    NOT_RUN = "not-run"


SEVERITY = {
    outcome: rank
    for rank, outcome in enumerate(
        (
            Outcome.HOLDS,
            Outcome.KNOWN,
            Outcome.NOT_RUN,
            Outcome.FIXED,
            Outcome.CHANGED,
            Outcome.BROKEN,
            Outcome.ERROR,
        )
    )
}
"""Rank of each outcome; the worst last."""
FAILING = frozenset({Outcome.BROKEN, Outcome.CHANGED, Outcome.FIXED})
"""Outcomes that say something of the interface, and nothing good."""
LETTERS = {
    Outcome.HOLDS: ".",
    Outcome.KNOWN: "k",
    Outcome.BROKEN: "B",
    Outcome.CHANGED: "C",
    Outcome.FIXED: "F",
    Outcome.ERROR: "E",
    Outcome.NOT_RUN: "-",
}
"""One letter an outcome, in tables."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the record that every view is made from."""

    contract: str
    """`module.promise`, as in `weight_names.every_trained_tensor_is_consumed`."""
    promise: str
    """The sentence that the contract's docstring states."""
    case: str
    """What it was judged on: a recipe, with the side in front where a contract looks at one side; `release`
    in place of the recipe where it does not matter."""
    outcome: Outcome
    draft: Kind = "exported"
    """Which checkpoint was served: as exported for the serving release, or `raw`, as training saved it."""
    cause: str | None = None
    expected: str | None = None
    seen: str | None = None
    fix: str | None = None
    reason: str | None = None
    """Why it was not run, what failed, or why it is known."""
    upstream: str | None = None
    until: str | None = None
    """Last day on which what is known is accepted (ISO 8601); None: no end."""
    reproduce: str | None = None
    figures: Mapping[str, float] | None = None
    """What was measured along the way, whatever the outcome: accept lengths."""

    @property
    def recipe(self) -> str:
        """The recipe that it was judged on; empty for a test of a user's own that has none."""
        return "" if self.case == "-" else self.case.rpartition("/")[2]


def record(header: Mapping[str, object], verdicts: Sequence[Verdict]) -> str:
    """Verdicts as JSON lines, between a header and a closing line without which they are not whole."""
    told = sorted(verdicts, key=lambda it: (it.contract, it.case))
    lines: list[dict[str, object]] = [{"kind": "header", "format": FORMAT, **header}]
    lines += ({"kind": "verdict", **{k: v for k, v in asdict(it).items() if v is not None}} for it in told)
    lines.append({"kind": "end", "verdicts": len(told)})
    return "".join(json.dumps(line) + "\n" for line in lines)


def unaccounted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Contracts that were not run for a recipe of which nothing says why.

    A verdict with a cause says why itself. A draft that the serving library refused leaves other contracts
    not run; that is told by the contract that the refusal breaks, if it was among those that ran.
    """
    serving = {Cause.DRAFT_REFUSED, Cause.TARGET_REFUSED, Cause.TARGET_CONFIG_INCOMPLETE}
    told = {(it.recipe, it.draft) for it in verdicts if it.cause in serving}
    training = {Cause.RECIPE_REFUSED, Cause.DRAFT_NOT_WHOLE}
    told |= {(it.recipe, kind) for it in verdicts if it.cause in training for kind in KINDS}
    missed = [it for it in verdicts if it.outcome is Outcome.NOT_RUN and it.cause is None]
    return [it for it in missed if (it.recipe, it.draft) not in told]
