"""For every contract a liar: facts that break it and no other, for the right cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from contracts.acceptance import Acceptance
from contracts.facts import Refusal
from contracts.handoff import Handoff
from contracts.refusals import Refusal as ExportRefusal
from contracts.replay import Replay
from contracts.servers import Counts
from contracts.service import Served
from contracts.settings import SETTINGS
from contracts.snapshots import SurfaceSnapshot
from contracts.speculation import EngineRun, Round
from contracts.surfaces import Shown
from contracts.verdict import Broken, Cause
from tests.acceptances import ACCEPTANCE, ALONE, METRICS, PARTS, RUN, TREES, a_round, first, last_token
from tests.acceptances import taps as run_taps
from tests.facts import HANDOFF, RENAMES, SERVED, SHAPES, TRAINED, with_facet
from tests.replays import PROMPT, REPLAY, library, served, taps
from tests.runner import Refusing, all_contracts, broken
from tests.services import SERVED as SERVER
from tests.services import serving as server


@dataclass(frozen=True)
class Liar:
    contract: str
    cause: Cause
    handoff: Handoff = HANDOFF
    raw: Handoff = HANDOFF
    snapshot: Any = None
    release: Any = None
    workbench: Any = None
    replay: Replay = REPLAY
    acceptance: Acceptance = ACCEPTANCE
    served: Served = SERVER

    def broken(self) -> dict[str, Broken]:
        return broken(
            self.handoff,
            self.raw,
            self.snapshot,
            self.workbench,
            self.replay,
            self.acceptance,
            self.release,
            self.served,
        )


def serving(facet: str, **changes: Any) -> Handoff:
    """A serving side that shows something else than it should."""
    return replace(HANDOFF, serving=with_facet(SERVED, facet, **changes))


def training(facet: str, **changes: Any) -> Handoff:
    return replace(HANDOFF, training=with_facet(TRAINED, facet, **changes))


def both(facet: str, **changes: Any) -> Handoff:
    """Two sides that agree on something senseless."""
    return replace(
        HANDOFF,
        training=with_facet(TRAINED, facet, **changes),
        serving=with_facet(SERVED, facet, **changes),
    )


def shapes(**changes: tuple[int, ...]) -> Handoff:
    """Both sides agree on other shapes of some tensors."""
    changed = {name.replace("__", "."): shape for name, shape in changes.items()}
    served = {RENAMES[name]: shape for name, shape in changed.items()}
    return replace(
        HANDOFF,
        training=with_facet(TRAINED, "tensor_shapes", shapes={**SHAPES, **changed}),
        serving=with_facet(SERVED, "tensor_shapes", shapes={**SERVED.tensor_shapes.shapes, **served}),  # type: ignore[union-attr]
    )


def engine(**changes: Any) -> Acceptance:
    """An engine that did something else than it should."""
    return replace(ACCEPTANCE, **changes)


def swapped() -> tuple[int, ...]:
    ids = list(range(10, 202))
    ids[3], ids[4] = ids[4], ids[3]
    return tuple(ids)


class OtherRecord(SurfaceSnapshot):
    """A record of a release that captured other layers."""

    def __init__(self) -> None:
        pass

    name = "sglang 0.0.1, plain"  # type: ignore[assignment]

    def matches(self, shown: Shown) -> bool:
        return False

    def recorded(self) -> Shown:
        return Shown(facts=with_facet(SERVED, "aux_layers", states=(2, 5, 7)))


WITHOUT_NORM = tuple(name for name in RENAMES.values() if name != "norm.weight")
BUILD = Refusal(stage="build", error="TypeError", message="unexpected keyword argument 'fc_norm'")
RESOLVE = Refusal(stage="resolve", error="ValueError", message="Unrecognized model")
CHAIN = Refusal(stage="replay", error="RuntimeError", message="shapes do not fit")
FORWARD = Refusal(stage="forward", error="RuntimeError", message="shapes do not fit")

SERVE = Refusal(stage="engine", error="IndexError", message="index out of range in self")


def second_is_rejected(item: Round) -> bool:
    return item.accepted == 1


def other_draft_after_the_rejected() -> EngineRun:
    """A draft whose third token, which nothing depends on any more, is another one."""
    rejected = next(item for item in RUN.generations[0].rounds if second_is_rejected(item))
    return a_round(RUN, second_is_rejected, drafted=(*rejected.drafted[:2], 0))


def is_accepted(item: Round) -> bool:
    return item.accepted == 3


def drafted_on_another_branch() -> EngineRun:
    """A chain whose last token follows on what it should not, and is rejected."""
    *good, _ = next(item for item in RUN.generations[0].rounds if is_accepted(item)).drafted
    run = a_round(RUN, is_accepted, drafted=(*good, 0), accepted=2, branches=((good[0], 0),))
    return first(run, accepted=run.generations[0].accepted - 1)


def wrongly_verified() -> EngineRun:
    """A round of trees in which one token less is accepted than the target would have said."""
    run = a_round(TREES, second_is_rejected, accepted=0)
    return first(run, accepted=run.generations[0].accepted - 1)


LIARS = (
    Liar(
        "acceptance.drafts_have_the_shape_that_was_told",
        Cause.SETTING_IGNORED,
        acceptance=engine(run=first(RUN, rounds=(), verifications=0, accepted=0)),
    ),
    Liar(
        "acceptance.requests_are_batched_as_told",
        Cause.SETTING_IGNORED,
        acceptance=engine(setting=SETTINGS[2]),
    ),
    Liar(
        "acceptance.prompts_are_read_as_told",
        Cause.SETTING_IGNORED,
        acceptance=engine(setting=SETTINGS[3]),
    ),
    Liar(
        "acceptance.engine_counts_what_it_does",
        Cause.COUNTS_DIFFER,
        acceptance=engine(setting=SETTINGS[1], run=first(TREES, verifications=1)),
    ),
    Liar("acceptance.prompts_are_served", Cause.DRAFT_REFUSED, workbench=Refusing(engine=(SERVE,))),
    Liar(
        "acceptance.target_alone_generates_as_by_transformers",
        Cause.TARGET_DIFFERS,
        acceptance=engine(run=last_token(RUN), alone=last_token(ALONE)),
    ),
    Liar(
        "acceptance.speculation_changes_no_token",
        Cause.OUTPUT_CHANGED,
        acceptance=engine(run=last_token(RUN)),
    ),
    Liar(
        "acceptance.states_that_reach_the_draft_are_those_trained_on",
        Cause.TAPS_LATE,
        acceptance=engine(taps=run_taps(2, 3)),
    ),
    Liar(
        "acceptance.embedding_is_the_trained_one",
        Cause.EMBEDDING_REPLACED,
        acceptance=engine(served={**PARTS, "embedding": PARTS["embedding"][::-1]}),
    ),
    Liar(
        "acceptance.head_is_the_trained_one",
        Cause.HEAD_REPLACED,
        acceptance=engine(served={**PARTS, "head": PARTS["head"][:-1]}),
    ),
    Liar(
        "acceptance.draft_tokens_are_those_of_training",
        Cause.DRAFTS_DIFFER,
        acceptance=engine(run=other_draft_after_the_rejected()),
    ),
    Liar(
        "acceptance.verification_accepts_what_the_target_would_say",
        Cause.VERIFICATION_DIFFERS,
        acceptance=engine(setting=SETTINGS[1], run=wrongly_verified()),
    ),
    Liar(
        "acceptance.accept_length_is_as_replayed",
        Cause.ACCEPT_LENGTH,
        acceptance=engine(run=drafted_on_another_branch()),
    ),
    Liar(
        "acceptance.accept_length_is_what_training_promised",
        Cause.ACCEPT_LENGTH,
        acceptance=engine(metrics={**METRICS, "full_acc_2_epoch": 3.0}),
    ),
    Liar("server.server_answers", Cause.DRAFT_REFUSED, workbench=Refusing(server=(SERVE,))),
    Liar("server.answers_are_those_of_the_target", Cause.OUTPUT_CHANGED, served=server(last_token(RUN))),
    Liar(
        "server.accept_length_is_as_replayed",
        Cause.ACCEPT_LENGTH,
        served=server(first(RUN, accepted=RUN.generations[0].accepted + 1)),
    ),
    Liar(
        "server.accept_length_is_the_same_one_by_one",
        Cause.ACCEPT_LENGTH,
        served=server(measured=Counts(rounds=10, accepted=30)),
    ),
    Liar(
        "server.acceptance_is_what_training_promised",
        Cause.ACCEPT_LENGTH,
        served=replace(SERVER, metrics={**METRICS, "full_acc_2_epoch": 3.0}),
    ),
    Liar(
        "server.statistics_are_those_of_the_answers",
        Cause.COUNTS_DIFFER,
        served=server(statistics=RUN.accept_length + 0.5),
    ),
    Liar(
        "server.nothing_outlives_the_server",
        Cause.SERVER_LEFT,
        served=server(left=("process 7 (sglang::scheduler)",)),
    ),
    Liar(
        "config.algorithm_is_the_trained_one",
        Cause.ALGORITHM_DIFFERS,
        replace(HANDOFF, serving=replace(SERVED, algorithm="eagle")),
    ),
    Liar("attention.biases_are_applied", Cause.BIAS_DROPPED, training("attention", biased=True)),
    Liar("attention.heads_are_equal", Cause.HEADS_DIFFER, serving("attention", head_dim=32)),
    Liar(
        "attention.query_and_key_norms_are_applied",
        Cause.QK_NORM_MISSING,
        training("attention", qk_norm=True),
    ),
    Liar("attention.windows_are_equal", Cause.WINDOW_DIFFERS, training("attention", windows=(32,))),
    Liar(
        "aux_layers.trained_layers_are_captured", Cause.WRONG_LAYERS, serving("aux_layers", states=(2, 5, 7))
    ),
    Liar(
        "aux_layers.layers_arrive_in_trained_order",
        Cause.LAYER_ORDER,
        training("aux_layers", states=(6, 4, 1)),
    ),
    Liar(
        "aux_layers.trained_layers_exist_in_the_target",
        Cause.LAYER_OUT_OF_RANGE,
        both("aux_layers", states=(1, 4, 9)),
    ),
    Liar(
        "export.saved_draft_is_whole", Cause.DRAFT_NOT_WHOLE, workbench=Refusing(not_whole="fc is too wide")
    ),
    Liar("config.draft_can_be_trained", Cause.RECIPE_REFUSED, workbench=Refusing(training=(BUILD,))),
    Liar(
        "config.saved_draft_is_served",
        Cause.CONFIG_NOT_RESOLVED,
        raw=replace(HANDOFF, serving_refusals=(RESOLVE,)),
    ),
    Liar(
        "config.draft_computes_in_the_dtype_of_its_target",
        Cause.DTYPE_DIFFERS,
        serving("compute", draft="float16"),
    ),
    Liar("config.draft_is_accepted", Cause.DRAFT_REFUSED, replace(HANDOFF, serving_refusals=(FORWARD,))),
    Liar(
        "config.draft_reads_the_target_state",
        Cause.STATE_NOT_READ,
        replace(HANDOFF, serving=replace(SERVED, reads_target_state=False)),
    ),
    Liar("forward.draft_runs_in_training", Cause.RECIPE_REFUSED, workbench=Refusing(training=(CHAIN,))),
    Liar("forward.draft_runs_when_served", Cause.DRAFT_REFUSED, workbench=Refusing(replay=(CHAIN,))),
    Liar(
        "forward.target_chooses_the_same_token",
        Cause.TARGET_DIFFERS,
        replay=replace(REPLAY, served={**REPLAY.served, "next_token": REPLAY.tokens[-1:] + 1}),
    ),
    Liar(
        "forward.training_agrees_with_itself",
        Cause.WINDOW_STANDING,
        replay=library(recurrent=slice(None)),
    ),
    Liar("forward.fused_state_is_equal", Cause.FC_NORM_MISSING, replay=served(fused=slice(None))),
    Liar("forward.prefill_state_is_equal", Cause.WINDOW_STANDING, replay=served(recurrent=slice(PROMPT))),
    Liar("forward.prefill_logits_are_equal", Cause.FINAL_NORM_MISSING, replay=served(logits=slice(1))),
    Liar(
        "forward.chained_state_is_equal",
        Cause.POSITIONS_STANDING,
        replay=served(recurrent=slice(PROMPT, None)),
    ),
    Liar("forward.chained_logits_are_equal", Cause.POSITIONS_STANDING, replay=served(logits=slice(1, None))),
    Liar("forward.draft_tokens_are_equal", Cause.TOKENS_DIFFER, replay=served(draft_tokens=slice(None))),
    Liar("forward.positions_advance_by_one", Cause.POSITIONS_DIFFER, replay=served(positions=slice(PROMPT))),
    Liar(
        "aux_layers.delivered_values_are_those_of_the_trained_layers",
        Cause.TAPS_LATE,
        replay=replace(REPLAY, served={**REPLAY.served, "taps": taps(2, 3)}),
    ),
    Liar(
        "export.draft_can_be_expressed",
        Cause.NORM_NOT_SERVED,
        replace(
            HANDOFF,
            export_refusals=(ExportRefusal(cause=Cause.NORM_NOT_SERVED, what="norm_before_residual: true"),),
        ),
    ),
    Liar(
        "hidden_dims.target_delivers_what_fc_takes", Cause.WIDTH_DIFFERS, serving("hidden_dims", delivered=64)
    ),
    Liar("hidden_dims.fc_is_applied", Cause.FC_SKIPPED, serving("hidden_dims", fc_applied=False)),
    Liar(
        "hidden_dims.recurrent_state_is_as_wide_as_the_embedding",
        Cause.RECURRENT_WIDTH,
        serving("hidden_dims", recurrent=192),
    ),
    Liar("norms.norm_before_fc_is_honoured", Cause.NORM_DIFFERS, training("norms", norm_before_fc=True)),
    Liar("norms.fc_norm_is_honoured", Cause.NORM_DIFFERS, training("norms", fc_norm=True)),
    Liar("norms.norm_output_is_honoured", Cause.NORM_DIFFERS, serving("norms", norm_output=True)),
    Liar(
        "norms.norm_before_residual_is_honoured",
        Cause.NORM_DIFFERS,
        training("norms", norm_before_residual=True),
    ),
    Liar(
        "rope.frequencies_are_equal",
        Cause.ROPE_FREQUENCIES,
        serving("rope", inverse_frequencies=(1.0, 0.2, 0.04)),
    ),
    Liar("rope.same_dimensions_rotate_together", Cause.ROPE_PAIRS, serving("rope", interleaved=True)),
    Liar(
        "norms.epsilon_is_equal", Cause.NORM_EPSILON, replace(HANDOFF, serving=replace(SERVED, norm_eps=1e-6))
    ),
    Liar("attention.scale_is_equal", Cause.SCALE_DIFFERS, serving("attention", scale=0.5)),
    Liar(
        "aux_layers.states_are_taken_before_the_final_norm",
        Cause.STATE_NORMED,
        serving("aux_layers", final_norm=True),
    ),
    Liar("rope.amplitude_is_equal", Cause.ROPE_AMPLITUDE, serving("rope", amplitude=1.2)),
    Liar(
        "sharing.embedding_is_the_trained_one",
        Cause.EMBEDDING_REPLACED,
        training("sharing", embedding="draft"),
    ),
    Liar("sharing.head_is_the_trained_one", Cause.HEAD_REPLACED, serving("sharing", head="target")),
    Liar("surface.surface_is_as_recorded", Cause.SURFACE_CHANGED, snapshot=OtherRecord()),
    Liar("surface.release_is_as_recorded", Cause.SURFACE_CHANGED, release=OtherRecord()),
    Liar(
        "tensor_shapes.each_tensor_keeps_its_shape",
        Cause.SHAPE_MISMATCH,
        serving("tensor_shapes", shapes={**SERVED.tensor_shapes.shapes, "norm.weight": (128,)}),  # type: ignore[union-attr]
    ),
    Liar("tensor_shapes.head_has_a_row_per_draft_token", Cause.HEAD_ROWS, shapes(lm_head__weight=(200, 64))),
    Liar("tensor_shapes.fc_is_as_wide_as_the_trained_states", Cause.FC_WIDTH, shapes(fc__weight=(64, 128))),
    Liar(
        "vocab_map.draft_ids_map_to_trained_target_ids",
        Cause.MAP_DIFFERS,
        serving("vocab_map", target_ids=swapped()),
    ),
    Liar(
        "vocab_map.target_ids_exist",
        Cause.MAP_OUT_OF_RANGE,
        both("vocab_map", target_ids=(*range(10, 201), 256)),
    ),
    Liar(
        "vocab_map.target_ids_are_distinct",
        Cause.MAP_NOT_INJECTIVE,
        both("vocab_map", target_ids=(*range(10, 201), 10)),
    ),
    Liar("vocab_map.reduced_vocabulary_has_a_map", Cause.MAP_MISSING, both("vocab_map", mapped=False)),
    Liar(
        "weight_names.every_trained_tensor_is_offered",
        Cause.TENSOR_NOT_OFFERED,
        serving("weight_names", names=WITHOUT_NORM),
    ),
    Liar(
        "weight_names.every_trained_tensor_is_consumed",
        Cause.TENSOR_DROPPED,
        serving("weight_names", names=WITHOUT_NORM, ignored=("norm.weight",)),
    ),
    Liar(
        "weight_names.every_used_parameter_is_written",
        Cause.PARAMETER_UNWRITTEN,
        serving("weight_names", unwritten=("model.norm.weight",)),
    ),
)


def test_honest_sides_break_nothing() -> None:
    assert broken() == {}


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.contract)
def test_liar_breaks_its_contract_and_no_other(liar: Liar) -> None:
    failures = liar.broken()
    assert {contract: verdict.cause for contract, verdict in failures.items()} == {liar.contract: liar.cause}


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.contract)
def test_verdict_names_evidence_and_fix(liar: Liar) -> None:
    verdict = liar.broken()[liar.contract]
    assert verdict.expected
    assert verdict.seen
    assert verdict.expected != verdict.seen
    assert verdict.fix


def test_every_contract_has_a_liar() -> None:
    lied_about = {liar.contract for liar in LIARS}
    assert not set(all_contracts()) - lied_about, "add a Liar for each of these"
    assert not lied_about - set(all_contracts()), "these contracts are gone"
    assert len(LIARS) == len(lied_about)


def test_raw_draft_that_is_refused_later_or_loses_a_tensor_is_not_served() -> None:
    """A release that merely parses the saved config does not serve the draft yet."""
    contract = "config.saved_draft_is_served"
    refused = broken(HANDOFF, replace(HANDOFF, serving_refusals=(FORWARD,)))
    assert refused[contract].cause is Cause.DRAFT_REFUSED
    dropped = broken(HANDOFF, serving("weight_names", ignored=("layers.0.self_attn.q_proj.weight",)))
    assert dropped[contract].cause is Cause.TENSOR_DROPPED


@pytest.mark.parametrize("contract", all_contracts())
def test_every_contract_states_one_promise(contract: str) -> None:
    docstring = (all_contracts()[contract].__doc__ or "").strip()
    assert docstring.endswith(".")
    assert "\n\n" not in docstring
    assert docstring.count(". ") == 0
