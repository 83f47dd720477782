"""What was found of a draft, release by release, as one value that every view is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from contracts.header.draft import Draft
from contracts.header.findings import SEVERITY, Damage, Finding, Verdict, verdict_of
from contracts.served_target import ServedTarget


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One release, and what it makes of the draft."""

    release: str
    findings: tuple[Finding, ...]
    """The worst first."""

    @property
    def verdict(self) -> Verdict:
        """What is to be expected of the draft in this release."""
        return verdict_of(self.findings)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One finding and the releases that it is about."""

    finding: Finding
    """As the newest of them tells it."""
    releases: tuple[str, ...]
    """Oldest first."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A draft, and what each of some releases will make of it."""

    draft: Draft
    target: ServedTarget | None
    judged: tuple[Judged, ...]
    """Oldest release first."""
    contracts: int
    """How many rules were asked."""
    not_judged: Mapping[str, str]
    """Rules that were not asked, and why."""
    server_args: tuple[str, ...] = ()
    """Of the user's own server; the verdict rests on them."""
    library: str | None = None
    """Release of the library that was given the draft itself; None if only headers were judged."""
    asked_for: str | None = None
    """The release that the user named, where nothing is recorded of it and the newest before it was taken."""

    @property
    def verdict(self) -> Verdict:
        """The worst of what is to be expected in these releases."""
        order = list(Verdict)
        return min((item.verdict for item in self.judged), key=order.index)

    @property
    def findings(self) -> list[Spread]:
        """Every finding once, with its releases; the worst first."""
        found: dict[tuple[object, ...], Spread] = {}
        for item in reversed(self.judged):
            for finding in item.findings:
                key = (finding.contract, finding.cause, finding.where, finding.damage)
                before = found.get(key, Spread(finding=finding, releases=()))
                if item.release not in before.releases:
                    found[key] = replace(before, releases=(item.release, *before.releases))
        return sorted(found.values(), key=lambda it: SEVERITY[it.finding.damage])

    @property
    def faults(self) -> list[Spread]:
        """The findings that are more than notes."""
        return [it for it in self.findings if it.finding.damage is not Damage.NOTE]

    @property
    def notes(self) -> list[Spread]:
        """The findings that are no more than notes."""
        return [it for it in self.findings if it.finding.damage is Damage.NOTE]
