"""What a release of sglang shows whatever the draft: its target classes, its options and their defaults."""

from __future__ import annotations

import argparse
import json
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from contracts.facts import DraftFacts
from contracts.probes import sglang_captures, sglang_meta, sglang_release

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
    speculation = {name: _chosen(name, kind) for name, kind in ARCHITECTURES.items()}
    sglang_meta.connect()  # some setters ask for a group, which needs the arguments published above
    traits = {
        "speculation": speculation,
        "server_options": _options(),
        "requires_python": metadata.metadata("sglang")["Requires-Python"],
        "targets": sglang_captures.shifts(),
        "draft_classes": _draft_classes(),
        "algorithms": _algorithms(),
    }
    Path(case["release"]).write_text(json.dumps(traits))
    return DraftFacts()


def _draft_classes() -> list[str]:
    """Classes that run an EAGLE-3 draft."""
    from sglang.srt.models.registry import ModelRegistry

    return sorted(name for name in ModelRegistry.models if "eagle3" in name.lower())


def _algorithms() -> list[str]:
    """Speculative algorithms that the server can be told."""
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    listed = sglang_release.has("algorithms-listed")
    known = SpeculativeAlgorithm.__members__ if listed else SpeculativeAlgorithm._registry_by_name
    return sorted({algorithm.name for algorithm in known.values()} - {"NONE"})


def _options() -> list[str]:
    """Options of the server's command line that bear on speculation."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return sorted(
        {word for action in parser._actions for word in action.option_strings if "speculative" in word}
    )


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
