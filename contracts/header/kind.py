"""What kind of draft a checkpoint is, by what only that kind has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from contracts.checkpoint import Tensor
from contracts.header.draft import Draft, canonical, layer_of


class Kind(StrEnum):
    """What a checkpoint may hold, in the words of reports."""

    EAGLE3 = "EAGLE-3 draft"
    EAGLE3_MLA = "EAGLE-3 draft with latent attention"
    EAGLE = "EAGLE draft"
    DFLASH = "DFlash draft"
    DSPARK = "DSpark draft"
    P_EAGLE = "P-EAGLE draft"
    MTP = "MTP layer"
    MEDUSA = "Medusa draft"
    XPRESS = "Xpress draft"
    LANGUAGE_MODEL = "language model"


@dataclass(frozen=True)
class _Serves:
    algorithm: str | None
    """Of sglang's command line, as its releases list them; None: none of them."""
    otherwise: str
    """What else serves it."""


SERVED_BY: Mapping[Kind, _Serves] = {
    Kind.EAGLE: _Serves("EAGLE", ""),
    Kind.DFLASH: _Serves("DFLASH", "vLLM (method dflash)"),
    Kind.DSPARK: _Serves("DSPARK", "vLLM"),
    Kind.P_EAGLE: _Serves(None, "vLLM >= 0.16 with parallel_drafting"),
    Kind.MTP: _Serves(
        "EAGLE", "the target's own multi-token prediction: --speculative-algorithm EAGLE or NEXTN"
    ),
    Kind.MEDUSA: _Serves(None, "vLLM (method medusa)"),
    Kind.XPRESS: _Serves(None, "speculators"),
    Kind.LANGUAGE_MODEL: _Serves("STANDALONE", "vLLM (method draft_model)"),
}

Clue = Callable[[Mapping[str, Any], Mapping[str, Tensor]], bool]


def _mentions(*words: str) -> Clue:
    def clue(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
        listed = config.get("architectures")
        classes = [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
        told = [*classes, str(config.get("speculators_model_type", ""))]
        return any(word in name.lower() for word in words for name in told)

    return clue


def _has_key(*keys: str) -> Clue:
    return lambda config, tensors: any(key in config for key in keys)


def _has_tensor(*beginnings: str) -> Clue:
    return lambda config, tensors: any(canonical(name).startswith(beginnings) for name in tensors)


def _has_part(part: str) -> Clue:
    return lambda config, tensors: any(part in name for name in tensors)


def _either(*clues: Clue) -> Clue:
    return lambda config, tensors: any(clue(config, tensors) for clue in clues)


def _is_eagle3(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    if _mentions("eagle3")(config, tensors):
        return True
    shapes = {canonical(name): tensor.shape for name, tensor in tensors.items()}
    queries, hidden = shapes.get("layers.0.self_attn.q_proj.weight", ()), shapes.get("norm.weight", ())
    doubled = len(queries) == 2 and len(hidden) == 1 and queries[1] == 2 * hidden[0]
    return doubled or "layers.0.hidden_norm.weight" in shapes or "d2t" in shapes


def _is_eagle(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    """An fc that takes an embedding and a state side by side, and a decoder layer."""
    shapes = {canonical(name): tensor.shape for name, tensor in tensors.items()}
    fc = shapes.get("fc.weight", ())
    return len(fc) == 2 and fc[1] == 2 * fc[0] and "layers.0.self_attn.q_proj.weight" in shapes


_CLUES: tuple[tuple[Kind, Clue], ...] = (
    (Kind.DSPARK, _either(_mentions("dspark"), _has_tensor("markov_head.", "confidence_head."))),
    (Kind.DFLASH, _either(_mentions("dflash"), _has_key("dflash_config"))),
    (Kind.XPRESS, _either(_mentions("xpress"), _has_tensor("refiner_head."))),
    (Kind.P_EAGLE, _either(_mentions("peagle"), _has_tensor("mask_hidden"), _has_key("ptd_token_id"))),
    (Kind.MTP, _either(_mentions("mtp", "nextn"), _has_tensor("mtp_layers.", "mtp."), _has_part("eh_proj"))),
    (Kind.MEDUSA, _either(_mentions("medusa"), _has_tensor("medusa_head", "medusa."))),
    (Kind.EAGLE3_MLA, _either(_mentions("eagle3deepseek"), _has_part("kv_a_proj"))),
    (Kind.EAGLE3, _is_eagle3),
    (Kind.EAGLE, _either(_mentions("causallmeagle"), _is_eagle)),
)
"""What is unmistakable first."""


DEEP = 8
"""Decoder layers that a language model has at the least, and no draft."""


def kind_of(draft: Draft) -> Kind:
    """What kind of draft it is; a language model if it has no mark of a draft, or is too deep for one."""
    named = _mentions("eagle", "dflash", "dspark", "xpress", "mtp", "nextn", "medusa")(
        draft.raw, draft.tensors
    )
    layers = {layer_of(canonical(name)) for name in draft.tensors} - {None}
    if len(layers) >= DEEP and not named and "d2t" not in draft.tensors:
        return Kind.LANGUAGE_MODEL
    return next((kind for kind, clue in _CLUES if clue(draft.raw, draft.tensors)), Kind.LANGUAGE_MODEL)
