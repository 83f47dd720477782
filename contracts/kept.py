"""Cases that a probe answered, each kept under a digest of everything that can change its answer.

A folder of the cache holds one case: what was reported, and the files that the probe wrote. So whoever asks
the same again, about files of equal content, gets it at once: another session, another pair of releases, the
rest of a run that was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from contracts.facts import CaseResult
from contracts.placing import write_whole

Case = Mapping[str, Any]
"""What a probe is asked, JSON but for two things: a Path is an input, whose content decides about equality;
in strings, `{folder}` stands for the folder that the answer is kept in."""

FAILED_KEPT = 24 * 3600.0
"""Seconds that a failure is kept for."""
UNUSED_KEPT = 30 * 24 * 3600.0
"""Seconds that an answer is kept for after its last use."""
RECORD = "case.json"

_RESULT = TypeAdapter(CaseResult)
_OURS = re.compile(r"((speculators|sglang)-.+|exported|verdicts)-[0-9a-f]{16}(?P<session>\.\w+)?")
"""Names of the folders that are kept; with a session, one that failed or was not finished."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One case that was answered."""

    result: CaseResult
    stand_ins: tuple[str, ...]
    folder: Path
    """Where the probe wrote the files of this case."""


def inputs(case: Case) -> list[Path]:
    """The files and folders that a case is about."""
    return [value for _, value in sorted(case.items()) if isinstance(value, Path)]


class Contents:
    """Digests of files and folders, each computed once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, root: Path) -> str:
        """Digest of what a file holds, or of all files of a folder and their names."""
        if root not in self._known:
            digest = hashlib.sha256()
            for file in files(root):
                content = file.read_bytes()
                digest.update(repr((str(file.relative_to(root)), len(content))).encode() + content)
            self._known[root] = digest.hexdigest()
        return self._known[root]


def key(case: Case, salt: str, contents: Contents) -> str:
    """What an answer is kept under: sixteen hexadecimal digits.

    Args:
        case: what is asked.
        salt: whatever else can change the answer.
        contents: digests the inputs.

    """

    def plain(value: Any) -> Any:
        return contents.of(value) if isinstance(value, Path) else dict(value)

    text = json.dumps([salt, case], sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def request(value: Any, folder: Path) -> Any:
    """A case as a probe reads it, with the folder for its answer filled in."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return value.replace("{folder}", str(folder))
    if isinstance(value, Mapping):
        return {name: request(item, folder) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [request(item, folder) for item in value]
    return value


def save(folder: Path, case: Case, result: CaseResult, stand_ins: tuple[str, ...]) -> None:
    """Make `folder`, to which the probe has written, one that `load` reads."""
    record = {
        "result": _RESULT.dump_python(result, mode="json"),
        "stand_ins": stand_ins,
        "paths": [str(path) for path in (folder, *inputs(case))],
        "files": manifest(folder),
    }
    write_whole(folder / RECORD, json.dumps(record))


def load(folder: Path, case: Case) -> Kept | None:
    """What `folder` holds; None if that is nothing, or was damaged since.

    What the library said then about its inputs reads as if it had said it about those of `case`.
    """
    try:
        data = json.loads((folder / RECORD).read_text())
        result = _RESULT.validate_python(data["result"])
        if not is_intact(folder, data["files"]):
            return None
        os.utime(folder)
        paths = dict(zip(data["paths"], map(str, (folder, *inputs(case))), strict=True))
        return Kept(result=_renamed(result, paths), stand_ins=tuple(data["stand_ins"]), folder=folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _renamed(result: CaseResult, paths: Mapping[str, str]) -> CaseResult:
    def told(text: str) -> str:
        for before, now in paths.items():
            text = text.replace(before, now)
        return text

    return replace(
        result,
        error=told(result.error) if result.error else None,
        refusals=tuple(replace(item, message=told(item.message)) for item in result.refusals),
    )


OWN_SESSION = uuid.uuid4().hex
"""A session of this process alone."""


def unsettled(place: Path, session: str) -> Path:
    """Where what will be kept in `place` is until it is whole; failures stay there."""
    return place.with_name(f"{place.name}.{session}")


def in_progress(place: Path) -> Path:
    """A new, empty folder of this process alone, in which what will be kept in `place` is made."""
    made = unsettled(place, uuid.uuid4().hex)
    made.mkdir()
    return made


def settle(made: Path, place: Path, is_whole: Callable[[Path], bool]) -> Path:
    """Give a folder that is finished its name; where another process was faster, theirs counts.

    Args:
        made: the folder.
        place: its name.
        is_whole: tells whether what lies there already is one that counts.

    """
    for _ in range(2):
        try:
            return made.rename(place)
        except OSError:  # there is one
            if is_whole(place):
                break
            shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(made, ignore_errors=True)
    return place


def sweep(cache: Path, *, now: float | None = None) -> None:
    """Remove what nobody will read any more: failures of old sessions, and answers long unused."""
    now = time.time() if now is None else now
    for folder in cache.iterdir():
        match = _OURS.fullmatch(folder.name)
        if match is None:
            continue  # the cache may be a folder that other things live in
        with suppress(FileNotFoundError):
            if now - folder.stat().st_mtime > (FAILED_KEPT if match["session"] else UNUSED_KEPT):
                shutil.rmtree(folder, ignore_errors=True)


def manifest(folder: Path) -> dict[str, list[int]]:
    """Size and time of change of every file in a folder, by its path below it."""
    return {str(file.relative_to(folder)): _stamp(file) for file in files(folder)}


def is_intact(folder: Path, recorded: Mapping[str, list[int]]) -> bool:
    """Whether every file of a manifest is still there, whole and untouched.

    Nothing else is looked at: another process may be writing beside them.
    """
    try:
        return all(_stamp(folder / name) == stamp for name, stamp in recorded.items())
    except OSError:
        return False


def _stamp(file: Path) -> list[int]:
    status = file.lstat()  # of a link itself: an environment links to an interpreter that may be updated
    return [status.st_size, status.st_mtime_ns]


def files(root: Path) -> list[Path]:
    """Every file of an input; an input that a failed probe never wrote has none."""
    if root.is_dir():
        return sorted(path for path in root.rglob("*") if path.is_file())
    return [root] if root.exists() else []


def distinct(cases: Mapping[str, Case]) -> Iterator[tuple[str, str, Case]]:
    """Key, a name of its own, and the case, for each of some cases of which several may have one name."""
    taken: dict[str, int] = {}
    for number, case in cases.items():
        name = case["case"]
        taken[name] = taken.get(name, 0) + 1
        yield number, name if taken[name] == 1 else f"{name} ({taken[name]})", case
