"""The one source that decides what a CI system judges: pairs of releases, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contracts.ci import changes
from contracts.ci.changes import Change, Side
from contracts.facts import LIBRARIES, SideName
from contracts.matrix.cells import Pair, in_order
from contracts.records import catalog

FORMAT = 1
"""Number of the plan's format."""
MOST_CELLS = 256
"""Jobs that one matrix of GitHub's may have."""


class Pairs(StrEnum):
    """Which pairs of releases are judged."""

    NEWEST = "newest"
    CHANGED = "changed"
    ALL = "all"


class Tier(StrEnum):
    """On what they are judged."""

    CPU = "cpu"
    GPU = "gpu"


class BadPlan(Exception):
    """A file that is no plan, or a place that it does not have; one line."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be judged, and why."""

    format: int = FORMAT
    tier: Tier
    pairs: Pairs
    why: tuple[str, ...] = ()
    cells: tuple[Pair, ...] = ()
    """In the order in which to judge them, the newest first."""
    sides: Mapping[SideName, tuple[str, ...]] = field(default_factory=dict)
    """Every release of them once: what has to be run, whatever the number of cells."""

    def as_json(self) -> str:
        """One line, as `$GITHUB_OUTPUT` wants it."""
        cells = [{"training": cell.training, "serving": cell.serving} for cell in self.cells]
        told = {"format": self.format, "tier": self.tier, "pairs": self.pairs, "why": self.why}
        return json.dumps({**told, "cells": cells, "sides": self.sides})


_PLAN = TypeAdapter(Plan)


def make(tier: Tier, pairs: Pairs, *, newest: int, since: str | None, root: Path) -> Plan:
    """Decide what is judged.

    Args:
        tier: on what.
        pairs: which releases.
        newest: how many pairs count as the newest: newest with newest, the one before with the one before.
        since: commit of git that `changed` is about; of `newest`, what changed since is judged as well.
        root: a folder of the clone that changed.

    Raises:
        GitError: git cannot say what changed.

    """
    recent = newest_pairs(newest)
    if pairs is Pairs.ALL:
        trainings, servings = (_releases(side) for side in LIBRARIES)
        found = [Pair(one, two) for two in servings for one in trainings]
        return _plan(tier, pairs, found, ["every release that is recorded"])
    found_changes = [] if since is None else changes.since(since, root)
    found = [pair for change in found_changes for pair in _pairs(change, recent)]
    why = [f"{change.why}: {_told(change)}" for change in found_changes]
    if since is not None and not why:
        why = [f"nothing that a verdict depends on changed since {since}"]
    if pairs is Pairs.NEWEST:
        return _plan(tier, pairs, [*recent, *found], [f"the newest {len(recent)}", *why])
    return _plan(tier, pairs, found, why)


def newest_pairs(number: int) -> list[Pair]:
    """The newest pair, the one before, ..."""
    both = zip(*(_releases(side)[:number] for side in LIBRARIES), strict=False)
    return [Pair(*pair) for pair in both]


def _releases(side: SideName) -> list[str]:
    return list(catalog(LIBRARIES[side]).matrix)[::-1]


def _pairs(change: Change, recent: Sequence[Pair]) -> list[Pair]:
    """A changed release beside the newest of the other library, or beside another changed one."""
    if not change.sides:
        return list(recent)
    return [_beside_newest(side) for side in change.sides]


def _beside_newest(side: Side) -> Pair:
    name, release = side
    if name == "training":
        return Pair(release, _releases("serving")[0])
    return Pair(_releases("training")[0], release)


def _told(change: Change) -> str:
    if not change.sides:
        return "the newest pairs"
    releases = [f"{LIBRARIES[name]} {release}" for name, release in change.sides]
    more = f" and {len(releases) - 3} more" if len(releases) > 4 else ""
    return ", ".join(releases[: 3 if more else 4]) + more


def _plan(tier: Tier, pairs: Pairs, found: Iterable[Pair], why: Sequence[str]) -> Plan:
    cells = list(dict.fromkeys(found))
    order = {name: in_order(getattr(cell, name) for cell in cells)[::-1] for name in LIBRARIES}
    cells.sort(
        key=lambda cell: (order["serving"].index(cell.serving), order["training"].index(cell.training))
    )
    sides: dict[SideName, tuple[str, ...]] = {name: tuple(order[name]) for name in LIBRARIES}
    return Plan(tier=tier, pairs=pairs, why=tuple(why), cells=tuple(cells), sides=sides)


def read(file: Path) -> Plan:
    """A plan that was printed.

    Raises:
        BadPlan: it cannot be read, or is none.

    """
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if data.get("format") != FORMAT:
            raise BadPlan(f"{file}: a plan of format {data.get('format')}; this version reads {FORMAT}")
        return _PLAN.validate_python(data)
    except OSError as error:
        raise BadPlan(f"{file}: {error.strerror}") from None
    except (ValueError, ValidationError, AttributeError):
        raise BadPlan(f"{file}: no plan; make one with contracts ci plan > plan.json") from None
