"""Who wrote a checkpoint, by the marks that each trainer leaves, and what follows for its layer ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from contracts.conventions import STAMP


class Writer(StrEnum):
    """Trainers and tools that write drafts, as they call themselves."""

    SPECULATORS = "speculators"
    EXPORTED = "contracts export"
    SPECFORGE = "SpecForge"
    EAGLE = "EAGLE reference"
    MODELOPT = "ModelOpt"
    ANGELSLIM = "AngelSlim"
    TORCHSPEC = "TorchSpec"
    SGLANG = "SGLang-style"
    UNKNOWN = "unknown"


DEFAULT_STATES = frozenset({Writer.SPECFORGE, Writer.EAGLE})
"""Trainers that take hidden states 2, n//2 and n-3 of n layers and write no ids for them."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Who wrote a checkpoint, and how one knows."""

    writer: Writer
    release: str | None = None
    """Of speculators, as config.json has it."""
    evidence: tuple[str, ...] = ()


Clue = Callable[[Mapping[str, Any], frozenset[str]], str | None]
"""Says what it saw in config and tensor names; None if nothing."""

_SPECULATORS_CLASSES = ("Eagle3DraftModel", "Eagle3Speculator")
_MODELOPT_KEYS = ("use_input_layernorm_in_first_layer", "use_last_layernorm", "use_mtp_layernorm")
_SGLANG_CLASSES = ("LlamaForCausalLMEagle3", "Eagle3DeepseekV2ForCausalLM")


def _architectures(config: Mapping[str, Any]) -> list[str]:
    found = config.get("architectures")
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def _nested(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("eagle_config")
    return found if isinstance(found, dict) else {}


def _stamped(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    return f"config.json has {STAMP}" if STAMP in config else None


def _speculators(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    for key in ("speculators_model_type", "speculators_config", "transformer_layer_config"):
        if key in config:
            return f"config.json has {key}"
    known = [name for name in _architectures(config) if name in _SPECULATORS_CLASSES]
    return f"architectures names {known[0]}" if known else None


def _angelslim(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    found = "Eagle3LlamaForCausalLM" in _architectures(config)
    return "architectures names Eagle3LlamaForCausalLM" if found else None


def _modelopt(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    producer = config.get("producer")
    if isinstance(producer, dict) and producer.get("name") == "modelopt":
        return "config.json names modelopt as its producer"
    known = [key for key in _MODELOPT_KEYS if key in _nested(config)]
    if not known or "embed_tokens.weight" in names:  # TorchSpec copies the keys, and saves the embedding
        return None
    return f"eagle_config has {known[0]}"


def _torchspec(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    flat = "embed_tokens.weight" in names and any(name.startswith("layers.0.") for name in names)
    if flat and any(name in _SGLANG_CLASSES for name in _architectures(config)):
        return "an embedding and layers.0.* beside a class of sglang's"
    return None


def _specforge(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    midlayer = any(name.startswith("midlayer.") for name in names)
    if midlayer and "LlamaForCausalLMEagle3" in _architectures(config):
        return "midlayer.* for the class LlamaForCausalLMEagle3"
    return None


def _eagle(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    midlayer = any(name.startswith("midlayer.") for name in names)
    if midlayer and _architectures(config) in ([], ["LlamaForCausalLM"]):
        return "midlayer.* without a draft class of its own"
    return None


def _sglang(config: Mapping[str, Any], names: frozenset[str]) -> str | None:
    known = [name for name in _architectures(config) if name in _SGLANG_CLASSES]
    return f"architectures names {known[0]}" if known else None


_CLUES: tuple[tuple[Writer, Clue], ...] = (
    (Writer.EXPORTED, _stamped),
    (Writer.SPECULATORS, _speculators),
    (Writer.ANGELSLIM, _angelslim),
    (Writer.MODELOPT, _modelopt),
    (Writer.TORCHSPEC, _torchspec),
    (Writer.SPECFORGE, _specforge),
    (Writer.EAGLE, _eagle),
    (Writer.SGLANG, _sglang),
)
"""The surest first."""


def origin_of(config: Mapping[str, Any], names: frozenset[str]) -> Origin:
    """Who wrote a checkpoint of this config and these tensors."""
    for writer, clue in _CLUES:
        seen = clue(config, names)
        if seen is None:
            continue
        release = config.get("speculators_version") if writer is Writer.SPECULATORS else None
        told = (seen, f"speculators_version is {release}") if isinstance(release, str) else (seen,)
        return Origin(writer=writer, release=release if isinstance(release, str) else None, evidence=told)
    return Origin(writer=Writer.UNKNOWN, evidence=("no mark of a known trainer",))
