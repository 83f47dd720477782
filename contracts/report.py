"""Views of the verdicts for a terminal. What is printed can be pasted into an upstream bug report."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from contracts import __version__
from contracts.causes import by_code
from contracts.handoff import NotRun
from contracts.outcome import LETTERS, Outcome, Verdict
from contracts.recipes import RECIPES
from contracts.service import SERVINGS
from contracts.settings import GPU_SETTINGS, SETTINGS, STEPS
from contracts.targets.recipes import TARGETS

if TYPE_CHECKING:
    from contracts.facts import SideName
    from contracts.judge import Judge

COLOURS = {
    Outcome.HOLDS: "green",
    Outcome.KNOWN: "yellow",
    Outcome.BROKEN: "red",
    Outcome.CHANGED: "cyan",
    Outcome.FIXED: "cyan",
    Outcome.ERROR: "purple",
    Outcome.NOT_RUN: "blue",
}
WORST_FIRST = (Outcome.BROKEN, Outcome.CHANGED, Outcome.FIXED, Outcome.ERROR, Outcome.KNOWN)
_NAMES = [*(recipe.name for recipe in RECIPES), "release", *(target.name for target in TARGETS)]
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_ABOUT = {
    **{setting.name: setting.about for setting in (*SETTINGS, *GPU_SETTINGS)},
    **{serving.name: f"the server, {serving.about}" for serving in SERVINGS},
}
_DEPTHS = {
    "acceptance": "engine",
    "targets": "engine",
    "forward": "forward",
    "header": "header",
    "server": "server",
}
"""By module; the others are of depth load."""
ACCEPT_LENGTHS = {
    "accept_length": "served: {about}",
    "replayed": "a chain, replayed by training",
    "promised": "promised by the trainer's accuracies",
}
_PROBE_FAILED = re.compile(r"^the \w+ probe failed on \S+: ")

CATEGORIES = {
    Outcome.HOLDS: "passed",
    Outcome.KNOWN: "xfailed",
    Outcome.BROKEN: "failed",
    Outcome.CHANGED: "failed",
    Outcome.FIXED: "failed",
    Outcome.ERROR: "error",
    Outcome.NOT_RUN: "skipped",
}


def status(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]]:
    """Category, letter and coloured word for pytest's progress display."""
    outcome = Outcome(report.verdict["outcome"])
    category = "failed" if outcome is Outcome.NOT_RUN and report.outcome == "failed" else CATEGORIES[outcome]
    return category, LETTERS[outcome], (outcome.upper(), {COLOURS[outcome]: True})


def explain(verdict: Verdict) -> str:
    """Everything about one verdict, as an indented block."""
    rows = [
        ("promise", verdict.promise),
        ("cause", verdict.cause),
        ("expected", verdict.expected),
        ("seen", verdict.seen),
        ("fix", verdict.fix),
        ("note", verdict.reason),
        ("upstream", verdict.upstream),
        ("reproduce", verdict.reproduce),
    ]
    lines = [f"{verdict.contract} [{verdict.case}]: {verdict.outcome}"]
    for name, value in rows:
        if value:
            lines.append(textwrap.indent(str(value), " " * 13)[:2000].replace(" " * 13, f"  {name:<9}  ", 1))
    return "\n".join(lines)


def environment(judge: Judge) -> dict[str, list[str]]:
    """What was judged, on what: lines per side."""
    return {side: _side_lines(judge, side) for side in judge.pythons}


def _side_lines(judge: Judge, name: SideName) -> list[str]:
    try:
        side = judge.workbench.side(name)
    except NotRun as missing:
        return [f"not run: {missing}"]
    identity = side.identity
    lines = [f"{side.library} {side.version}, Python {identity.python}, {identity.platform}"]
    for package, pin in sorted(identity.pins.items()):
        version = identity.packages.get(package)
        off = "" if version and _meets(version, pin) else f" (the release asks for {pin or 'any'})"
        lines.append(f"  {package} {version or 'not installed'}{off}")
    reported = [getattr(report, "stand_ins", {}) for report in judge.reports]
    stand_ins = dict.fromkeys(item for by_side in reported for item in by_side.get(name, ()))
    if any(name in by_side for by_side in reported) and not stand_ins:
        return [*lines, "  kernels: the library's own"]
    return lines + [f"  stand-in: {item}" for item in stand_ins]


