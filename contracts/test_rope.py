"""RoPE: both sides turn queries and keys by the same angles."""

import math

import pytest

from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts

TOLERANCE = 1e-5
"""Relative; both sides compute the frequencies in float32, by formulas that differ in order."""


def test_frequencies_are_equal(handoff: Handoff) -> None:
    """The inverse frequencies are those of training, one per rotated pair of dimensions."""
    trained, served = handoff.both(lambda facts: facts.rope)
    ours, theirs = trained.inverse_frequencies, served.inverse_frequencies
    near = [math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(ours, theirs, strict=False)]
    if len(ours) != len(theirs) or not all(near):
        first = near.index(False) if False in near else min(len(ours), len(theirs))
        raise Broken(
            Cause.ROPE_FREQUENCIES,
            expected=f"{len(ours)} frequencies, from no. {first}: {_show(ours[first:])}",
            seen=f"{len(theirs)} frequencies, from no. {first}: {_show(theirs[first:])}",
        )


def test_same_dimensions_rotate_together(handoff: Handoff) -> None:
    """The dimensions that rotate together are those of training."""
    trained, served = handoff.both(lambda facts: facts.rope)
    if trained.interleaved != served.interleaved:
        names = {True: "neighbours", False: "the two halves of a head"}
        raise Broken(Cause.ROPE_PAIRS, expected=names[trained.interleaved], seen=names[served.interleaved])


def test_amplitude_is_equal(handoff: Handoff) -> None:
    """Cosine and sine are scaled by the factor of training."""
    trained, served = handoff.both(lambda facts: facts.rope)
    if not math.isclose(trained.amplitude, served.amplitude, rel_tol=TOLERANCE):
        raise Broken(Cause.ROPE_AMPLITUDE, expected=trained.amplitude, seen=served.amplitude)


def _show(frequencies: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.6g}" for value in frequencies[:3]) or "none"
