"""Maps public reports to what names their faults, as docs/reports.md: `python -m tests.report_table`."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from contracts.header import rules

REPORTS = Path(__file__).with_name("reports.toml")
DOCUMENT = Path(__file__).parent.parent / "docs" / "reports.md"
STATIC = ("header_config", "tensor_values", "engine_resolver", "capability_table")
"""Levels of checking that need no forward pass."""
HEAD = """# Public reports, and what finds their faults

Bugs at the interface between draft and engine that people reported in public, and which part of this suite
names such a fault: a rule of `contracts check` (depth header) or a contract of a lower depth. Where neither
can, the reason stands there. Many are about other engines; what counts is whether the fault shows in a
checkpoint that sglang is to serve.

| lowest level at which it shows | reports | named by `contracts check` | by lower depths alone | by none |
|---|---|---|---|---|
{counts}

Written by `python -m tests.report_table` from `tests/reports.toml`, held by `tests/test_report_table.py`.

## Named

| report | engine | what was wrong | named by |
|---|---|---|---|
"""
REST = """
## Not named

| report | engine | what was wrong | why not |
|---|---|---|---|
"""


def reports() -> list[dict[str, Any]]:
    with REPORTS.open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["report"]
    return found


def _named_by(report: dict[str, Any]) -> str:
    told = [f"`header.{name}`" for name in report.get("rules", ())]
    told += [f"`{name}`" for name in report.get("contracts", ())]
    return ", ".join(told) + (f". {report['note']}" if "note" in report else "")


def _counts() -> str:
    lines = []
    levels = Counter(report["level"] for report in reports())
    for level in sorted(levels, key=lambda name: (name not in STATIC, name)):
        these = [report for report in reports() if report["level"] == level]
        header = sum("rules" in report for report in these)
        lower = sum("rules" not in report and "contracts" in report for report in these)
        none = sum("why_not" in report for report in these)
        lines.append(f"| {level.replace('_', ' ')} | {len(these)} | {header} | {lower} | {none} |")
    return "\n".join(lines)


def table() -> str:
    """The page."""
    named, rest = [], []
    for report in reports():
        cells = f"| [{report['id']}]({report['url']}) | {report['engine']} | {report['about']} |"
        if "why_not" in report:
            rest.append(f"{cells} {report['why_not']} |")
        else:
            named.append(f"{cells} {_named_by(report)} |")
    return HEAD.format(counts=_counts()) + "\n".join(named) + "\n" + REST + "\n".join(rest) + "\n"


def rule_names() -> set[str]:
    """Names of all rules, as reports give them."""
    return set(rules.RULES)


if __name__ == "__main__":
    DOCUMENT.write_text(table(), encoding="utf-8")
    print(f"written: {DOCUMENT}")
