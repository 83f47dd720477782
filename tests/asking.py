"""`contracts acceptance` as its user runs it, for the tests of it."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from contracts import prompts
from contracts.cli import app
from contracts.terminal import EXIT_BAD_INPUT
from tests.fake_server import Answer, meta, serving

ASKED = len(prompts.DEFAULT)


def acceptance(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["acceptance", "--url", url, *arguments])


def ask(routes: dict[str, Answer], *arguments: str) -> Result:
    with serving(routes) as url:
        return acceptance(url, *arguments)


def one_line(result: Result, *words: str) -> None:
    assert result.exit_code == EXIT_BAD_INPUT, result.output
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert not result.stdout
    for word in words:
        assert word in result.stderr


def asked_of(routes: dict[str, Answer], *arguments: str) -> list[Any]:
    questions: list[Any] = []

    def generate(question: Any) -> Answer:
        questions.append(question)
        return meta(0, 0, 0, 1)

    result = ask(routes | {"/generate": generate}, *arguments)
    assert result.exit_code == 0, result.output
    return questions
