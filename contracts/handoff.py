"""The facts of two sides about one draft, joined, and what stands in their place when there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pytest

from contracts.causes import Cause
from contracts.facts import CaseResult, DraftFacts, Refusal, SideName
from contracts.outcome import Kind
from contracts.recipes import Recipe
from contracts.refusals import Refusal as ExportRefusal

T = TypeVar("T")


class NotRun(pytest.skip.Exception):  # type: ignore[name-defined, misc]
    """A contract could not be judged, and why. A test of anybody's that meets it is skipped."""

    def __init__(self, reason: str, *, side_missing: bool = False, cause: Cause | None = None) -> None:
        self.side_missing = side_missing
        self.cause = cause
        """Why nothing is amiss although nothing was judged; None if somebody has to look."""
        super().__init__(reason, pytrace=False)


class ProbeFailed(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A probe reported an error instead of facts: the suite or the machine failed, not the interface."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, pytrace=False)


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """One draft as the training side made it and as the serving side took it."""

    recipe: Recipe
    kind: Kind
    training: DraftFacts
    serving: DraftFacts
    serving_refusals: tuple[Refusal, ...] = ()
    """What the serving library raised, by stage."""
    export_refusals: tuple[ExportRefusal, ...] = ()
    """What could not be written for this serving release."""
    renames: Mapping[str, str]
    """Name of each trained tensor -> its name in the checkpoint that was served."""

    def both(self, facet: Callable[[DraftFacts], T | None]) -> tuple[T, T]:
        """The facet as training and as serving show it.

        Raises:
            NotRun: the serving library refused the draft before it could show this.

        """
        return self.trained(facet), self.served(facet)

    def trained(self, facet: Callable[[DraftFacts], T | None]) -> T:
        """The facet as training shows it."""
        return _shown(facet(self.training), "training", ())

    def served(self, facet: Callable[[DraftFacts], T | None]) -> T:
        """The facet as serving shows it."""
        return _shown(facet(self.serving), "serving", self.serving_refusals)

    def remedy(self, *parts: str) -> str | None:
        """The fix for what cannot be carried across at all; None if every one of `parts` can."""
        for item in self.export_refusals:
            if item.what.partition(":")[0] in parts:
                return item.fix
        return None


def _shown(value: T | None, side: SideName, refusals: tuple[Refusal, ...]) -> T:
    if value is None:
        raise NotRun(f"the {side} side did not get that far: {describe(refusals)}")
    return value


def describe(refusals: tuple[Refusal, ...]) -> str:
    """What a library said when it refused, in one line."""
    return "; ".join(f"{item.stage}: {item.error}: {item.message}" for item in refusals) or "no such fact"


def observed(result: CaseResult, side: SideName) -> CaseResult:
    """The result itself.

    Raises:
        ProbeFailed: it is an error.

    """
    if result.error:
        raise ProbeFailed(f"the {side} probe failed on {result.case}: {result.error}")
    return result
