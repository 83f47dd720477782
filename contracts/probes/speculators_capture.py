"""Which hidden states the layer ids of speculators before 0.5 name, by asking its own capture.

These releases capture with a forward pass of their own that they put into vLLM's model. It runs here on
layers that count how many of them a state has passed; of vLLM it needs two groups of one process.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

VLLM = (
    "vllm",
    "vllm.distributed",
    "vllm.sequence",
    "vllm.model_executor",
    "vllm.model_executor.models",
    "vllm.model_executor.models.interfaces",
)
"""What the library's module imports from."""


def states(layer_ids: Sequence[int]) -> tuple[int, ...]:
    """Hidden-state indices that the library captures for `layer_ids`, in its order."""
    worker = _worker_module()
    captured: list[torch.Tensor] = []
    extension = SimpleNamespace(_layer_ids=frozenset(layer_ids), _store_captured_states=captured.extend)
    depth = max(layer_ids) + 1
    model = SimpleNamespace(
        layers=[_count] * depth,
        start_layer=0,
        end_layer=depth,
        norm=lambda hidden, residual: (hidden, residual),
        embed_input_ids=lambda ids: torch.zeros(1),
        get_input_embeddings=lambda ids: torch.zeros(1),
        _extension=extension,
    )
    worker._patched_forward(model, torch.zeros(1), torch.zeros(1))
    return tuple(int(state) for state in captured)


def _count(hidden_states: torch.Tensor, positions: Any, residual: torch.Tensor | None) -> Any:
    """A layer of vLLM: returns what it adds, and the residual with what the layers before added."""
    before = torch.zeros(1) if residual is None else hidden_states + residual
    return torch.ones(1), before


def _worker_module() -> Any:
    """The library's module, imported without vLLM."""
    group = SimpleNamespace(is_first_rank=True, is_last_rank=True, rank_in_group=0)
    for name in VLLM:
        module: Any = types.ModuleType(name)
        module.get_pp_group = module.get_tp_group = lambda: group
        module.IntermediateTensors = module.supports_eagle3 = None  # for other ranks and other functions
        module.__path__ = []
        sys.modules[name] = module
    # By its file: the package around it imports the rest of vLLM.
    import importlib.util
    from importlib.machinery import PathFinder

    library = PathFinder.find_spec("speculators")
    assert library is not None
    assert library.submodule_search_locations is not None
    file = f"{library.submodule_search_locations[0]}/data_generation/custom_worker.py"
    spec = importlib.util.spec_from_file_location("custom_worker", file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
