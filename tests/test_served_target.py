"""What export derives of a target's config.json: as the engine does, or one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts import checkpoint as checkpoints
from contracts import export, export_report
from contracts.dialect import Dialect
from contracts.served_target import ServedTarget
from tests.facts import checkpoint, save_target

DIALECT = Dialect.for_release("0.5.23")


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 1e300])
def test_what_is_no_factor_is_left_out(tmp_path: Path, factor: float) -> None:
    rope = {"rope_type": "linear", "factor": factor}
    folder = save_target(tmp_path / "odd", rope_scaling=rope)
    assert ServedTarget.read(folder).context_length == 512  # not a factor: left out


def test_export_needs_a_target_of_a_length(tmp_path: Path) -> None:
    target = ServedTarget.read(save_target(tmp_path / "none", max_position_embeddings=None))
    assert target.context_length is None
    with pytest.raises(checkpoints.CheckpointError, match="states no context length"):
        export.plan(checkpoint(), DIALECT, target)


@pytest.mark.parametrize(
    ("config", "length", "dtype"),
    [
        ({}, 512, "float32"),
        ({"dtype": None}, 512, "float32"),
        ({"dtype": None, "torch_dtype": "bfloat16"}, 512, "bfloat16"),
        ({"dtype": "float32", "model_type": "gemma3_text"}, 512, "bfloat16"),
        ({"model_max_length": 4096}, 4096, "float32"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 4.0}}, 2048, "float32"),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 2048, "float32"),
        ({"rope_parameters": {}, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 1024, "float32"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, 512, "float32"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 512, "float32"),
        (
            {
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 128,
                }
            },
            512,
            "float32",
        ),
        ({"text_config": {"max_position_embeddings": 8192, "dtype": "float16"}}, 8192, "float16"),
    ],
)
def test_context_and_dtype_are_those_that_the_engine_derives(
    tmp_path: Path, config: dict[str, Any], length: int, dtype: str
) -> None:
    target = ServedTarget.read(save_target(tmp_path / "target", **config))
    planned = export.plan(checkpoint(), DIALECT, target)
    assert planned.config["max_position_embeddings"] == length
    assert planned.config["dtype"] == dtype


def test_keys_are_told_as_they_stand_and_those_of_the_language_model_bare() -> None:
    """Kimi's class asks its language model's config; MiniMax-M3's wrapper is recorded with dotted keys."""
    inner = {"hidden_size": 8, "num_hidden_layers": 2, "moe_layer_freq": 1, "topk_method": None}
    target = ServedTarget.of({"text_config": inner, "pad_token_id": None, "dtype": "float32"}, Path("t"))
    assert {"dtype", "text_config", "text_config.moe_layer_freq", "moe_layer_freq"} <= target.keys
    assert not {"topk_method", "text_config.topk_method", "pad_token_id"} & target.keys


@pytest.mark.parametrize(
    ("streams", "width"), [({}, 8), ({"hc_mult": 4}, 8), ({"hc_mult": 4, "mhc": True}, 32)]
)
def test_a_hidden_state_is_all_residual_streams(streams: dict[str, Any], width: int) -> None:
    target = ServedTarget.of({"hidden_size": 8, "num_hidden_layers": 2, **streams}, Path("t"))
    assert target.state_width == width


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [("rope_parameters", 7, "rope_parameters is 7"), ("text_config", [], "text_config is []")],
)
def test_what_must_be_an_object_is(key: str, value: object, told: str) -> None:
    with pytest.raises(checkpoints.CheckpointError, match="and must be an object") as raised:
        ServedTarget.of({"hidden_size": 8, "num_hidden_layers": 2, key: value}, Path("t"))
    assert told in str(raised.value)


def test_export_says_what_it_knows_of_the_targets_class(tmp_path: Path) -> None:
    def told(architecture: str) -> list[str]:
        served = ServedTarget.read(save_target(tmp_path / architecture, architectures=[architecture]))
        planned = export.plan(checkpoint(), Dialect.for_release("0.5.20"), served)
        return [f"{word} {sentence}" for word, sentence in export_report.summary(planned)]

    assert [line for line in told("LlamaForCausalLM") if line.startswith("known by LlamaForCausalLM was run")]
    inherited = "\n".join(told("DeepseekV32ForCausalLM"))
    assert "never run; it has the setter of DeepseekV3ForCausalLM" in inherited
    assert "lacks moe_layer_freq, scoring_func, topk_method" in inherited
    doubtful = "\n".join(told("Qwen3_5MoeForConditionalGeneration"))
    assert (
        "Qwen3_5ForConditionalGeneration, which has the same setter, is refused in this release" in doubtful
    )
