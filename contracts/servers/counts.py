"""What a server says about itself, and what it counted: values, checked where they come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(strict=True, ge=0, le=10**12)]
Few = Annotated[int, Field(strict=True, ge=1, le=1024)]
"""Steps, branches or nodes of a draft."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a server says about itself; None where it does not say."""

    url: str
    engine: str
    """Name and release."""
    target: str
    draft: str | None = None
    algorithm: str | None = None
    steps: int | None = None
    """Draft tokens in a row."""
    topk: int | None = None
    """Branches to a node of the draft tree."""
    draft_tokens: int | None = None
    """Nodes of the tree, the last committed token included."""
    accept_thresholds: tuple[float, ...] = ()
    """Below 1, tokens are accepted that the target would not have chosen."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a server counted over some answers."""

    rounds: int = 0
    """Verifications of a draft."""
    accepted: int = 0
    """Draft tokens accepted."""
    reached: tuple[int, ...] = ()
    """Rounds in which at least 1, 2, ... draft tokens were accepted; empty if the server does not tell."""

    @property
    def accept_length(self) -> float:
        """Tokens per verification: the accepted draft tokens and one that the target adds."""
        return 1 + self.accepted / self.rounds if self.rounds else 1.0

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of rounds in which draft tokens 1 to k were all accepted; compares with full_acc_(k-1)."""
        return tuple(count / self.rounds for count in self.reached) if self.rounds else ()

    @property
    def standard_error(self) -> float:
        """Of the accept length, over rounds; 0 if the server does not count enough to tell."""
        if not self.rounds or not self.reached:
            return 0.0
        mean = self.accepted / self.rounds
        # E[n^2] of a count n >= 0 is the sum over k >= 1 of (2k - 1) P(n >= k).
        squares = sum((2 * k - 1) * share for k, share in enumerate(self.shares, 1))
        return math.sqrt(max(squares - mean**2, 0.0) / self.rounds)

    def of_first(self, places: int) -> Counts:
        """The same if only so many draft tokens in a row had been drafted."""
        reached = self.reached[:places]
        return Counts(rounds=self.rounds, accepted=sum(reached), reached=reached)

    def contradiction(self, steps: int | None) -> str | None:
        """Why these cannot be counts of chains of so many draft tokens; None if they can."""
        if self.rounds < 0 or self.accepted < 0 or min(self.reached, default=0) < 0:
            return "fewer than before"
        if steps is not None and self.accepted > self.rounds * steps:
            return f"{self.accepted} draft tokens accepted in {self.rounds} rounds of {steps} in a row"
        falling = [self.rounds, *self.reached]
        if self.reached and (falling != sorted(falling, reverse=True) or sum(self.reached) != self.accepted):
            return f"{self.accepted} accepted in {self.rounds} rounds, and by place {list(self.reached)}"
        return None

    def __add__(self, other: Counts) -> Counts:
        return self._with(other, 1)

    def __sub__(self, other: Counts) -> Counts:
        return self._with(other, -1)

    def _with(self, other: Counts, sign: int) -> Counts:
        size = max(len(self.reached), len(other.reached))
        mine, others = (_padded(counts.reached, size) for counts in (self, other))
        return Counts(
            rounds=self.rounds + sign * other.rounds,
            accepted=self.accepted + sign * other.accepted,
            reached=tuple(one + sign * another for one, another in zip(mine, others, strict=True)),
        )


def _padded(counts: Sequence[int], size: int) -> list[int]:
    return [*counts, *[0] * (size - len(counts))]
