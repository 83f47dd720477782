"""How one says that a contract does not hold; what becomes of that is told by contracts.outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from contracts.causes import Cause
from contracts.outcome import Outcome, Verdict

__all__ = ["Broken", "Cause", "Changed", "Difference", "Outcome", "Verdict"]


class Broken(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A contract does not hold: cause, evidence and fix. A test of anybody's that raises it fails."""

    def __init__(self, cause: Cause, *, expected: object, seen: object, fix: str | None = None) -> None:
        self.cause = cause
        self.expected = str(expected)
        self.seen = str(seen)
        self.fix = fix or cause.fix
        evidence = f"expected: {self.expected}\nseen: {self.seen}\nfix: {self.fix}"
        super().__init__(f"{cause}: {cause.explanation}\n{evidence}", pytrace=False)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place where a surface differs from its record."""

    path: str
    recorded: str
    seen: str
    meaning: str


class Changed(Broken):
    """A surface differs from its record; every difference says what it means."""

    def __init__(self, differences: Sequence[Difference], *, record: str) -> None:
        self.differences = tuple(differences)
        super().__init__(
            Cause.SURFACE_CHANGED,
            expected=f"as recorded in {record}",
            seen="\n".join(f"{d.path}: {d.recorded} -> {d.seen} ({d.meaning})" for d in differences),
        )
