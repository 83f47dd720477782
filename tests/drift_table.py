"""Looks every event up in the recorded surfaces and writes docs/drift.md: `python -m tests.drift_table`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from contracts import drift, records
from contracts.diff_command import cell, short
from contracts.drift import Change
from tests.drift_events import EVENTS, Event

DOCUMENT = Path(__file__).parent.parent / "docs" / "drift.md"
HEAD = """# What drifted, and how the records show it

Events at the interface between training and serving that were read out of the libraries' sources, release by
release. Each is looked up in the recorded surfaces ([contracts/releases](../contracts/releases)), where
`contracts diff` has to name it between the two releases around it; where no record can show it, the reason
stands there. A consequence is that of upgrading: *none* is a repair; for who goes back it is the other way
round.

{shown} of {all} events are shown. Written by `python -m tests.drift_table`, held by
`tests/test_drift_events.py`.

| event | between | where | before | after | consequence |
|---|---|---|---|---|---|
"""
REST = """
## Not shown by a record

| event | why |
|---|---|
"""


def find(event: Event) -> list[Change]:
    """The changes between the releases around an event that are at its place, and tell what it is about."""
    assert event.old is not None
    assert event.new is not None
    return [
        change
        for change in drift.between(event.library, event.old, event.new).changes
        if fnmatch(change.path, event.path or "")
        and (event.recipe is None or not change.recipes or event.recipe in change.recipes)
        and event.shows in f"{change.before} {change.after} {change.meaning}"
    ]


def table(events: Iterable[Event]) -> str:
    """The page."""
    shown, rest = [], []
    for event in events:
        title = f"**{event.name}**: {cell(event.about)}"
        if event.why_not:
            rest.append(f"| {title} | {cell(event.why_not)} |")
            continue
        for change in find(event)[:1]:
            where = f"`{change.path}`" + (f" of `{event.recipe}`" if event.recipe else "")
            between = f"{event.library} {event.old} → {event.new}"
            values = (cell(short(value)) for value in (change.before, change.after))
            shown.append(f"| {title} | {between} | {where} | {' | '.join(values)} | {change.consequence} |")
    head = HEAD.format(shown=len(shown), all=len(shown) + len(rest))
    return head + "\n".join(shown) + "\n" + REST + "\n".join(rest) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or only look whether it is as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python -m tests.drift_table --check"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the page is out of date"
    )
    options = parser.parse_args(arguments)
    page = table(EVENTS)
    if options.check:
        return int(not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != page)
    DOCUMENT.write_text(page, encoding="utf-8")
    print(f"{DOCUMENT}: {len(EVENTS)} events, {records.recorded_releases('sglang')[-1]} the newest release")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
