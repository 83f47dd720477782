"""`contracts gate`: verdicts in, one answer out: compatible, broken, or unknown."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from contracts import gate
from contracts.gate import Answer, Policy, PolicyError, RecordError
from contracts.terminal import EXIT_BAD_INPUT, EXIT_BROKEN, fail, new_console, text

EXAMPLES = """
Examples:

contracts gate                                # runs the contracts here, then answers

contracts gate verdicts.jsonl                 # of pytest --verdicts=verdicts.jsonl

contracts gate matrix/cells/*.jsonl --policy upgrade-sglang

contracts gate report.json --policy policy.toml         # a policy of your own

contracts gate -- -k "not acceptance"         # options after -- go to pytest

Exit status: 0 compatible, 1 broken or changed, 2 unknown, or bad input.
"""
STATUS = {Answer.COMPATIBLE: 0, Answer.BROKEN: EXIT_BROKEN, Answer.UNKNOWN: EXIT_BAD_INPUT}

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILES] [-- PYTEST OPTIONS]",
        help="Records of --verdicts, or of check --format json; without any, the contracts run here.",
    ),
]
PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="What must hold, may be known, may not run: a TOML file, or one that ships: upgrade-sglang, "
        "upgrade-speculators, release-draft, gpu-tier.",
    ),
]


def verdicts(files: Files = None, policy: PolicyFile = None) -> None:
    """Answer from recorded verdicts, or from a run, whether a release may go out."""
    named, options = _apart(files or [])
    try:
        rules = Policy() if policy is None else gate.find_policy(policy)
        records = [gate.read_record(Path(name)) for name in named] if named else [_run(options)]
    except (PolicyError, RecordError) as error:
        fail(str(error))
    if named and options:
        fail(f"{' '.join(options)}: options of pytest are for a run, and records were named")
    decision = gate.decide(records, rules, date.today())
    console = new_console()
    colour = {Answer.COMPATIBLE: "green", Answer.BROKEN: "red", Answer.UNKNOWN: "yellow"}[decision.answer]
    console.print(f"[{colour}]{decision.answer}[/{colour}]  {text(decision.told)}")
    for line in decision.reasons:
        console.print(f"  {text(line)}")
    raise typer.Exit(STATUS[decision.answer])


def _apart(words: list[str]) -> tuple[list[str], list[str]]:
    """Files, and options of pytest, which begin with a dash: typer leaves `--` out."""
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], words[first:]


def _run(options: list[str]) -> gate.Record:
    """Run the contracts of this environment.

    Raises:
        RecordError: they left no record.

    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "verdicts.jsonl"
        command = [sys.executable, "-m", "pytest", "--pyargs", "contracts", "-m", "contracts"]
        status = subprocess.run([*command, f"--verdicts={file}", *options], check=False).returncode
        if not file.exists():
            raise RecordError(f"the contracts did not run: pytest ended with exit status {status}")
        return gate.read_record(file)
