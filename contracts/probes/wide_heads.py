"""The same model with wider attention heads, which compute the same: for kernels that know no narrow ones.

A head of d dimensions becomes one of w, the others zero. Dimension i of each half moves to place i * w / d
of its half, so that RoPE turns it by the same angle (base ** (-2i / d) is base ** (-2(i * w / d) / w)), and
queries grow by sqrt(w / d), as scores are divided by sqrt(w) in place of sqrt(d): exact where w / d is a
power of four.
tests/test_wide_heads.py holds it to transformers.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

FILE = "model.safetensors"


def widen(source: Path, folder: Path, width: int) -> Path:
    """Write the Llama-like target or draft of `source` to `folder`, with heads `width` wide.

    Raises:
        ValueError: its heads cannot be widened so.

    """
    shutil.copytree(source, folder)
    config = json.loads((source / "config.json").read_text())
    heads = config["num_attention_heads"]
    narrow = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if width % narrow or math.log(width / narrow, 4) % 1 or rope.get("rope_type", "default") != "default":
        raise ValueError(f"heads of {narrow} cannot become heads of {width}, RoPE {rope.get('rope_type')}")
    (folder / "config.json").write_text(json.dumps({**config, "head_dim": width}))
    tensors = load_file(source / FILE)
    save_file({name: _widened(name, item, narrow, width) for name, item in tensors.items()}, folder / FILE)
    return folder


def _widened(name: str, tensor: torch.Tensor, narrow: int, width: int) -> torch.Tensor:
    """A weight of attention as it is with wider heads; any other as it is."""
    part = name.rpartition(".self_attn.")[2]
    if part == "o_proj.weight":
        return _spread(tensor.T, narrow, width).T.contiguous()
    if part in ("q_proj.weight", "k_proj.weight", "v_proj.weight"):
        factor = math.sqrt(width / narrow) if part == "q_proj.weight" else 1.0
        return _spread(tensor, narrow, width) * factor
    return tensor


def _spread(rows: torch.Tensor, narrow: int, width: int) -> torch.Tensor:
    """Rows of heads [heads * narrow, n] among zeros [heads * width, n]."""
    heads = rows.view(-1, 2, narrow // 2, rows.shape[-1])
    spread = rows.new_zeros(len(heads), 2, width // 2, rows.shape[-1])
    spread[:, :, :: width // narrow] = heads
    return spread.view(-1, rows.shape[-1])
