"""Wider heads compute what narrow ones do, by transformers and in the real engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from pydantic import TypeAdapter

from contracts.group import FIXTURES
from contracts.probes import wide_heads
from contracts.probes.kernels import torchvision_ops
from contracts.settings import HEAD_DIM, SETTINGS
from contracts.speculation import EngineRun

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench


def test_wider_heads_compute_the_same(tmp_path: Path) -> None:
    torchvision_ops.install()
    from transformers import AutoModelForCausalLM

    wide_heads.widen(FIXTURES / "target", tmp_path / "wide", HEAD_DIM)
    narrow, wide = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for folder in (FIXTURES / "target", tmp_path / "wide")
    )
    assert wide.model.layers[0].self_attn.q_proj.weight.shape == (4 * HEAD_DIM, 64)
    tokens = torch.arange(3, 63)[None]
    with torch.no_grad():
        expected, seen = narrow(tokens).logits, wide(tokens).logits
    assert torch.allclose(expected, seen, atol=1e-5)


@pytest.mark.parametrize(
    ("width", "change"),
    [
        (24, {}),
        (32, {}),  # a factor of two is no power of four: queries would be rounded in bfloat16
        (64, {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}),
    ],
)
def test_heads_that_cannot_be_widened(tmp_path: Path, width: int, change: dict[str, Any]) -> None:
    source = tmp_path / "target"
    shutil.copytree(FIXTURES / "target", source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ValueError, match="cannot become heads of"):
        wide_heads.widen(source, tmp_path / "wide", width)


def test_engine_makes_the_same_of_wider_heads(
    real_workbench: Workbench, sglang: Side, tmp_path: Path
) -> None:
    group = real_workbench.group("canary")
    case = group.engine_case("canary", SETTINGS[1])
    run = sglang.run([case | {"head_dim": HEAD_DIM, "case": "wide"}], tmp_path)
    assert not run.results["wide"].error
    wide = TypeAdapter(EngineRun).validate_json((run.folders["wide"] / "run.json").read_bytes())
    assert wide == real_workbench.acceptance("canary", SETTINGS[1]).run
