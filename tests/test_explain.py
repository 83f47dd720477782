"""Every cause has an explanation and a page; `contracts explain` prints it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from contracts.causes import Cause
from contracts.cli import app
from contracts.explanations import EXPLANATIONS
from tests.cause_pages import FOLDER, pages


def test_every_cause_is_explained() -> None:
    assert set(EXPLANATIONS) == set(Cause)


def test_pages_are_up_to_date() -> None:
    assert {file.name: file.read_text() for file in FOLDER.glob("*")} == pages()


@pytest.mark.parametrize("cause", Cause)
def test_explained_on_the_terminal(cause: Cause) -> None:
    found = CliRunner().invoke(app, ["explain", cause])
    assert found.exit_code == 0
    words = " ".join(found.stdout.split())
    for part in (cause.explanation, cause.fix, EXPLANATIONS[cause].why, EXPLANATIONS[cause].symptom):
        assert " ".join(part.split()) in words


def test_all_are_listed() -> None:
    found = CliRunner().invoke(app, ["explain"])
    assert [line.split()[0] for line in found.stdout.splitlines()] == list(Cause)


def test_a_slip_is_one_line() -> None:
    found = CliRunner().invoke(app, ["explain", "d2t-hold-ids"])
    assert found.exit_code == 2
    assert found.stderr == ("error: 'd2t-hold-ids': no such cause; do you mean d2t-holds-ids?\n")
