"""`contracts provision`: interpreter environments of releases, in the cache."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from contracts import environments
from contracts.environments import Environment
from contracts.installer import InstallFailed
from contracts.records import supported_releases
from contracts.sides import CacheUnavailable
from contracts.terminal import EXIT_BROKEN, EXIT_INTERRUPTED, cache_folder, fail, new_console, text
from contracts.wanted import BadRequirement, Wanted

EXAMPLES = """
Examples:

contracts provision sglang==0.5.9 speculators==0.5.0

contracts provision --all

contracts provision "sglang@~/src/sglang" --over .venv/bin/python

contracts provision --list

contracts provision --prune --all
"""

Releases = Annotated[
    list[str] | None,
    typer.Argument(metavar="RELEASE...", help="library==release, library@folder or library@git+url."),
]
All = Annotated[
    bool, typer.Option("--all", help="Every release that is recorded; with --prune: everything there is.")
]
Exact = Annotated[
    bool, typer.Option("--exact", help="With all of the release's own pins, torch included (gigabytes).")
]
Over = Annotated[
    Path | None,
    typer.Option(
        "--over",
        metavar="PYTHON",
        help="Lay the release over the packages of this interpreter, instead of over shared ones that are "
        "installed for the purpose.",
    ),
]
List = Annotated[bool, typer.Option("--list", help="What there is, with sizes.")]
Verify = Annotated[bool, typer.Option("--verify", help="Compare every installed file with its checksum.")]
Prune = Annotated[bool, typer.Option("--prune", help="Remove what is damaged, half made or long unused.")]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FOLDER", envvar="CONTRACTS_CACHE", help="Where they are kept."),
]


def provision(
    releases: Releases = None,
    every: All = False,
    exact: Exact = False,
    over: Over = None,
    show: List = False,
    verify: Verify = False,
    prune: Prune = False,
    cache: Cache = None,
) -> None:
    """Make an interpreter environment for a release, so that it can be a side.

    The releases share one torch; each gets its own files, its own transformers and the few packages whose
    pins matter. Printed is the interpreter of each, as --training-python and --serving-python take it; they
    take `sglang==0.5.9` as well. uv does the work where it is found, pip elsewhere. Exit status 0: all are
    there; 1: one could not be made (the others are); 2: bad input.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing half made stays
    folder = cache_folder(cache)
    if not (releases or every or show or verify or prune):
        fail(
            "name a release, as in `contracts provision sglang==0.5.9`, or --all, --list, --verify or --prune"
        )
    try:
        wanted = [Wanted.parse(words) for words in releases or ()]
    except BadRequirement as error:
        fail(str(error))
    if every and not prune:
        wanted += [Wanted.parse(name) for name in supported_releases()]
    if exact and over:
        fail("--exact shares nothing, so --over has no meaning with it; give one")
    if over is not None and not over.exists():
        fail(f"--over: there is no {over}")
    failed = False
    try:
        if wanted:
            failed = not _make(wanted, folder, exact, None if over is None else str(over.absolute()))
        if prune:
            for removed, size in environments.prune(folder, everything=every):
                new_console().print(f"removed {text(removed.name)} ({_megabytes(size)})")
        if verify:
            failed = not _verify(folder) or failed
        if show:
            _list(folder)
    except CacheUnavailable as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted; what was finished stays, the rest is made next time", EXIT_INTERRUPTED)
    if failed:
        raise typer.Exit(EXIT_BROKEN)


def _make(wanted: list[Wanted], cache: Path, exact: bool, over: str | None) -> bool:
    """Make the environments one after the other; tells whether all are there."""
    console, out, complete = new_console(stderr=True), new_console(), True
    for number, item in enumerate(wanted, start=1):
        title = f"[{number}/{len(wanted)}] {text(item.shown)}"
        with console.status(title) as status:

            def say(words: str, title: str = title, status: object = status) -> None:
                if console.is_terminal:
                    status.update(f"{title}: {text(words)}")  # type: ignore[attr-defined]
                else:
                    console.print(f"{title}: {text(words)}")

            try:
                made = environments.provision(item, cache, exact=exact, over=over, say=say)
            except InstallFailed as error:
                console.print(f"[red]error[/red]: {text(str(error))}")
                complete = False
                continue
        for name, (asked, found) in sorted(made.off_pin.items()):
            console.print(f"{title}: {name} is {found or 'not installed'} (the release asks for {asked})")
        out.print(made.python)
    return complete


def _list(cache: Path) -> None:
    console, total = new_console(), 0
    for folder, item in environments.environments(cache):
        size = item.size if item else environments.size_of(folder)
        total += size
        console.print(f"{_about(item):<10} {_megabytes(size):>10}  {text(folder.name)}")
    console.print(f"{'':<10} {_megabytes(total):>10}  in {text(str(environments.root(cache)))}")


def _about(item: Environment | None) -> str:
    if item is None:
        return "damaged"
    if item.library == environments.SHARED:
        return item.library
    return "exact" if item.exact else "overlay"


def _verify(cache: Path) -> bool:
    console, sound = new_console(), True
    for folder, item in environments.environments(cache):
        wrong = [] if item is None else environments.damaged_files(item)
        if item is None or wrong:
            sound = False
            what = f"{wrong[0]} and {len(wrong) - 1} more" if len(wrong) > 1 else (wrong or ["not whole"])[0]
            console.print(f"[red]damaged[/red]  {text(folder.name)}: {text(what)}")
        else:
            console.print(f"[green]sound[/green]    {text(folder.name)}")
    return sound


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
