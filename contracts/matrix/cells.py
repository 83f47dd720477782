"""A cell of the matrix: one training release beside one serving release, and the verdicts about the two.

A cell is a file of verdicts (`pytest --verdicts`) with a name that says whose they are; so cells that were
filled on several machines are put together by laying their files into one folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.version import InvalidVersion, Version
from pydantic import TypeAdapter, ValidationError

from contracts.causes import Cause, by_code
from contracts.outcome import FAILING, FORMAT, SEVERITY, Kind, Outcome, Verdict, record, unaccounted
from contracts.placing import write_whole
from contracts.recipes import RECIPES

JOINT = "--"
"""Between the two releases in the name of a cell's file."""
SUFFIX = ".jsonl"
ASIDE = ("surface.", "forward.training_agrees_with_itself")
"""Beginnings of contracts about a release and its record, or about training alone: no draft crosses there."""
_VERDICT = TypeAdapter(Verdict)
_RECIPES = frozenset(recipe.name for recipe in RECIPES)


class BadCell(Exception):
    """A file is no whole record of a cell. One line."""


@dataclass(frozen=True, order=True)
class Pair:
    """One training release and one serving release, by names that may be part of a file's."""

    training: str
    serving: str

    @property
    def title(self) -> str:
        """As a person would say it."""
        return f"speculators {self.training} → sglang {self.serving}"

    @property
    def file_name(self) -> str:
        """What the file of its cell is called."""
        return f"{self.training}{JOINT}{self.serving}{SUFFIX}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is known about one pair of releases."""

    pair: Pair
    verdicts: tuple[Verdict, ...] = ()
    sides: tuple[str, ...] = ()
    """What was judged, on what: lines of a report."""
    expected: int = 0
    """Contracts and cases that were to be judged."""
    unavailable: str | None = None
    """Why nothing could be judged; None if something was."""
    selection: str = ""
    """Which contracts were selected, as pytest's -k says it; empty for all."""
    device: str = "cpu"
    """What drafts ran on."""

    @cached_property
    def outcome(self) -> Outcome:
        """The worst that became of any contract."""
        if self.unavailable or len(self.verdicts) < self.expected or not self.verdicts:
            return Outcome.ERROR
        missed = unaccounted(self.verdicts)
        told = (it.outcome for it in self.verdicts if it.outcome is not Outcome.NOT_RUN)
        return worst([*told, *(it.outcome for it in missed[:1])])

    def crossing(self, draft: Kind) -> tuple[int, int]:
        """Recipes whose draft crosses whole, exported or raw, and recipes that there are.

        A draft crosses whole if every contract about it holds; a known incompatibility is one, too.
        """
        held: dict[str, bool] = {}
        for verdict in self.verdicts:
            about_draft = not verdict.contract.startswith(ASIDE) and verdict.recipe in _RECIPES
            if verdict.draft == draft and about_draft:
                held[verdict.recipe] = held.get(verdict.recipe, True) and verdict.outcome is Outcome.HOLDS
        return sum(held.values()), len(held)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of some outcomes; of none, *holds*."""
    return max(outcomes, key=SEVERITY.__getitem__, default=Outcome.HOLDS)


def is_broken(cells: Iterable[Cell]) -> bool:
    """Whether a contract of any cell is broken, changed or fixed."""
    return any(verdict.outcome in FAILING for cell in cells for verdict in cell.verdicts)


def read(file: Path) -> Cell:
    """The cell that a file holds.

    Raises:
        BadCell: it is not whole, or no such file at all.

    """
    pair = _pair(file)
    try:
        header, *lines, end = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if header["kind"] == "header" and header["format"] != FORMAT:
            raise BadCell(
                f"{file}: of format {header['format']}, and this version of draft-contracts reads {FORMAT}; "
                "fill the cell with this version, or merge with that one"
            )
        verdicts = [_verdict(line) for line in lines]
        if (header["kind"], header["format"]) != ("header", FORMAT) or end != {
            "kind": "end",
            "verdicts": len(verdicts),
        }:
            raise ValueError
        told = tuple(line for side in header["sides"].values() for line in side)
        if other := _of_another(pair, told):
            raise BadCell(f"{file}: its name says {pair.title}, and its record is about {other}")
        return Cell(
            pair=pair,
            verdicts=tuple(verdicts),
            sides=told,
            expected=header["expected"],
            unavailable=header.get("unavailable"),
            selection=header.get("selection", ""),
            device=header.get("device", "cpu"),
        )
    except OSError as error:
        raise BadCell(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise BadCell(f"{file}: no whole record of verdicts; fill the cell again") from None


def _of_another(pair: Pair, sides: Sequence[str]) -> str | None:
    """The release that a record is about, if that is another than its name says."""
    for library, release in (("speculators", pair.training), ("sglang", pair.serving)):
        for line in sides:
            name, _, rest = line.partition(" ")
            if name == library and _is_release(release) and rest.partition(",")[0] != release:
                return f"{library} {rest.partition(',')[0]}"
    return None


def _is_release(name: str) -> bool:
    try:
        Version(name)
    except InvalidVersion:
        return False
    return True


def _verdict(line: dict[str, object]) -> Verdict:
    if line.pop("kind") != "verdict":
        raise ValueError
    return _VERDICT.validate_python(line)


def files(folder: Path) -> list[Path]:
    """Files of cells in a folder and those below it."""
    return sorted(path for path in folder.rglob(f"*{JOINT}*{SUFFIX}") if not path.name.startswith("."))


def read_all(folders: Iterable[Path]) -> list[Cell]:
    """Every cell in some folders and those below them, each once; one whose file is damaged says so.

    Of several records of one cell those that are whole count. If they say the same, they are one; if they do
    not, the cell could not be judged, and says where they differ.

    Raises:
        BadCell: there is none, one has no name, or some were judged on a CPU and others on a GPU.

    """
    found: dict[Pair, list[tuple[Path, Cell]]] = {}
    looked_in = list(folders)
    for file in (file for folder in looked_in for file in files(folder)):
        cell = _read_or_say(file)
        found.setdefault(cell.pair, []).append((file, cell))
    if not found:
        where = ", ".join(map(str, looked_in))
        raise BadCell(f"{where}: no cell of a matrix in it (files like 0.9.0{JOINT}0.5.23{SUFFIX})")
    devices = {cell.device: file for records in found.values() for file, cell in records if cell.verdicts}
    if len(devices) > 1:
        told = " and ".join(f"{file} on {device}" for device, file in sorted(devices.items()))
        raise BadCell(f"judged on different devices: {told}; merge those of each by themselves")
    return [_one(records) for records in found.values()]


def _one(records: Sequence[tuple[Path, Cell]]) -> Cell:
    """What several records of one cell come to."""
    whole = [(file, cell) for file, cell in records if cell.unavailable is None] or records
    (file, first), *others = whole
    for other_file, other in others:
        told = _where_they_differ(first, other)
        if told:
            reason = f"two records of it disagree, {file} and {other_file}: {told}"
            return Cell(pair=first.pair, unavailable=reason, device=first.device)
    return first


def _where_they_differ(one: Cell, other: Cell) -> str | None:
    """Where two records of a cell say different things; None if nowhere."""
    if one.unavailable or other.unavailable:
        return None
    if one.selection != other.selection:
        return f"-k {one.selection!r} was judged, and -k {other.selection!r}"
    first, second = ({(it.contract, it.case): _in_words(it) for it in cell.verdicts} for cell in (one, other))
    for key in sorted({*first, *second}):
        if first.get(key) != second.get(key):
            contract, case = key
            said = " and ".join(told.get(key) or "not judged" for told in (first, second))
            return f"{contract} [{case}] is {said}"
    return None


def _in_words(verdict: Verdict) -> str:
    return f"{verdict.outcome} ({verdict.cause})" if verdict.cause else str(verdict.outcome)


def _read_or_say(file: Path) -> Cell:
    try:
        return read(file)
    except BadCell as error:
        return Cell(pair=_pair(file), unavailable=str(error))


def _pair(file: Path) -> Pair:
    """Whose cell a file is, by its name.

    Raises:
        BadCell: it does not say.

    """
    training, joint, serving = file.name.removesuffix(SUFFIX).partition(JOINT)
    if not (training and joint and serving):
        due = f"TRAINING{JOINT}SERVING{SUFFIX}"
        raise BadCell(f"{file}: its name does not say whose it is; it has to be {due}")
    return Pair(training, serving)


def explanation(cause: str) -> str:
    """What a cause means; nothing for one of another version of this package."""
    return by_code(cause).explanation if cause in set(Cause) else ""


def write_unavailable(file: Path, reason: str) -> None:
    """Write a cell in which nothing could be judged, and why."""
    write_whole(file, record({"expected": 0, "sides": {}, "unavailable": reason}, ()))


def in_order(releases: Iterable[str]) -> list[str]:
    """Releases, oldest first; what is no release (a folder, an interpreter) after them."""

    def place(name: str) -> tuple[int, Version, str]:
        try:
            return 0, Version(name), name
        except InvalidVersion:
            return 1, Version("0"), name

    return sorted(set(releases), key=place)
