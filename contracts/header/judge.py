"""Asks every rule about a draft, for each of some releases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from contracts import records
from contracts.causes import Cause
from contracts.header import rules
from contracts.header.draft import Draft
from contracts.header.findings import SEVERITY, Finding
from contracts.header.kind import Kind, kind_of
from contracts.header.reading import LIBRARY, reading
from contracts.header.report import Judged, Report
from contracts.header.rule import Offer, Rule
from contracts.records import UnsupportedRelease
from contracts.served_target import ServedTarget


class NotDeep(Exception):
    """The library itself cannot be asked; one line."""


def judge(
    draft: Draft,
    target: ServedTarget | None,
    releases: Sequence[str],
    *,
    server_args: Sequence[str] = (),
    asked_for: str | None = None,
) -> Report:
    """What each of some recorded releases will make of a draft.

    Args:
        draft: read by contracts.header.sources.
        target: what it is to be served with; None if nobody said.
        releases: recorded ones of the serving library.
        server_args: of the user's own server.
        asked_for: the release that the user named, if an older one is taken for it.

    Raises:
        CheckpointError: config.json holds something that cannot be meant.

    """
    skipped = _skipped(draft, target)
    asked = [rule for rule in rules.RULES.values() if rule.name not in skipped]
    judged = []
    for release in sorted(releases, key=Version):
        offer = Offer(draft=draft, reading=reading(release), target=target, server_args=tuple(server_args))
        findings = [finding for rule in asked for finding in rule.findings(offer)]
        findings.sort(key=lambda item: SEVERITY[item.damage])
        judged.append(Judged(release=release, findings=tuple(findings)))
    return Report(
        draft=draft,
        target=target,
        judged=tuple(judged),
        contracts=len(asked),
        not_judged=skipped,
        server_args=tuple(server_args),
        asked_for=asked_for,
    )


def with_library(report: Report, version: str, shown: Sequence[Finding]) -> Report:
    """A report together with what the library of a release showed itself; it has the last word.

    Args:
        report: from headers.
        version: of the library that was asked.
        shown: what was found.

    """
    (release,), other = exactly(version)
    judged = {item.release: item for item in report.judged}
    if release not in judged:
        own = judge(report.draft, report.target, [release], server_args=report.server_args)
        judged[release] = own.judged[0]
    unanswered = any(item.cause is Cause.NOT_LOOKED_INTO for item in shown)
    kept = [
        item for item in judged[release].findings if unanswered or item.cause is not Cause.NOT_LOOKED_INTO
    ]
    together = sorted([*kept, *shown], key=lambda item: SEVERITY[item.damage])
    judged[release] = replace(judged[release], findings=tuple(together))
    return replace(
        report,
        judged=tuple(judged[name] for name in sorted(judged, key=Version)),
        asked_for=report.asked_for or other,
        library=version,
    )


def _skipped(draft: Draft, target: ServedTarget | None) -> dict[str, str]:
    """Rules that cannot be asked, and why."""
    kind = kind_of(draft)
    reasons: dict[str, str] = {}
    for rule in rules.RULES.values():
        why = _why_not(rule, kind, target)
        if why:
            reasons[rule.name] = why
    return reasons


def _why_not(rule: Rule, kind: Kind, target: ServedTarget | None) -> str | None:
    if rule.about == "eagle3" and kind not in (Kind.EAGLE3, Kind.EAGLE3_MLA):
        return f"they are about EAGLE-3 drafts, and this is a {kind}"
    if rule.about == "llama" and kind is not Kind.EAGLE3:
        return f"they are about EAGLE-3 drafts with the layers of Llama, and this is a {kind}"
    if rule.needs_target and target is None:
        return "they need the target's config.json (--target)"
    return None


def choose(wanted: str) -> tuple[list[str], str | None]:
    """The recorded releases that a user means.

    Args:
        wanted: `all`, `sglang==0.5.23` (or `0.5.23`), or a range such as `sglang>=0.5.17`.

    Returns:
        Recorded releases, and the one that was named if an older one is taken for it.

    Raises:
        UnsupportedRelease: nothing is recorded that could be meant.

    """
    recorded = records.recorded_releases(LIBRARY)
    if wanted == "all":
        return recorded, None
    library, *_ = re.split(r"[^A-Za-z]", wanted, maxsplit=1)
    told = wanted[len(library) :].strip()
    try:
        specifiers = SpecifierSet(f"=={told}" if told[:1].isdigit() else told)
    except InvalidSpecifier:
        specifiers = SpecifierSet()
    if not specifiers or library.lower() not in ("", LIBRARY):
        known = f"{LIBRARY}=={recorded[-1]}, {LIBRARY}>=VERSION, installed or all"
        raise UnsupportedRelease(f"release {wanted!r}: write {known}")
    pinned = [item.version for item in specifiers if item.operator == "==" and "*" not in item.version]
    if len(specifiers) == 1 and pinned:
        return exactly(pinned[0])
    found = [release for release in recorded if specifiers.contains(release, prereleases=True)]
    if not found:
        told = f"{recorded[0]} to {recorded[-1]}"
        raise UnsupportedRelease(f"release {wanted!r}: no recorded one is meant; recorded are {told}")
    return found, None


def exactly(version: str) -> tuple[list[str], str | None]:
    """The recorded release that a version is judged by: its own, a patch of it, or the newest before it.

    Raises:
        UnsupportedRelease: it is too old, or no version.

    """
    records.check_supported(LIBRARY, version)
    base = Version(version).base_version
    patched = [it for it in records.recorded_releases(LIBRARY) if Version(it).base_version == base]
    own = version if version in patched else next(iter(patched), None)
    release = own or records.baseline(LIBRARY, version)
    assert release is not None  # the oldest release that is supported is recorded
    return [release], None if release == version else version


def installed() -> str | None:
    """The release of the serving library that is installed beside this package; it is not imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(LIBRARY)
        Version(found)
    except (PackageNotFoundError, InvalidVersion):
        return None
    return found
