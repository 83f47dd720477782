"""`contracts ci`: what workflows and job arrays ask. One source decides what runs, wherever it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.ci import difference, plan
from contracts.ci.changes import GitError
from contracts.ci.difference import NoMatrix
from contracts.ci.plan import BadPlan, Pairs, Plan, Tier
from contracts.facts import LIBRARIES, SideName
from contracts.matrix import cells
from contracts.matrix.cells import BadCell
from contracts.placing import write_whole
from contracts.terminal import EXIT_BROKEN, EXIT_NOT_RUN, cache_folder, fail, new_console, text

EXAMPLES = """
Examples:

contracts ci plan                                           # the newest pair, and the one before

contracts ci plan --pairs changed --since origin/main       # what a branch is about

contracts ci plan --pairs all --tier gpu > plan.json

contracts ci run plan.json --stage serving --index 3 -o part-3

contracts ci machine --tier gpu                             # can this runner do it?

contracts ci changes docs/matrix.md cells -o issue.md       # what to tell, if a verdict changed
"""
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="ci",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="What workflows and job arrays ask: a plan, a part of it, the machine, what changed.",
)

PairsOption = Annotated[Pairs, typer.Option("--pairs", help="Which pairs of releases.")]
TierOption = Annotated[Tier, typer.Option("--tier", help="On what they are judged.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="REF", help="Branch, tag or commit of git: judge what changed since then."
    ),
]
Newest = Annotated[int, typer.Option("--newest", metavar="N", min=1, help="How many pairs are the newest.")]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="What contracts ci plan printed.")]
Stage = Annotated[
    SideName, typer.Option("--stage", help="training: build drafts; serving: serve those of all, and judge.")
]
Index = Annotated[
    int, typer.Option("--index", metavar="I", min=0, help="Which release of that side, from 0.")
]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="For cells/, matrix.md, ...")]
Before = Annotated[Path, typer.Argument(metavar="MATRIX", help="A matrix.md of before.")]
After = Annotated[Path, typer.Argument(metavar="CELLS", help="Folder of the cells of now.")]
Whole = Annotated[
    bool, typer.Option("--whole", help="Every cell of MATRIX has to be there, and for the same reasons.")
]
Issue = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="For the text of an issue.")]
Python = Annotated[
    str,
    typer.Option(
        "--serving-python",
        metavar="PYTHON",
        help="Interpreter that has sglang, or sglang==RELEASE, provisioned.",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FOLDER", envvar="CONTRACTS_CACHE", help="Where environments are kept."),
]


@app.command("plan")
def make_plan(
    pairs: PairsOption = Pairs.NEWEST,
    tier: TierOption = Tier.CPU,
    since: Since = None,
    newest: Newest = 2,
) -> None:
    """Print which pairs of releases to judge, as one line of JSON; why, on stderr.

    `.cells` is a list of {training, serving} for a matrix of jobs, `.sides` has every release once.
    What changed since --since: releases that are pinned, recorded or listed anew, those that changed entries
    of known.toml speak of, all of a library whose probe changed; the newest pairs after any other change of
    the contracts, and none after a change of documents. --pairs newest --since REF judges the newest pairs in
    any case. Exit status 0, or 2 for bad input.
    """
    if pairs is Pairs.CHANGED and since is None:
        fail("--pairs changed: since when? Give --since REF, as in --since origin/main")
    if pairs is Pairs.ALL and since is not None:
        fail("--since: --pairs all judges every release, whatever changed; leave it out")
    try:
        made = plan.make(tier, pairs, newest=newest, since=since, root=Path.cwd())
    except GitError as error:
        fail(str(error))
    console = new_console(stderr=True)
    for line in made.why:
        console.print(text(line))
    console.print(f"{len(made.cells)} cells on {made.tier}")
    if len(made.cells) > plan.MOST_CELLS:
        console.print(f"GitHub takes {plan.MOST_CELLS} jobs of one matrix at the most; use .sides")
    typer.echo(made.as_json())


@app.command("run")
def run_part(plan_file: PlanFile, stage: Stage, index: Index, output: Output = Path("matrix")) -> None:
    """Run one part of a plan: what one job of an array does.

    Stage training builds the drafts of one training release in the cache (CONTRACTS_CACHE, which the jobs
    share). Stage serving serves the drafts of all training releases of the plan with one serving release and
    judges those pairs; without a shared cache it builds the drafts first. `contracts matrix --merge` puts the
    folders together. Exit status: that of contracts prepare or contracts matrix.
    """
    made = _read(plan_file)
    releases = made.sides[stage]
    if index >= len(releases):
        fail(f"--index {index}: the plan has {len(releases)} releases of {LIBRARIES[stage]}, from 0")
    device = {"CONTRACTS_DEVICE": "cuda"} if made.tier is Tier.GPU else {}
    for words in _commands(made, stage, releases[index], output):
        command = [sys.executable, "-m", "contracts", *words]
        status = subprocess.run(command, env=os.environ | device, check=False).returncode
        if status:
            raise typer.Exit(status)


def _commands(made: Plan, stage: SideName, release: str, output: Path) -> list[list[str]]:
    """What is run: on a GPU sglang's own kernels come with its own pins."""
    part = _part(made, stage, release, output)
    exact = stage == "serving" and made.tier is Tier.GPU
    return [["provision", "--exact", f"{LIBRARIES[stage]}=={release}"], part] if exact else [part]


