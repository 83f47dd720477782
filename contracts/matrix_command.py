"""`contracts matrix`: every training release beside every serving release."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from contracts.facts import CASE_TIMEOUT, LIBRARIES, SideName
from contracts.matrix import cells, views
from contracts.matrix.cells import BadCell, Cell, Pair
from contracts.matrix.fill import IGNORED, Request, fill
from contracts.outcome import LETTERS, Outcome
from contracts.placing import write_whole
from contracts.records import catalog
from contracts.sides import CacheUnavailable
from contracts.terminal import (
    EXIT_BROKEN,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    cache_folder,
    fail,
    new_console,
    text,
)
from contracts.wanted import BadRequirement, Wanted

EXAMPLES = """
Examples:

contracts matrix

contracts matrix --training 0.9.0 --serving 0.5.22 --serving 0.5.23

contracts matrix --newest 2 -n 2 -o before-the-upgrade

contracts matrix --serving "sglang@~/src/sglang" --training 0.9.0

contracts matrix --merge part-1 part-2 part-3 -o page

contracts matrix --newest 1 -- -k "forward and plain"
"""

FROM_ENVIRONMENT = {"--device": "CONTRACTS_DEVICE", "--server-args": "CONTRACTS_SERVER_ARGS"}
"""Options that change what the probes are asked."""
OWN = ("--verdicts", "--contracts-cache", "--training-python", "--serving-python", "--case-timeout")
"""Options of pytest that have their counterparts here."""
LABEL = 60
"""Characters of the name of a side, at the most."""
WORKERS = min(4, os.cpu_count() or 1)

Training = Annotated[
    list[str] | None,
    typer.Option(
        "--training",
        metavar="RELEASE",
        help="Of speculators: a release, a source tree or URL as `provision` takes it, or an interpreter; "
        "repeatable. Default: every release that is recorded.",
    ),
]
Serving = Annotated[
    list[str] | None, typer.Option("--serving", metavar="RELEASE", help="Of sglang; as --training.")
]
Newest = Annotated[
    int | None,
    typer.Option(
        "--newest",
        metavar="N",
        min=1,
        help="Only the newest N pairs: newest with newest, the one before with the one before, ...",
    ),
]
Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="FOLDER", help="For matrix.html, matrix.md and cells/.")
]
Merge = Annotated[
    list[Path] | None,
    typer.Option(
        "--merge", metavar="FOLDER...", help="Run nothing: put together the cells whose files lie in folders."
    ),
]
Workers = Annotated[
    int,
    typer.Option("-n", "--workers", metavar="N", min=1, help="Processes at a time; each takes up to 1.5 GB."),
]
Over = Annotated[
    Path | None,
    typer.Option("--over", metavar="PYTHON", help="Lay environments that are missing over this interpreter."),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FOLDER", envvar="CONTRACTS_CACHE", help="Where everything is kept."),
]
Timeout = Annotated[
    float, typer.Option("--case-timeout", metavar="SECONDS", help="Time limit for one case of a probe.")
]
PytestArgs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- PYTEST...]", help="Options of pytest, to judge some of the contracts."),
]


def matrix(
    pytest_args: PytestArgs = None,
    training: Training = None,
    serving: Serving = None,
    newest: Newest = None,
    output: Output = Path("matrix"),
    merge: Merge = None,
    workers: Workers = WORKERS,
    over: Over = None,
    cache: Cache = None,
    case_timeout: Timeout = CASE_TIMEOUT,
) -> None:
    """Judge every training release beside every serving release, and show it as one page.

    Environments that are missing are made first. Each side runs once, and what it said is kept:
    a second run of an unchanged cell costs nothing, and an interrupted one goes on where it ended.

    Exit status 0: all holds, or is known; 1: something is broken or changed; 2: bad input;
    3: nothing is, but some cell could not be judged.
    """
    if merge:
        folders = [*merge, *map(Path, pytest_args or ())]  # typer takes one word an option
        if training or serving or newest or any(str(folder).startswith("-") for folder in folders):
            fail("--merge runs nothing, so it goes with folders and --output alone")
        try:
            found = cells.read_all(folders)
        except BadCell as error:
            fail(str(error))
        for folder in folders:
            if not cells.files(folder):
                new_console(stderr=True).print(text(f"{folder}: no cell of a matrix in it"))
        _show(found, output)
    try:
        words = _words("training", training) | _words("serving", serving)
    except BadRequirement as error:
        fail(str(error))
    pairs = _pairs(words, newest)
    named = {side for pair in pairs for side in (("training", pair.training), ("serving", pair.serving))}
    words = {side: told for side, told in words.items() if side in named}
    if over is not None and not over.exists():
        fail(f"--over: there is no {over}")
    console = new_console(stderr=True)
    # In the background too, where a shell lets SIGINT be ignored: no probe outlives us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    request = Request(
        pairs=pairs,
        words=words,
        cache=cache_folder(cache),
        output=_writable(output) / "cells",
        workers=workers,
        over=None if over is None else str(over.absolute()),
        pytest_args=_pytest_args(pytest_args or ()),
        case_timeout=case_timeout,
    )
    try:
        found = fill(request, lambda told: console.print(text(told)))
    except CacheUnavailable as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or output}: {error.strerror}")
    except KeyboardInterrupt:
        fail("interrupted; what was finished is kept, and the same command goes on there", EXIT_INTERRUPTED)
    _show(found, output)


def _words(name: SideName, asked: Sequence[str] | None) -> dict[tuple[SideName, str], str]:
    """How each release of a side is called -> how it is named to pytest.

    Raises:
        BadRequirement: one is not understood.

    """
    library = LIBRARIES[name]
    found: dict[tuple[SideName, str], str] = {}
    for words in asked or catalog(library).matrix:
        if Path(words).is_file():
            _add(found, (name, _label(words)), str(Path(words).absolute()))
            continue
        if "/" in words and "@" not in words:
            raise BadRequirement(f"--{name}: there is no interpreter {words}")
        wanted = Wanted.parse(words if re.search("==|@", words) else f"{library}=={words}")
        if wanted.library != library:
            raise BadRequirement(f"--{name}: {words} is of {wanted.library}, not of {library}")
        label = wanted.release or _label(wanted.shown)
        _add(found, (name, label), wanted.requirement.replace(" @ ", "@"))
    return found


def _add(found: dict[tuple[SideName, str], str], side: tuple[SideName, str], words: str) -> None:
    if found.setdefault(side, words) != words:
        raise BadRequirement(f"--{side[0]}: {found[side]} and {words} would both be called {side[1]}")


def _label(words: str) -> str:
    """A name for what is no release: a tree, a URL, an interpreter; two of them fit into a file's name."""
    label = re.sub(r"[^\w.+@-]+|-{2,}", "_", words).strip("_")
    if len(label) <= LABEL:
        return label
    return f"{hashlib.sha256(words.encode()).hexdigest()[:8]}_{label[-LABEL + 9 :]}"


