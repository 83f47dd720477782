"""One call for all of it: a draft, its target, and the releases that are to serve it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from contracts import records
from contracts.header import judge, sources
from contracts.header.reading import LIBRARY
from contracts.header.report import Report
from contracts.places import CheckpointError
from contracts.records import UnsupportedRelease
from contracts.served_target import ServedTarget


def check(
    draft: Path | str,
    *,
    target: Path | str | None = None,
    serving: str | None = None,
    server_args: Sequence[str] = (),
    deep: bool = False,
    python: str = sys.executable,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Say what each of some releases will make of a draft checkpoint, from its headers and config.json.

    Args:
        draft: folder, safetensors file, or `org/name[@revision]` of the hub.
        target: what it is to be served with, likewise; of it config.json is read. Without it, rules that need
            the target are left out, and the report says so.
        serving: `sglang==0.5.23`, a range as `sglang>=0.5.17`, `installed` or `all`; by default the installed
            release, else the newest that is recorded.
        server_args: further arguments of the server.
        deep: give the draft to the installed library, too; takes ten seconds and more.
        python: interpreter that has the library, for `deep`.
        progress: told what takes a while.

    Returns:
        Verdict, findings and releases; `contracts.header.views` writes it as text, JSON or markdown.

    Raises:
        CheckpointError: draft or target cannot be read, or says something that cannot be meant.
        UnsupportedRelease: nothing is recorded that could be meant by `serving`.
        NotDeep: the library cannot be asked.

    """
    releases, asked_for = _releases(serving)
    found = sources.read_draft(str(draft))
    its = None if target is None else _target(str(target))
    report = judge.judge(found, its, releases, server_args=server_args, asked_for=asked_for)
    if not deep:
        return report
    from contracts.header.deep import ask  # what asks a library needs more than what reads headers

    release, shown = ask(found, its, server_args=server_args, python=python, progress=progress)
    return judge.with_library(report, release, shown)


def _target(named: str) -> ServedTarget:
    try:
        return sources.read_target(named)
    except CheckpointError as error:
        raise CheckpointError(f"target: {error}") from None


def _releases(wanted: str | None) -> tuple[list[str], str | None]:
    if wanted not in (None, "installed"):
        assert wanted is not None
        return judge.choose(wanted)
    found = judge.installed()
    if found is None and wanted == "installed":
        told = f"{LIBRARY} is not installed beside this command; name a release, or all"
        raise UnsupportedRelease(f"release 'installed': {told}")
    return judge.exactly(found or records.recorded_releases(LIBRARY)[-1])
