"""What changed between releases: rules over surfaces, and what they say of the releases that are recorded."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contracts import drift, records
from contracts.cli import app
from contracts.drift import Change, NotRecorded
from contracts.drift_rules import Consequence
from contracts.facts import DraftFacts, Refusal
from tests.facts import SERVED, TRAINED, with_facet

LOUD, SILENT, NONE = Consequence.LOUD, Consequence.SILENT, Consequence.NONE
TRAITS: dict[str, Any] = {
    "targets": {
        "LlamaForCausalLM": {
            "setter": "llama.LlamaForCausalLM", "usual": 1, "first_is_1": 1, "one_is_not_first": 1,
            "without_ids": [2, 4, 5], "shares_embedding": True,
        }
    },
    "server_options": ["speculative_eagle_topk"],
    "speculation": {"LlamaForCausalLM": {"num_steps": 5}},
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records in which nothing has changed yet."""
    monkeypatch.setattr(records, "RELEASES", tmp_path)
    write(tmp_path, "speculators", "0.9.0", TRAINED)
    return tmp_path


def write(root: Path, library: str, release: str, facts: DraftFacts, *refusals: Refusal, **more: Any) -> None:
    recipes = {name: item for name, item in more.items() if isinstance(item, DraftFacts)}
    traits = {name: item for name, item in more.items() if name not in recipes}
    record = records.Record(
        library=library,
        release=release,
        facts={"plain": facts, **recipes},
        refusals={"plain": refusals},
        traits=TRAITS | traits if library == "sglang" else traits,
    )
    file = root / library / f"{release}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(records.as_text(record))


def changes(
    root: Path, before: DraftFacts = SERVED, after: DraftFacts = SERVED, **traits: Any
) -> list[Change]:
    """What a release that shows `after` changed from one that shows `before`."""
    write(root, "sglang", "1.0", before)
    write(root, "sglang", "1.1", after, **traits)
    return list(drift.between("sglang", "1.0", "1.1").changes)


OTHER_STATES = with_facet(SERVED, "aux_layers", states=(2, 5, 7))
THIRD_STATES = with_facet(SERVED, "aux_layers", states=(3, 5, 7))


@pytest.mark.parametrize(
    ("before", "after", "consequence", "said"),
    [
        (SERVED, OTHER_STATES, SILENT, "not any more"),
        (OTHER_STATES, SERVED, NONE, "as trained now"),
        (OTHER_STATES, THIRD_STATES, SILENT, "otherwise than before"),
        (SERVED, with_facet(SERVED, "norms", norm_output=True), SILENT, "not any more"),
        (
            SERVED,
            with_facet(SERVED, "weight_names", ignored=("fc.weight",)),
            SILENT,
            "ignored now: fc.weight",
        ),
        (with_facet(SERVED, "weight_names", ignored=("fc.weight",)), SERVED, NONE, "dropped before"),
        (SERVED, with_facet(SERVED, "weight_names", unwritten=("fc",)), SILENT, "left unwritten now: fc"),
        (SERVED, replace(SERVED, config_keys=("architectures", "x")), NONE, "asked for"),
        (SERVED, replace(SERVED, architecture="Another"), NONE, "another class"),
        (SERVED, with_facet(SERVED, "compute", draft="float16"), SILENT, "precision"),
        (SERVED, replace(SERVED, norm_eps=1e-6), SILENT, "not any more"),
        (SERVED, with_facet(SERVED, "aux_layers", layer_ids=(1, 4, 6)), NONE, "other ids"),
        (SERVED, with_facet(SERVED, "aux_layers", layer_ids=None), SILENT, "not used any more"),
        (with_facet(SERVED, "weight_names", unwritten=("fc",)), SERVED, NONE, "written now"),
        (SERVED, with_facet(SERVED, "vocab_map", mapped=False), SILENT, "not any more"),
    ],
)
def test_consequence_of_a_change(
    root: Path, before: DraftFacts, after: DraftFacts, consequence: Consequence, said: str
) -> None:
    (found,) = changes(root, before, after)
    assert found.consequence is consequence
    assert said in found.meaning
    assert found.action


def test_facet_that_vanishes_without_a_refusal_is_silent(root: Path) -> None:
    found = changes(root, SERVED, replace(SERVED, vocab_map=None))
    assert {change.consequence for change in found} >= {SILENT}


def test_what_helps_one_recipe_may_hurt_another(root: Path) -> None:
    """A norm that is always applied now: right for who trained with it, wrong for all others."""
    normed = with_facet(TRAINED, "norms", norm_output=True)
    write(root, "speculators", "0.9.0", TRAINED, norm_output=normed)
    applied = with_facet(SERVED, "norms", norm_output=True)
    write(root, "sglang", "1.0", SERVED, norm_output=SERVED)
    write(root, "sglang", "1.1", applied, norm_output=applied)
    found = {change.consequence: change.recipes for change in drift.between("sglang", "1.0", "1.1").changes}
    assert found == {SILENT: ("plain",), NONE: ("norm_output",)}


