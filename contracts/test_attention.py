"""Attention: heads, biases, query and key norms and the window are those of training."""

import math

import pytest

from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_heads_are_equal(handoff: Handoff) -> None:
    """The attention has the heads of training."""
    trained, served = handoff.both(lambda facts: facts.attention)
    expected, seen = (
        f"{side.num_heads} heads over {side.num_kv_heads} of {side.head_dim}" for side in (trained, served)
    )
    if expected != seen:
        raise Broken(Cause.HEADS_DIFFER, expected=expected, seen=seen)


def test_scale_is_equal(handoff: Handoff) -> None:
    """Attention scores are scaled by the factor of training."""
    trained, served = handoff.both(lambda facts: facts.attention)
    if not math.isclose(trained.scale, served.scale, rel_tol=1e-6):
        raise Broken(Cause.SCALE_DIFFERS, expected=f"{trained.scale:g}", seen=f"{served.scale:g}")


def test_biases_are_applied(handoff: Handoff) -> None:
    """The attention projections have biases exactly if they had in training."""
    trained, served = handoff.both(lambda facts: facts.attention)
    if trained.biased != served.biased:
        raise Broken(Cause.BIAS_DROPPED, expected=_has(trained.biased), seen=_has(served.biased))


def test_query_and_key_norms_are_applied(handoff: Handoff) -> None:
    """Queries and keys are normed per head exactly if they were in training."""
    trained, served = handoff.both(lambda facts: facts.attention)
    if trained.qk_norm != served.qk_norm:
        raise Broken(Cause.QK_NORM_MISSING, expected=_has(trained.qk_norm), seen=_has(served.qk_norm))


def test_windows_are_equal(handoff: Handoff) -> None:
    """Each layer attends to as many past positions as in training."""
    trained, served = handoff.both(lambda facts: facts.attention)
    if trained.windows != served.windows:
        raise Broken(
            Cause.WINDOW_DIFFERS,
            expected=f"positions per layer: {list(trained.windows)}",
            seen=f"positions per layer: {list(served.windows)}",
        )


def _has(present: bool) -> str:
    return "present" if present else "absent"
