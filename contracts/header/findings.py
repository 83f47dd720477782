"""What a rule has to say of a draft, and how bad it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from contracts.causes import Cause


class Damage(StrEnum):
    """What becomes of a draft, the worst first."""

    FAILS = "fails"
    """The server does not start, or ends with the first batch: loud."""
    COLLAPSES = "collapses"
    """The server answers, and next to no draft token is accepted."""
    LOSES = "loses"
    """The server answers, and fewer draft tokens are accepted than trained."""
    UNKNOWN = "unknown"
    """It may be right or wrong; the checkpoint does not tell."""
    NOTE = "note"
    """Worth knowing; nothing is wrong with it."""


SEVERITY = {damage: rank for rank, damage in enumerate(Damage)}
"""Rank of each damage; the worst first."""


class Verdict(StrEnum):
    """What is to be expected of a draft in a release: the words that a report begins with."""

    FAILS = "will not start"
    LOSES = "will lose acceptance silently"
    UNKNOWN = "cannot tell"
    ACCEPTS = "accepts"


_VERDICTS = {
    Damage.FAILS: Verdict.FAILS,
    Damage.COLLAPSES: Verdict.LOSES,
    Damage.LOSES: Verdict.LOSES,
    Damage.UNKNOWN: Verdict.UNKNOWN,
    Damage.NOTE: Verdict.ACCEPTS,
}

CONSEQUENCES = {
    Damage.FAILS: "the server does not start with this draft, or ends with the first batch",
    Damage.COLLAPSES: "the server starts and answers, and rejects next to every draft token",
    Damage.LOSES: "the server starts and answers, and accepts fewer draft tokens than trained",
    Damage.UNKNOWN: "it may be served right or wrong; the checkpoint does not say enough to tell",
    Damage.NOTE: "none",
}
"""What follows from a finding that says nothing more particular."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a rule found in a draft, for one release."""

    cause: Cause
    damage: Damage
    where: str
    """The key of config.json or the tensor in question."""
    expected: str
    seen: str
    consequence: str = ""
    """What follows; what usually follows from such damage if nothing is said."""
    fix: str = ""
    """What helps; what usually helps against the cause if nothing is said."""
    contract: str = ""
    """The rule that found it, as `term.promise`."""

    @property
    def told_consequence(self) -> str:
        """What follows from it."""
        return self.consequence or CONSEQUENCES[self.damage]

    @property
    def told_fix(self) -> str:
        """What helps against it."""
        return self.fix or self.cause.fix


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """What is to be expected of a draft of which this was found."""
    worst = min((SEVERITY[item.damage] for item in findings), default=SEVERITY[Damage.NOTE])
    return _VERDICTS[list(Damage)[worst]]
