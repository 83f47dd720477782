"""Puts a file or a folder in its place as a whole, or leaves everything as it was."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a file in the place of whatever file is there; nobody ever reads half of it.

    Raises:
        OSError: the disk is full, say; what was there is as it was.

    """
    partial = file.with_name(f".{file.name}.{uuid.uuid4().hex[:12]}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def check_place(
    folder: Path, kept: Mapping[str, Path], ours: Callable[[Path], bool], *, overwrite: bool
) -> None:
    """Refuse a place that holds anything but an earlier export.

    Args:
        folder: where to write.
        kept: folders that must not be touched, by what they hold.
        ours: tells an earlier export.
        overwrite: whether one may be replaced.

    Raises:
        FileExistsError: it does; nothing was touched.

    """
    for what, place in kept.items():
        if folder.resolve() in (place.resolve(), *place.resolve().parents):
            raise FileExistsError(f"{folder}: is or holds the folder of the {what}; give another one")
    parent = next(parent for parent in folder.parents if parent.exists())
    if not parent.is_dir():
        raise FileExistsError(f"{parent}: is no folder; give another place")
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise FileExistsError(f"{folder}: is no folder; it is left alone, give another one")
    if not overwrite:
        raise FileExistsError(f"{folder}: already there; give a new folder, or --overwrite an earlier export")
    if not ours(folder):
        raise FileExistsError(f"{folder}: is no earlier export, so it is left alone; give another folder")


@contextmanager
def replacing(folder: Path, ours: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder beside `folder` to write to, which takes its place once all is well; else nothing is left.

    Args:
        folder: the place; if something is there now, it is what may be replaced.
        ours: asked again of what is replaced, once nobody else can reach it any more.

    Raises:
        FileExistsError: something else has come to the place meanwhile.

    """
    replaces = folder.exists()
    made = [parent for parent in folder.parents if not parent.exists()]
    mark = uuid.uuid4().hex[:12]
    partial, old = (folder.with_name(f".{folder.name}.{mark}.{kind}") for kind in ("partial", "old"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        if replaces:
            _swap(partial, folder, old, ours)
        elif folder.exists() or folder.is_symlink():
            raise FileExistsError(f"{folder}: has come there meanwhile; it is left alone")
        else:
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:  # innermost first; one that holds something stays
            with suppress(OSError):
                parent.rmdir()


def _swap(new: Path, folder: Path, old: Path, ours: Callable[[Path], bool]) -> None:
    """Put `new` in the place of `folder`; if that fails, `folder` is as it was."""
    try:
        folder.rename(old)
        if old.is_symlink() or not old.is_dir() or not ours(old):
            raise FileExistsError(f"{folder}: is no earlier export any more; it is left alone")
        new.rename(folder)
    except BaseException:
        if not folder.exists() and not folder.is_symlink():
            old.rename(folder)
        raise
    finally:
        if folder.exists():  # whichever it is by now
            shutil.rmtree(old, ignore_errors=True)
