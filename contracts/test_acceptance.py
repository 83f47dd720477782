"""Acceptance: an engine drafts what training would, and accepts what the target would say.

The engine is the serving library's real scheduler, at work on prompts of a language in which a draft can
only be right if it was given the hidden states that it was trained on. contracts.settings lists the ways of
serving.
"""

import math
from collections.abc import Iterable

import numpy as np
import pytest

from contracts.acceptance import Acceptance, first_other
from contracts.captured import check_captured, row_errors
from contracts.handoff import describe
from contracts.recipes import RECIPES, Recipe
from contracts.settings import GPU_SETTINGS, SETTINGS, Setting
from contracts.verdict import Broken, Cause
from contracts.workbench import Workbench

pytestmark = [pytest.mark.contracts, pytest.mark.gpu]


def _each(name: str, values: Iterable[Recipe] | Iterable[Setting]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, [pytest.param(value, id=value.name) for value in values])


every_draft = _each("recipe", [recipe for recipe in RECIPES if recipe.speaks])
trained_drafts = _each("recipe", [recipe for recipe in RECIPES if recipe.built_by == "trainer"])
every_setting = _each("setting", (*SETTINGS, *GPU_SETTINGS))
chains = _each("setting", [setting for setting in (*SETTINGS, *GPU_SETTINGS) if setting.topk == 1])


@every_draft
@every_setting
def test_prompts_are_served(workbench: Workbench, recipe: Recipe, setting: Setting) -> None:
    """The engine serves every prompt to its end without raising."""
    refusals = workbench.engine_refusals(recipe.name, setting)
    if refusals:
        raise Broken(Cause.DRAFT_REFUSED, expected="no exception from the library", seen=describe(refusals))


@every_draft
@every_setting
def test_drafts_have_the_shape_that_was_told(acceptance: Acceptance) -> None:
    """Every request is drafted for, in chains or trees of the size that the server was told."""
    setting, rounds = acceptance.setting, [made.rounds for made in acceptance.run.generations]
    drafts = [item for items in rounds for item in items]
    sizes = {len(item.drafted) + 1 for item in drafts}
    widest = max((item.parents.count(node) for item in drafts for node in item.parents), default=0)
    if not all(rounds) or sizes != {setting.draft_tokens} or widest != setting.topk:
        raise Broken(
            Cause.SETTING_IGNORED,
            expected=f"{setting.draft_tokens} nodes, {setting.topk} to a node, for every request",
            seen=f"{sorted(sizes)} nodes, {widest} to a node, for {sum(map(bool, rounds))} of {len(rounds)}",
        )


@every_draft
@every_setting
def test_requests_are_batched_as_told(acceptance: Acceptance) -> None:
    """Requests run together unless the server was told otherwise."""
    running = acceptance.setting.running
    largest = max((item.batch for made in acceptance.run.generations for item in made.rounds), default=0)
    if largest != running if running else largest < 2:
        raise Broken(Cause.SETTING_IGNORED, expected=f"{running or 'several'} at a time", seen=largest)


@every_draft
@every_setting
def test_prompts_are_read_as_told(acceptance: Acceptance) -> None:
    """A prompt is read whole unless the server was told otherwise."""
    chunk = acceptance.setting.chunk
    for number, generation in enumerate(acceptance.run.generations, start=1):
        parts = math.ceil(len(generation.prompt) / chunk) if chunk else 1
        most = math.inf if chunk else 1  # what others left of a chunk may be less than a chunk
        if not parts <= generation.prefills <= most:
            seen = f"{generation.prefills} of prompt {number}"
            raise Broken(Cause.SETTING_IGNORED, expected=f"read in {parts} parts", seen=seen)


@every_draft
@every_setting
def test_engine_counts_what_it_does(acceptance: Acceptance) -> None:
    """The library counts as many rounds, and accepted draft tokens, as there were."""
    for number, generation in enumerate(acceptance.run.generations, start=1):
        done = len(generation.rounds), sum(item.accepted for item in generation.rounds)
        counted = generation.verifications, generation.accepted
        if done != counted:
            raise Broken(
                Cause.COUNTS_DIFFER,
                expected=f"{done[0]} rounds with {done[1]} accepted of prompt {number}",
                seen=f"{counted[0]} with {counted[1]}",
            )


