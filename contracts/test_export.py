"""Export: whatever was trained can be written for this serving release."""

import pytest

from contracts.handoff import Handoff
from contracts.verdict import Broken

pytestmark = pytest.mark.contracts


def test_draft_can_be_expressed(handoff: Handoff) -> None:
    """Nothing that was trained has to be left out of the exported checkpoint."""
    if handoff.export_refusals:
        first = handoff.export_refusals[0]
        raise Broken(
            first.cause,
            expected="a checkpoint that carries the whole draft",
            seen="cannot be carried: " + ", ".join(item.what for item in handoff.export_refusals),
            fix=first.fix,
        )
