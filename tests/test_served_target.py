"""What export derives of a target's config.json: as the engine does, or one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts import checkpoint as checkpoints
from contracts import export
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
