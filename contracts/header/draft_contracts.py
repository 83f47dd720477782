"""The contracts of depth header about one checkpoint, as pytest items: collected where --draft names one.

Each rule is an item. It fails where the draft will not start or will lose acceptance; where the checkpoint
does not tell, it is not run, with the reason.
"""

from __future__ import annotations

import pytest

from contracts.handoff import NotRun
from contracts.header.findings import Damage
from contracts.header.report import Report
from contracts.header.rule import Rule
from contracts.verdict import Broken

pytestmark = pytest.mark.contracts


def test_draft(draft_report: Report, header_rule: Rule) -> None:
    """The checkpoint keeps what this contract of depth header promises."""
    if header_rule.name in draft_report.not_judged:
        raise NotRun(f"not judged: {draft_report.not_judged[header_rule.name]}")
    found = [it.finding for it in draft_report.faults if it.finding.contract == header_rule.name]
    broken = [item for item in found if item.damage is not Damage.UNKNOWN]
    if broken:
        first = broken[0]
        seen = "; ".join(f"{item.where}: {item.seen}" for item in broken)
        raise Broken(first.cause, expected=first.expected, seen=seen, fix=first.told_fix)
    if found:
        first = found[0]
        told = f"{first.where}: {first.seen}, expected {first.expected}; {first.told_consequence}"
        raise NotRun(f"{first.cause}: {told}. {first.told_fix}")
