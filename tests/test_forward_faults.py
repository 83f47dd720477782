"""The real sglang runs drafts with one fault each, and the numbers tell which one it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from contracts.facts import Refusal
from contracts.replay import Replay
from contracts.verdict import Cause
from tests.mutations import (
    Config,
    Mutation,
    Tensors,
    absolute_d2t,
    capture_off,
    drop,
    edit,
    ids,
    mutate,
    norm_before_fc,
    nothing,
    other_rope,
    permute_fc,
    swap,
    swap_halves,
)
from tests.replays import CHAIN, FED_BACK, FUSION, LAYER, REPLAY
from tests.runner import Refusing, broken

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench

TOKENS = {"forward.draft_tokens_are_equal"}
TAPS = {"aux_layers.delivered_values_are_those_of_the_trained_layers"}


@dataclass(frozen=True)
class Fault:
    name: str
    apply: Mutation
    cause: Cause | None
    """None: no contract breaks."""
    breaks: Iterable[str] = ()
    """Contracts that have to break; the draft tokens may differ besides, or not."""
    recipe: str = "plain"
    with_server_args: bool = True


def no_scaling(tensors: Tensors, config: Config) -> None:
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    config["rope_scaling"] = None


def only_old_spelling(tensors: Tensors, config: Config) -> None:
    del config["rope_parameters"]


def only_new_spelling(tensors: Tensors, config: Config) -> None:
    del config["rope_theta"], config["rope_scaling"]


FAULTS = (
    Fault("none", nothing, None),
    Fault("k_and_v", swap("midlayer.self_attn.k_proj.weight", "midlayer.self_attn.v_proj.weight"),
          Cause.K_AND_V_SWAPPED, LAYER),
    Fault("gate_and_up", swap("midlayer.mlp.gate_proj.weight", "midlayer.mlp.up_proj.weight"),
          Cause.GATE_AND_UP_SWAPPED, LAYER),
    Fault("norms", swap("midlayer.input_layernorm.weight", "midlayer.hidden_norm.weight"),
          Cause.NORMS_SWAPPED, LAYER),
    Fault("halves", swap_halves, Cause.HALVES_SWAPPED, LAYER),
    Fault("fc_columns", permute_fc, Cause.CHUNKS_PERMUTED, FUSION),
    Fault("rope_base", other_rope, Cause.ROPE_BASE_DEFAULT, LAYER),
    Fault("llama3_unscaled", no_scaling, Cause.ROPE_UNSCALED, LAYER, recipe="rope_llama3"),
    Fault("yarn_unscaled", no_scaling, Cause.ROPE_UNSCALED, LAYER, recipe="rope_yarn"),
    Fault("interleaved", edit(rope_is_neox_style=False), Cause.ROPE_PAIRS, LAYER),
    Fault("recurrent_normed", edit(norm_output=True), Cause.RECURRENT_NORMED, FED_BACK),
    Fault("recurrent_not_normed", edit(norm_output=False), Cause.RECURRENT_NOT_NORMED, FED_BACK,
          recipe="norm_output"),
    Fault("input_norm_missing", partial(norm_before_fc, value=False), Cause.INPUT_NORM_MISSING, FUSION,
          recipe="norm_before_fc"),
    Fault("input_norm_added", partial(norm_before_fc, value=True), Cause.INPUT_NORM_ADDED, FUSION),
    Fault("fc_norm_missing", edit(fc_norm=False), Cause.FC_NORM_MISSING, FUSION, recipe="fc_norm"),
    Fault("fc_norm_added", edit(fc_norm=True), Cause.FC_NORM_ADDED, FUSION),
    Fault("epsilon", edit(rms_norm_eps=1e-6), Cause.NORM_EPSILON, LAYER),
    Fault("ids_one_late", ids(1, 4, 6), Cause.TAPS_LATE, TAPS),
    Fault("ids_one_early", ids(-1, 2, 4), Cause.TAPS_EARLY, TAPS),
    Fault("other_ids", ids(0, 2, 6), Cause.WRONG_LAYERS, TAPS),
    Fault("capture_off", capture_off, Cause.STATE_NORMED, TAPS),
    Fault("no_window", nothing, Cause.WINDOW_IGNORED, LAYER, recipe="sliding_window", with_server_args=False),
    Fault("absolute_d2t", absolute_d2t, Cause.DRAFT_REFUSED, {"forward.draft_runs_when_served"}),
    Fault("absolute_d2t_in_range", absolute_d2t, Cause.MAP_HOLDS_IDS, CHAIN | TOKENS, "tied_embeddings"),
    Fault("no_d2t", drop("d2t"), Cause.MAP_IGNORED, CHAIN | TOKENS),
    Fault("one_layer", edit(num_hidden_layers=1), Cause.LATER_LAYERS_SKIPPED, LAYER, recipe="two_layers"),
    # A longer table of angles, and either spelling of RoPE alone: no faults.
    *(
        Fault(f"{recipe}_longer_table", edit(max_position_embeddings=4096), None, recipe=recipe)
        for recipe in ("plain", "rope_llama3", "rope_yarn", "rope_linear")
    ),
    *(
        Fault(f"{recipe}_{spelling.__name__}", spelling, None, recipe=recipe)
        for recipe in ("plain", "rope_llama3", "rope_yarn", "rope_linear")
        for spelling in (only_old_spelling, only_new_spelling)
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    replay: Replay | None
    refusals: tuple[Refusal, ...]


@pytest.fixture(scope="session")
def ran(
    real_workbench: Workbench, sglang: Side, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Ran]:
    """Every faulty draft, run by one process of the real serving probe."""
    root = tmp_path_factory.mktemp("forward_faults")
    cases = []
    for fault in FAULTS:
        case = real_workbench.group(fault.recipe).forward_case(fault.recipe)
        folder = root / "drafts" / fault.name
        mutate(real_workbench.group(fault.recipe).draft_folder(fault.recipe, "exported"), folder, fault.apply)
        arguments = case["server_args"] if fault.with_server_args else []
        cases.append(case | {"case": fault.name, "folder": folder, "server_args": arguments})
    run = sglang.run(cases, root / "cache")
    found = {}
    for fault, case in zip(FAULTS, cases, strict=True):
        result = run.results[fault.name]
        assert result.error is None, result.error
        golden = real_workbench.group(fault.recipe).golden(fault.recipe)
        file = run.folders[fault.name] / "replay.safetensors"
        replay = None if result.refusals else Replay.read(golden, file, case["dtype"])
        found[fault.name] = Ran(replay=replay, refusals=result.refusals)
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_named_by_its_numbers(ran: Mapping[str, Ran], fault: Fault) -> None:
    run = ran[fault.name]
    verdicts = broken(workbench=Refusing(replay=run.refusals), replay=run.replay or REPLAY)
    ours = {"forward.training_agrees_with_itself"}  # about the training side alone
    found = {contract: verdict.cause for contract, verdict in verdicts.items() if contract not in ours}
    assert set(found) - TOKENS == set(fault.breaks) - TOKENS, {str(v) for v in verdicts.values()}
    assert set(found.values()) == ({fault.cause} if fault.cause else set())
    assert TOKENS & set(fault.breaks) <= set(found)
