"""Norms: each optional norm is applied when serving exactly if it was when training."""

import math

import pytest

from contracts.facts import NormFlags
from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_norm_before_fc_is_honoured(handoff: Handoff) -> None:
    """The norm over the concatenated aux states is applied as in training."""
    _same(handoff, "norm_before_fc")


def test_fc_norm_is_honoured(handoff: Handoff) -> None:
    """The norm on each aux state is applied as in training."""
    _same(handoff, "fc_norm")


def test_norm_output_is_honoured(handoff: Handoff) -> None:
    """The state that the draft feeds back is normed as in training."""
    _same(handoff, "norm_output")


def test_norm_before_residual_is_honoured(handoff: Handoff) -> None:
    """The first layer's residual is normed as in training."""
    _same(handoff, "norm_before_residual")


def test_epsilon_is_equal(handoff: Handoff) -> None:
    """The norms add the epsilon of training."""
    trained, served = handoff.both(lambda facts: facts.norm_eps)
    if not math.isclose(trained, served, rel_tol=1e-6):
        raise Broken(Cause.NORM_EPSILON, expected=f"{trained:g}", seen=f"{served:g}")


def _same(handoff: Handoff, flag: str) -> None:
    trained, served = handoff.both(lambda facts: facts.norms)
    expected, seen = getattr(trained, flag), getattr(served, flag)
    if expected != seen:
        raise Broken(
            Cause.NORM_DIFFERS,
            expected=_show(trained, flag),
            seen=_show(served, flag),
            fix=handoff.remedy(flag),
        )


def _show(norms: NormFlags, flag: str) -> str:
    return f"{flag} {'applied' if getattr(norms, flag) else 'not applied'}"
