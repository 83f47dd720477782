"""What every command shares: exit statuses, words on a terminal, the end with an error."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer
from platformdirs import user_cache_path
from rich.console import Console
from rich.markup import escape

EXIT_BROKEN = 1
EXIT_BAD_INPUT = 2
EXIT_ERROR = 3
"""The suite or the machine failed (pytest's "internal error"): nothing is known about some contracts."""
EXIT_NOT_RUN = 5
"""A side is missing, so contracts were not judged (pytest's "no tests collected")."""
EXIT_INTERRUPTED = 130


def new_console(*, stderr: bool = False) -> Console:
    """A console that colours on a terminal only, and never breaks a line."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def text(words: str) -> str:
    """Text of anybody's as it may stand on a terminal: no markup, no control characters."""
    return escape(printable(words))


def printable(words: str) -> str:
    """Text without control characters: each is written as Python writes it."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in words)


def cache_folder(named: Path | None) -> Path:
    """Where drafts, probe reports and environments are kept: as named, or the user's cache."""
    return Path(named or user_cache_path("draft-contracts")).expanduser().resolve()


def fail(message: str, status: int = EXIT_BAD_INPUT) -> NoReturn:
    """End the command with one line."""
    new_console(stderr=True).print(f"[red]error[/red]: {text(message)}")
    raise typer.Exit(status)
