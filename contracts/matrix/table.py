"""The matrix as data for its page: releases on two axes, and of each cell the outcomes and their details.

Texts and details occur in many cells, so each is stored once and told by its number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from contracts import __version__
from contracts.matrix.cells import Cell, Pair, explanation, in_order
from contracts.outcome import LETTERS, Outcome, Verdict, unaccounted
from contracts.recipes import RECIPES

ACCOUNTED = "~"
"""Letter of what was not run because of a refusal that another contract tells."""
_REPRODUCE = re.compile(r"pytest --pyargs (?P<address>'[^']*'|\S+) ?(?P<options>.*)")
DETAIL = ("cause", "expected", "seen", "fix", "reason", "upstream")
"""What is told of a verdict beside its outcome."""


@dataclass
class Table:
    """Everything that the page shows, as plain JSON data."""

    training: list[str]
    """Oldest first."""
    serving: list[str]
    """Newest first."""
    recipes: list[str]
    contracts: list[str] = field(default_factory=list)
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    """Contract, by number, case and address of everything that is judged."""
    texts: list[str] = field(default_factory=list)
    details: list[list[int]] = field(default_factory=list)
    """By number of the text, each part of a detail; -1 for none."""
    promises: dict[int, str] = field(default_factory=dict)
    """By number of the contract."""
    explanations: dict[str, str] = field(default_factory=dict)
    """By cause."""
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By `training|serving`: `outcomes`, a letter a row; `details`, by row; `options`, with which pytest
    judges this pair; and what a `Cell` has."""
    version: str = __version__


def table(cells: Sequence[Cell]) -> Table:
    """The page's data about `cells`."""
    made = Table(
        training=in_order(cell.pair.training for cell in cells),
        serving=in_order(cell.pair.serving for cell in cells)[::-1],
        recipes=[recipe.name for recipe in RECIPES],
    )
    numbers = _Numbers(made)
    for cell in cells:
        for verdict in cell.verdicts:
            numbers.row(verdict)
    for cell in cells:
        made.cells[key(cell.pair)] = _cell(cell, numbers)
    return made


def key(pair: Pair) -> str:
    """Name of a cell, in the data and in the page's address."""
    return f"{pair.training}|{pair.serving}"


class _Numbers:
    """Gives each row, text and detail a number."""

    def __init__(self, made: Table) -> None:
        self._table = made
        self._known: dict[object, int] = {}

    def _of(self, kind: str, value: Any, store: list[Any]) -> int:
        name = (kind, value if not isinstance(value, list) else tuple(value))
        if name not in self._known:
            self._known[name] = len(store)
            store.append(value)
        return self._known[name]

    def row(self, verdict: Verdict) -> int:
        contract = self._of("contract", verdict.contract, self._table.contracts)
        self._table.promises.setdefault(contract, verdict.promise)
        address, _ = _reproduction(verdict)
        return self._of("row", (contract, verdict.case, address), self._table.rows)

    def text(self, text: str | None) -> int:
        return -1 if text is None else self._of("text", text, self._table.texts)

    def detail(self, verdict: Verdict) -> int:
        if verdict.cause:
            self._table.explanations.setdefault(verdict.cause, explanation(verdict.cause))
        parts = [self.text(getattr(verdict, part)) for part in DETAIL]
        return self._of("detail", parts, self._table.details)


def _cell(cell: Cell, numbers: _Numbers) -> dict[str, Any]:
    outcomes: dict[int, str] = {}
    details: dict[int, int] = {}
    figures: dict[str, dict[str, float]] = {}
    missed = unaccounted(cell.verdicts)
    for verdict in cell.verdicts:
        row = numbers.row(verdict)
        outcomes[row] = LETTERS[verdict.outcome]
        if verdict.outcome is Outcome.NOT_RUN and verdict not in missed:
            outcomes[row] = ACCOUNTED
        if verdict.outcome is not Outcome.HOLDS:
            details[row] = numbers.detail(verdict)
        if verdict.figures:
            figures[verdict.case] = {
                name: round(value, 3) for name, value in verdict.figures.items() if math.isfinite(value)
            }
    letters = "".join(outcomes.get(row, " ") for row in range(max(outcomes, default=-1) + 1))
    return {
        "outcome": str(cell.outcome),
        "outcomes": letters,
        "details": details,
        "sides": list(cell.sides),
        "unavailable": cell.unavailable,
        "missing": max(cell.expected - len(cell.verdicts), 0),
        "crossing": {draft: cell.crossing(draft) for draft in ("exported", "raw")},
        "figures": figures,
        "options": next((_reproduction(verdict)[1] for verdict in cell.verdicts), ""),
    }


def _reproduction(verdict: Verdict) -> tuple[str, str]:
    """The address of a contract, and the options that say whom it judges, as a shell reads them."""
    match = _REPRODUCE.fullmatch(verdict.reproduce or "")
    return (match["address"], match["options"]) if match else ("", "")
