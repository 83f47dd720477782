"""What a release of sglang shows whatever the draft: its target classes, its options and their defaults."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from contracts.facts import DraftFacts
from contracts.probes import sglang_captures, sglang_release

PREFIX = "speculative_"
ARCHITECTURES = {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "qwen3"}
"""Targets for which a server that is told nothing may choose differently."""
CHOSEN = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
SIZES = {
    "vocab_size": 256, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 8, "head_dim": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
}  # fmt: skip


def observe(case: dict[str, Any]) -> DraftFacts:
    """Write what the release shows to `case["release"]`."""
    traits = {
        "targets": sglang_captures.shifts(),
        "server_options": _options(),
        "speculation": {name: _chosen(name, kind) for name, kind in ARCHITECTURES.items()},
    }
    Path(case["release"]).write_text(json.dumps(traits))
    return DraftFacts()


def _options() -> list[str]:
    """Options of the server that bear on speculation."""
    from sglang.srt.server_args import ServerArgs

    names = (name for name in dir(ServerArgs) if name.startswith(PREFIX))
    fields = {
        *getattr(ServerArgs, "__dataclass_fields__", ()),
        *getattr(ServerArgs, "__annotations__", ()),
        *names,
    }
    return sorted(name for name in fields if name.startswith(PREFIX))


def _chosen(architecture: str, model_type: str) -> dict[str, Any]:
    """Steps, topk and tokens of a server for EAGLE-3 that is told neither, with a target of this class."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"architectures": [architecture], "model_type": model_type, **SIZES}
        (Path(folder) / "config.json").write_text(json.dumps(config))
        line = [
            *("--model-path", folder, "--speculative-algorithm", "EAGLE3"),
            *("--speculative-draft-model-path", folder),
            *("--device", "cpu", "--skip-tokenizer-init", "--log-level", "error"),
        ]
        arguments = sglang_release.server_arguments(line)
        sglang_release.publish(arguments)
        chosen = sglang_release.speculation(arguments)
        return {name.removeprefix(PREFIX): getattr(chosen, name) for name in CHOSEN}
