"""`contracts export`: options in, words and an exit status out."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer
from packaging.requirements import InvalidRequirement, Requirement
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from contracts import export, export_report, records
from contracts.checkpoint import CheckpointError, read
from contracts.dialect import Dialect
from contracts.records import UnsupportedRelease
from contracts.refusals import Refused
from contracts.served_target import ServedTarget
from contracts.terminal import EXIT_BROKEN, EXIT_INTERRUPTED, fail, new_console, text

EXAMPLES = """
Examples:

contracts export my-draft -o my-draft-sglang

contracts export my-draft --for sglang==0.5.23 --target my-target -o my-draft-sglang
"""

Draft = Annotated[Path, typer.Argument(metavar="CKPT", help="Folder of the draft that speculators saved.")]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="New folder to write.")]
Release = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="RELEASE", help="sglang==VERSION that will serve it (default: the newest)."
    ),
]
Target = Annotated[
    Path | None,
    typer.Option("--target", metavar="DIR", help="Folder with the config.json of its target."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Write it even if something cannot be expressed; config.json says what."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is an earlier export.")]


def export_draft(
    draft: Draft,
    out: Out,
    release: Release = None,
    target: Target = None,
    force: Force = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a draft the way a sglang release reads it, or refuse with a cause."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that nothing half-written stays
        signal.signal(number, signal.default_int_handler)
    console = new_console()
    try:
        served = None if target is None else ServedTarget.read(target)
        version = _version(release)
        planned = export.plan(read(draft), Dialect.for_release(version), served)
        with _progress() as progress:
            bar = progress.add_task(text(str(out)), total=planned.size)
            export.write(
                planned,
                out,
                force=force,
                overwrite=overwrite,
                copied=lambda size: progress.advance(bar, size),
            )
    except Refused as refused:
        _tell_refused(console, planned, refused, version)
        raise typer.Exit(EXIT_BROKEN) from None
    except (CheckpointError, UnsupportedRelease) as error:
        fail(str(error))
    except OSError as error:
        if error.errno is None:  # our own: what is there already
            fail(str(error))
        fail(f"{error.filename or out}: {error.strerror or error}; nothing was written")
    except KeyboardInterrupt:
        whole = out.is_dir() and export.is_export(out)
        told = f"what lies in {out} is a whole export" if whole else "nothing was written"
        fail(f"interrupted; {told}", EXIT_INTERRUPTED)
    _tell_written(console, planned, out)
    if version != planned.dialect.release:
        console.print(f"  {'note':<13}  {_not_recorded(planned, version)}")


def _version(release: str | None) -> str:
    """The version in `sglang==VERSION`, or alone.

    Raises:
        UnsupportedRelease: it is anything else.

    """
    if release is None:
        return records.recorded_releases("sglang")[-1]
    try:
        wanted = Requirement(f"sglang=={release}" if release[:1].isdigit() else release)
        (pin,) = wanted.specifier
        if wanted.name == "sglang" and pin.operator == "==":
            return pin.version
    except (InvalidRequirement, ValueError):
        pass
    raise UnsupportedRelease(f"--for {release!r}: write sglang==VERSION, as in sglang==0.5.23")


def _progress() -> Progress:
    """A bar on the terminal, and nothing elsewhere."""
    console = new_console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _tell_written(console: Console, planned: export.Plan, out: Path) -> None:
    colour, said = ("yellow", "forced") if planned.refusals else ("green", "written")
    where = f"{text(str(out))} for sglang {planned.dialect.release}"
    console.print(
        f"[{colour}]{said}[/{colour}]  {where}: {len(planned.renames)} tensors, {planned.size / 1e6:,.1f} MB"
    )
    for word, sentence in export_report.summary(planned):
        console.print(f"  {word:<13}  {text(sentence)}")
    console.print(f"  {'serve with':<13}  {text(export_report.serve_with(planned, out))}")


def _not_recorded(planned: export.Plan, version: str) -> str:
    release = planned.dialect.release
    return f"nothing is recorded of sglang {version}; taken for {release}, the newest before it"


def _tell_refused(console: Console, planned: export.Plan, refused: Refused, version: str) -> None:
    draft, release = text(str(planned.source.path)), planned.dialect.release
    told = f"{draft} holds what sglang {release} cannot be given; nothing was written"
    console.print(f"[red]refused[/red]  {told}")
    for item in refused.refusals:
        console.print(f"\n  [bold]{text(item.what)}[/bold]  ({item.cause})")
        console.print(f"    cause         {text(item.cause.explanation)}")
        console.print(f"    consequence   served anyway, {export_report.consequence(item)}")
        console.print(f"    what helps    {text(item.fix)}")
    if version != release:
        console.print(f"\n{_not_recorded(planned, version)}")
    console.print("\n--force writes it all the same, and says in config.json what is wrong")
