"""Trains a real draft with the training library's own command, on a CPU, in half a minute.

The target is the committed one; its hidden states over sampled sequences are stored in the form that the
library trains from. Dataset, trainer and checkpointer are the library's.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts.probes import language

SEQUENCES, LENGTH = 240, 56
"""Longer than any prompt with its continuation."""
EPOCHS = 8
"""Enough to draft well, and few enough to be wrong now and then."""
SEED = 3
KEPT = ("model.safetensors", "config.json", "val_metrics.json")
"""Of a checkpoint: what is handed over, and the accuracies that the trainer measured."""
OPTIONS = (
    *("--total-seq-len", "512", "--num-workers", "0", "--hidden-states-dtype", "float32"),
    *("--draft-attn-impl", "sdpa", "--loss-implementation", "eager", "--on-missing", "raise"),
    *("--mask-token-id", "0", "--lr", "4e-3", "--epochs", str(EPOCHS), "--checkpoint-freq", str(EPOCHS)),
    *("--log-freq", "20"),
)
"""What the tiny target and a CPU make necessary; all else is the command's default."""
FLAGS = {"norm_before_residual": "--no-norm-before-residual"}
"""Options of the command by the flag of a recipe that is false."""


def install() -> tuple[str, ...]:
    """Let the library's trainer, which asks for an accelerator, train on a CPU; says what is stood in for."""
    import speculators.train.trainer as trainer

    torch.accelerator.synchronize = lambda *_, **__: None
    trainer.get_local_rank = lambda: "cpu"
    return ("the trainer's device, and its waiting for an accelerator (training is on the CPU)",)


def train(recipe: Mapping[str, Any], folder: Path, target: Path) -> None:
    """Train a draft for `target` as `recipe` says and leave its checkpoint in `folder`."""
    from speculators.cli import app

    work = folder.with_name(f"{folder.name}.training")
    ids = [str(index) for index in recipe["aux_layer_ids"]]
    flags = [option for name, option in FLAGS.items() if recipe["flags"].get(name) is False]
    torch.manual_seed(SEED)
    try:
        save_data(work / "data", target, recipe["aux_layer_ids"])
        arguments = [
            "train",
            *("--verifier-name-or-path", str(target), "--target-layer-ids", *ids),
            *("--draft-vocab-size", str(recipe["draft_vocab_size"])),
            *("--data-path", str(work / "data"), "--save-path", str(work / "checkpoints")),
            *("--log-dir", str(work / "log"), *OPTIONS, *flags),
        ]
        app(arguments, standalone_mode=False)
        folder.mkdir(parents=True)
        for name in KEPT:
            shutil.copy(work / "checkpoints" / str(EPOCHS - 1) / name, folder / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@torch.no_grad()
def save_data(folder: Path, target: Path, taps: tuple[int, ...]) -> None:
    """Sequences, hidden states and token counts, in the library's own form.

    Per sequence a file of `hidden_states` [LENGTH, taps + 1, hidden], the last column being the state before
    the target's final norm, and `token_ids` [LENGTH].
    """
    from datasets import Dataset
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    tokens = language.sample(SEQUENCES, LENGTH, SEED)
    states: list[torch.Tensor] = []
    for layer in model.model.layers:
        layer.register_forward_pre_hook(lambda _module, inputs: states.append(inputs[0]))
    model.model.norm.register_forward_pre_hook(lambda _module, inputs: states.append(inputs[0]))
    model(tokens)
    stacked = torch.stack([states[index] for index in (*taps, len(states) - 1)], 2)
    (folder / "hidden_states").mkdir(parents=True)
    for number, (sequence, kept) in enumerate(zip(tokens, stacked, strict=True)):
        file = folder / "hidden_states" / f"hs_{number}.safetensors"
        save_file({"hidden_states": kept.contiguous(), "token_ids": sequence.contiguous()}, file)
    count = len(tokens)
    rows = {"input_ids": tokens.tolist(), "loss_mask": [[1] * LENGTH] * count, "seq_len": [LENGTH] * count}
    data = Dataset.from_dict(rows)
    data.set_format("torch", columns=["input_ids", "loss_mask"], output_all_columns=True)
    data.save_to_disk(str(folder))
    counts = torch.bincount(tokens[:, 1:].flatten(), minlength=language.VOCAB_SIZE)  # no key is ever drafted
    frequencies = {token: count for token, count in enumerate(counts.tolist()) if count}
    torch.save(frequencies, folder / "token_freq.pt")
