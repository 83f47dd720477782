"""Trains a real draft with the training library's own command, on a CPU, in half a minute.

The target is the committed one; its hidden states over sampled sequences are stored in the form that the
library trains from. Dataset, trainer and checkpointer are the library's.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from contracts.probes import language, speculators_capture, speculators_release

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


class Lacking(Exception):
    """The release does not have what a recipe asks for; one line."""


def install() -> tuple[str, ...]:
    """Let the library's trainer, which asks for an accelerator, train on a CPU; says what is stood in for."""
    import speculators.train.trainer as trainer
    import torch.nn.attention.flex_attention as flex_attention

    torch.accelerator.synchronize = lambda *_, **__: None
    trainer.get_local_rank = lambda: "cpu"
    found = ("the trainer's device, and its waiting for an accelerator (training is on the CPU)",)
    if speculators_release.has("attention-chosen"):
        return found
    flex_attention._validate_device = lambda *_, **__: None
    return (*found, "the check that flex attention is trained on a GPU only")


def check_command() -> None:
    """Make sure that the release has a training command.

    Raises:
        Lacking: it has none.

    """
    if not speculators_release.has("train-command"):
        raise Lacking("this release has no training command in its wheel")


def build(
    recipe: Mapping[str, Any], target: Path, layer_config: Any, counts: Mapping[int, int] | None = None
) -> Any:
    """A draft for `target` with the library's vocabulary map, as its training script builds it.

    Args:
        recipe: of the draft.
        target: folder of the target.
        layer_config: of the draft's layers.
        counts: how often each token stands in the training data, by id; made up where there is none.

    Raises:
        Lacking: the release does not know an option of the recipe.

    """
    from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution

    if recipe["attention"] != "sdpa" and not speculators_release.has("attention-chosen"):
        raise Lacking("this release has no choice of attention")
    flags = {"norm_before_residual": False, **recipe["flags"]}
    unknown = {flag for flag, wanted in flags.items() if wanted} - speculators_release.config_fields()
    if recipe["train_embedding"]:
        unknown |= {"embed_requires_grad"} - speculators_release.config_fields()
    if unknown:
        raise Lacking(f"this release has no option {', '.join(sorted(unknown))}")
    vocab_size = recipe["target"]["vocab_size"]
    d2t = t2d = None
    if recipe["draft_vocab_size"] is not None:
        made_up = {token: (token * 37) % 101 for token in range(vocab_size)}
        d2t, t2d = build_vocab_mappings_from_distribution(
            dict(counts or made_up), recipe["draft_vocab_size"], vocab_size
        )
    return speculators_release.build(
        {
            "verifier_config": layer_config,
            "t2d": t2d,
            "d2t": d2t,
            "draft_vocab_size": recipe["draft_vocab_size"] or vocab_size,
            "target_layer_ids": recipe["aux_layer_ids"],
            "embed_requires_grad": recipe["train_embedding"],
            "verifier_name_or_path": str(target),
            "draft_attn_impl": recipe["attention"],
            "ttt_steps": 3,
            **flags,
        }
    )


def train(recipe: Mapping[str, Any], folder: Path, target: Path) -> None:
    """Train a draft for `target` as `recipe` says and leave its checkpoint in `folder`."""
    from speculators.cli import app

    work = folder.with_name(f"{folder.name}.training")
    taps = tuple(recipe["aux_layer_ids"])
    ids = [str(index) for index in recipe["aux_layer_ids"]]
    flags = [option for name, option in FLAGS.items() if recipe["flags"].get(name) is False]
    torch.manual_seed(SEED)
    try:
        save_data(work / "data", target, taps)
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


def data_sets(folder: Path, target: Path, recipe: Mapping[str, Any]) -> tuple[Any, Any]:
    """The library's datasets for training and validation, of the same data, where there is no command."""
    from speculators.train import data as library

    if not speculators_release.has("ids-recorded"):
        save_data(folder, target, speculators_capture.states(recipe["aux_layer_ids"]))
        files = _as_pickles(folder)
        split = len(files) * 9 // 10
        kind = library.Eagle3SampleFileDataset
        return kind(file_list=files[:split], max_len=512), kind(file_list=files[split:], max_len=512)
    save_data(folder, target, tuple(recipe["aux_layer_ids"]))
    how = {
        "max_len": 512,
        "datapath": str(folder),
        "on_missing": "raise",
        "hidden_states_dtype": torch.float32,
    }
    if "split_ratio" in inspect.signature(library.ArrowDataset).parameters:
        return library.ArrowDataset(split_ratio=0.9, **how), library.ArrowDataset(split_ratio=-0.1, **how)
    parts = (library.ArrowDataset(train_ratio=0.9, split=split, **how) for split in ("train", "val"))
    return next(parts), next(parts)


def _as_pickles(folder: Path) -> list[str]:
    """The same data in the form of the library before 0.5: one file of torch per sequence."""
    files = []
    for file in sorted((folder / "hidden_states").iterdir()):
        stored = load_file(file)
        states = list(stored["hidden_states"].unbind(1))
        mask = torch.ones(len(stored["token_ids"]), dtype=torch.long)
        data = {"input_ids": stored["token_ids"], "hidden_states": states, "loss_mask": mask}
        torch.save(data, file.with_suffix(".pt"))
        files.append(str(file.with_suffix(".pt")))
    return files
