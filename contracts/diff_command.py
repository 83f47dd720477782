"""`contracts diff`: what changed between two releases of a library, from what is recorded of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from contracts import drift, records
from contracts.drift import Change, Drift, NotRecorded
from contracts.drift_rules import Consequence
from contracts.facts import LIBRARIES
from contracts.terminal import fail, new_console, text

EXAMPLES = """
Examples:

contracts diff sglang 0.5.9 0.5.23

contracts diff sglang 0.5.22 newest --only loud --only silent

contracts diff speculators 0.4.0.1 0.5.0 --format markdown
"""

COLOURS = {Consequence.LOUD: "red", Consequence.SILENT: "yellow", Consequence.NONE: "green"}
FORMAT = 1
"""Number of the JSON format."""
WIDTH = 160
"""Characters up to which a value is shown whole."""


class Format(StrEnum):
    """How it is told."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


Library = Annotated[str, typer.Argument(metavar="LIBRARY", help="sglang or speculators.")]
Old = Annotated[str, typer.Argument(metavar="OLD", help="Release to compare from.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="Release to compare with, or `newest`.")]
Only = Annotated[
    list[Consequence] | None, typer.Option("--only", help="Changes with this consequence alone; repeatable.")
]
All = Annotated[bool, typer.Option("--all", help="Changes without a consequence too.")]
As = Annotated[Format, typer.Option("--format", help="text, markdown or json.")]


def diff(
    library: Library,
    old: Old,
    new: New,
    only: Only = None,
    every: All = False,
    form: As = Format.TEXT,
) -> None:
    """Say what changed between two releases at the interface, what it means, and what to do.

    Works from recorded surfaces; neither library need be installed. A consequence is loud (something is
    refused that was not), silent (acceptance, or what is reported of it, changes without a word) or none.
    Exit status 0, whatever changed; 2: a release is not recorded.
    """
    if library not in LIBRARIES.values():
        fail(f"{library!r} is none of {', '.join(LIBRARIES.values())}")
    newest = records.recorded_releases(library)[-1]
    try:
        found = drift.between(library, *(newest if name == "newest" else name for name in (old, new)))
    except NotRecorded as error:
        fail(str(error))
    everything = every or form is Format.JSON
    kinds = only or [kind for kind in Consequence if everything or kind is not Consequence.NONE]
    chosen = [change for change in found.changes if change.consequence in kinds]
    if form is Format.JSON:
        told = {"format": FORMAT, **asdict(found), "changes": [asdict(item) for item in chosen]}
        typer.echo(json.dumps(told, indent=2))
    elif form is Format.MARKDOWN:
        typer.echo(markdown(found, chosen))
    else:
        _tell(found, chosen)


def _tell(found: Drift, chosen: list[Change]) -> None:
    console = new_console()
    console.print(headline(found))
    for term, changes in by_term(chosen):
        console.print(f"\n[bold]{term}[/]")
        for change in changes:
            colour = COLOURS[change.consequence]
            console.print(f"  [{colour}]{change.consequence}[/]  {text(change.meaning)}")
            for label, words in rows(change):
                console.print(f"    {label:<8}  {text(words)}")


def by_term(changes: list[Change]) -> list[tuple[str, list[Change]]]:
    """Changes by the term of the interface that contracts look at, the worst term first."""
    terms = dict.fromkeys(change.term for change in changes)
    return [(term, [change for change in changes if change.term == term]) for term in terms]


def headline(found: Drift) -> str:
    """One line: from what to what, and how many changes of each consequence."""
    counts = Counter(change.consequence for change in found.changes)
    told = f"{counts[Consequence.LOUD]} loud, {counts[Consequence.SILENT]} silent"
    rest = f"{counts[Consequence.NONE]} without a consequence (--all)"
    return f"{found.library} {found.old} -> {found.new}: {told}, {rest}"


def rows(change: Change) -> list[tuple[str, str]]:
    """Label and words of a change."""
    return [
        ("where", change.path),
        ("before", short(change.before)),
        ("after", short(change.after)),
        ("drafts", ", ".join(change.recipes) or "all"),
        ("do", change.action),
    ]


def short(value: Any) -> str:
    """A value as it may stand in a table."""
    told = {"None": "absent", "[]": "nothing more"}.get(str(value), str(value))
    return told if len(told) <= WIDTH else told[: WIDTH - 3] + "..."


def markdown(found: Drift, chosen: list[Change]) -> str:
    """The changes as a table, fit for an issue or a page."""
    lines = [
        f"### {headline(found)}",
        "",
        "| term | consequence | what | before | after | drafts | do |",
        "|---|---|---|---|---|---|---|",
    ]
    for term, change in ((term, change) for term, changes in by_term(chosen) for change in changes):
        where, before, after, drafts, action = (cell(words) for _, words in rows(change))
        what = f"{cell(change.meaning)} (`{where}`)"
        cells = (term, change.consequence, what, before, after, drafts, action)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(words: str) -> str:
    """Words as they may stand in a table of markdown."""
    return words.replace("|", "\\|").replace("\n", " ")
