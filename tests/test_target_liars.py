"""For every contract about targets a liar: a class that breaks it and no other, for the right cause."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from contracts.captured import Array
from contracts.captures import NotCaptured
from contracts.causes import Cause
from contracts.handoff import NotRun, ProbeFailed
from contracts.targets.bench import Classes, Target
from contracts.targets.capabilities import CAPABILITIES
from contracts.targets.recipes import HIDDEN, LAYERS, ROPE_BASE, SHORT_WINDOW, TARGETS, Variation
from contracts.targets.run import Prompt, TargetRun
from contracts.targets.situations import BY_NAME, OUTPUTS, TRAINED, Ids
from contracts.verdict import Broken
from tests.runner import all_contracts

RECIPE = replace(TARGETS[0], name="qwen3_vl", wraps="qwen3", variations=(SHORT_WINDOW, ROPE_BASE))
LENGTH, ROWS = 6, 8
NUMBERS = np.random.default_rng(3)
PLAIN: Array = NUMBERS.normal(size=(LAYERS + 1, ROWS, HIDDEN)).astype(np.float32)
NORMED: Array = NUMBERS.normal(size=PLAIN.shape).astype(np.float32)
BARE: Array = NUMBERS.normal(size=PLAIN.shape).astype(np.float32)
LOGITS: Array = NUMBERS.normal(size=(ROWS, 10)).astype(np.float32)
TEXT: Array = np.arange(ROWS + 1)
Tap = tuple[str, int]
REFUSED = TargetRun(refused="RuntimeError: mat1 and mat2 shapes cannot be multiplied")


def run(prefill: tuple[int, ...], verified: tuple[int, ...] | None = None, **changes: Any) -> TargetRun:
    """A run that delivered these hidden states; with `form`, all in another form."""
    forms = {"plain": PLAIN, "normed": NORMED, "without residual": BARE}
    states = forms[changes.pop("form", "plain")]

    def rows(indices: tuple[int, ...], begin: int, end: int) -> Array:
        found: Array = np.concatenate([states[index, begin:end] for index in indices], -1)
        return found

    usual: dict[str, Any] = {
        "text": TEXT,
        "forms": forms,
        "states_of_transformers": np.concatenate([PLAIN[:-1], NORMED[-1:]]),
        "logits": LOGITS,
        "served": TEXT,
        "delivered": np.concatenate([rows(prefill, 0, LENGTH), rows(verified or prefill, LENGTH, ROWS)]),
        "logits_served": LOGITS[LENGTH - 1],
        "length": LENGTH,
    }
    return TargetRun(prompts=(Prompt(**{**usual, **changes}),))


CHANGING = run((2, 4, 5), (3, 5, 6))
OTHERS: Array = LOGITS + 1
VARIED = run((2, 4, 5), logits=OTHERS, logits_served=OTHERS[LENGTH - 1])
WRONG_LOGITS = run((2, 4, 5), logits=OTHERS, logits_served=LOGITS[0])
HONEST: Mapping[Ids, TargetRun] = {
    None: run((2, 4, 5)),
    OUTPUTS: run((2, 4, 5)),
    BY_NAME["inputs"].ids: run((3, 5, 6)),
    BY_NAME["first_layer"].ids: run((1, 4, 7)),
    BY_NAME["last_layer"].ids: REFUSED,
    BY_NAME["number_of_layers"].ids: REFUSED,
    BY_NAME["four"].ids: run((2, 4, 5, 7)),
    BY_NAME["unordered"].ids: run((2, 4, 5)),
    BY_NAME["repeated"].ids: REFUSED,
    BY_NAME["outside"].ids: REFUSED,
    (-1, 2, 5): run((0, 3, 6)),
}
AUX, LAST = ("2, 4, 5",), (f"{LAYERS} normed",)


@dataclass
class Fake(Target):
    """A class of target that was run, as far as contracts look at it."""

    runs: Mapping[Ids, TargetRun] = field(default_factory=lambda: HONEST)
    varied: Mapping[str, TargetRun] = field(default_factory=dict)
    shift: int = 1
    aux: tuple[str, ...] = AUX
    last: tuple[str, ...] = LAST
    recipe: Any = RECIPE

    def run(self, ids: Ids, variation: Variation | None = None) -> TargetRun:
        return self.varied.get(variation.name, VARIED) if variation else self.runs[ids]

    def returned(self, name: str) -> tuple[str, ...]:
        return self.aux if name == "aux" else self.last

    def ids(self, states: tuple[int, ...]) -> Ids:
        if LAYERS in states or not self.shift:
            raise NotCaptured(Cause.LAST_LAYER_NOT_CAPTURED, "the last hidden state")
        return tuple(state - self.shift for state in states)

    def __post_init__(self) -> None:
        self._targets: Any = SimpleNamespace(lists=lambda _: list(self.runs))


class OneClass:
    """A release that has one class."""

    release = "0.5.23"

    def classes(self) -> Classes:
        return Classes(setters={RECIPE.architecture: "llama.LlamaForCausalLM"}, without=(), quantizations=())


def but(ids: Ids, seen: TargetRun) -> dict[str, Any]:
    """All is honest but for one list of ids."""
    return {"runs": {**HONEST, ids: seen}}


@dataclass(frozen=True)
class Liar:
    contract: str
    cause: Cause
    target: Mapping[str, Any]
    wrapped: Mapping[str, Any] | None = None
    """The text model inside; None: it lies in the same way."""


LIARS = (
    Liar(
        "targets.target_is_served_with_a_draft",
        Cause.TARGET_REFUSED,
        but(OUTPUTS, TargetRun(refused="AttributeError: 'X' object has no attribute 'get_embed_and_head'")),
    ),
    Liar(
        "targets.states_without_ids_are_those_of_training",
        Cause.DEFAULT_LAYERS_DIFFER,
        but(None, run((3, 5, 6))),
    ),
    Liar(
        "targets.exported_ids_deliver_the_trained_states",
        Cause.WRONG_LAYERS,
        but(BY_NAME["first_layer"].ids, run((2, 4, 7))),
    ),
    Liar(
        "targets.states_that_export_refuses_are_delivered_for_no_ids",
        Cause.EXPORT_REFUSES_NEEDLESSLY,
        {"shift": 0},
    ),
    Liar(
        "targets.order_of_ids_says_nothing",
        Cause.ORDER_DECIDES,
        but(BY_NAME["unordered"].ids, run((1, 3, 4))),
    ),
    Liar(
        "targets.ids_that_name_no_layer_of_their_own_are_refused",
        Cause.SENSELESS_IDS_SERVED,
        but(BY_NAME["outside"].ids, run((2, 5, 7))),
    ),
    Liar(
        "targets.verification_delivers_what_the_prefill_does",
        Cause.VERIFICATION_CAPTURES_OTHERS,
        {"runs": {**HONEST, OUTPUTS: CHANGING, BY_NAME["unordered"].ids: CHANGING}},
    ),
    Liar(
        "targets.wrapper_delivers_what_its_text_model_does",
        Cause.WRAPPER_CAPTURES_OTHERS,
        {},
        wrapped=but(BY_NAME["inputs"].ids, run((2, 4, 5))),
    ),
    Liar(
        "targets.wrapper_has_the_defaults_of_its_text_model",
        Cause.WRAPPER_CAPTURES_OTHERS,
        {},
        wrapped=but(None, run((3, 5, 6))),
    ),
    Liar(
        "targets.window_is_counted_as_by_transformers",
        Cause.TARGET_WINDOW_DIFFERS,
        {"varied": {"short_window": WRONG_LOGITS}},
    ),
    Liar("targets.rope_base_is_read", Cause.TARGET_ROPE_DIFFERS, {"varied": {"rope_base": WRONG_LOGITS}}),
    Liar("targets.returned_aux_states_are_those_captured", Cause.EXTRACTION_DIFFERS, {"aux": ("3, 5, 6",)}),
    Liar("targets.returned_last_state_is_normed", Cause.EXTRACTION_DIFFERS, {"last": (f"{LAYERS}",)}),
    Liar(
        "targets.states_of_transformers_are_outputs_of_layers",
        Cause.EXTRACTION_DIFFERS,
        but(OUTPUTS, run((2, 4, 5), states_of_transformers=PLAIN)),
    ),
)
NOT_JUDGED = {
    "targets.every_class_has_a_recipe",
    "targets.target_beyond_this_machine_is_captured_from",
}
"""Never broken: what they do not know is not run."""


def broken(target: Fake, wrapped: Fake) -> dict[str, Cause]:
    """The contracts that do not hold for a class, each with the cause of its first verdict."""
    failures: dict[str, Cause] = {}
    for contract, function in all_contracts("targets").items():
        for arguments in _arguments(function, target, wrapped):
            try:
                function(**arguments)
            except Broken as verdict:
                failures.setdefault(contract, verdict.cause)
            except NotRun:
                assert target.runs[OUTPUTS].refused or {"trained", "situation", "capability"} & set(arguments)
    return failures


def _arguments(function: Any, target: Fake, wrapped: Fake) -> Iterator[dict[str, Any]]:
    given = {
        "tiny_target": target,
        "wrapped": wrapped,
        "targets": OneClass(),
        "short_window": SHORT_WINDOW,
        "rope_base": ROPE_BASE,
        "capability": CAPABILITIES[0],
    }
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    names = inspect.signature(function).parameters
    for value in marks[0].args[1] if marks else [None]:
        yield {name: given.get(name, value) for name in names}


def fake(changes: Mapping[str, Any]) -> Fake:
    return Fake(**changes)


def test_honest_class_breaks_nothing() -> None:
    assert broken(fake({}), fake({})) == {}


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.contract)
def test_liar_breaks_its_contract_and_no_other(liar: Liar) -> None:
    wrapped = fake(liar.target if liar.wrapped is None else liar.wrapped)
    assert broken(fake(liar.target), wrapped) == {liar.contract: liar.cause}


def test_every_contract_has_a_liar() -> None:
    assert {liar.contract for liar in LIARS} | NOT_JUDGED == set(all_contracts("targets"))


@pytest.mark.parametrize("contract", all_contracts("targets"))
def test_every_contract_states_one_promise(contract: str) -> None:
    docstring = (all_contracts("targets")[contract].__doc__ or "").strip()
    assert docstring.endswith(".")
    assert "\n\n" not in docstring
    assert docstring.count(". ") == 0


def test_class_that_computes_something_else_is_an_error_and_not_judged() -> None:
    lying = fake(but(OUTPUTS, WRONG_LOGITS))
    with pytest.raises(ProbeFailed, match="computes something else here"):
        lying.trusted(None)


def test_variation_that_changes_nothing_shows_nothing() -> None:
    contract = all_contracts("targets")["targets.rope_base_is_read"]
    with pytest.raises(ProbeFailed, match="changes nothing"):
        contract(tiny_target=fake({"varied": {"rope_base": HONEST[None]}}), rope_base=ROPE_BASE)


def test_class_without_a_recipe_is_named_as_not_run() -> None:
    class Two(OneClass):
        def classes(self) -> Classes:
            return replace(super().classes(), setters={"NobodysForCausalLM": "nobodys.NobodysForCausalLM"})

    with pytest.raises(NotRun, match="no recipe: NobodysForCausalLM") as raised:
        all_contracts("targets")["targets.every_class_has_a_recipe"](targets=Two())
    assert raised.value.cause is Cause.NO_RECIPE


@pytest.mark.parametrize(
    ("setters", "quantizations", "cause", "told"),
    [
        ((), (), Cause.NO_SUCH_TARGET, "0.5.23: it cannot capture from GlmMoeDsaForCausalLM"),
        (("GlmMoeDsaForCausalLM",), (), Cause.NO_SUCH_TARGET, "knows no --quantization modelopt_fp4"),
        (("GlmMoeDsaForCausalLM",), ("modelopt_fp4",), Cause.NO_KERNELS, "it needs sparse attention"),
    ],
)
def test_target_that_only_a_gpu_runs_is_not_run_and_says_what_the_release_says(
    setters: tuple[str, ...], quantizations: tuple[str, ...], cause: Cause, told: str
) -> None:
    class Release(OneClass):
        def classes(self) -> Classes:
            return Classes(setters=dict.fromkeys(setters, "x.X"), without=(), quantizations=quantizations)

    glm5 = next(item for item in CAPABILITIES if item.name == "glm5_nvfp4")
    with pytest.raises(NotRun, match=told) as raised:
        all_contracts("targets")["targets.target_beyond_this_machine_is_captured_from"](
            targets=Release(), capability=glm5
        )
    assert raised.value.cause is cause


def test_missing_key_of_the_targets_config_is_named() -> None:
    refused = TargetRun(refused="AttributeError: 'MiniMaxM2Config' object has no attribute 'rotary_dim'")
    with pytest.raises(Broken) as raised:
        all_contracts("targets")["targets.target_is_served_with_a_draft"](
            tiny_target=fake(but(OUTPUTS, refused))
        )
    assert raised.value.cause is Cause.TARGET_CONFIG_INCOMPLETE
    assert "rotary_dim" in raised.value.expected


@pytest.mark.parametrize(
    ("form", "cause"), [("without residual", Cause.STATE_WITHOUT_RESIDUAL), ("normed", Cause.STATE_NORMED)]
)
def test_states_in_another_form_are_told(form: str, cause: Cause) -> None:
    lying = fake(but(None, run((2, 4, 5), form=form)))
    with pytest.raises(Broken) as raised:
        all_contracts("targets")["targets.states_without_ids_are_those_of_training"](tiny_target=lying)
    assert raised.value.cause is cause


def test_trained_states_are_all_different() -> None:
    assert len(set(TRAINED.values())) == len(TRAINED)
