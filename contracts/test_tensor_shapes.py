"""Tensor shapes: what is served has the shapes that were trained."""

import pytest

from contracts.facts import TensorShapes, VocabMap
from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_each_tensor_keeps_its_shape(handoff: Handoff) -> None:
    """The part of a parameter that a tensor fills has the tensor's trained shape."""
    trained, served = handoff.both(lambda facts: facts.tensor_shapes)
    wrong = {
        name: (trained.shapes[name], served.shapes[exported])
        for name, exported in handoff.renames.items()
        if exported in served.shapes and tuple(trained.shapes[name]) != tuple(served.shapes[exported])
    }
    if wrong:
        raise Broken(
            Cause.SHAPE_MISMATCH,
            expected=", ".join(f"{name} {list(shape)}" for name, (shape, _) in wrong.items()),
            seen=", ".join(f"{name} {list(shape)}" for name, (_, shape) in wrong.items()),
        )


def test_head_has_a_row_per_draft_token(tensor_shapes: TensorShapes, vocab_map: VocabMap) -> None:
    """The output head has exactly one row per token of the draft vocabulary."""
    shape = tensor_shapes.shapes.get("lm_head.weight")
    if shape is not None and shape[0] != vocab_map.draft_vocab_size:
        raise Broken(
            Cause.HEAD_ROWS,
            expected=f"{vocab_map.draft_vocab_size} rows (draft_vocab_size)",
            seen=f"{shape[0]} rows in lm_head.weight",
        )


def test_fc_is_as_wide_as_the_trained_states(handoff: Handoff) -> None:
    """The fusion projection that was saved maps all trained states, side by side, to the hidden size."""
    shape = handoff.trained(lambda facts: facts.tensor_shapes).shapes.get("fc.weight")
    states = handoff.trained(lambda facts: facts.aux_layers).states
    dims = handoff.trained(lambda facts: facts.hidden_dims)
    expected = (dims.draft, len(states) * dims.target)
    if shape is not None and tuple(shape) != expected:
        raise Broken(Cause.FC_WIDTH, expected=f"fc.weight {list(expected)}", seen=f"fc.weight {list(shape)}")
