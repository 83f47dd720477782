"""What differs between two matrices: the text of an issue, for whoever has to look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from contracts.causes import by_code
from contracts.matrix.cells import Cell, Pair, explanation
from contracts.matrix.views import in_a_cell, markdown
from contracts.outcome import FAILING, Outcome

Told = Mapping[Pair, str]
"""What a matrix says of each pair: letter and number of drafts that cross."""
_ROW = re.compile(r"^\| *([^|]*?) *\|(.*)\|\s*$")
SHOWN = 10
"""Contracts that are told of one pair."""


class NoMatrix(Exception):
    """A file that is no matrix.md; one line."""


def read(file: Path) -> Told:
    """What a matrix.md says.

    Raises:
        NoMatrix: it cannot be read, or has no such table.

    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NoMatrix(f"{file}: cannot be read ({getattr(error, 'strerror', 'no text')})") from None
    rows = [
        (match[1], [item.strip() for item in match[2].split("|")])
        for match in map(_ROW.match, lines)
        if match
    ]
    head = next((place for place, (name, _) in enumerate(rows) if name == "sglang"), None)
    if head is None:
        raise NoMatrix(f"{file}: no table of contracts matrix in it")
    trainings = rows[head][1]
    told: dict[Pair, str] = {}
    for serving, items in rows[head + 1 :]:
        if len(items) != len(trainings) or set(serving) <= set("-: "):
            continue
        if serving == "cause":
            break
        told |= {
            Pair(training, serving): item for training, item in zip(trainings, items, strict=True) if item
        }
    return told


def changed(before: Told, cells: Iterable[Cell], *, whole: bool = False) -> list[tuple[Cell, str, str]]:
    """Cells that say something else than before: the cell, before, after.

    With `whole` every cell of before has to be there.
    """
    now = {cell.pair: cell for cell in cells}
    if whole:
        lost = "no job left a record of it"
        now |= {pair: Cell(pair=pair, unavailable=lost) for pair in before if pair not in now}
    found = [(cell, before.get(pair, "-"), in_a_cell(cell)) for pair, cell in now.items()]
    return [(cell, one, two) for cell, one, two in found if one != two]


def reasons_changed(before: str, cells: Sequence[Cell]) -> list[str]:
    """Lines of the whole matrix that differ: a cell may break for another cause, and count the same."""
    lines = unified_diff(_causes(before), _causes(markdown(cells)), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _causes(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| sglang")]


def issue(found: Sequence[tuple[Cell, str, str]], reasons: Sequence[str] = ()) -> str:
    """The text of an issue about cells, and lines of reasons, that changed."""
    lines = [f"# {len(found)} of the matrix's cells changed", ""]
    lines += ["| speculators | sglang | before | now |", "|---|---|---|---|"]
    lines += [f"| {cell.pair.training} | {cell.pair.serving} | {one} | {two} |" for cell, one, two in found]
    for cell, _, _ in found:
        lines += ["", f"## speculators {cell.pair.training}, sglang {cell.pair.serving}", ""]
        lines += list(_reasons(cell)) or ["Nothing is broken there now."]
    if reasons:
        lines += ["", "## Reasons that changed", "", "```diff", *reasons, "```"]
    lines += ["", "Run one of them again: `contracts matrix --training RELEASE --serving RELEASE`."]
    return "\n".join(lines) + "\n"


def _reasons(cell: Cell) -> Iterable[str]:
    if cell.unavailable:
        yield f"Could not be judged: {cell.unavailable}"
        return
    bad = [it for it in cell.verdicts if it.outcome in FAILING or it.outcome is Outcome.ERROR]
    for it in bad[:SHOWN]:
        why = f"{it.cause}: {explanation(it.cause)}" if it.cause else (it.reason or "").partition("\n")[0]
        fix = f" {by_code(it.cause).fix}" if it.cause and explanation(it.cause) else ""
        yield f"- `{it.contract}` [{it.case}] {it.outcome}: {why}{fix}"
        if it.reproduce:
            yield f"  `{it.reproduce}`"
    if len(bad) > SHOWN:
        yield f"- and {len(bad) - SHOWN} more"
