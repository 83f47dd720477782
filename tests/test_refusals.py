"""What export refuses, and what it says then."""

from __future__ import annotations

import pytest

from contracts import export, export_report
from contracts.dialect import Dialect
from contracts.verdict import Cause
from tests.exporting import with_norms
from tests.facts import checkpoint

DIALECT = Dialect.for_release("0.5.23")


@pytest.mark.parametrize(
    ("flag", "serving", "helps"),
    [
        ("norm_before_residual", "0.5.23", ("--no-norm-before-residual", "a library that applies")),
        ("norm_output", "0.5.11", ("--no-norm-output", "sglang 0.5.12.post1 or newer")),
        ("norm_before_fc", "0.5.16", ("--no-norm-before-fc", "sglang 0.5.17 or newer")),
    ],
)
def test_norm_that_is_not_served_is_refused_with_its_own_flag(
    flag: str, serving: str, helps: tuple[str, str]
) -> None:
    refused = {
        item.cause: item for item in export.plan(with_norms(flag), Dialect.for_release(serving)).refusals
    }
    refusal = refused[Cause.NORM_NOT_SERVED]
    for told in helps:
        assert told in refusal.fix


@pytest.mark.parametrize(
    ("classes", "ids", "cause"),
    [
        (["LlamaForCausalLM"], [0, 3, 5], None),
        (["DeepseekV3ForCausalLM"], [4, 1, 6], None),
        (["Gemma3ForCausalLM"], [0, 3, 5], Cause.STATE_WITHOUT_RESIDUAL),
        (["NobodysForCausalLM"], [0, 3, 5], Cause.CAPTURE_UNKNOWN),
        ([], [0, 3, 5], None),
    ],
)
def test_without_a_target_ids_are_for_the_class_that_the_draft_names(
    classes: list[str], ids: list[int], cause: Cause | None
) -> None:
    trained_for = {"speculators_config": {"verifier": {"architectures": classes}}}
    planned = export.plan(checkpoint(**trained_for), DIALECT)
    assert planned.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == ids
    assert [item.cause for item in planned.refusals] == ([cause] if cause else [])


def test_what_fails_loudly_is_not_called_silent() -> None:
    (refusal,) = export.plan(checkpoint(layer={"hidden_act": "gelu"}), DIALECT).refusals
    assert "fails" in export_report.consequence(refusal)