def _part(made: Plan, stage: SideName, release: str, output: Path) -> list[str]:
    if stage == "training":
        return ["prepare", "--training", f"{LIBRARIES[stage]}=={release}"]
    trainings = [cell.training for cell in made.cells if cell.serving == release]
    sides = [word for training in trainings for word in ("--training", training)]
    return ["matrix", *sides, "--serving", release, "--output", str(output)]


def _read(file: Path) -> Plan:
    try:
        return plan.read(file)
    except BadPlan as error:
        fail(str(error))


@app.command("machine")
def machine(tier: TierOption = Tier.CPU, python: Python = sys.executable, cache: Cache = None) -> None:
    """Say whether this machine can judge a tier, in one line: the first step of a job on your own runner.

    Exit status 0: it can; 5: it cannot, and why.
    """
    if tier is Tier.CPU:
        typer.echo(f"cpu: {os.cpu_count()} cores")
        return
    from contracts import gpus
    from contracts.environments import NotProvisioned, interpreter
    from contracts.wanted import BadRequirement

    if not re.search("==|@", python) and shutil.which(python) is None:
        fail(f"--serving-python: no such interpreter: {python}")
    try:
        found = gpus.look(interpreter("serving", python, cache_folder(cache)))
    except (BadRequirement, NotProvisioned) as error:
        fail(str(error))
    if found.reason:
        fail(
            f"{found.reason}; the job needs a runner with a GPU, its driver, and sglang in {python}",
            EXIT_NOT_RUN,
        )
    names = ", ".join(f"{gpu.name} ({'.'.join(map(str, gpu.capability))})" for gpu in found.gpus)
    typer.echo(f"gpu: {names}; torch {found.torch}; attention: {', '.join(found.backends)}")
    for name in found.unknown():
        typer.echo(f"attention backend {name} is one that this version does not know, and does not judge")


@app.command("changes")
def changes(before: Before, after: After, whole: Whole = False, output: Issue = Path("issue.md")) -> None:
    """Write the text of an issue, if a cell of the matrix says something else than before.

    Exit status 0: nothing changed, and nothing is written; 1: something did; 2: bad input.
    """
    try:
        now = cells.read_all([after])
        found = difference.changed(difference.read(before), now, whole=whole)
        missing = len(difference.read(before).keys() - {cell.pair for cell in now})
        reasons = difference.reasons_changed(before.read_text(encoding="utf-8"), now) if whole else []
    except (NoMatrix, BadCell) as error:
        fail(str(error))
    if missing and not whole:
        typer.echo(f"{missing} cells of {before} are not among those of now (--whole asks for all)")
    if not found and not reasons:
        typer.echo("no cell says anything else than before")
        return
    try:
        write_whole(output, difference.issue(found, reasons))
    except OSError as error:
        fail(f"{output}: {error.strerror}")
    for cell, one, two in found:
        typer.echo(f"{cell.pair.title}: {one} before, {two} now")
    if reasons:
        typer.echo(f"{len(reasons)} lines of reasons changed")
    typer.echo(f"written {output}")
    raise typer.Exit(EXIT_BROKEN)
