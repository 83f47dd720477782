"""How long `contracts export` takes for a large draft, and how much memory, beside `cp`.

    python benchmarks/export_copy.py              # a draft of 3 GB, three times each
    python benchmarks/export_copy.py --gigabytes 1 --folder /fast/disk

Prints one line per run. The files are read once before, so that both find them in the page cache. Nothing is
asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

LAYERS = 1
HIDDEN, INTERMEDIATE, VOCAB = 4096, 14336, 128256


def shapes(rows: int) -> dict[str, tuple[int, ...]]:
    """A draft for an 8B Llama, with as many rows of embedding and head as fill the wanted size."""
    layer = "layers.0."
    return {
        "embed_tokens.weight": (rows, HIDDEN),
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "lm_head.weight": (rows, HIDDEN),
        "norm.weight": (HIDDEN,),
        f"{layer}hidden_norm.weight": (HIDDEN,),
        f"{layer}input_layernorm.weight": (HIDDEN,),
        f"{layer}post_attention_layernorm.weight": (HIDDEN,),
        f"{layer}mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
        f"{layer}mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
        f"{layer}mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
        f"{layer}self_attn.q_proj.weight": (HIDDEN, 2 * HIDDEN),
        f"{layer}self_attn.k_proj.weight": (HIDDEN // 4, 2 * HIDDEN),
        f"{layer}self_attn.v_proj.weight": (HIDDEN // 4, 2 * HIDDEN),
        f"{layer}self_attn.o_proj.weight": (HIDDEN, HIDDEN),
    }


def make_draft(folder: Path, gigabytes: float) -> int:
    """Write a bfloat16 draft of that size, as speculators saves one; returns its bytes."""
    fixed = sum(int(np.prod(shape)) for name, shape in shapes(0).items())
    rows = max(1, int((gigabytes * 1e9 / 2 - fixed) / (2 * HIDDEN)))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes(rows).items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    generator = np.random.default_rng(0)
    piece = (
        (generator.standard_normal(2**22, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    )
    folder.mkdir()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, at, len(piece)):
            file.write(piece[: at - start])
    layer = {
        "model_type": "llama",
        "vocab_size": rows,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 8192,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    }
    config = {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": rows,
        "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
        "transformer_layer_config": layer,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return at


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Seconds, and peak MiB of the process."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    scale = 1 if sys.platform == "darwin" else 1024
    return time.monotonic() - started, usage.ru_maxrss * scale / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=3.0, help="size of the draft [default: 3]")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each [default: 3]")
    parser.add_argument("--folder", type=Path, help="where to write [default: the temporary folder]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as root:
        draft, out = Path(root) / "draft", Path(root) / "out"
        size = make_draft(draft, options.gigabytes)
        export = [sys.executable, "-m", "contracts", "export", str(draft), "-o", str(out)]
        for _ in range(options.repeat):
            for name, command in (("cp", ["cp", "-r", str(draft), str(out)]), ("export", export)):
                seconds, memory = timed(command)
                rate = size / seconds / 1e9
                print(
                    f"{name:<7} {size / 1e9:.2f} GB  {seconds:6.2f} s  {rate:5.2f} GB/s  {memory:5.0f} MiB",
                    flush=True,
                )
                subprocess.run(["rm", "-r", str(out)], check=True)


if __name__ == "__main__":
    main()
