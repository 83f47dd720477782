"""The tables of what releases offer to the probes: whole, sorted by release, and true to release numbers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from itertools import pairwise

import pytest
from packaging.version import Version

from contracts import records
from contracts.probes import sglang_release, speculators_release
from contracts.probes.capability import Capability, Release

TABLES: Mapping[str, Mapping[str, Capability]] = {
    "sglang": sglang_release.CAPABILITIES,
    "speculators": speculators_release.CAPABILITIES,
}


@pytest.mark.parametrize("library", TABLES)
def test_each_begins_with_a_release_that_is_known_and_says_what_was_before(library: str) -> None:
    known = set(records.catalog(library).known)
    for name, capability in TABLES[library].items():
        assert capability.since in known, name
        assert "; before" in capability.why or "no longer" in capability.why, name


@pytest.mark.parametrize("library", TABLES)
def test_they_stand_in_order_of_release(library: str) -> None:
    releases = [Version(item.since) for item in TABLES[library].values()]
    assert all(one <= other for one, other in pairwise(releases))


@pytest.mark.parametrize(
    ("version", "has"),
    [
        ("0.5.10.post1", False),
        ("0.5.11", True),
        ("0.5.11rc1", True),
        ("0.5.11.dev3+gabcdef", True),
        ("0.5.11.post1", True),
        ("0.6.0", True),
    ],
)
def test_before_and_after(monkeypatch: pytest.MonkeyPatch, version: str, has: bool) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    release = Release("sglang", {"it": Capability(since="0.5.11", why="there; before, not")})
    assert release.has("it") is has
