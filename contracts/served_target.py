"""The target that a draft will be served with: what export has to know of its config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.checkpoint import CheckpointError, read_json

Positive = Annotated[int, Field(gt=0)]


class ServedTarget(BaseModel):
    """A target's config, of its language model where it wraps one."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    architectures: tuple[str, ...] = ()
    """Class of the target, then that of the language model that it wraps."""
    num_hidden_layers: Positive
    hidden_size: Positive
    vocab_size: Positive
    max_position_embeddings: Positive | None = None
    dtype: str | None = None

    @classmethod
    def read(cls, folder: Path) -> ServedTarget:
        """Read the config.json in `folder`.

        Raises:
            CheckpointError: there is none, or it is no language model's.

        """
        file = folder / "config.json"
        config = read_json(file)
        text = config.get("text_config")
        inner: dict[str, Any] = text if isinstance(text, dict) else {}
        merged = {**config, **inner}
        merged["architectures"] = (*_names(config), *_names(inner))
        merged["dtype"] = merged.get("dtype") or merged.get("torch_dtype") or config.get("torch_dtype")
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise CheckpointError(f"{file}: no language model's config ({key}: {first['msg']})") from None


def _names(config: dict[str, Any]) -> tuple[str, ...]:
    names = config.get("architectures") or ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
