"""Targets: every class of target delivers the hidden states that a draft's ids name.

Each class is served tiny, with a draft that has no weights, in the real engine; transformers' own class is
the reference. A class that computes something else here than transformers does is an error, and is not
judged.
"""

import numpy as np
import pytest

from contracts.captured import check_captured, row_errors
from contracts.captures import NotCaptured
from contracts.causes import Cause
from contracts.handoff import NotRun, ProbeFailed
from contracts.targets.bench import Target, Targets
from contracts.targets.capabilities import Capability
from contracts.targets.missing import missing_key
from contracts.targets.recipes import LAYERS, TARGETS, Variation
from contracts.targets.run import TOLERANCE
from contracts.targets.situations import BY_NAME, OUTPUTS, TRAINED
from contracts.verdict import Broken

pytestmark = [pytest.mark.contracts, pytest.mark.gpu]


def test_target_is_served_with_a_draft(tiny_target: Target) -> None:
    """An engine starts with this target and an EAGLE-3 draft, and serves prompts to the end."""
    refused = tiny_target.run(OUTPUTS).refused
    if refused:
        key = missing_key(refused)
        raise Broken(
            Cause.TARGET_CONFIG_INCOMPLETE if key else Cause.TARGET_REFUSED,
            expected=f"config.json of {tiny_target.recipe.architecture} with {key}"
            if key
            else "a server that runs",
            seen=refused,
        )


def test_states_without_ids_are_those_of_training(tiny_target: Target) -> None:
    """A draft that names no layers is given the hidden states that trainers use by default."""
    run = tiny_target.trusted(BY_NAME["no_ids"].ids)
    usual = TRAINED["usual"]
    # None: in another form, or not alike in all steps, which is told apart below.
    if not run.refused and run.states not in (usual, None):
        raise Broken(Cause.DEFAULT_LAYERS_DIFFER, expected=f"hidden states {usual}", seen=run)
    _check_delivered(tiny_target, None, usual)


@pytest.mark.parametrize("trained", TRAINED)
def test_exported_ids_deliver_the_trained_states(tiny_target: Target, trained: str) -> None:
    """The ids that export writes make the target deliver exactly the hidden states that were trained on."""
    states = TRAINED[trained]
    try:
        ids = tiny_target.ids(states)
    except NotCaptured as refused:
        raise NotRun("export refuses such a draft for this cause", cause=refused.cause) from None
    _check_delivered(tiny_target, ids, states)


def test_states_that_export_refuses_are_delivered_for_no_ids(tiny_target: Target) -> None:
    """Hidden states for which export knows no ids were delivered for none of those that might name them."""
    tiny_target.trusted(OUTPUTS)
    refused = [states for states in TRAINED.values() if not tiny_target.can_be_told(states)]
    if not refused:
        raise NotRun("export knows ids for all of them", cause=Cause.NOTHING_REFUSED)
    for states in refused:
        found = tiny_target.ever_delivered(states)
        if found != ():
            raise Broken(
                Cause.EXPORT_REFUSES_NEEDLESSLY,
                expected=f"ids for hidden states {states}",
                seen=f"none from export; the class delivers them for {found}",
            )


def test_order_of_ids_says_nothing(tiny_target: Target) -> None:
    """The same ids in another order make the target deliver the same hidden states."""
    unordered = BY_NAME["unordered"].ids
    run, ordered = tiny_target.trusted(unordered), tiny_target.trusted(OUTPUTS)
    if str(run) != str(ordered):
        raise Broken(
            Cause.ORDER_DECIDES,
            expected=f"{ordered}, as for {list(OUTPUTS or ())}",
            seen=f"{run} for {unordered}",
        )


@pytest.mark.parametrize("situation", ["repeated", "outside"])
def test_ids_that_name_no_layer_of_their_own_are_refused(tiny_target: Target, situation: str) -> None:
    """Ids that repeat, or lie beyond the target's layers, end in an error and are not served as others."""
    ids = BY_NAME[situation].ids
    run = tiny_target.trusted(ids)
    if not run.refused:
        raise Broken(Cause.SENSELESS_IDS_SERVED, expected=f"an error for ids {ids}", seen=run)


@pytest.mark.parametrize("situation", ["no_ids", "outputs", "inputs", "first_layer", "last_layer", "four"])
def test_verification_delivers_what_the_prefill_does(tiny_target: Target, situation: str) -> None:
    """In the steps that verify draft tokens, the same hidden states are delivered as in the prefill."""
    run = tiny_target.trusted(BY_NAME[situation].ids)
    if run.refused:
        raise NotRun("such ids are refused", cause=Cause.IDS_REFUSED)
    for prefill, verified in zip(run.by_step["prefill"], run.by_step["verification"], strict=True):
        before, after = (", ".join(map(str, captured)) for captured in (prefill, verified))
        if before != after:
            raise Broken(
                Cause.VERIFICATION_CAPTURES_OTHERS,
                expected=f"hidden states {before}",
                seen=f"hidden states {after}",
            )


@pytest.mark.parametrize("situation", ["outputs", "inputs", "last_layer"])
def test_wrapper_delivers_what_its_text_model_does(
    tiny_target: Target, wrapped: Target, situation: str
) -> None:
    """A multimodal wrapper delivers the hidden states that its text model delivers alone for the ids."""
    _check_alike(tiny_target, wrapped, BY_NAME[situation].ids)


