"""What speculators' data generation extracts: the record, and how it is told from what vLLM wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from contracts.targets.recipes import LAYERS, TARGETS
from contracts.targets.situations import PROMPTS, TRAINED
from tests.extraction_table import IDS, read, reason, told, varied

BY_NAME = {recipe.name: recipe for recipe in TARGETS}
NUMBERS = np.random.default_rng(5)


def test_every_class_that_was_extracted_from_gave_the_states_that_were_asked_for() -> None:
    """Ids are indices of hidden states to vLLM, and the last one is before the final norm."""
    assert tuple(read()["ids"]) == IDS == (*TRAINED["usual"], LAYERS)
    found = {name: it["states"] for name, it in read()["targets"].items() if "states" in it}
    assert set(found.values()) == {", ".join(map(str, IDS))}
    assert len(found) >= 8
    assert set(read()["targets"]) == set(BY_NAME)
    assert all("states" in it or it["not_run"] for it in read()["targets"].values())


@pytest.mark.parametrize(
    ("form", "shift", "says"),
    [
        ("plain", 0, "2, 4, 5, 8"),
        ("plain", -1, "1, 3, 4, 7"),
        ("normed", 0, "2 normed, 4 normed, 5 normed, 8 normed"),
    ],
)
def test_other_states_are_told(form: str, shift: int, says: str, tmp_path: Path) -> None:
    data, seen = {}, {}
    for number, prompt in enumerate(PROMPTS):
        for name in ("plain", "normed", "bare"):
            data[f"{name}/{number}"] = NUMBERS.normal(size=(LAYERS + 1, len(prompt), 6)).astype(np.float32)
        states = [data[f"{form}/{number}"][index + shift] for index in IDS]
        seen[f"extracted/{number}"] = np.concatenate(states, -1)
    save_file(data, tmp_path / "reference.safetensors")
    save_file(seen, tmp_path / "extracted.safetensors")
    assert told(tmp_path / "extracted.safetensors", tmp_path / "reference.safetensors") == says


def test_heads_are_as_wide_as_vllm_takes_them() -> None:
    assert varied(BY_NAME["llama"]).settings["head_dim"] == 32
    assert varied(BY_NAME["qwen2"]).settings["num_attention_heads"] == 2
    assert varied(BY_NAME["deepseek_v3"]).settings["kv_lora_rank"] == 512
    text = varied(BY_NAME["qwen3_vl"]).settings["text_config"]
    assert (text["head_dim"], text["rope_parameters"]["mrope_section"]) == (32, [4, 6, 6])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("x\nModuleNotFoundError: No module named 'a'\nValueError: b", "No module named 'a'"),
        ("[rank0]: ValueError: first\n[rank0]: RuntimeError: last", "RuntimeError: last"),
        ("AssertionError", "AssertionError"),
        ("Killed", "vLLM ended without a word"),
    ],
)
def test_why_vllm_ended_is_told(said: str, why: str) -> None:
    assert reason(said) == why
