"""Fills cells of the matrix: every side is run once, then the contracts judge each pair from what is kept.

What depends on one side costs what one side costs; a pair adds a run of the contracts over answers that are
there. Verdicts are kept under everything that can change them, so that an unchanged cell costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path

from contracts import environments, kept, sides
from contracts.environments import NotProvisioned, interpreter
from contracts.facts import SideName
from contracts.installer import InstallFailed
from contracts.matrix.cells import BadCell, Cell, Pair, read, write_unavailable
from contracts.matrix.steps import Done, Step, Steps
from contracts.outcome import Outcome
from contracts.sides import BadInterpreter, Side, SideUnavailable
from contracts.wanted import Wanted

IGNORED = {"PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": "", "CONTRACTS_TARGETS": "none"}
"""Variables that would change which contracts are judged, and what they are for the matrix: no cell judges
classes of targets, which are the serving side's alone (docs/targets.md)."""
PACKAGE = Path(__file__).parent.parent
TRAINING, SERVING, JUDGING = 100.0, 60.0, 6.0
"""Seconds that a training side, a serving side and a cell take by experience, for the estimate."""
SETTINGS = (*sides.SETTINGS, "CONTRACTS_SERVER_ARGS", "CONTRACTS_DEVICE")
"""Beginnings of the variables that can change a verdict."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be filled, and how."""

    pairs: Sequence[Pair]
    words: Mapping[tuple[SideName, str], str]
    """How each side is named to pytest: an interpreter, or library==release."""
    cache: Path
    output: Path
    """Folder for the files of cells."""
    workers: int
    over: str | None = None
    """Interpreter that environments are laid over; None: the shared packages of the cache."""
    pytest_args: Sequence[str] = ()
    case_timeout: float


@dataclass
class Filling:
    """What is known while cells are filled."""

    sides: dict[tuple[SideName, str], Side] = field(default_factory=dict)
    missing: dict[tuple[SideName, str], str] = field(default_factory=dict)
    """Why a side is none."""
    words: dict[tuple[SideName, str], str] = field(default_factory=dict)
    """How each side is named to pytest."""
    cells: dict[Pair, Cell] = field(default_factory=dict)
    """Those that need no run."""
    package: str = field(default_factory=lambda: _package())
    """Digest of the contracts and all that they go by."""


def fill(request: Request, say: Callable[[str], None]) -> list[Cell]:
    """Fill the cells that are asked for; returns them in order.

    Raises:
        KeyboardInterrupt: what was finished stays.
        CacheUnavailable: the cache cannot be written.

    """
    request.output.mkdir(parents=True, exist_ok=True)
    known = _find_sides(request, say)
    open_pairs = [pair for pair in request.pairs if not _settled(request, known, pair)]
    missing = sum(cell.unavailable is not None for cell in known.cells.values())
    without = f", {missing} without a side" if missing else ""
    say(f"{len(request.pairs)} cells, {len(known.cells) - missing} of them known already{without}")
    if open_pairs:
        steps = Steps(request.workers, {"CONTRACTS_SESSION": kept.OWN_SESSION, **IGNORED})
        try:
            _run(request, known, open_pairs, steps)
        except BaseException:
            steps.stop()
            raise
    return [known.cells.get(pair) or read(request.output / pair.file_name) for pair in request.pairs]


def _find_sides(request: Request, say: Callable[[str], None]) -> Filling:
    """Make the environments that are named and not there, and identify every side."""
    found = Filling()
    for (name, release), words in request.words.items():
        found.words[name, release] = words
        try:
            python = _interpreter(request, name, words, say)
            if request.over is not None:
                found.words[name, release] = python  # by its release it may be another one
            found.sides[name, release] = Side.find(name, python)
        except (InstallFailed, SideUnavailable, BadInterpreter) as error:
            found.missing[name, release] = str(error)
            say(str(error))
    return found


def _interpreter(request: Request, name: SideName, words: str, say: Callable[[str], None]) -> str:
    """The interpreter of a side; its environment is made if it is not there."""
    if request.over is None:
        with suppress(NotProvisioned):
            return interpreter(name, words, request.cache)
    elif Path(words).exists():
        return words
    wanted = Wanted.parse(words)
    say(f"an environment of {wanted.shown}")
    return environments.provision(wanted, request.cache, over=request.over).python


def _settled(request: Request, known: Filling, pair: Pair) -> bool:
    """Whether a cell needs no run: a side is missing, or its verdicts are kept."""
    file = request.output / pair.file_name
    reasons = [known.missing[side] for side in _sides(pair) if side in known.missing]
    if reasons:
        write_unavailable(file, "; ".join(reasons))
        known.cells[pair] = read(file)
        return True
    place = _place(request, known, pair)
    stored = place / pair.file_name
    try:
        cell = read(stored)
    except BadCell:
        return False
    if any(it.until and it.until < date.today().isoformat() for it in cell.verdicts):
        return False  # what was accepted for a time is to be judged again
    known.cells[pair] = cell
    os.utime(place)
    shutil.copyfile(stored, file)
    return True


