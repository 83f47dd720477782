"""Weight names: what training saved is what the serving loader reads, and all that the forward needs."""

import pytest

from contracts.export import DERIVED
from contracts.facts import WeightNames
from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_every_trained_tensor_is_exported(handoff: Handoff) -> None:
    """Every tensor that training saved is in the checkpoint that is served, unless it is derived."""
    names = set(handoff.trained(lambda facts: facts.weight_names).names)
    lost = sorted(names - set(handoff.renames) - DERIVED)
    if lost:
        raise Broken(
            Cause.TENSOR_UNTRACED, expected="every trained tensor", seen=f"without {', '.join(lost)}"
        )


def test_every_trained_tensor_is_consumed(handoff: Handoff) -> None:
    """The values of every trained tensor reach the model that is served."""
    consumed = set(handoff.served(lambda facts: facts.weight_names).names)
    dropped = sorted(name for name, exported in handoff.renames.items() if exported not in consumed)
    if dropped:
        raise Broken(
            Cause.TENSOR_DROPPED,
            expected=f"{len(handoff.renames)} tensors read",
            seen=f"{len(dropped)} read by nothing: {', '.join(dropped)}",
            fix=handoff.remedy(*dropped),
        )


def test_every_used_parameter_is_written(weight_names: WeightNames) -> None:
    """Every parameter that the forward pass reads has been written, by the checkpoint or by the target."""
    if weight_names.unwritten:
        raise Broken(
            Cause.PARAMETER_UNWRITTEN,
            expected="no parameter left as allocated",
            seen=", ".join(weight_names.unwritten),
        )