def test_wrapper_has_the_defaults_of_its_text_model(tiny_target: Target, wrapped: Target) -> None:
    """For a draft that names no layers, a multimodal wrapper delivers what its text model delivers alone."""
    _check_alike(tiny_target, wrapped, BY_NAME["no_ids"].ids)


def test_window_is_counted_as_by_transformers(tiny_target: Target, short_window: Variation) -> None:
    """With a window shorter than the prompt, the target's logits are transformers'."""
    _check_varied(tiny_target, short_window, Cause.TARGET_WINDOW_DIFFERS)


def test_rope_base_is_read(tiny_target: Target, rope_base: Variation) -> None:
    """With another base of RoPE in its config.json, the target's logits are transformers'."""
    _check_varied(tiny_target, rope_base, Cause.TARGET_ROPE_DIFFERS)


def test_returned_aux_states_are_those_captured(tiny_target: Target) -> None:
    """The hidden states that the engine returns for some ids are those that it hands to a draft for them."""
    captured = [", ".join(map(str, it)) for it in tiny_target.trusted(OUTPUTS).by_step["prefill"]]
    returned = list(tiny_target.returned("aux"))
    if returned != captured:
        told = [" | ".join(f"hidden states {states}" for states in found) for found in (captured, returned)]
        raise Broken(Cause.EXTRACTION_DIFFERS, expected=told[0], seen=told[1])


def test_returned_last_state_is_normed(tiny_target: Target) -> None:
    """The hidden state that the engine returns without ids is the last layer's, after the final norm."""
    tiny_target.trusted(OUTPUTS)
    returned = tiny_target.returned("last")
    if set(returned) != {f"{LAYERS} normed"}:
        raise Broken(
            Cause.EXTRACTION_DIFFERS,
            expected=f"hidden state {LAYERS} normed",
            seen=f"hidden states {returned[0]}",
        )


def test_states_of_transformers_are_outputs_of_layers(tiny_target: Target) -> None:
    """The hidden states that transformers returns are outputs of layers, the last after the final norm."""
    for prompt in tiny_target.trusted(OUTPUTS).prompts:
        due = np.concatenate([prompt.forms["plain"][:-1], prompt.forms["normed"][-1:]])
        errors = [
            row_errors(golden, seen).max()
            for golden, seen in zip(due, prompt.states_of_transformers, strict=True)
        ]
        wrong = [index for index, error in enumerate(errors) if error > TOLERANCE]
        if wrong:
            raise Broken(
                Cause.EXTRACTION_DIFFERS,
                expected="outputs of layers, and the last one normed",
                seen=f"others in hidden_states{wrong}",
            )


def test_every_class_has_a_recipe(targets: Targets) -> None:
    """Every class that the release can capture from has a tiny target by which it is judged."""
    known = {recipe.architecture for recipe in TARGETS}
    missing = [name for name in targets.classes().setters if name not in known]
    if missing:
        told = (
            f"{', '.join(missing[:3])} and {len(missing) - 3} more"
            if len(missing) > 4
            else ", ".join(missing)
        )
        raise NotRun(f"no recipe: {told} (docs/targets.md has all)", cause=Cause.NO_RECIPE)


def test_target_beyond_this_machine_is_captured_from(targets: Targets, capability: Capability) -> None:
    """A target that is quantised or split among GPUs delivers the hidden states that its ids name."""
    classes = targets.classes()
    lacking = capability.said(classes.setters, classes.quantizations)
    if lacking:
        raise NotRun(f"{capability.about}: sglang {targets.release}: {lacking}", cause=Cause.NO_SUCH_TARGET)
    raise NotRun(
        f"{capability.about}: nothing here runs it; it needs {capability.needs}", cause=Cause.NO_KERNELS
    )


def _check_delivered(tiny_target: Target, ids: tuple[int, ...] | None, states: tuple[int, ...]) -> None:
    """Raise `Broken` unless every prompt of the batch is given `states` in its prefill."""
    run = tiny_target.trusted(ids)
    if run.refused:
        raise Broken(Cause.DRAFT_REFUSED, expected=f"hidden states {states} for ids {ids}", seen=run.refused)
    for captured in run.by_step["prefill"]:
        check_captured(captured, states)


def _check_alike(wrapper: Target, wrapped: Target, ids: tuple[int, ...] | None) -> None:
    """Raise `Broken` unless a wrapper and its text model deliver the same, or refuse alike."""
    alone, seen = wrapped.trusted(ids), wrapper.trusted(ids)
    if str(alone) != str(seen):
        raise Broken(
            Cause.WRAPPER_CAPTURES_OTHERS, expected=f"{alone}, as {wrapped.recipe.architecture}", seen=seen
        )


def _check_varied(tiny_target: Target, variation: Variation, cause: Cause) -> None:
    """Raise `Broken` unless the target computes what transformers does with other settings, too."""
    usual, run = tiny_target.trusted(OUTPUTS), tiny_target.run(OUTPUTS, variation)
    if not run.refused and np.allclose(usual.prompts[0].logits[-1], run.prompts[0].logits[-1], atol=0.01):
        raise ProbeFailed(f"{variation.name} changes nothing of this target, so it shows nothing")
    if run.refused or not run.computes_as_transformers:
        raise Broken(
            cause,
            expected=f"logits of transformers with {dict(variation.settings)}",
            seen=run.refused or f"logits that are off by {run.error:.2g} of the largest",
        )
