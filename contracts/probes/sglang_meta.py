"""Runs one sglang model on the meta device: built and loaded by the library, watched, one decode step."""

from __future__ import annotations

import re
import tempfile
from types import SimpleNamespace
from typing import Any

import torch

from contracts.probes import sglang_release
from contracts.probes.dataflow import Dataflow, Names
from contracts.probes.observe import watcher
from contracts.probes.stream import OutOfReach

TOKENS = 3
"""Rows of the batch that runs on the meta device; any number does."""
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


class StandIn(SimpleNamespace):
    """Stands in for an object of the engine, with the attributes that the path needs and no others."""

    def __init__(self, what: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._what = what

    def __getattr__(self, name: str) -> Any:
        raise OutOfReach(
            f"the library asked the {vars(self).get('_what')} for {name!r}, which has no stand-in"
        )


def command_line(target: str, draft: str | None, further: list[str], *, steps: int = 3) -> list[str]:
    """The server's command line, as a user of EAGLE-3 on a CPU writes it; `steps` draft tokens a chain.

    Without a draft the target serves alone. Of an argument given twice the library takes the later, so
    `further` overrides.
    """
    speculation = [
        *("--speculative-draft-model-path", draft or "", "--speculative-algorithm", "EAGLE3"),
        *("--speculative-num-steps", str(steps)),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(steps + 1)),
    ]
    return [
        *("--model-path", target),
        *(speculation if draft else []),
        *("--device", "cpu", "--skip-tokenizer-init", "--log-level", "error", "--mem-fraction-static", "0.1"),
        *further,
    ]


class Loading:
    """What was offered to a model's loader and where it went."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.offered: list[str] = []
        self.flow = Dataflow(destinations=model.named_parameters())


def load_config() -> Any:
    """How the library is told to load: as by default, in one thread."""
    from sglang.srt.configs.load_config import LoadConfig

    return LoadConfig(load_format="auto", model_loader_extra_config={"enable_multithread_load": False})


def build(config: Any) -> Any:
    """Build a model on the meta device by the class that the library resolves to; loads nothing."""
    from sglang.srt.model_loader.loader import _initialize_model
    from sglang.srt.model_loader.utils import set_default_torch_dtype

    configuration = load_config()
    quantization = sglang_release.quantization(config, configuration)
    with set_default_torch_dtype(config.dtype), torch.device("meta"):
        return _initialize_model(config, configuration, **quantization).eval()


def load(config: Any, model: Any) -> Loading:
    """Load a checkpoint into a model on the meta device with the library's own loader, watched.

    The loader opens the files and hands out memory-mapped tensors, whose pages a copy to the meta device
    never touches.
    """
    from sglang.srt.model_loader.loader import get_model_loader
    from sglang.srt.model_loader.utils import set_default_torch_dtype

    loader = get_model_loader(load_config=load_config(), model_config=config)
    loading = Loading(model)

    def offered() -> Any:
        for name, weight in loader._get_all_weights(config, model):
            loading.offered.append(name)
            loading.flow.name(weight, name)
            yield name, weight

    with set_default_torch_dtype(config.dtype), loading.flow:
        sglang_release.load_weights(loader, model, offered(), torch.device("meta"))
    return loading


def connect() -> None:
    """Process groups of size one; if they fail, the machine does."""
    from sglang.srt.distributed.parallel_state import (
        init_distributed_environment,
        initialize_model_parallel,
    )

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        init_distributed_environment(
            world_size=1,
            rank=0,
            local_rank=0,
            backend="gloo",
            distributed_init_method=f"file://{folder}/rendezvous",
        )
        initialize_model_parallel()


class _MetaAttention:
    """Output of the right shape that depends on queries, keys and values, or on nothing when muted."""

    def __init__(self, *, mute: bool) -> None:
        self.mute = mute

    def forward(self, q: Any, k: Any, v: Any, layer: Any, *_: Any, **__: Any) -> torch.Tensor:
        rows = q.shape[0]
        shape = (rows, layer.tp_q_head_num * layer.v_head_dim)
        if self.mute:
            return torch.zeros(shape, dtype=q.dtype, device=q.device)
        mixed = sum(tensor.reshape(rows, -1).sum(-1, keepdim=True) for tensor in (q, k, v))
        assert isinstance(mixed, torch.Tensor)
        return mixed.expand(shape).contiguous()


def forward(model: Any, *, state: torch.Tensor | None = None, mute: bool = False) -> tuple[Any, Dataflow]:
    """One decode step of `model` on the meta device, watched, returning all hidden states."""
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

    def numbers() -> torch.Tensor:
        return torch.zeros(TOKENS, dtype=torch.int64, device="meta")

    batch = ForwardBatch(
        forward_mode=ForwardMode.DECODE,
        batch_size=TOKENS,
        input_ids=numbers(),
        req_pool_indices=numbers(),
        seq_lens=numbers(),
        out_cache_loc=numbers(),
        seq_lens_sum=TOKENS,
        positions=numbers(),
        capture_hidden_mode=CaptureHiddenMode.FULL,
        spec_info=None if state is None else StandIn("draft input", hidden_states=state),
    )
    flow, attention = watcher(model, state), _MetaAttention(mute=mute)
    with torch.no_grad(), flow, sglang_release.attending(attention, batch):
        return model.forward(batch.input_ids, batch.positions, batch), flow


def layers(draft: Any) -> list[Any]:
    """The decoder layers of a draft: one called `midlayer` before 0.5.12, a list since."""
    return list(draft.model.layers) if hasattr(draft.model, "layers") else [draft.model.midlayer]


def used_rows(module: Any, parameter: torch.Tensor) -> int:
    """Rows of a module's parameter that are used: the library pads vocabularies to a multiple of 64."""
    return min(getattr(module, "org_vocab_size", len(parameter)), len(parameter))


def hidden_state_index(origins: Names) -> int:
    """How many decoder layers stand behind a hidden state: transformers' `hidden_states` index."""
    layers = {int(match[1]) for name in origins if (match := _LAYER.search(name))}
    if layers != set(range(len(layers))):
        raise NotImplementedError(f"a hidden state that depends on layers {sorted(layers)} only")
    return len(layers)


def after_final_norm(origins: Names) -> bool:
    """Whether a hidden state has passed the model's final norm."""
    return any(name.endswith("norm.weight") and not _LAYER.search(name) for name in origins)