def _meets(version: str, pin: str) -> bool:
    try:
        return SpecifierSet(pin).contains(version.partition("+")[0], prereleases=True)
    except InvalidSpecifier:
        return False  # a URL, say: shown as it is


def write_summary(reporter: Any, judge: Judge) -> None:
    """The summary at the end of a session."""
    verdicts = judge.verdicts()
    reporter.section("contracts", sep="=")
    device = judge.workbench.device
    modules = {verdict.contract.partition(".")[0] for verdict in verdicts}
    judged = {_DEPTHS.get(module, "load") for module in modules}
    depths = ", ".join(
        depth for depth in ("header", "load", "forward", "engine", "server") if depth in judged
    )
    reporter.write_line(f"draft-contracts {__version__}, depths: {depths or 'none'} (on {device})")
    sides = {} if judged == {"header"} else environment(judge)
    for side, lines in sides.items():
        reporter.write_line(f"{side:>8}: {lines[0]}")
        for line in lines[1:]:
            reporter.write_line(f"          {line}")
    reporter.write_line("")
    about_targets = [verdict for verdict in verdicts if verdict.contract.startswith("targets.")]
    _write_matrix(reporter, [verdict for verdict in verdicts if verdict not in about_targets])
    _write_matrix(reporter, about_targets, told=True)
    _write_accept_lengths(reporter, verdicts)
    _write_details(reporter, verdicts)
    counts = Counter(verdict.outcome for verdict in verdicts)
    told = [f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome]]
    missing = judge.expected - len(verdicts)
    if missing > 0:
        told.append(f"{missing} of {judge.expected} cases were never judged")
    reporter.write_line(", ".join(told) or "no contract was judged")


def _write_matrix(reporter: Any, verdicts: Sequence[Verdict], *, told: bool = False) -> None:
    """Contracts by recipe, one letter a cell; contracts about one side have a line per side.

    Above it the recipes, and what came of each in a few words if it is to be `told`.
    """
    recipes = sorted({v.recipe for v in verdicts} - {""}, key=_recipe_order)
    if not recipes or all(verdict.outcome is Outcome.NOT_RUN for verdict in verdicts):
        return
    wide = max(map(len, recipes))
    for number, recipe in enumerate(recipes, start=1):
        words = in_short([v for v in verdicts if v.recipe == recipe]) if told else ""
        reporter.write_line(f"  {number:>2} {recipe:<{wide}}  {words}".rstrip())
    rows: dict[str, dict[str, Outcome]] = {}
    for verdict in verdicts:
        side = verdict.case.partition("/")[0] if "/" in verdict.case else ""
        label = f"{verdict.contract} ({side})" if side else verdict.contract
        rows.setdefault(label, {})[verdict.recipe] = verdict.outcome
    width = max(map(len, rows))
    reporter.write_line("")
    reporter.write_line(f"  {'':<{width}}  " + "".join(f"{n % 10}" for n in range(1, len(recipes) + 1)))
    for label, cells in sorted(rows.items()):
        reporter.write(f"  {label:<{width}}  ")
        for recipe in recipes:
            outcome = cells.get(recipe)
            if outcome is None:
                reporter.write(" ")
            else:
                reporter.write(LETTERS[outcome], **{COLOURS[outcome]: True})
        reporter.write_line("")
    legend = "  ".join(f"{LETTERS[outcome]} {outcome}" for outcome in Outcome)
    reporter.write_line(f"  {legend}")
    reporter.write_line("")


def in_short(verdicts: Sequence[Verdict]) -> str:
    """What came of a recipe: its worst outcome, with the causes; `holds` where all that was judged does."""
    for outcome in WORST_FIRST:
        found = [verdict for verdict in verdicts if verdict.outcome is outcome]
        causes = dict.fromkeys(str(verdict.cause or _first_line(verdict)) for verdict in found)
        if found:
            return f"{outcome} {', '.join(causes)}".rstrip()
    return str(Outcome.HOLDS if any(it.outcome is Outcome.HOLDS for it in verdicts) else Outcome.NOT_RUN)


