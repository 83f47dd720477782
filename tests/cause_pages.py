"""Writes a page for every cause, docs/causes/*.md: `python -m tests.cause_pages`."""

from __future__ import annotations

from pathlib import Path

from contracts.causes import Cause
from contracts.explanations import EXPLANATIONS
from contracts.header.rules import RULES

FOLDER = Path(__file__).parent.parent / "docs" / "causes"
INDEX = """# Causes

What a contract can name where it does not hold. `contracts explain CAUSE` prints the same page. Commands
that confirm a cause read the checkpoint with torch and safetensors, and are run in the draft's folder;
TRAINED_DRAFT and SERVED_DRAFT are the folders of the draft as saved and as served, TARGET is the target's,
URL a server's. Written by
`python -m tests.cause_pages` from [causes.py](../../contracts/causes.py) and
[explanations.py](../../contracts/explanations.py), held by `tests/test_explain.py`.

| cause | meaning |
|---|---|
"""


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


def page(cause: Cause) -> str:
    """One page."""
    about = EXPLANATIONS[cause]
    rules = [f"`header.{rule.name}`" for rule in RULES.values() if cause in rule.causes]
    named = f"\n## Named from headers by\n\n{', '.join(rules)}\n" if rules else ""
    return (
        f"# {cause}\n\n{cause.explanation}\n\n## What you see\n\n{about.symptom}\n"
        f"\n## How it comes\n\n{about.why}\n"
        f"\n## How to confirm it by hand\n\n{about.confirm}\n\n## What helps\n\n{cause.fix}\n{named}"
    )


def index() -> str:
    """The list of all pages."""
    rows = (f"| [{cause}]({cause}.md) | {_cell(cause.explanation)} |" for cause in sorted(Cause))
    return INDEX + "\n".join(rows) + "\n"


def pages() -> dict[str, str]:
    """All files, by name."""
    return {"README.md": index(), **{f"{cause}.md": page(cause) for cause in Cause}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, words in pages().items():
        (FOLDER / name).write_text(words, encoding="utf-8")
    print(f"written: {FOLDER}")