def test_refusal_that_becomes_a_silent_fault_is_silent(root: Path) -> None:
    refusal = Refusal(stage="load", error="KeyError", message="fc")
    write(root, "sglang", "1.0", DraftFacts(), refusal)
    write(root, "sglang", "1.1", with_facet(SERVED, "weight_names", ignored=("fc.weight",)))
    found = {change.path: change.consequence for change in drift.between("sglang", "1.0", "1.1").changes}
    assert found == {"refusals": NONE, "weight_names.ignored": SILENT}


def test_nothing_changed(root: Path) -> None:
    assert changes(root) == []


@pytest.mark.parametrize(
    ("refused_before", "refused_after", "consequence"),
    [(False, True, LOUD), (True, False, NONE)],
)
def test_refusal_alone_is_told(
    root: Path, refused_before: bool, refused_after: bool, consequence: Consequence
) -> None:
    refusal = Refusal(stage="load", error="ValueError", message="only supports 1 layer")
    for release, refused in (("1.0", refused_before), ("1.1", refused_after)):
        write(root, "sglang", release, DraftFacts() if refused else SERVED, *([refusal] if refused else []))
    (found,) = drift.between("sglang", "1.0", "1.1").changes
    assert found.consequence is consequence
    assert "only supports 1 layer" in f"{found.before} {found.after}"


def target(**changed: Any) -> dict[str, Any]:
    return {"targets": {"LlamaForCausalLM": TRAITS["targets"]["LlamaForCausalLM"] | changed}}


@pytest.mark.parametrize(
    ("traits", "consequence", "said"),
    [
        (target(usual=0), SILENT, "ids contain no 1"),
        (target(first_is_1=0), SILENT, "first id is 1"),
        (target(without_ids=[3, 5, 6]), SILENT, "names no ids"),
        (target(setter="other.Other"), NONE, "defined elsewhere"),
        (target(shares_embedding=False), LOUD, "does not start"),
        (target(without_ids="ValueError: none"), LOUD, "refused for LlamaForCausalLM: ValueError: none"),
        (target(usual=None), NONE, "known in one of the two only"),
        ({"targets": {}}, LOUD, "cannot be captured any more"),
        (
            {"targets": {**TRAITS["targets"], "New": TRAITS["targets"]["LlamaForCausalLM"]}},
            NONE,
            "more target classes",
        ),
        ({"server_options": []}, LOUD, "speculative_eagle_topk"),
        ({"server_options": ["speculative_eagle_topk", "speculative_x"]}, NONE, "more options"),
        ({"speculation": {"LlamaForCausalLM": {"num_steps": 3}}}, SILENT, "told nothing"),
    ],
)
def test_consequence_of_a_trait(
    root: Path, traits: dict[str, Any], consequence: Consequence, said: str
) -> None:
    (found,) = changes(root, **traits)
    assert found.consequence is consequence
    assert said in found.meaning


def test_training_that_reads_ids_otherwise_is_silent(root: Path) -> None:
    write(root, "speculators", "0.8.0", with_facet(TRAINED, "aux_layers", states=(2, 5, 7)))
    (found,) = drift.between("speculators", "0.8.0", "0.9.0").changes
    assert found.consequence is SILENT
    assert "other layers" in found.meaning


def test_release_without_a_record(root: Path) -> None:
    with pytest.raises(NotRecorded, match=r"recorded are 0\.9\.0"):
        drift.between("speculators", "0.1", "0.9.0")


@pytest.mark.parametrize("text", ["{", '{"format": 1}', "[]"])
def test_damaged_record_is_one_line(root: Path, text: str) -> None:
    (root / "speculators" / "0.8.0.json").write_text(text)
    with pytest.raises(NotRecorded, match="cannot be read"):
        drift.between("speculators", "0.8.0", "0.9.0")


# ------------------------------------------------------------------------ what ships


def test_no_rule_is_missing_for_what_is_recorded() -> None:
    for library in ("sglang", "speculators"):
        releases = records.recorded_releases(library)
        for old, new in [*itertools.pairwise(releases), (releases[0], releases[-1]), releases[::-1][:2]]:
            for change in drift.between(library, old, new).changes:
                assert "no rule says" not in change.meaning, (library, old, new, change.path)


# ------------------------------------------------------------------------ the command


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["diff", *words])
    return result.exit_code, result.output


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_command_tells_it_in_each_form(root: Path, form: str) -> None:
    changes(root, SERVED, OTHER_STATES)
    status, output = command("sglang", "1.0", "newest", "--format", form)
    assert status == 0
    assert "aux_layers.states" in output
    if form == "json":
        assert json.loads(output)["changes"][0]["consequence"] == "silent"
    else:
        assert "0 loud, 1 silent" in output


def test_command_leaves_out_what_has_no_consequence_unless_asked(root: Path) -> None:
    changes(root, SERVED, replace(SERVED, architecture="Another"))
    assert "another class" not in command("sglang", "1.0", "1.1")[1]
    assert "another class" in command("sglang", "1.0", "1.1", "--all")[1]
    assert "another class" in command("sglang", "1.0", "1.1", "--only", "none")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [(("vllm", "1", "2"), "is none of"), (("sglang", "0.1", "0.5.23"), "sglang 0.1 is not recorded")],
)
def test_command_refuses_bad_input(words: tuple[str, ...], said: str) -> None:
    status, output = command(*words)
    assert status == 2
    assert said in output
