"""Forward: from the same inputs both sides compute the same numbers.

The inputs are a prompt, the target's hidden states by transformers, and the token that the target chose next.
Training computes with its own modules, serving with its real scheduler and worker. If numbers differ, the
cause is the hypothesis that makes the error vanish; contracts.replay states the tolerances.
"""

import numpy as np
import pytest

from contracts.causes import Cause
from contracts.handoff import describe
from contracts.recipes import Recipe
from contracts.replay import COMPUTED, Replay
from contracts.verdict import Broken
from contracts.workbench import Workbench

pytestmark = [pytest.mark.contracts, pytest.mark.gpu]


def test_draft_runs_in_training(workbench: Workbench, recipe: Recipe) -> None:
    """The training library runs the draft that it saved without raising."""
    refusals = workbench.training_replay_refusals(recipe.name)
    if refusals:
        raise Broken(Cause.RECIPE_REFUSED, expected="no exception from the library", seen=describe(refusals))


def test_draft_runs_when_served(workbench: Workbench, recipe: Recipe) -> None:
    """The serving library runs a prompt and a draft chain without raising."""
    refusals = workbench.replay_refusals(recipe.name)
    if refusals:
        raise Broken(Cause.DRAFT_REFUSED, expected="no exception from the library", seen=describe(refusals))


def test_target_chooses_the_same_token(replay: Replay) -> None:
    """The target ranks the same token first after the prompt as by transformers."""
    expected, seen = int(replay.tokens[-1]), int(replay.served["next_token"][0])
    if expected != seen:
        raise Broken(Cause.TARGET_DIFFERS, expected=f"token {expected}", seen=f"token {seen}")


def test_training_agrees_with_itself(replay: Replay) -> None:
    """The training library's forward pass computes what its modules do one token at a time."""
    for field in COMPUTED:
        replay.compare(field, side="library")
    trained, itself = (it["draft_tokens"].tolist() for it in (replay.golden, replay.library))
    if trained != itself:
        raise Broken(Cause.TRAINING_DISAGREES, expected=trained, seen=itself)


def test_fused_state_is_equal(replay: Replay) -> None:
    """The target's hidden states are fused into the state of training."""
    replay.compare("fused")


def test_prefill_state_is_equal(replay: Replay) -> None:
    """Each position of the prompt leaves the recurrent state of training."""
    replay.compare("recurrent", replay.prefill("recurrent"))


def test_prefill_logits_are_equal(replay: Replay) -> None:
    """The last position of the prompt is scored as in training."""
    replay.compare("logits", replay.prefill("logits"))


def test_chained_state_is_equal(replay: Replay) -> None:
    """Each chained step leaves the recurrent state of training."""
    replay.compare("recurrent", replay.chained("recurrent"))


def test_chained_logits_are_equal(replay: Replay) -> None:
    """Each chained step is scored as in training."""
    replay.compare("logits", replay.chained("logits"))


def test_draft_tokens_are_equal(replay: Replay) -> None:
    """The greedy draft tokens are those of training, ties excepted."""
    parting = replay.parting()
    if parting is None or replay.ties(parting):
        return
    trained, served = (it["draft_tokens"].tolist() for it in (replay.golden, replay.served))
    raise Broken(replay.why_other_tokens(), expected=trained, seen=served)


def test_positions_advance_by_one(replay: Replay) -> None:
    """Positions advance as in training, wherever they begin."""
    trained, served = (np.diff(it["positions"]) for it in (replay.golden, replay.served))
    if not np.array_equal(trained, served):
        raise Broken(Cause.POSITIONS_DIFFER, expected=trained.tolist(), seen=served.tolist())
