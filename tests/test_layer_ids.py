"""What ids name to who wrote them and to who serves them: one function, with its evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import contracts
from contracts import records
from contracts.export import export_draft
from contracts.header.origin import Writer
from contracts.layer_ids import Meaning, as_served, as_trained, counts_states, meanings, to_serve

LLAMA, KIMI = ("LlamaForCausalLM",), ("KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM")


@pytest.mark.parametrize("release", records.recorded_releases("speculators"))
def test_speculators_counts_as_its_record_shows(release: str) -> None:
    shown = [
        facts.aux_layers for facts in records.surface("speculators", release).values() if facts.aux_layers
    ]
    written = [layers for layers in shown if layers.layer_ids is not None and layers.num_layers == 8]
    assert counts_states(release) == any(layers.layer_ids == (1, 4, 6) for layers in written)
    if not counts_states(release):
        assert as_trained(Writer.SPECULATORS, release, None).states is None
        return
    for layers in written:
        assert as_trained(Writer.SPECULATORS, release, layers.layer_ids).states == layers.states


@pytest.mark.parametrize(
    ("trainer", "ids", "states"),
    [
        (Writer.SPECFORGE, (1, 3, 4), (2, 4, 5)),
        (Writer.EAGLE, None, (2, 4, 5)),
        (Writer.SPECFORGE, (), (2, 4, 5)),
        (Writer.ANGELSLIM, (1, 3, 4), (2, 4, 5)),
        (Writer.ANGELSLIM, None, None),
        (Writer.TORCHSPEC, (2, 4, 5), (2, 4, 5)),
        (Writer.EAGLE, (2, 4, 5), (2, 4, 5)),
        (Writer.UNKNOWN, (1, 3, 4), None),
    ],
)
def test_other_trainers_count_outputs_or_nobody_knows(
    trainer: Writer, ids: tuple[int, ...] | None, states: tuple[int, ...] | None
) -> None:
    meaning = as_trained(trainer, None, ids, 8)
    assert meaning.states == states
    assert meaning.evidence


@pytest.mark.parametrize(
    ("serving", "classes", "ids", "layers", "states"),
    [
        ("0.5.23", LLAMA, (1, 17, 32), 36, (2, 18, 33)),
        ("0.5.23", LLAMA, None, 36, (2, 18, 33)),
        ("0.5.23", KIMI, (2, 18, 33), 36, (2, 18, 33)),
        ("0.5.23", KIMI, (1, 17, 32), 36, (2, 18, 33)),
        ("0.5.23", KIMI, (17, 1, 32), 36, (1, 17, 32)),
        ("0.5.23", ("GptOssForCausalLM",), (2, 18, 36), 36, (2, 18, 36)),
        ("0.5.23", ("GptOssForCausalLM",), (2, 18, 33), 36, (3, 19, 34)),
        ("0.5.23", ("MiniMaxM3SparseForConditionalGeneration",), None, 36, (3, 19, 34)),
        (
            "0.5.23",
            ("Qwen3VLMoeForConditionalGeneration",),
            (1, 17, 32),
            36,
            (2, 18, 33),
        ),  # by the same setter
        ("0.5.23", ("NobodysForCausalLM",), (1, 17, 32), 36, None),
        ("0.5.12.post1", KIMI, (2, 18, 33), 36, (3, 19, 34)),  # before the rule of the first id
    ],
)
def test_a_release_takes_ids_as_it_was_seen_to(
    serving: str,
    classes: tuple[str, ...],
    ids: tuple[int, ...] | None,
    layers: int,
    states: tuple[int, ...] | None,
) -> None:
    meaning = as_served(serving, classes, ids, layers)
    assert meaning.states == states
    assert ("nothing is recorded" in meaning.evidence) == (states is None)


def test_evidence_is_the_run_where_there_was_one() -> None:
    assert "was run" in as_served("0.5.23", LLAMA, None, 8).evidence
    inherited = as_served("0.5.23", ("DeepseekV32ForCausalLM",), None, 8).evidence
    assert inherited.startswith(
        "DeepseekV32ForCausalLM was never run; it has the setter of DeepseekV3ForCausalLM, which was"
    )
    alone = as_served("0.5.21", ("Glm5NextForConditionalGeneration",), None, 8).evidence
    assert alone == (
        "Glm5NextForConditionalGeneration could not be judged (transformers 5.12.1 has no Glm5NextConfig); "
        "taken to count as its setter does (glm5_next.Glm5NextForConditionalGeneration, 0.5.21)"
    )


def test_both_sides_are_told_together() -> None:
    told = meanings(Writer.SPECULATORS, "0.9.0", (2, 4, 5), serving="0.5.23", classes=LLAMA, num_layers=8)
    assert (told.trained.states, told.served.states, told.agree) == ((2, 4, 5), (3, 5, 6), False)
    ids = to_serve("0.5.23", LLAMA, (2, 4, 5), 8)
    served = meanings(Writer.SPECFORGE, None, ids, serving="0.5.23", classes=LLAMA, num_layers=8)
    assert served.agree
    unknown = meanings(Writer.UNKNOWN, None, ids, serving="0.5.23", classes=LLAMA, num_layers=8)
    assert unknown.agree is None
    assert isinstance(unknown.trained, Meaning)


@pytest.mark.parametrize("architecture", ["KimiK25ForConditionalGeneration", "LlamaForCausalLM"])
def test_check_takes_the_order_that_export_writes(architecture: str, tmp_path: Path) -> None:
    fixtures = Path(contracts.__file__).parent / "fixtures"
    config = json.loads((fixtures / "target" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": [architecture]}))
    planned = export_draft(fixtures / "canary", tmp_path / "out", serving="0.5.23", target=tmp_path)
    written = planned.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert written == ([4, 1, 7] if architecture.startswith("Kimi") else [0, 3, 6])
    report = contracts.check(tmp_path / "out", target=tmp_path, serving="sglang==0.5.23")
    assert not [item for item in report.findings if item.finding.cause == "layer-order"]