@every_draft
@every_setting
def test_target_alone_generates_as_by_transformers(acceptance: Acceptance) -> None:
    """Without a draft the engine generates, greedily, what transformers does."""
    for expected, generation in zip(acceptance.expected, acceptance.alone.generations, strict=True):
        told = first_other(expected.text, generation)
        if told:
            raise Broken(Cause.TARGET_DIFFERS, expected="the text that transformers generates", seen=told)


@every_draft
@every_setting
def test_speculation_changes_no_token(acceptance: Acceptance) -> None:
    """With the draft the engine generates, greedily, what it does without."""
    for alone, generation in zip(acceptance.alone.generations, acceptance.run.generations, strict=True):
        told = first_other(alone.text, generation)
        if told:
            raise Broken(Cause.OUTPUT_CHANGED, expected="the text of the target alone", seen=told)


@every_draft
@every_setting
def test_states_that_reach_the_draft_are_those_trained_on(acceptance: Acceptance) -> None:
    """The hidden states that reach the draft, of prompts and of accepted tokens, are those trained on."""
    check_captured(acceptance.captured(), acceptance.ids)


@every_draft
@every_setting
def test_embedding_is_the_trained_one(acceptance: Acceptance) -> None:
    """The engine runs the draft with the embedding that it was trained with."""
    _compare(acceptance, "embedding", Cause.EMBEDDING_REPLACED)


@every_draft
@every_setting
def test_head_is_the_trained_one(acceptance: Acceptance) -> None:
    """The engine runs the draft with the output head that it was trained with."""
    _compare(acceptance, "head", Cause.HEAD_REPLACED)


@every_draft
@every_setting
def test_draft_tokens_are_those_of_training(acceptance: Acceptance) -> None:
    """Every token that the engine drafts on its own branch is one that training's modules propose there."""
    told = acceptance.other_draft()
    if told:
        raise Broken(Cause.DRAFTS_DIFFER, expected="the draft tokens of training", seen=told)


@every_draft
@every_setting
def test_verification_accepts_what_the_target_would_say(acceptance: Acceptance) -> None:
    """Of each draft exactly the longest path is accepted that the target would have generated itself."""
    for expected, item, where in acceptance.rounds():
        due = item.path(expected.text[item.committed :])
        if due != item.accepted:
            seen = f"{item.accepted} in {where}"
            raise Broken(Cause.VERIFICATION_DIFFERS, expected=f"{due} draft tokens accepted", seen=seen)


@every_draft
@chains
def test_accept_length_is_as_replayed(acceptance: Acceptance) -> None:
    """The accept length, by the engine's own count, is that of a replay with training's modules."""
    replayed, seen = acceptance.replayed_along(), acceptance.run.accept_length
    if not math.isclose(replayed, seen):
        raise Broken(Cause.ACCEPT_LENGTH, expected=f"{replayed:.4f}", seen=f"{seen:.4f}")


@trained_drafts
@every_setting
def test_accept_length_is_what_training_promised(acceptance: Acceptance) -> None:
    """The accept length is not below what the trainer's own accuracies promise."""
    promised = acceptance.promised()
    if promised is None:
        raise Broken(
            Cause.METRICS_MISSING, expected="full_acc_0 to full_acc_2", seen=sorted(acceptance.metrics)
        )
    seen, allowance = acceptance.run.accept_length, acceptance.allowance()
    if seen < promised - allowance:
        raise Broken(
            Cause.ACCEPT_LENGTH,
            expected=f"{promised:.2f}, or {allowance:.2f} less for so few rounds",
            seen=f"{seen:.2f}",
        )


def _compare(acceptance: Acceptance, part: str, cause: Cause) -> None:
    trained, served = acceptance.trained[part], acceptance.served[part]
    if trained.shape != served.shape:
        raise Broken(cause, expected=f"shape {list(trained.shape)}", seen=f"shape {list(served.shape)}")
    errors = row_errors(trained, served)
    if errors.max() > acceptance.tolerance:
        row = int(np.argmax(errors))
        raise Broken(cause, expected=f"the {part} as trained", seen=f"off by {errors.max():.2g} at row {row}")
