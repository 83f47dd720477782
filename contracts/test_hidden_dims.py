"""Hidden-state dims: what the target delivers is what the fusion projection was trained for."""

import pytest

from contracts.facts import HiddenDims
from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_target_delivers_what_fc_takes(hidden_dims: HiddenDims) -> None:
    """What reaches the draft per token is as wide as its fusion projection takes."""
    if hidden_dims.delivered != hidden_dims.fc_in:
        raise Broken(
            Cause.WIDTH_DIFFERS,
            expected=f"{hidden_dims.fc_in} values per token ({hidden_dims.target} in a hidden state)",
            seen=f"{hidden_dims.delivered} values per token",
        )


def test_fc_is_applied(handoff: Handoff) -> None:
    """The fusion projection takes part in the forward pass that is served."""
    served = handoff.served(lambda facts: facts.hidden_dims)
    if not served.fc_applied:
        raise Broken(
            Cause.FC_SKIPPED,
            expected="logits that depend on fc.weight",
            seen=f"logits that do not ({served.delivered} values arrive, embeddings have {served.draft})",
        )


def test_recurrent_state_is_as_wide_as_the_embedding(hidden_dims: HiddenDims) -> None:
    """What the draft feeds back to itself is as wide as its embedding, so it is not fused again."""
    if hidden_dims.recurrent != hidden_dims.draft:
        raise Broken(Cause.RECURRENT_WIDTH, expected=hidden_dims.draft, seen=hidden_dims.recurrent)
