"""What the two real libraries are known to do, as far as the suite itself depends on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts import checkpoint, export
from contracts.dialect import Dialect
from contracts.recipes import RECIPES
from contracts.served_target import ServedTarget
from contracts.settings import SETTINGS
from contracts.verdict import Cause
from tests.runner import broken

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench


def test_plain_draft_crosses_whole(real_workbench: Workbench) -> None:
    handoff, raw = real_workbench.handoff("plain"), real_workbench.handoff("plain", "raw")
    assert {name: verdict.cause for name, verdict in broken(handoff, raw).items()} == {
        "config.saved_draft_is_served": Cause.CONFIG_NOT_RESOLVED
    }


@pytest.mark.parametrize("recipe", [recipe.name for recipe in RECIPES])
def test_refused_exactly_if_something_is_lost(real_workbench: Workbench, recipe: str) -> None:
    """The exporter goes by recorded surfaces; the library that judges is the installed one."""
    found = broken(real_workbench.handoff(recipe))
    lost = set(found) - {"config.saved_draft_is_served", "export.draft_can_be_expressed"}
    assert ("export.draft_can_be_expressed" in found) == bool(lost)


@pytest.mark.parametrize("recipe", [recipe.name for recipe in RECIPES])
def test_what_can_be_exported_computes_as_trained(real_workbench: Workbench, recipe: str) -> None:
    """The proof of export: each draft that it does not refuse passes every forward contract."""
    handoff, replay = real_workbench.handoff(recipe), real_workbench.replay(recipe)
    found = broken(handoff, replay=replay)
    numbers = {name for name in found if name.startswith(("forward.", "aux_layers."))}
    numbers.discard("forward.training_agrees_with_itself")  # about the training side alone
    assert bool(numbers) == bool(handoff.export_refusals)


LONGER = {
    "model_max_length": {"model_max_length": 4096},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 50_000.0, "factor": 4.0}},
    "no_dtype": {"dtype": None},
}


def test_export_for_a_target_fits_what_the_engine_derives_of_it(
    real_workbench: Workbench, sglang: Side, tmp_path: Path
) -> None:
    """Context length and dtype: the real engine starts with each target, which it refuses otherwise."""
    cases = []
    for name, changes in LONGER.items():
        target, draft = tmp_path / name, tmp_path / f"{name}-draft"
        shutil.copytree(real_workbench.group("plain").target_folder("plain"), target)
        config = json.loads((target / "config.json").read_text()) | changes
        (target / "config.json").write_text(json.dumps(config))
        source = checkpoint.read(real_workbench.group("plain").draft_folder("plain"))
        planned = export.plan(source, Dialect.for_release(sglang.version), ServedTarget.read(target))
        export.write(planned, draft)
        case = real_workbench.group("plain").forward_case("plain") | {"case": name, "dtype": "auto"}
        cases.append(case | {"folder": draft, "target": target})
    run = sglang.run(cases, tmp_path / "cache")
    assert {name: (it.error, it.refusals) for name, it in run.results.items()} == dict.fromkeys(
        LONGER, (None, ())
    )


def test_every_recipe_varies_what_it_says(real_workbench: Workbench) -> None:
    facts = {recipe.name: real_workbench.facts("training", recipe.name) for recipe in RECIPES}
    plain = facts["plain"]
    # The target, what the draft is served as, or how training computes attention makes five differ.
    assert len({repr(fact) for fact in facts.values()}) == len(RECIPES) - 5
    assert plain.vocab_map is not None
    assert plain.vocab_map.draft_vocab_size == 192
    assert facts["full_vocab"].vocab_map is not None
    assert not facts["full_vocab"].vocab_map.mapped
    for name in ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual"):
        norms = facts[name].norms
        assert norms is not None
        assert [flag for flag, value in vars(norms).items() if value] == [name]
    for name, shown in (("qwen3_layer", "qk_norm"), ("attention_bias", "biased")):
        attention = facts[name].attention
        assert attention is not None
        assert getattr(attention, shown)
    assert facts["own_embedding"].sharing != plain.sharing
    assert facts["rope_llama3"].rope != plain.rope


def test_messages_of_the_library_carry_no_path_of_this_machine(real_workbench: Workbench) -> None:
    (refusal,) = real_workbench.handoff("plain", "raw").serving_refusals
    assert str(real_workbench.group("plain").target_folder("plain").parent) not in refusal.message
    assert "drafts/plain" in refusal.message


@pytest.fixture(scope="module")
def elsewhere(
    real_workbench: Workbench, sglang: Side, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What the engine says on a CPU when it is asked for what contracts.settings leaves out."""
    case = real_workbench.group("canary").engine_case("canary", SETTINGS[0])
    asked = {
        "backend": (
            "--prefill-attention-backend",
            "torch_native",
            "--decode-attention-backend",
            "torch_native",
        ),
        "pages": ("--page-size", "4"),
    }
    cases = [
        case | {"case": name, "server_args": [*case["server_args"], *arguments]}
        for name, arguments in asked.items()
    ]
    run = sglang.run(cases, tmp_path_factory.mktemp("elsewhere"))
    return {name: result.error or str(result.refusals) for name, result in run.results.items()}


@pytest.mark.parametrize(
    ("asked", "says"), [("backend", "EAGLE is not supported"), ("pages", "active drivers")]
)
def test_settings_leave_out_only_what_a_cpu_does_not_offer(
    elsewhere: dict[str, str], asked: str, says: str
) -> None:
    assert says in elsewhere[asked]
