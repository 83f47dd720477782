"""Defects of a release that meet every draft, whatever is in its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from contracts.causes import Cause
from contracts.header.findings import Damage, Finding
from contracts.header.reading import LIBRARY
from contracts.header.rule import Offer, rule


@dataclass(frozen=True)
class _Defect:
    releases: str
    """Of the serving library; closed, so that each new release is looked at."""
    cause: Cause
    expected: str
    seen: str
    fix: str
    source: str
    """Where it was seen."""


DEFECTS = (
    _Defect(
        releases=">=0.5.6.post2,<=0.5.11",
        cause=Cause.POSITIONS_LATE,
        expected="the first chained step one position after the prompt's last",
        seen="two positions after it",
        fix=f"Serve it with {LIBRARY} 0.5.12 or newer.",
        source="docs/matrix.md: acceptance and forward contracts of every draft",
    ),
)


@rule(*(defect.cause for defect in DEFECTS), about="eagle3")
def release_has_no_defect_of_its_own(offer: Offer) -> Iterator[Finding]:
    """The release drafts as the training library does, for drafts in which nothing is wrong."""
    for defect in DEFECTS:
        if offer.reading.release in SpecifierSet(defect.releases):
            yield Finding(
                cause=defect.cause,
                damage=Damage.LOSES,
                where="the release",
                expected=defect.expected,
                seen=defect.seen,
                consequence=f"every draft is accepted less than trained ({defect.source})",
                fix=defect.fix,
            )
