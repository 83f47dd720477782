"""A report as a person reads it, as JSON, as markdown, and as annotations of a GitHub job."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from contracts import records
from contracts.header.findings import Damage, Finding, Verdict
from contracts.header.reading import LIBRARY
from contracts.header.report import Judged, Report, Spread
from contracts.ranges import ranges
from contracts.terminal import printable, text

FORMAT = 1
"""Number of the JSON format."""
Row = tuple[list[str], Verdict, list[str]]
"""Releases, their verdict and its causes."""
COLOURS = {
    Verdict.FAILS: "red",
    Verdict.LOSES: "red",
    Verdict.UNKNOWN: "yellow",
    Verdict.ACCEPTS: "green",
}
DAMAGE_COLOURS = {Damage.FAILS: "red", Damage.COLLAPSES: "red", Damage.LOSES: "red", Damage.UNKNOWN: "yellow"}
LEVELS = {Damage.UNKNOWN: "warning", Damage.NOTE: "notice"}
"""Of GitHub's annotations; `error` where nothing else is said."""


def headline(report: Report) -> str:
    """The verdict in one line."""
    return f"{report.verdict}  {report.draft.name} in {_releases(report)}"


def _releases(report: Report) -> str:
    judged = [item.release for item in report.judged]
    told = ranges(judged, records.recorded_releases(LIBRARY))
    return f"{LIBRARY} {report.asked_for}, taken for {told}" if report.asked_for else f"{LIBRARY} {told}"


def about(report: Report) -> list[tuple[str, str]]:
    """What was judged: a word and a sentence each."""
    origin, tensors = report.draft.origin, report.draft.tensors.values()
    megabytes = sum(tensor.size for tensor in tensors) / 1e6
    lines = [
        ("draft", f"{len(tensors)} tensors, {megabytes:,.1f} MB"),
        ("written by", f"{origin.writer} ({'; '.join(origin.evidence)})"),
    ]
    if report.target:
        classes = " / ".join(report.target.architectures) or "without a class"
        lines.append(
            ("target", f"{report.target.folder} ({classes}, {report.target.num_hidden_layers} layers)")
        )
    lines.append(("judged by", f"{report.contracts} contracts, on what is recorded of each release"))
    if report.library:
        lines.append(("and by", f"{LIBRARY} {report.library} itself, which was given the draft"))
    if report.asked_for:
        lines.append(("note", f"nothing is recorded of {LIBRARY} {report.asked_for}"))
    for reason in dict.fromkeys(report.not_judged.values()):
        number = sum(reason == other for other in report.not_judged.values())
        lines.append(("not judged", f"{number} contracts: {reason}"))
    return lines


def serve_with(report: Report) -> str:
    """The arguments with which a server takes the draft."""
    usual = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", report.draft.name]
    return shlex.join([*usual, *report.server_args])


def write_text(console: Console, report: Report) -> None:
    """The report as a person reads it."""
    colour = COLOURS[report.verdict]
    rest = headline(report).removeprefix(report.verdict)
    console.print(f"[{colour}]{report.verdict}[/{colour}]{text(rest)}")
    for word, sentence in about(report):
        console.print(f"  {word:<12}  {text(sentence)}")
    _write_rows(console, list(rows(report)))
    for spread in report.faults:
        _write_finding(console, spread, report)
    for spread in report.notes:
        item = spread.finding
        told = f"{item.where}: {item.seen}; expected {item.expected}. Consequence: {item.told_consequence}"
        console.print(f"\n[bold]note[/bold]  {text(told)}  ({item.cause})")
    if report.verdict is Verdict.ACCEPTS:
        console.print(f"\nserve with  {text(serve_with(report))}")
    elif report.faults:
        console.print(f"\nMore on a cause: contracts explain {report.faults[0].finding.cause}")


def rows(report: Report) -> Iterator[Row]:
    """Releases that a draft fares alike in, the verdict, and the causes."""
    alike: dict[tuple[Verdict, tuple[str, ...]], list[str]] = {}
    for item in report.judged:
        alike.setdefault((item.verdict, tuple(_causes(item))), []).append(item.release)
    for (verdict, causes), releases in alike.items():
        yield releases, verdict, list(causes)


def _causes(judged: Judged) -> list[str]:
    found = (it.cause for it in judged.findings if it.damage is not Damage.NOTE)
    return list(dict.fromkeys(map(str, found)))


def _write_rows(console: Console, alike: list[Row]) -> None:
    if len(alike) < 2:
        return  # the headline says it all
    known = records.recorded_releases(LIBRARY)
    told = [(ranges(releases, known), verdict, causes) for releases, verdict, causes in alike]
    width = max(len(releases) for releases, _, _ in told)
    console.print()
    for releases, verdict, causes in told:
        colour = COLOURS[verdict]
        padding = " " * (max(map(len, Verdict)) - len(verdict))
        rest = f"{padding}  {text(', '.join(causes))}".rstrip()
        console.print(f"  {releases:<{width}}  [{colour}]{verdict}[/{colour}]{rest}")


