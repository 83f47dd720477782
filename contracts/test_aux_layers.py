"""Aux layers: the draft is served the hidden states that it was trained on."""

import pytest

from contracts.captured import check_captured
from contracts.facts import AuxLayers
from contracts.handoff import Handoff
from contracts.replay import Replay
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_trained_layers_are_captured(handoff: Handoff) -> None:
    """The target delivers the very hidden states that the draft was trained on, whatever their order."""
    trained, served = handoff.both(lambda facts: facts.aux_layers)
    if sorted(trained.states) != sorted(served.states):
        raise Broken(Cause.WRONG_LAYERS, expected=_show(trained), seen=_show(served))


def test_layers_arrive_in_trained_order(handoff: Handoff) -> None:
    """The hidden states that are delivered come in the order in which the draft was trained on them."""
    trained, served = handoff.both(lambda facts: facts.aux_layers)
    common = set(trained.states) & set(served.states)
    order = [state for state in trained.states if state in common]
    if order != [state for state in served.states if state in common]:
        raise Broken(Cause.LAYER_ORDER, expected=_show(trained), seen=_show(served))


def test_states_are_taken_before_the_final_norm(handoff: Handoff) -> None:
    """No hidden state that is delivered has passed the target's final norm."""
    if handoff.served(lambda facts: facts.aux_layers).final_norm:
        raise Broken(
            Cause.STATE_NORMED,
            expected="outputs of decoder layers",
            seen="a state after the target's final norm",
        )


def test_trained_layers_exist_in_the_target(handoff: Handoff) -> None:
    """Every hidden state that the draft was trained on is one that its target has."""
    layers = handoff.trained(lambda facts: facts.aux_layers)
    outside = [state for state in layers.states if not 0 <= state <= layers.num_layers]
    if outside:
        raise Broken(
            Cause.LAYER_OUT_OF_RANGE,
            expected=f"hidden states 0 to {layers.num_layers}",
            seen=f"hidden states {outside}",
        )


@pytest.mark.gpu
def test_delivered_values_are_those_of_the_trained_layers(replay: Replay) -> None:
    """Each delivered state has the values of the one trained on, by transformers, and of no other."""
    check_captured(replay.captured(), replay.ids)


def _show(layers: AuxLayers) -> str:
    normed = " after the final norm" if layers.final_norm else ""
    return f"hidden states {list(layers.states)}{normed} (ids {list(layers.layer_ids or ())})"
