"""`contracts check`: options in, a verdict and an exit status out."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from typing import Annotated

import typer

from contracts.header import api, views
from contracts.header.findings import Verdict
from contracts.header.judge import NotDeep
from contracts.header.reading import NothingRecorded
from contracts.header.report import Report
from contracts.places import CheckpointError
from contracts.records import UnsupportedRelease
from contracts.terminal import EXIT_BAD_INPUT, EXIT_BROKEN, fail, new_console

EXAMPLES = """
Examples:

contracts check my-draft --target my-target

contracts check my-draft --target my-target --for all

contracts check my-draft --target my-target --deep

contracts check org/name@main --target org/target --for sglang==0.5.23 --format json

Exit status: 0 accepts, 1 will not start or will lose acceptance, 2 cannot tell, or bad input.
"""
STATUS = {
    Verdict.ACCEPTS: 0,
    Verdict.FAILS: EXIT_BROKEN,
    Verdict.LOSES: EXIT_BROKEN,
    Verdict.UNKNOWN: EXIT_BAD_INPUT,
}
"""Exit status of each verdict."""


class Format(StrEnum):
    """What a report is written as."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"


Draft = Annotated[
    str, typer.Argument(metavar="DRAFT", help="Folder, safetensors file, or org/name[@revision] of the hub.")
]
Target = Annotated[
    str | None, typer.Option("--target", metavar="T", help="Its target, likewise; only config.json is read.")
]
Release = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="RELEASE",
        help="sglang==VERSION, a range as sglang>=0.5.17, installed, or all "
        "(default: the installed one, else the newest recorded).",
    ),
]
Server = Annotated[
    str, typer.Option("--server-args", metavar="ARGUMENTS", help="Further arguments of your server.")
]
Deep = Annotated[
    bool,
    typer.Option("--deep", help="Give the draft to the installed sglang, too (ten seconds and more)."),
]
Python = Annotated[
    str | None,
    typer.Option("--serving-python", metavar="PYTHON", help="Interpreter that has sglang, for --deep."),
]
As = Annotated[Format, typer.Option("--format", help="What to write.", case_sensitive=False)]


def check(
    draft: Draft,
    target: Target = None,
    release: Release = None,
    server_args: Server = "",
    deep: Deep = False,
    python: Python = None,
    fmt: As = Format.TEXT,
) -> None:
    """Say whether a draft checkpoint will be accepted, from its headers and config.json alone."""
    try:
        report = make_report(draft, target, release, server_args, deep=deep, python=python or sys.executable)
    except typer.Exit:
        if fmt is Format.GITHUB:  # the line on stderr is no annotation
            typer.echo(f"::error::{views.message(f'{draft} cannot be checked; see the log of this step')}")
        raise
    if fmt is Format.TEXT:
        views.write_text(new_console(), report)
    else:
        write = {
            Format.JSON: views.as_json,
            Format.MARKDOWN: views.as_markdown,
            Format.GITHUB: views.as_annotations,
        }[fmt]
        typer.echo(write(report), nl=fmt is Format.JSON)
    raise typer.Exit(STATUS[report.verdict])


def make_report(
    draft: str,
    target: str | None,
    release: str | None,
    server_args: str,
    *,
    deep: bool = False,
    python: str = sys.executable,
) -> Report:
    """The report that options ask for; what is wrong with them ends the command."""
    try:
        words = shlex.split(server_args)
    except ValueError as error:  # quotes that do not close
        fail(f"--server-args {server_args!r}: {error}")
    try:
        return api.check(
            draft,
            target=target,
            serving=release,
            server_args=words,
            deep=deep,
            python=python,
            progress=new_console(stderr=True).print,
        )
    except (CheckpointError, UnsupportedRelease, NothingRecorded, NotDeep) as error:
        fail(str(error))