def _first_line(verdict: Verdict) -> str:
    """Why there is no verdict, in a line."""
    return next(iter((verdict.reason or "").splitlines()), "")


def _write_accept_lengths(reporter: Any, verdicts: Sequence[Verdict]) -> None:
    """The number that people look at, by setting and recipe, beside what it should be."""
    rows: dict[str, dict[str, float]] = {}
    for figure, label in ACCEPT_LENGTHS.items():
        for verdict in verdicts:
            if figure in (verdict.figures or {}):
                row = rows.setdefault(label.format(about=_ABOUT.get(verdict.case.partition("/")[0])), {})
                row[verdict.recipe] = (verdict.figures or {})[figure]
    if not rows:
        return
    recipes = sorted({recipe for row in rows.values() for recipe in row}, key=_recipe_order)
    title = f"accept length, of {STEPS + 1} ({STEPS} draft tokens and the target's own)"
    width = max(map(len, [title, *rows])) + 2
    reporter.write_line(f"  {title:<{width}}" + "".join(f"{recipe:>10}" for recipe in recipes))
    for label, row in rows.items():
        values = (f"{row[recipe]:.2f}" if recipe in row else "-" for recipe in recipes)
        reporter.write_line(f"  {label:<{width}}" + "".join(f"{value:>10}" for value in values))
    reporter.write_line("")


def _write_details(reporter: Any, verdicts: Sequence[Verdict]) -> None:
    """Cause and fix of everything that does not hold, equal ones together; worst first."""
    *worst, known = WORST_FIRST
    for outcome in [*worst, Outcome.NOT_RUN, known]:
        groups: dict[tuple[Any, ...], list[Verdict]] = {}
        for verdict in verdicts:
            if verdict.outcome == outcome:
                groups.setdefault(_alike(verdict), []).append(verdict)
        for group in groups.values():
            _write_group(reporter, outcome, group)


def _alike(verdict: Verdict) -> tuple[str | None, ...]:
    """What verdicts that are told together have in common."""
    if verdict.outcome == Outcome.NOT_RUN:
        return (verdict.cause or verdict.reason,)
    if verdict.outcome == Outcome.KNOWN:
        return verdict.cause, verdict.reason
    if verdict.outcome == Outcome.ERROR:
        return (_PROBE_FAILED.sub("", verdict.reason or ""),)  # the same failure, met by every recipe
    return verdict.contract, verdict.cause, verdict.seen


def _write_group(reporter: Any, outcome: Outcome, group: Sequence[Verdict]) -> None:
    first = group[0]
    contracts = list(dict.fromkeys(v.contract for v in group))
    name = contracts[0] if len(contracts) == 1 else f"{contracts[0]} and {len(contracts) - 1} more"
    cases = _short(list(dict.fromkeys(v.case for v in group)))
    reporter.write_line(f"{outcome.upper()}  {name}  [{cases}]", **{COLOURS[outcome]: True})
    told = outcome not in (Outcome.NOT_RUN, Outcome.ERROR)
    rows = [
        ("all", ", ".join(contracts) if len(contracts) > 1 else None),
        ("promise", first.promise if told else None),
        ("cause", f"{first.cause}: {by_code(first.cause).explanation}" if first.cause else None),
        ("expected", first.expected),
        ("seen", first.seen),
        ("fix", first.fix),
        ("why", "\n".join(dict.fromkeys(v.reason for v in group if v.reason))),
        ("upstream", first.upstream),
        ("reproduce", first.reproduce if outcome is not Outcome.NOT_RUN else None),
    ]
    for label, value in rows:
        if value:
            lines = str(value).splitlines() or [""]
            reporter.write_line(f"    {label:<9}  {lines[0]}")
            for line in lines[1:40]:
                reporter.write_line(f"               {line}")
    reporter.write_line("")


def _short(cases: Sequence[str]) -> str:
    """Some of many cases, and how many more there are."""
    return ", ".join(cases) if len(cases) <= 6 else f"{', '.join(cases[:4])} and {len(cases) - 4} more"


def _recipe_order(name: str) -> tuple[int, str]:
    return _PLACES.get(name, len(_PLACES)), name
