"""Views of the matrix: a page for a browser, and a table in markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contracts.matrix.cells import Cell, explanation, in_order
from contracts.matrix.table import table
from contracts.outcome import LETTERS, Outcome
from contracts.ranges import ranges
from contracts.recipes import RECIPES

SOUND = (Outcome.FIXED, Outcome.NOT_RUN)
"""Outcomes whose cause befalls no draft."""
HERE = Path(__file__).parent
MEANINGS = {
    Outcome.HOLDS: "holds",
    Outcome.KNOWN: "known: broken as recorded in known.toml",
    Outcome.BROKEN: "broken: the interface is",
    Outcome.CHANGED: "changed: the surface is not as recorded",
    Outcome.FIXED: "fixed: recorded as broken, and holds",
    Outcome.ERROR: "error: the suite or the machine failed",
    Outcome.NOT_RUN: "not run",
}


def page(cells: Sequence[Cell]) -> str:
    """A page that shows `cells`, whole in itself."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    made = table(cells)
    # Inside of a script element nothing is escaped, and nothing may end it.
    data = json.dumps(asdict(made), separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace(
        "<", "\\u003c"
    )
    return environment.get_template("page.html.j2").render(
        table=made,
        notes=notes(cells),
        letters={str(outcome): letter for outcome, letter in LETTERS.items()},
        meanings={str(outcome): meaning for outcome, meaning in MEANINGS.items()},
        data=data,
        script=(HERE / "page.js").read_text(encoding="utf-8"),
    )


def notes(cells: Sequence[Cell]) -> list[str]:
    """What a reader has to know before the rest."""
    selections = sorted({cell.selection for cell in cells} - {""})
    return [f"Only some of the contracts were judged: those that -k {it!r} selects." for it in selections]


def markdown(cells: Sequence[Cell]) -> str:
    """The matrix as a table, and each cause with the drafts and pairs of releases that it befalls."""
    by_pair = {cell.pair: cell for cell in cells}
    trainings = in_order(pair.training for pair in by_pair)
    servings = in_order(pair.serving for pair in by_pair)
    found = {(cell.pair.training, cell.pair.serving): cell for cell in cells}
    lines = [
        "# Which drafts cross from speculators to sglang",
        "",
        "Rows: sglang, which serves the draft. Columns: speculators, which trained it. The letter is the",
        f"worst that became of any contract; the number says how many of the {len(RECIPES)} kinds of draft",
        "(contracts/recipes.py) cross whole once exported for that release: every contract about them holds.",
        "",
        ", ".join(f"`{letter}` {MEANINGS[outcome]}" for outcome, letter in LETTERS.items()) + ".",
        "",
        "| sglang | " + " | ".join(trainings) + " |",
        "|---|" + "---|" * len(trainings),
    ]
    for serving in servings[::-1]:
        row = (in_a_cell(found.get((training, serving))) for training in trainings)
        lines.append(f"| {serving} | " + " | ".join(row) + " |")
    lines += [
        "",
        *notes(cells),
        *(f"- {cell.pair.title}: {_line(cell.unavailable)}" for cell in cells if cell.unavailable),
    ]
    for kind, title in (("exported", "## Why, once exported"), ("raw", "## Why, as saved")):
        lines += ["", title, "", *_causes(cells, kind, trainings, servings)]
    return "\n".join(lines) + "\n"


def in_a_cell(cell: Cell | None) -> str:
    """Letter, and how many kinds of draft cross; nothing for no cell."""
    if cell is None:
        return ""
    letter = LETTERS[cell.outcome]
    if cell.unavailable:
        return letter
    crossing, of = cell.crossing("exported")
    return f"{letter} {crossing}/{of}"


def _line(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _causes(cells: Sequence[Cell], kind: str, trainings: Sequence[str], servings: Sequence[str]) -> list[str]:
    """A row for each cause and the drafts that it befalls on the same pairs."""
    where: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for cell in cells:
        for verdict in cell.verdicts:
            if verdict.draft == kind and verdict.cause and verdict.outcome not in SOUND:
                pair = (cell.pair.training, cell.pair.serving)
                where.setdefault((verdict.cause, verdict.recipe), set()).add(pair)
    drafts: dict[tuple[str, frozenset[tuple[str, str]]], list[str]] = {}
    for (cause, draft), befallen in sorted(where.items()):
        drafts.setdefault((cause, frozenset(befallen)), []).append(draft)
    if not where:
        return ["Everything holds."]
    lines = ["| cause | drafts | speculators | sglang |", "|---|---|---|---|"]
    for (cause, pairs), names in drafts.items():
        rows: dict[str, list[str]] = {}
        for training in trainings:
            served = [serving for serving in servings if (training, serving) in pairs]
            if served:
                rows.setdefault(in_words(served, servings), []).append(training)
        told = [(in_words(trained, trainings), served) for served, trained in rows.items()]
        lines += [f"| {cause} | {_some(names)} | {trained} | {served} |" for trained, served in told]
    seen = dict.fromkeys(cause for cause, _ in drafts)
    return [*lines, "", *(f"- **{cause}**: {explanation(cause)}" for cause in seen)]


def _some(names: Sequence[str]) -> str:
    """Names of drafts, or `all`."""
    missing = {recipe.name for recipe in RECIPES} - set(names)
    if not missing:
        return "all"
    if len(missing) <= len(RECIPES) // 3:
        return f"all but {', '.join(sorted(missing))}"
    return ", ".join(names)


def in_words(chosen: Sequence[str], every: Sequence[str]) -> str:
    """Releases in few words; all of several as `all`."""
    return "all" if len(chosen) == len(every) > 1 else ranges(chosen, every)