def _pytest_args(given: Sequence[str]) -> tuple[str, ...]:
    """Options of pytest as they are understood in any folder, once pytest has understood them.

    Ends the command with one line where it does not.
    """
    for words in given:
        for option, variable in FROM_ENVIRONMENT.items():
            if words.partition("=")[0] == option:
                fail(f"{option}: the probes have to know it too; set {variable} instead")
        if words.partition("=")[0] in OWN:
            fail(f"{words.partition('=')[0]}: contracts matrix sets it itself")
    whole = tuple(_absolute(words) for words in given)
    if whole:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--pyargs",
            "contracts",
            "-m",
            "contracts",
            "--collect-only",
        ]
        done = subprocess.run(
            [*command, "-q", *whole], capture_output=True, text=True, check=False, env=os.environ | IGNORED
        )
        if done.returncode:
            lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            errors = [line for line in lines if "error" in line.lower() and "usage:" not in line]
            fail(f"pytest judges nothing with {shlex.join(given)}: {(errors or lines or [''])[-1]}")
    return whole


def _absolute(words: str) -> str:
    """An argument with the path in it, if there is one, made absolute."""
    option, equals, value = words.rpartition("=")
    return f"{option}{equals}{Path(value).absolute()}" if value and Path(value).is_file() else words


def _pairs(words: dict[tuple[SideName, str], str], newest: int | None) -> list[Pair]:
    trainings, servings = (
        cells.in_order(release for side, release in words if side == name)[::-1]
        for name in ("training", "serving")
    )
    if newest is not None:
        return [Pair(*both) for both in zip(trainings[:newest], servings[:newest], strict=False)]
    return [Pair(training, serving) for serving in servings for training in trainings]


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--output: {folder} cannot be made ({error.strerror})")
    return folder.resolve()


def _show(found: Sequence[Cell], output: Path) -> None:
    """Write both views, say where, and end with the status that the cells have earned."""
    folder = _writable(output)
    for name, content in (("matrix.html", views.page(found)), ("matrix.md", views.markdown(found))):
        try:
            write_whole(folder / name, content)
        except OSError as error:
            fail(
                f"{folder / name}: {error.strerror}; the cells stay: contracts matrix --merge FOLDER -o OTHER"
            )
    console = new_console()
    for line in _overview(found):
        console.print(text(line))
    console.print(f"\nwritten {text(str(folder / 'matrix.html'))} and matrix.md")
    unjudged = sum(cell.outcome is Outcome.ERROR for cell in found)
    if unjudged:
        console.print(f"{unjudged} of {len(found)} cells could not be judged, or not wholly")
    if cells.is_broken(found):
        raise typer.Exit(EXIT_BROKEN)
    if any(cell.outcome in (Outcome.ERROR, Outcome.NOT_RUN) for cell in found):
        raise typer.Exit(EXIT_ERROR)
    sys.stdout.flush()
    raise typer.Exit(0)


def _overview(found: Sequence[Cell]) -> list[str]:
    """The table for a terminal: a row a serving release."""
    trainings = cells.in_order(cell.pair.training for cell in found)
    by_pair = {(cell.pair.training, cell.pair.serving): cell for cell in found}
    servings = cells.in_order(cell.pair.serving for cell in found)[::-1]
    width = max(map(len, ["sglang", *servings]))
    columns = [max(8, len(training)) for training in trainings]
    head = "  ".join(f"{name:>{wide}}" for name, wide in zip(trainings, columns, strict=True))
    lines = [f"{'sglang':<{width}}  {head}   speculators; how many kinds of draft cross"]
    for serving in servings:
        row = []
        for training, wide in zip(trainings, columns, strict=True):
            cell = by_pair.get((training, serving))
            row.append(f"{_told(cell):>{wide}}")
        lines.append(f"{serving:<{width}}  " + "  ".join(row))
    legend = "  ".join(f"{letter} {outcome}" for outcome, letter in LETTERS.items())
    reasons = {cell.unavailable for cell in found if cell.unavailable}
    return [*lines, "", legend, *sorted(reasons)]


def _told(cell: Cell | None) -> str:
    if cell is None:
        return ""
    letter = LETTERS[cell.outcome]
    return letter if cell.unavailable else f"{letter} {'/'.join(map(str, cell.crossing('exported')))}"
