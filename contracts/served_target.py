"""The target that a draft will be served with: what export has to know of its config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.checkpoint import CheckpointError, read_json

LANGUAGE_MODELS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where a wrapper has the config of its language model."""
CONTEXT_LENGTH_KEYS = (
    "max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings",
)  # fmt: skip
"""Where sglang looks for the context length, in this order."""
MOST_LENGTH, MOST_FACTOR, MOST_BASE = 2**31, 1e6, 1e15
"""What no context, factor of scaling or base of a rotary embedding is beyond."""
STRETCHED = ("linear", "dynamic")
"""RoPE types whose factor sglang multiplies the length by; the others say the whole length themselves."""

Positive = Annotated[int, Field(gt=0)]


class ServedTarget(BaseModel):
    """A target's config, of its language model where it wraps one."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    folder: Path
    architectures: tuple[str, ...] = ()
    """Class of the target, then that of the language model that it wraps."""
    num_hidden_layers: Positive
    hidden_size: Positive
    streams: Annotated[int, Field(ge=1, le=64)] = 1
    """Residual streams, all of which sglang hands to an EAGLE-3 draft (models/glm5_next.py of 0.5.20)."""
    vocab_size: Positive | None = None
    """None where config.json leaves it to the default of its class."""
    context_length: Annotated[int, Field(gt=0, le=2**31)] | None = None
    """Positions that the engine makes room for; None likewise."""
    dtype: Literal["float32", "float16", "bfloat16"]
    """What a target is computed in, and with it the draft."""
    states_dtype: bool = True
    """Whether config.json says so itself."""
    rope_theta: float | None = None
    """Base of its rotary embedding, where one holds for all layers."""
    keys: frozenset[str] = frozenset()
    """Keys of config.json that are not null: as they stand, those of nested configs dotted, and those of the
    language model without the dot as well."""

    @property
    def state_width(self) -> int:
        """Of one hidden state, as a draft is given it."""
        return self.streams * self.hidden_size

    @classmethod
    def read(cls, folder: Path) -> ServedTarget:
        """Read the config.json in `folder`.

        Raises:
            CheckpointError: there is none, or it is no language model's.

        """
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(f"{folder}: no folder; give the folder that holds the target's config.json")
        return cls.of(read_json(folder / "config.json"), folder)

    @classmethod
    def of(cls, config: Mapping[str, Any], folder: Path) -> ServedTarget:
        """What a config.json says that lies in `folder`, or that a repository of that name has.

        Raises:
            CheckpointError: it is no language model's.

        """
        file = folder / "config.json"
        for key in (*LANGUAGE_MODELS, "rope_parameters", "rope_scaling"):
            if config.get(key) is not None and not isinstance(config[key], dict):
                raise CheckpointError(
                    f"{file}: {key} is {json.dumps(config[key])[:60]}, and must be an object"
                )
        inner = _language_model(config)
        merged = {**config, **inner}
        merged["architectures"] = (*_names(config), *_names(inner))
        merged["folder"] = folder
        merged["context_length"] = context_length(merged)
        merged["states_dtype"] = bool(merged.get("dtype") or merged.get("torch_dtype") or _is_mxfp4(merged))
        merged["dtype"] = _dtype(merged)
        merged["rope_theta"] = _rope_theta(merged)
        merged["streams"] = (merged.get("hc_mult") or 1) if merged.get("mhc") else 1
        merged["keys"] = frozenset({*_keys(config), *_keys(inner)})
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise CheckpointError(f"{file}: no language model's config ({key}: {first['msg']})") from None


def _language_model(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the language model that a target wraps; empty if it wraps none."""
    for key in LANGUAGE_MODELS:
        inner = config.get(key)
        if isinstance(inner, dict):
            return {**inner, **_language_model(inner)}
    return {}


def _keys(config: Mapping[str, Any]) -> Iterator[str]:
    """Keys of a config and of those nested in it that are not null."""
    for key, value in config.items():
        if value is not None:
            yield key
        if isinstance(value, dict):
            yield from (f"{key}.{name}" for name, inner in value.items() if inner is not None)


def _is_mxfp4(config: Mapping[str, Any]) -> bool:
    """Whether sglang serves it in bfloat16 whatever it says (model_overrides/gpt_oss.py of 0.5.23)."""
    block = config.get("quantization_config")
    return isinstance(block, dict) and block.get("quant_method") == "mxfp4"


def _dtype(config: dict[str, Any]) -> Any:
    """As sglang takes it (_get_and_verify_dtype in configs/model_config.py of 0.5.23).

    A target that states none counts as float32, and of float32 targets gemma's alone are served in bfloat16.
    """
    if _is_mxfp4(config):
        return "bfloat16"
    dtype = config.get("dtype") or config.get("torch_dtype") or "float32"
    gemma = str(config.get("model_type", "")).startswith("gemma")
    return "bfloat16" if gemma and dtype == "float32" else dtype


def context_length(config: dict[str, Any]) -> Any:
    """Positions of a model, as sglang derives them (get_context_length in utils/hf_transformers/common.py).

    Without any of these keys it takes the default of the target's config class, which is not known here.
    """
    length = next((config[key] for key in CONTEXT_LENGTH_KEYS if config.get(key) is not None), None)
    rope = config.get("rope_scaling") or config.get("rope_parameters")
    if isinstance(rope, dict) and (rope.get("rope_type") or rope.get("type")) in STRETCHED:
        factor = rope.get("factor", 1)
        sound = isinstance(factor, (int, float)) and 0 < factor < MOST_FACTOR
        if isinstance(length, int) and length < MOST_LENGTH and sound:
            return int(factor * length)
    return length


def _rope_theta(config: dict[str, Any]) -> float | None:
    parameters = config.get("rope_parameters")
    inner = parameters.get("rope_theta") if isinstance(parameters, dict) else None
    found = inner if inner is not None else config.get("rope_theta")
    if not isinstance(found, (int, float)) or isinstance(found, bool) or not 0 < found < MOST_BASE:
        return None
    return float(found)


def _names(config: Mapping[str, Any]) -> tuple[str, ...]:
    names = config.get("architectures") or ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
