"""What the summary says of a target class in a few words."""

from __future__ import annotations

import pytest

from contracts.outcome import Outcome, Verdict
from contracts.report import in_short


def verdict(outcome: Outcome, cause: str | None = None, reason: str | None = None) -> Verdict:
    return Verdict(
        contract="targets.x", promise="It holds.", case="llama", outcome=outcome, cause=cause, reason=reason
    )


HOLDS, NOT_RUN = verdict(Outcome.HOLDS), verdict(Outcome.NOT_RUN, "ids-refused")
KNOWN = verdict(Outcome.KNOWN, "layer-order-decides")
BROKEN = [verdict(Outcome.BROKEN, cause) for cause in ("wrong-layers", "state-normed", "wrong-layers")]


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        ([HOLDS, NOT_RUN], "holds"),
        ([NOT_RUN], "not-run"),
        ([HOLDS, KNOWN], "known layer-order-decides"),
        ([HOLDS, KNOWN, *BROKEN], "broken wrong-layers, state-normed"),
        ([HOLDS, verdict(Outcome.ERROR, reason="the probe hung\nfor long")], "error the probe hung"),
    ],
)
def test_the_worst_is_told_with_its_causes(verdicts: list[Verdict], told: str) -> None:
    assert in_short(verdicts) == told
