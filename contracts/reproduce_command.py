"""`contracts reproduce`: a script that shows a recorded defect, with nothing but the serving library."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from contracts import known
from contracts.causes import Cause, by_code
from contracts.terminal import fail, new_console, text

EXAMPLES = """
Examples:

contracts reproduce state-without-residual > reproduction.py && python reproduction.py

contracts reproduce                 # lists the causes that have a script
"""
FOLDER = Path(__file__).parent / "reproductions"
PRELUDE = FOLDER / "prelude.py"

Code = Annotated[
    str | None,
    typer.Argument(metavar="CAUSE", help="Its code, as reports name it; all that have a script without one."),
]


def reproduce(code: Code = None) -> None:
    """Print a script that shows a recorded defect of sglang, fit to be pasted into a report upstream.

    It needs sglang and what sglang runs on; variable ENGINE takes further arguments of its engine, as JSON.
    A cause that only the two libraries together show has no script: then the command that shows it is
    printed.
    """
    if code is None:
        console = new_console()
        for cause in with_script():
            console.print(f"{cause}  {text(cause.explanation)}")
        return
    try:
        cause = by_code(code)
    except KeyError:
        near = difflib.get_close_matches(code, list(Cause), n=3)
        told = f"; do you mean {', '.join(near)}?" if near else "; contracts explain lists all"
        fail(f"{code!r}: no such cause{told}")
    if cause in with_script():
        typer.echo(script(cause), nl=False)
        return
    commands = list(dict.fromkeys(entry.reproduce for entry in known.load().entries if entry.cause == cause))
    shown = [command for command in commands if command]
    if not shown:
        names = ", ".join(with_script())
        fail(
            f"{cause}: nothing of this kind is recorded, so there is nothing to reproduce; there is: {names}"
        )
    typer.echo(f"{cause} has no script of its own; it is shown by:", err=True)
    typer.echo("\n".join(shown))


def with_script() -> list[Cause]:
    """The causes that a script shows without this package."""
    return [cause for cause in Cause if _body(cause).exists()]


def script(cause: Cause) -> str:
    """The whole script, which imports nothing of this package."""
    head = f"# {cause}: {cause.explanation}\n# Needs sglang, and a machine that it runs on.\n\n"
    return f"{head}{PRELUDE.read_text(encoding='utf-8')}\n\n{_body(cause).read_text(encoding='utf-8')}"


def _body(cause: Cause) -> Path:
    return FOLDER / f"{cause.replace('-', '_')}.py"