def _sides(pair: Pair) -> tuple[tuple[SideName, str], tuple[SideName, str]]:
    return ("training", pair.training), ("serving", pair.serving)


def _place(request: Request, known: Filling, pair: Pair) -> Path:
    """Where the verdicts of a cell are kept: under all that can change them."""
    settings = sorted(item for item in os.environ.items() if item[0].startswith(SETTINGS))
    told_of = [(known.words[side], known.sides[side].identity.fingerprint) for side in _sides(pair)]
    contents = kept.Contents()
    arguments = [
        (words, contents.of(file) if (file := _file(words)) else "") for words in request.pytest_args
    ]
    told = json.dumps([pair.file_name, told_of, settings, arguments, known.package, sides.gpus()])
    return request.cache / f"verdicts-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _file(words: str) -> Path | None:
    """The file that an argument of pytest's names."""
    file = Path(words.rpartition("=")[2])
    return file if file.is_file() else None


def _package() -> str:
    """Digest of the contracts and all that they go by."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*")):
        if file.is_file() and file.suffix != ".pyc" and PACKAGE / "matrix" not in file.parents:
            digest.update(str(file.relative_to(PACKAGE)).encode() + file.read_bytes())
    return digest.hexdigest()


def _run(request: Request, known: Filling, pairs: Sequence[Pair], steps: Steps) -> None:
    """Run each training side, then each serving side over the drafts of all, then the contracts."""
    trainings = list(dict.fromkeys(pair.training for pair in pairs))
    servings = list(dict.fromkeys(pair.serving for pair in pairs))
    steps.expect(len(trainings) * TRAINING + len(servings) * SERVING + len(pairs) * JUDGING)
    for release in trainings:
        command = _prepare(request, known, [release], None)
        steps.start(Step(title=f"speculators {release}", command=command, weight=TRAINING))
    steps.wait()
    for release in servings:
        served = [pair for pair in pairs if pair.serving == release]
        command = _prepare(request, known, [pair.training for pair in served], release)
        step = Step(title=f"sglang {release}", command=command, weight=SERVING)
        steps.start(step, partial(_judge, request, known, served, steps))
    steps.wait()


def _prepare(request: Request, known: Filling, trainings: Sequence[str], serving: str | None) -> list[str]:
    """The command that runs the probes of some training releases, or of a serving one over their drafts."""
    command = [sys.executable, "-m", "contracts", "prepare", f"--cache={request.cache}"]
    command.append(f"--case-timeout={request.case_timeout}")
    command += [f"--training={known.words['training', release]}" for release in trainings]
    return command if serving is None else [*command, f"--serving={known.words['serving', serving]}"]


def _judge(request: Request, known: Filling, pairs: Sequence[Pair], steps: Steps, _: Done) -> None:
    """Let the contracts judge some pairs, whatever became of their probes: they say what did."""
    for pair in pairs:
        file = request.output / pair.file_name
        file.unlink(missing_ok=True)  # of an earlier matrix
        command = [
            *(sys.executable, "-m", "pytest", "--pyargs", "contracts", "-m", "contracts"),
            *("-q", "-p", "no:cacheprovider", f"--verdicts={file}", f"--contracts-cache={request.cache}"),
            f"--case-timeout={request.case_timeout}",
            *(f"--{name}-python={known.words[name, release]}" for name, release in _sides(pair)),
            *request.pytest_args,
        ]
        step = Step(title=pair.title, command=command, weight=JUDGING)
        steps.start(step, partial(_keep, request, known, pair))


def _keep(request: Request, known: Filling, pair: Pair, done: Done) -> None:
    """Keep the verdicts of a cell, unless the suite or the machine failed in it or changed meanwhile."""
    file = request.output / pair.file_name
    try:
        cell = read(file)
    except BadCell:
        write_unavailable(file, f"pytest ended with {done.status} and no verdicts: {done.told}")
        return
    if not cell.verdicts:
        write_unavailable(file, f"pytest selected no contract: {done.told}")
        return
    unsettled = cell.outcome is Outcome.ERROR or known.package != _package()
    if unsettled or (cell.device != "cpu" and cell.outcome is Outcome.NOT_RUN):  # a GPU may come
        return
    place = _place(request, known, pair)
    with suppress(OSError):  # then it is judged again next time
        made = kept.in_progress(place)
        shutil.copyfile(file, made / pair.file_name)
        kept.settle(made, place, lambda other: (other / pair.file_name).exists())
