"""The two maps between draft and target vocabulary, and what their values say; each looked through once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

TYPES = {"d2t": ("I64", "I32"), "t2d": ("BOOL", "U8")}
"""What the maps are saved in."""
NEIGHBOURS = 10.0
"""Pairs of neighbours that a random vocabulary has to have before their absence tells something."""


@dataclass(frozen=True, kw_only=True)
class Maps:
    """d2t and t2d of a draft, for a target vocabulary of a size."""

    d2t: Sequence[int] = field(repr=False)
    t2d: bytes | None = field(default=None, repr=False)
    """One byte per token of the target; None if there is no t2d."""
    size: int | None = None
    """Tokens of the target; None if config.json does not say."""

    @cached_property
    def targets(self) -> list[int]:
        """Target ids, if d2t holds offsets."""
        return [token + offset for token, offset in enumerate(self.d2t)]

    @cached_property
    def marked(self) -> frozenset[int] | None:
        """Tokens that t2d marks."""
        return None if self.t2d is None else frozenset(at for at, chosen in enumerate(self.t2d) if chosen)

    @cached_property
    def holds_ids(self) -> bool:
        """Whether d2t holds target ids instead of offsets.

        t2d decides where it is there. Without it, values that lead outside the vocabulary as offsets and
        nowhere twice as ids do; else the steps: offsets of an ascending map grow by zero wherever two of the
        target's tokens stand side by side, target ids never do.
        """
        if not self.d2t or self.size is None:
            return False
        as_ids, as_offsets = frozenset(self.d2t), frozenset(self.targets)
        if self.marked in (as_ids, as_offsets):
            return self.marked == as_ids and self.marked != as_offsets
        sound_as_ids = len(as_ids) == len(self.d2t) and min(as_ids) >= 0 and max(as_ids) < self.size
        if sound_as_ids and max(as_offsets) >= self.size:
            return True
        neighbours = len(self.d2t) ** 2 / self.size  # of as many tokens, chosen at random
        return neighbours >= NEIGHBOURS and min(as_ids) >= 0 and all(step > 0 for step in steps(self.d2t))

    @cached_property
    def meant(self) -> Sequence[int]:
        """Target ids, in whichever way d2t holds them."""
        return self.d2t if self.holds_ids else self.targets

    @cached_property
    def outside(self) -> int | None:
        """The first draft token that, read as an offset, leads to no token of the target."""
        if self.size is None:
            return None
        return next((at for at, target in enumerate(self.targets) if not 0 <= target < self.size), None)

    @cached_property
    def num_outside(self) -> int:
        """How many draft tokens, read as offsets, lead to no token of the target."""
        size = self.size or 0
        return sum(not 0 <= target < size for target in self.targets)

    @cached_property
    def repeated(self) -> tuple[int, int] | None:
        """The first two draft tokens that, read as offsets, lead to the same token."""
        seen: dict[int, int] = {}
        for token, target in enumerate(self.targets):
            if target in seen:
                return seen[target], token
            seen[target] = token
        return None

    @cached_property
    def descent(self) -> int | None:
        """The first draft token whose target id is below the one before."""
        return next((at + 1 for at, step in enumerate(steps(self.meant)) if step < 0), None)

    @cached_property
    def in_one_only(self) -> frozenset[int]:
        """Tokens that only one of the two maps names."""
        return frozenset() if self.marked is None else self.marked ^ set(self.meant)


def steps(values: Sequence[int]) -> list[int]:
    """By how much each value is above the one before."""
    return [after - before for before, after in pairwise(values)]
