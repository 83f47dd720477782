"""`contracts check-files`: for a pre-commit hook, which names changed files and not drafts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from contracts.check_command import STATUS, Release, Server, Target, make_report
from contracts.checkpoint import CONFIG
from contracts.header import views
from contracts.header.findings import Verdict
from contracts.header.kind import Kind, kind_of
from contracts.header.sources import read_draft
from contracts.places import CheckpointError
from contracts.terminal import EXIT_BAD_INPUT, new_console, text

EXAMPLES = """
Examples:

contracts check-files drafts/mine/config.json drafts/mine/model.safetensors

contracts check-files --for "sglang>=0.5.20" $(git diff --cached --name-only)
"""

Files = Annotated[
    list[str], typer.Argument(metavar="FILES", help="Changed files; each folder is judged once.")
]
Unsure = Annotated[bool, typer.Option("--unsure", help="Let a draft pass of which the check cannot tell.")]


def check_files(
    files: Files,
    target: Target = None,
    release: Release = None,
    server_args: Server = "",
    unsure: Unsure = False,
) -> None:
    """Check every draft that some of these files belong to; other files and other models are left out."""
    console, worst, drafts = new_console(), 0, 0
    for folder in drafts_of(files):
        try:
            kind = kind_of(read_draft(str(folder)))
        except CheckpointError as error:
            console.print(f"[red]error[/red]: {text(str(error))}")
            worst = worst or EXIT_BAD_INPUT
            continue
        if kind not in (Kind.EAGLE3, Kind.EAGLE3_MLA):
            continue
        drafts += 1
        try:
            report = make_report(str(folder), target, release, server_args)
        except typer.Exit:  # it said why
            worst = worst or EXIT_BAD_INPUT
            continue
        views.write_text(console, report)
        passes = report.verdict is Verdict.ACCEPTS or (unsure and report.verdict is Verdict.UNKNOWN)
        status = 0 if passes else STATUS[report.verdict]
        worst = status if status and worst != 1 else worst
    if not drafts and not worst:
        console.print(f"no draft among {len(files)} files")
    raise typer.Exit(worst)


def drafts_of(files: Iterable[str]) -> list[Path]:
    """Folders of these files that hold a config.json and safetensors files, each once."""
    folders = dict.fromkeys(Path(file).parent for file in files)
    return [it for it in folders if (it / CONFIG).is_file() and any(it.glob("*.safetensors"))]
