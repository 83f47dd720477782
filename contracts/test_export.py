"""Export: whatever was trained can be written for this serving release."""

import pytest

from contracts.handoff import Handoff
from contracts.recipes import Recipe
from contracts.verdict import Broken, Cause
from contracts.workbench import Workbench

pytestmark = pytest.mark.contracts


def test_saved_draft_is_whole(workbench: Workbench, recipe: Recipe) -> None:
    """What the training library saved is a whole draft that can be exported."""
    reason = workbench.why_not_exported(recipe.name)
    if reason is not None:
        raise Broken(Cause.DRAFT_NOT_WHOLE, expected="tensors and config of one draft", seen=reason)


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
