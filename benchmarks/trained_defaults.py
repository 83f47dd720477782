"""What the residual before the norm costs a draft that `speculators train` trained with its defaults.

    python benchmarks/trained_defaults.py              # in an environment that has speculators; some minutes
    python benchmarks/trained_defaults.py --steps 600  # train longer

A tiny target learns a seeded language of 256 tokens; `speculators train` trains a draft for it on a CPU, once
with its defaults and once with --no-norm-before-residual. Then both draft after held-out prompts, as trained
and as sglang computes it (residual before the norm), and the draft tokens that the target would choose itself
are counted. Accept length is one more than these, of three draft tokens. Nothing is asserted.

The forward contracts show that sglang computes these very numbers; acceptance is counted here without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from contracts.probes import speculators_hypotheses as hypotheses
from contracts.probes import speculators_replay as replay
from contracts.probes import transformers_target
from contracts.probes.kernels import torchvision_ops

VOCAB, LENGTH, DRAFT_TOKENS = 256, 128, 3
TRAIN = """
import sys, torch
from contracts.probes.kernels import torchvision_ops
torchvision_ops.install()
torch.set_num_threads(2)
torch.accelerator.synchronize = lambda *_, **__: None      # there is no accelerator
import speculators.train.trainer as trainer
trainer.get_local_rank = lambda: "cpu"
from speculators.cli import app
app(sys.argv[1:], standalone_mode=False)
"""
"""The library's own command; it takes for granted that there is an accelerator."""


def language(seed: int, count: int) -> torch.Tensor:
    """Sequences in which a token mostly follows from the two before it; shape [count, LENGTH]."""
    rules = torch.Generator().manual_seed(1)
    kinds = torch.randint(0, 4, (VOCAB,), generator=rules)
    following = torch.randint(3, VOCAB, (VOCAB, 4), generator=rules)
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, VOCAB, (count, LENGTH), generator=generator)
    for place in range(2, LENGTH):
        usual = following[tokens[:, place - 1], kinds[tokens[:, place - 2]]]
        noisy = torch.rand(count, generator=generator) < 0.1
        tokens[:, place] = torch.where(noisy, tokens[:, place], usual)
    return tokens


def train_target(folder: Path, steps: int) -> Any:
    """A tiny Llama that has learned the language."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    rope = {"rope_type": "default", "rope_theta": 50_000.0}
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=160, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rope_parameters=rope,
        rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for step in range(steps):
        tokens = language(100 + step, 32)[:, :64]
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval().save_pretrained(folder)
    return model


@torch.no_grad()
def save_data(folder: Path, target: Any, states: tuple[int, ...], count: int) -> None:
    """Hidden states of the target over its language, in the form that speculators trains from."""
    from datasets import Dataset
    from safetensors.torch import save_file

    tokens = language(7, count)
    (folder / "hidden_states").mkdir(parents=True)
    kept: dict[int, torch.Tensor] = {}

    def keep(index: int) -> Any:
        return lambda _module, inputs: kept.__setitem__(index, inputs[0])

    hooks = [layer.register_forward_pre_hook(keep(i)) for i, layer in enumerate(target.model.layers)]
    hooks.append(target.model.norm.register_forward_pre_hook(keep(len(target.model.layers))))
    for number, sequence in enumerate(tokens):
        target(sequence[None])
        stacked = torch.stack([kept[index][0] for index in (*states, len(target.model.layers))], 1)
        file = folder / "hidden_states" / f"hs_{number}.safetensors"
        save_file({"hidden_states": stacked.contiguous(), "token_ids": sequence.contiguous()}, file)
    for hook in hooks:
        hook.remove()
    rows = {"input_ids": tokens.tolist(), "loss_mask": [[1] * LENGTH] * count, "seq_len": [LENGTH] * count}
    data = Dataset.from_dict(rows)
    data.set_format("torch", columns=["input_ids", "loss_mask"], output_all_columns=True)
    data.save_to_disk(str(folder))


def train_draft(root: Path, name: str, steps: int, *options: str) -> Path:
    """The library's own training command; returns the folder of the last checkpoint."""
    out = root / name
    arguments = [
        "train", "--verifier-name-or-path", str(root / "target"), "--data-path", str(root / "data"),
        "--save-path", str(out), "--total-seq-len", "512", "--num-workers", "0", "--max-steps", str(steps),
        "--epochs", "20", "--lr", "2e-3", "--hidden-states-dtype", "float32", "--mask-token-id", "0",
        "--draft-attn-impl", "sdpa", "--on-missing", "raise", "--loss-implementation", "eager",
        "--log-dir", str(root / f"{name}-logs"),
    ]  # fmt: skip
    log = root / f"{name}.log"
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-c", TRAIN, *arguments, *options], stdout=output, stderr=output, check=False
        )
    found = sorted(out.rglob("model*.safetensors"), key=lambda file: file.stat().st_mtime)
    if done.returncode or not found:
        raise SystemExit(f"speculators train ended with {done.returncode}:\n{log.read_text()[-2000:]}")
    return found[-1].parent


def load_draft(folder: Path) -> Any:
    from speculators.models.eagle3 import Eagle3DraftModel

    config = Eagle3DraftModel.config_class.from_pretrained(folder)
    config.transformer_layer_config._attn_implementation = "sdpa"
    return Eagle3DraftModel.from_pretrained(folder, config=config).float().eval()


@torch.no_grad()
def accept_length(draft: Any, target: Any, folder: Path, prompts: int, *, as_sglang: bool) -> float:
    """Mean over prompts of 1 + the draft tokens that the target would choose too, up to the first other."""
    total = 0
    for prompt in language(11, prompts)[:, :48]:
        states = transformers_target.observe(folder, prompt)
        setting = hypotheses.setting(draft, states)
        if as_sglang:
            setting = setting.with_draft(lambda it: setattr(it.layers[0], "norm_before_residual", False))
        drafted = replay.chain(setting.draft, setting.inputs, DRAFT_TOKENS - 1, setting.how).draft_tokens
        tokens = torch.cat([states.tokens, drafted])
        chosen = target(tokens[None]).logits[0].argmax(-1)[len(states.tokens) - 1 : -1]
        agree = (chosen == drafted).long().cumprod(0)
        total += 1 + int(agree.sum())
    return total / prompts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300, help="training steps of each draft [default: 300]")
    parser.add_argument("--prompts", type=int, default=200, help="held-out prompts [default: 200]")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torchvision_ops.install()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        print("training the target ...", flush=True)
        target = train_target(root / "target", 400)
        save_data(root / "data", target, (2, 4, 5), 600)
        for name, flags in (
            ("speculators train, defaults", ()),
            ("speculators train --no-norm-before-residual", ("--no-norm-before-residual",)),
        ):
            draft = load_draft(train_draft(root, f"draft{len(flags)}", options.steps, *flags))
            for way in (False, True):
                length = accept_length(draft, target, root / "target", options.prompts, as_sglang=way)
                how = "as sglang computes it" if way else "as trained"
                print(f"{name:<45} {how:<23} accept length {length:.2f} of {DRAFT_TOKENS + 1}", flush=True)


if __name__ == "__main__":
    main()