def _write_finding(console: Console, spread: Spread, report: Report) -> None:
    item = spread.finding
    colour = DAMAGE_COLOURS[item.damage]
    console.print(f"\n[{colour}]{item.damage.upper()}[/{colour}]  [bold]{text(item.where)}[/bold]")
    for word, sentence in lines_of(spread, report):
        console.print(f"  {word:<12}  {text(sentence)}")


def lines_of(spread: Spread, report: Report) -> list[tuple[str, str]]:
    """All that is said of a finding: a word and a sentence each."""
    item = spread.finding
    lines = [
        ("cause", f"{item.cause}: {item.cause.explanation}"),
        ("expected", item.expected),
        ("seen", item.seen),
        ("consequence", item.told_consequence),
        ("fix", item.told_fix),
        ("contract", _contract(item)),
    ]
    if len(report.judged) > 1:
        known = records.recorded_releases(LIBRARY)
        lines.insert(1, ("releases", f"{LIBRARY} {ranges(spread.releases, known)}"))
    return lines


def _contract(item: Finding) -> str:
    """The name of a contract: what the library shows itself is of no depth header."""
    return item.contract if item.contract.startswith("deep.") else f"header.{item.contract}"


# ------------------------------------------------------------------------ for machines


def as_data(report: Report) -> dict[str, Any]:
    """The report as plain data; `format` counts up when a key changes its meaning."""
    origin = report.draft.origin
    return {
        "format": FORMAT,
        "draft": report.draft.name,
        "written_by": {"writer": origin.writer, "release": origin.release, "evidence": list(origin.evidence)},
        "target": None if report.target is None else str(report.target.folder),
        "library": LIBRARY,
        "verdict": report.verdict,
        "releases": [
            {
                "release": item.release,
                "verdict": item.verdict,
                "findings": [_finding(finding) for finding in item.findings],
            }
            for item in report.judged
        ],
        "asked_for": report.asked_for,
        "asked_library": report.library,
        "contracts": report.contracts,
        "not_judged": dict(report.not_judged),
        "serve_with": serve_with(report),
    }


def _finding(item: Finding) -> dict[str, str]:
    return {
        "contract": _contract(item),
        "cause": str(item.cause),
        "damage": item.damage,
        "where": item.where,
        "expected": item.expected,
        "seen": item.seen,
        "consequence": item.told_consequence,
        "fix": item.told_fix,
    }


def as_json(report: Report) -> str:
    """The report as JSON."""
    return json.dumps(as_data(report), indent=2)


def as_markdown(report: Report) -> str:
    """The report as markdown, to be pasted into an issue."""
    lines = [f"**{report.verdict}**: `{report.draft.name}` in {_releases(report)}", ""]
    lines += [f"- {word}: {_cell(sentence)}" for word, sentence in about(report)]
    known = records.recorded_releases(LIBRARY)
    if len(report.judged) > 1:
        lines += ["", f"| {LIBRARY} | verdict | causes |", "|---|---|---|"]
        for releases, verdict, causes in rows(report):
            lines.append(f"| {ranges(releases, known)} | {verdict} | {', '.join(causes)} |")
    if report.findings:
        lines += ["", "| damage | where | cause | expected | seen | fix |", "|---|---|---|---|---|---|"]
        for spread in report.findings:
            item = spread.finding
            cells = (item.damage, item.where, item.cause, item.expected, item.seen, item.told_fix)
            lines.append("| " + " | ".join(_cell(str(cell)) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(words: str) -> str:
    return printable(words).replace("|", "\\|").replace("<", "&lt;")


def as_annotations(report: Report) -> str:
    """The report as workflow commands of GitHub, one line a finding."""
    lines = []
    for spread in report.findings:
        item = spread.finding
        level = LEVELS.get(item.damage, "error")
        file = _property(report.draft.config.where)
        told = f"{item.where}: expected {item.expected}; seen {item.seen}. {item.told_fix}"
        lines.append(f"::{level} file={file},title={_property(str(item.cause))}::{message(told)}")
    level = "notice" if report.verdict is Verdict.ACCEPTS else "error"
    lines.append(f"::{level}::{message(headline(report))}")
    return "\n".join(lines) + "\n"


def message(words: str) -> str:
    """Words as they may stand in a workflow command of GitHub."""
    sound = words.encode("utf-8", "replace").decode("utf-8")  # half of a character is none
    return sound.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return message(words).replace(":", "%3A").replace(",", "%2C")
