"""How each target class of sglang numbers its layers, by running its own capture setter.

The setter runs on a stand-in for the model, which has no layers and no weights: what is asked is which layer
indices the setter writes for a list of ids. Index i means the input of layer i, which is hidden state i.
"""

from __future__ import annotations

from typing import Any

import torch

from contracts.probes.kernels import sgl_kernel

NUM_LAYERS = 8
SITUATIONS: dict[str, tuple[int, ...]] = {
    "usual": (2, 4, 6),
    "first_is_1": (1, 4, 6),
    "one_is_not_first": (4, 1, 6),
    "with_the_last": (2, 4, NUM_LAYERS),
}
"""Lists of ids between which setters tell, by what is particular about them."""
ELSEWHERE = {"MindSporeForCausalLM"}
"""Classes that hand the ids to a model of another package, whose convention is not sglang's to tell."""
SETTER = "set_eagle3_layers_to_capture"


class _Model:
    """A target that remembers which layers it was told to capture."""

    def __init__(self, inner: _Model | None = None) -> None:
        self.layers_to_capture: list[int] | None = None
        self.capture_aux_hidden_states = False
        self.layers: list[Any] = []
        self.config = self
        self.num_hidden_layers = NUM_LAYERS
        self.text_config = self
        self.pp_group = self
        self.is_last_rank = True
        self.model = inner or _Model(self)

    def set_eagle3_layers_to_capture(self, layers: list[int]) -> None:
        """What an inner model is told: layer indices already."""
        self.layers_to_capture = layers


def shifts() -> dict[str, Any]:
    """Each target class's shift in every situation, where its setter is defined, and its defaults."""
    from sglang.srt.models import registry

    # Some classes look up operators when they are imported that no CPU build of torch has.
    torch.ops.sgl_kernel = sgl_kernel.Operators()  # type: ignore[attr-defined]
    registry.import_model_classes.cache_clear()
    registry.ModelRegistry.register("sglang.srt.models", overwrite=True)
    return {
        name: _shifts(cls)
        for name, cls in sorted(registry.ModelRegistry.models.items())
        if hasattr(cls, SETTER) and name not in ELSEWHERE
    }


def _shifts(cls: type) -> dict[str, Any]:
    """Hidden-state index minus id, per situation; None where the setter does something else."""
    owner = next(base for base in cls.__mro__ if SETTER in vars(base))
    without_ids, unknown = _captured(cls, None)
    found: dict[str, Any] = {name: _shift(cls, ids) for name, ids in SITUATIONS.items()}
    return {
        **found,
        "shares_embedding": hasattr(cls, "get_embed_and_head"),
        "setter": f"{owner.__module__.rpartition('.')[2]}.{owner.__name__}",
        "without_ids": without_ids,
        "unknown": unknown,
    }


def _shift(cls: Any, ids: tuple[int, ...]) -> int | None:
    layers, _ = _captured(cls, list(ids))
    if not isinstance(layers, list) or len(layers) != len(ids):
        return None
    differences = {layer - layer_id for layer, layer_id in zip(layers, ids, strict=True)}
    return differences.pop() if len(differences) == 1 else None


def _captured(cls: Any, ids: list[int] | None) -> tuple[list[int] | str | None, str | None]:
    """Layers that the setter has captured, or what it raises on purpose; else why nothing is known of it."""
    model = _Model()
    try:
        getattr(cls, SETTER)(model, ids)
    except (ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}", None
    except Exception as error:  # a wrapper that asks its language model, say
        return None, f"{type(error).__name__}: {error}"
    layers = model.layers_to_capture or model.model.layers_to_capture
    if layers is None:
        return None, "the setter writes no layers_to_capture"
    return [int(layer) for layer in layers], None
