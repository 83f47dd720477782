"""`contracts explain`: what a cause means, how to confirm it by hand, and how to mend it."""

from __future__ import annotations

import difflib
import textwrap
from typing import Annotated

import typer
from rich.console import Console

from contracts.causes import Cause, by_code
from contracts.explanations import EXPLANATIONS
from contracts.header.rules import RULES
from contracts.terminal import fail, new_console, text

EXAMPLES = """
Examples:

contracts explain d2t-holds-ids

contracts explain                # lists all causes
"""
WIDTH = 100

Code = Annotated[
    str | None, typer.Argument(metavar="CAUSE", help="Its code, as reports name it; all causes without one.")
]


def explain(code: Code = None) -> None:
    """Say what a cause means, how to confirm it by hand, and how to mend it."""
    console = new_console()
    if code is None:
        width = max(map(len, Cause))
        for cause in Cause:
            console.print(f"{cause:<{width}}  {text(cause.explanation)}")
        return
    try:
        _write(console, by_code(code))
    except KeyError:
        near = difflib.get_close_matches(code, list(Cause), n=3)
        told = f"; do you mean {', '.join(near)}?" if near else "; contracts explain lists all"
        fail(f"{code!r}: no such cause{told}")


def _write(console: Console, cause: Cause) -> None:
    about = EXPLANATIONS[cause]
    rules = [f"header.{rule.name}" for rule in RULES.values() if cause in rule.causes]
    console.print(f"[bold]{cause}[/bold]")
    for title, words in (
        ("what it means", cause.explanation),
        ("what you see", about.symptom),
        ("how it comes", about.why),
        ("how to confirm it", about.confirm),
        ("what helps", cause.fix),
        ("named from headers by", ", ".join(rules)),
    ):
        if not words:
            continue
        console.print(f"\n[bold]{title}[/bold]")
        for line in filled(words).splitlines():
            console.print(text(line))


def filled(words: str) -> str:
    """Words in lines; a command, which stands indented, as it is."""
    wrap = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    paragraphs = words.split("\n\n")
    return "\n\n".join(part if part.startswith("    ") else wrap.fill(part) for part in paragraphs)
