"""Trains a draft with the trainer of speculators before 0.8, which have no training command in their wheel.

Dataset, sampler, trainer and checkpointer are the library's, put together as its training script does.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from contracts.probes import speculators_release
from contracts.probes.speculators_training import EPOCHS, KEPT, SEED, data_sets

LENGTH = 512
"""Tokens of a batch."""
LEARNING_RATE = 4e-3
STEPS = 3
"""Chained draft steps that are trained."""


def train(recipe: Mapping[str, Any], draft: Any, folder: Path, target: Path) -> None:
    """Train `draft` for `target` as `recipe` says and leave its checkpoint in `folder`."""
    from speculators.train import trainer

    work = folder.with_name(f"{folder.name}.training")
    torch.manual_seed(SEED)
    try:
        training, validation = data_sets(work / "data", target, recipe)
        options = {
            "use_off_policy_tokens": False, "ttt_steps": STEPS, "ttt_step_loss_decay": 1.0,
            "loss_fn": "kl_div", "loss_implementation": "eager",
        }  # fmt: skip
        if hasattr(draft, "get_trainer_kwargs"):
            for_training, for_validation = draft.get_trainer_kwargs(**options)
        else:
            for_training = for_validation = {key: options[key] for key in list(options)[:3]}
        config = _known(
            trainer.TrainerConfig,
            lr=LEARNING_RATE,
            num_epochs=EPOCHS,
            save_path=str(work / "checkpoints"),
            train_call_kwargs=for_training,
            val_call_kwargs=for_validation,
            local_rank="cpu",
            hidden_states_dtype=torch.float32,
            log_freq=20,
            checkpoint_freq=EPOCHS,
        )
        draft.float()
        loaders = (_loader(part, target) for part in (training, validation))
        trainer.Trainer(draft, config, *loaders).run_training()
        last = max((item for item in (work / "checkpoints").iterdir() if item.name.isdigit()), key=_number)
        folder.mkdir(parents=True)
        for name in KEPT:
            if (last / name).exists():
                shutil.copy(last / name, folder / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _number(folder: Path) -> int:
    return int(folder.name)


def _loader(data: Any, target: Path) -> Any:
    """Batches of a dataset, put together by the library."""
    from speculators.train import data as library
    from speculators.train.distributed_batch_sampler import MultipackDistributedBatchSamplerV2
    from torch.utils.data import DataLoader

    if speculators_release.has("maps-loaded-apart"):
        from speculators.models.eagle3.data import shift_batch

        hidden_size = json.loads((target / "config.json").read_text())["hidden_size"]
        collate = _known(
            getattr(library, "CollateFn", None) or library.create_collate_fn,
            max_len=LENGTH,
            hidden_size=hidden_size,
            preprocess=shift_batch,
            dtype=torch.float32,
        )
    else:
        collate = library.create_collate_fn(LENGTH)
    sampler = _known(
        MultipackDistributedBatchSamplerV2,
        batch_max_length=LENGTH,
        lengths=list(data.approx_lengths),
        num_replicas=1,
        rank=0,
    )
    return DataLoader(data, batch_sampler=sampler, num_workers=0, collate_fn=collate)


MAY_LACK = frozenset(
    {"checkpoint_freq", "hidden_states_dtype", "local_rank", "log_freq", "dtype", "preprocess"}
)
"""Arguments that some releases before 0.8 do not have; they then do without."""


def _known(make: Callable[..., Any], **arguments: Any) -> Any:
    """Call `make`, without those of MAY_LACK that this release's version of it does not take."""
    taken = inspect.signature(make).parameters
    return make(**{name: value for name, value in arguments.items() if name in taken or name not in MAY_LACK})
