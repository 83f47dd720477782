"""Published drafts fare in the check as people report that they fare in sglang."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.causes import Cause
from contracts.header.findings import Verdict
from tests.published_table import DOCUMENT, judged, published, table

REPORTED = [draft for draft in published() if draft["sglang"]]


def test_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == table()


@pytest.mark.parametrize("draft", REPORTED, ids=lambda draft: draft["id"])
def test_what_is_reported_is_foreseen(draft: dict[str, Any]) -> None:
    report = judged(draft)
    for result in draft["sglang"]:
        if result["status"] == "fails":
            assert report.verdict is Verdict.FAILS
        else:
            assert report.verdict in (Verdict.ACCEPTS, Verdict.UNKNOWN)


def test_a_head_that_a_copied_flag_replaces_is_named() -> None:
    """Two of a family: their small targets tie their embeddings, and the flag was copied."""
    family = {draft["id"]: judged(draft) for draft in published() if draft["trainer"] == "AngelSlim"}
    found = {name: {it.finding.cause for it in report.faults} for name, report in family.items()}
    tied = {name for name, causes in found.items() if Cause.HEAD_REPLACED in causes}
    assert tied == {"AngelSlim/Qwen3-1.7B_eagle3", "AngelSlim/Qwen3-4B_eagle3"}
