"""Weight names: what training saved is what the serving loader reads, and all that the forward needs."""

import pytest

from contracts.export import DERIVED
from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_every_trained_tensor_is_offered(handoff: Handoff) -> None:
    """The checkpoint that is served offers every tensor that training saved, unless it is derived."""
    trained = handoff.trained(lambda facts: facts.weight_names).names
    served = handoff.served(lambda facts: facts.weight_names)
    offered = {*served.names, *served.ignored}
    lost = [name for name in trained if name not in DERIVED and handoff.renames.get(name) not in offered]
    if lost:
        raise Broken(
            Cause.TENSOR_NOT_OFFERED, expected="every trained tensor", seen=f"without {', '.join(lost)}"
        )


def test_every_trained_tensor_is_consumed(handoff: Handoff) -> None:
    """The values of every trained tensor reach the model that is served."""
    ignored = set(handoff.served(lambda facts: facts.weight_names).ignored)
    dropped = sorted(name for name, exported in handoff.renames.items() if exported in ignored)
    if dropped:
        raise Broken(
            Cause.TENSOR_DROPPED,
            expected=f"{len(handoff.renames)} tensors read",
            seen=f"{len(dropped)} read by nothing: {', '.join(dropped)}",
            fix=handoff.remedy(*dropped),
        )


def test_every_used_parameter_is_written(handoff: Handoff) -> None:
    """Every parameter that the forward pass reads has been written, by the checkpoint or by the target."""
    unwritten = handoff.served(lambda facts: facts.weight_names).unwritten
    if unwritten:
        raise Broken(
            Cause.PARAMETER_UNWRITTEN, expected="no parameter left as allocated", seen=", ".join(unwritten)
        )
