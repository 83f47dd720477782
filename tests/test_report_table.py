"""Every public report is mapped to something that exists, or has a reason; the page is up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import report_table

CONTRACTS = Path(__file__).parent.parent / "contracts"


def test_all_reports_are_there() -> None:
    ids = [report["id"] for report in report_table.reports()]
    assert len(ids) == len(set(ids)) == 91
    assert ids == sorted(ids)


@pytest.mark.parametrize("report", report_table.reports(), ids=lambda report: report["id"])
def test_report_is_mapped_or_has_a_reason(report: dict[str, Any]) -> None:
    named = [*report.get("rules", ()), *report.get("contracts", ())]
    assert bool(named) != ("why_not" in report)
    assert set(report.get("rules", ())) <= report_table.rule_names()
    for name in report.get("contracts", ()):
        module, _, promise = name.partition(".")
        assert f"def test_{promise}(" in (CONTRACTS / f"test_{module}.py").read_text()


def test_page_is_up_to_date() -> None:
    assert report_table.DOCUMENT.read_text() == report_table.table()
