"""The break table: every break is found and named, nothing sound is, and docs/breaks.md says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contracts.causes import Cause
from tests import break_table
from tests.break_table import LOST, TRAINED_BY_DEFAULT, Row, Table
from tests.breaks import BREAKS, VARIANTS, Break

if TYPE_CHECKING:
    from contracts.workbench import Workbench


@pytest.fixture(scope="module")
def table(
    real_workbench: Workbench, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Table:
    """Both drafts, broken in every way."""
    option = pytestconfig.option
    pythons = {"training": option.training_python, "serving": option.serving_python}
    root = tmp_path_factory.mktemp("breaks")
    return break_table.run(pythons, root / "drafts", real_workbench.cache)


@pytest.fixture
def row(table: Table, request: pytest.FixtureRequest) -> Row:
    found: Row = next(row for row in (*table.breaks, *table.variants) if row.of is request.param)
    return found


def each(*breaks: Break) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", breaks, ids=lambda item: item.name, indirect=True)


@each(*BREAKS, TRAINED_BY_DEFAULT)
def test_break_is_found_and_rightly_named(row: Row) -> None:
    assert row.of.cause in getattr(row, row.of.depth)


@each(*BREAKS)
def test_canary_loses_what_the_interface_breaks(row: Row, table: Table) -> None:
    sound = table.variants[0].accept_length
    assert sound == 4
    if row.of.cause is Cause.DTYPE_DIFFERS:
        return  # the engine is told a dtype, which overrides what config.json states
    assert row.unwritten or row.accept_length is None or row.accept_length < sound - LOST


@each(*VARIANTS)
def test_what_only_looks_odd_raises_no_alarm(row: Row, table: Table) -> None:
    assert row.causes == set()
    assert (row.accept_length, row.trained) == (table.variants[0].accept_length, table.variants[0].trained)


def test_there_are_breaks_of_every_kind() -> None:
    assert len({item.name for item in (*BREAKS, *VARIANTS)}) == len(BREAKS) + len(VARIANTS)
    assert len(BREAKS) + 1 >= 25
    assert all(item.cause for item in BREAKS)
    assert not any(item.cause for item in VARIANTS)


def test_document_is_what_the_table_shows(table: Table) -> None:
    written = break_table.DOCUMENT.read_text()
    if table.releases not in written:
        pytest.skip(f"docs/breaks.md is about other releases than {table.releases}")
    told = break_table.as_held(break_table.document(table))
    assert break_table.as_held(written) == told, "write it anew: python -m tests.break_table"


def test_accept_lengths_are_all_that_is_not_held(table: Table) -> None:
    text = break_table.document(table)
    kept = "\n".join(break_table.as_held(text))
    length = f"| {table.breaks[0].trained:.2f} |"
    assert length in text
    assert length not in kept
    assert all(f"**{row.of.name}**" in kept for row in (*table.breaks, *table.variants))
