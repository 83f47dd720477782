"""Config and architecture: the draft becomes the class that can run it."""

import pytest

from contracts.export import DERIVED
from contracts.handoff import Handoff, describe
from contracts.recipes import Recipe
from contracts.verdict import Broken, Cause
from contracts.workbench import Workbench

pytestmark = pytest.mark.contracts


def test_draft_can_be_trained(workbench: Workbench, recipe: Recipe) -> None:
    """The training library builds, saves and loads the draft without raising."""
    refusals = workbench.training_refusals(recipe.name, "build", "reload")
    if refusals:
        raise Broken(Cause.RECIPE_REFUSED, expected="no exception from the library", seen=describe(refusals))


def test_saved_draft_is_served(raw_handoff: Handoff) -> None:
    """What the training library saved is served as it is."""
    if raw_handoff.serving_refusals:
        stage = raw_handoff.serving_refusals[0].stage
        raise Broken(
            Cause.CONFIG_NOT_RESOLVED if stage == "resolve" else Cause.DRAFT_REFUSED,
            expected="a checkpoint that the serving library makes a draft model of",
            seen=describe(raw_handoff.serving_refusals),
        )
    names = raw_handoff.served(lambda facts: facts.weight_names)
    lost = sorted({*names.ignored, *names.unwritten} - DERIVED)
    if lost:
        raise Broken(Cause.TENSOR_DROPPED, expected="every tensor read", seen=f"not so: {', '.join(lost)}")


def test_draft_is_accepted(handoff: Handoff) -> None:
    """The serving library takes the exported draft without raising."""
    if handoff.serving_refusals:
        raise Broken(
            Cause.DRAFT_REFUSED,
            expected="no exception from the library",
            seen=describe(handoff.serving_refusals),
        )


def test_algorithm_is_the_trained_one(handoff: Handoff) -> None:
    """The server resolves to the speculative algorithm that the draft was trained for."""
    trained, served = handoff.both(lambda facts: facts.algorithm)
    if trained != served:
        raise Broken(Cause.ALGORITHM_DIFFERS, expected=trained, seen=served)


def test_draft_reads_the_target_state(handoff: Handoff) -> None:
    """The class that the config resolves to lets the target's hidden state take part in the logits."""
    if not handoff.served(lambda facts: facts.reads_target_state):
        raise Broken(
            Cause.STATE_NOT_READ,
            expected="a draft class that is conditioned on the target's hidden states",
            seen=handoff.serving.architecture,
        )


def test_draft_computes_in_the_dtype_of_its_target(handoff: Handoff) -> None:
    """Draft and target are computed in the same dtype when the server is not told one."""
    compute = handoff.served(lambda facts: facts.compute)
    if compute.draft != compute.target:
        raise Broken(Cause.DTYPE_DIFFERS, expected=f"{compute.target}, as the target", seen=compute.draft)
