"""The real sglang is given drafts with one fault each, and the fault is found by name.

The first three are the story behind this project: a draft accepted 0 % of the time, because decoder weights
lay under a name that the server dropped, because the target's capture was off, and because d2t was read in
the other encoding. Mending one uncovered the next; here one run finds all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from contracts.handoff import Handoff
from contracts.verdict import Cause
from tests.facts import HANDOFF
from tests.mutations import (
    Config,
    Mutation,
    Tensors,
    absolute_d2t,
    capture_off,
    drop,
    edit,
    ids,
    linear_rope,
    mutate,
    other_rope,
    rename,
)
from tests.runner import broken

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench


@dataclass(frozen=True)
class Fault:
    name: str
    apply: Mutation
    causes: Mapping[str, Cause]
    """Every contract that must break, and why."""
    recipe: str = "plain"


def all_three(tensors: Tensors, config: Config) -> None:
    for fault in (rename("midlayer.", "decoder."), capture_off, absolute_d2t):
        fault(tensors, config)


def narrow_fc(tensors: Tensors, config: Config) -> None:
    tensors["fc.weight"] = tensors["fc.weight"][:, :128].clone()


NAMES = {
    "weight_names.every_trained_tensor_is_offered": Cause.TENSOR_NOT_OFFERED,
    "weight_names.every_used_parameter_is_written": Cause.PARAMETER_UNWRITTEN,
}
CAPTURE = {
    "aux_layers.states_are_taken_before_the_final_norm": Cause.STATE_NORMED,
    "aux_layers.trained_layers_are_captured": Cause.WRONG_LAYERS,
    "hidden_dims.target_delivers_what_fc_takes": Cause.WIDTH_DIFFERS,
    "hidden_dims.fc_is_applied": Cause.FC_SKIPPED,
}
MAP = {
    "vocab_map.draft_ids_map_to_trained_target_ids": Cause.MAP_DIFFERS,
    "vocab_map.target_ids_exist": Cause.MAP_OUT_OF_RANGE,
}

PAIRS = {"rope.same_dimensions_rotate_together": Cause.ROPE_PAIRS}

FAULTS = (
    Fault("decoder_prefix", rename("midlayer.", "decoder."), NAMES),
    Fault("capture_off", capture_off, CAPTURE),
    Fault("absolute_d2t", absolute_d2t, MAP),
    Fault("all_three", all_three, {**NAMES, **CAPTURE, **MAP}),
    Fault("no_d2t", drop("d2t"), {
        "weight_names.every_trained_tensor_is_offered": Cause.TENSOR_NOT_OFFERED,
        "vocab_map.draft_ids_map_to_trained_target_ids": Cause.MAP_DIFFERS,
        "vocab_map.reduced_vocabulary_has_a_map": Cause.MAP_MISSING,
    }),
    Fault("no_head", drop("lm_head.weight"), NAMES),
    Fault("ids_one_late", ids(1, 4, 6), {"aux_layers.trained_layers_are_captured": Cause.WRONG_LAYERS}),
    Fault("ids_in_training_order", ids(5, 3, 0), {}),  # sglang captures in ascending order all the same
    Fault("two_ids", ids(0, 3), {
        "config.draft_is_accepted": Cause.DRAFT_REFUSED,
        "aux_layers.trained_layers_are_captured": Cause.WRONG_LAYERS,
    }),
    Fault("narrow_fc", narrow_fc, {"config.draft_is_accepted": Cause.DRAFT_REFUSED}),
    Fault("rope_base", other_rope, {"rope.frequencies_are_equal": Cause.ROPE_FREQUENCIES}),
    Fault("linear_rope", linear_rope, {"rope.frequencies_are_equal": Cause.ROPE_FREQUENCIES}),
    Fault("interleaved", edit(rope_is_neox_style=False), PAIRS),
    Fault("epsilon", edit(rms_norm_eps=0.5), {"norms.epsilon_is_equal": Cause.NORM_EPSILON}),
    Fault("norm_output", edit(norm_output=True), {"norms.norm_output_is_honoured": Cause.NORM_DIFFERS}),
    Fault("fc_norm", edit(fc_norm=True), {
        "norms.fc_norm_is_honoured": Cause.NORM_DIFFERS,
        "weight_names.every_used_parameter_is_written": Cause.PARAMETER_UNWRITTEN,
    }),
    Fault("dtype", edit(dtype="float32"), {
        "config.draft_computes_in_the_dtype_of_its_target": Cause.DTYPE_DIFFERS,
    }, recipe="bfloat16"),
    Fault("plain_llama_class", edit(architectures=["LlamaForCausalLM"]), {
        "config.draft_is_accepted": Cause.DRAFT_REFUSED,
    }),
    # On a CPU, and there only, sglang's loader pads projections that are too small instead of refusing them.
    Fault("head_dim", edit(head_dim=32), {
        "attention.heads_are_equal": Cause.HEADS_DIFFER,
        "attention.scale_is_equal": Cause.SCALE_DIFFERS,
        "rope.frequencies_are_equal": Cause.ROPE_FREQUENCIES,
        "weight_names.every_used_parameter_is_written": Cause.PARAMETER_UNWRITTEN,
    }),
    Fault("draft_vocab_null", edit(draft_vocab_size=None), {
        "config.draft_is_accepted": Cause.DRAFT_REFUSED,
    }),
)  # fmt: skip


@pytest.fixture(scope="session")
def served(
    real_workbench: Workbench, sglang: Side, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Handoff]:
    """Every faulty draft, taken by one run of the real serving probe."""
    root = tmp_path_factory.mktemp("faults")
    cases = []
    for fault in FAULTS:
        source, folder = (
            real_workbench.group(fault.recipe).draft_folder(fault.recipe, "exported"),
            root / "drafts" / fault.name,
        )
        mutate(source, folder, fault.apply)
        target = real_workbench.group(fault.recipe).target_folder(fault.recipe)
        cases.append({"case": fault.name, "folder": folder, "target": target, "server_args": []})
    run = sglang.run(cases, root / "cache")
    handoffs = {}
    for fault in FAULTS:
        result = run.results[fault.name]
        assert result.error is None, result.error
        assert result.facts is not None
        good = real_workbench.handoff(fault.recipe)
        handoffs[fault.name] = replace(good, serving=result.facts, serving_refusals=result.refusals)
    return handoffs


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_found_by_name(served: dict[str, Handoff], fault: Fault) -> None:
    verdicts = broken(served[fault.name], raw=HANDOFF)  # the fault is in the exported draft
    found = {contract: verdict.cause for contract, verdict in verdicts.items()}
    assert found == dict(fault.causes), served[fault.name].serving_refusals


def test_the_story_is_told_in_one_run(served: dict[str, Handoff]) -> None:
    verdicts = broken(served["all_three"])
    dropped = verdicts["weight_names.every_trained_tensor_is_offered"]
    assert "layers.0.self_attn.q_proj.weight" in dropped.seen
    skipped = verdicts["hidden_dims.fc_is_applied"]
    assert "64 values arrive" in skipped.seen
    assert "use_aux_hidden_state" in skipped.fix
    outside = verdicts["vocab_map.target_ids_exist"]
    assert "offsets" in outside.fix
