"""A draft as speculators saves it: what export understands of its config, and whether it is whole."""

from __future__ import annotations

from typing import Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, ValidationError

from contracts.checkpoint import Checkpoint, CheckpointError

LAYER_PARTS = (
    "input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
    "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip
IGNORED = frozenset(
    {
        "architectures", "auto_map", "speculators_config", "tie_word_embeddings", "torch_dtype",
        "transformers_version", "has_no_defaults_at_init",
    }
)  # fmt: skip
"""Keys of a saved config that say nothing about how the draft computes."""


class SavedConfig(BaseModel):
    """The keys of a config.json saved by speculators that export understands."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    speculators_model_type: Literal["eagle3"]
    speculators_version: str
    transformer_layer_config: dict[str, Any]
    eagle_aux_hidden_state_layer_ids: list[int] | None = None
    """Hidden-state indices, as speculators numbers layers since 0.5."""
    draft_vocab_size: int
    target_hidden_size: int | None = None
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_residual: bool = False
    embed_requires_grad: bool = False
    dtype: str | None = None

    @property
    def window(self) -> int | None:
        """Positions that sliding layers attend to, if there are such layers."""
        layer = self.transformer_layer_config
        sliding = "sliding_attention" in (layer.get("layer_types") or ())
        return layer.get("sliding_window") if sliding else None

    @property
    def not_understood(self) -> dict[str, Any]:
        """Keys that are set and that export knows nothing about."""
        return {key: value for key, value in (self.model_extra or {}).items() if value and key not in IGNORED}

    @classmethod
    def of(cls, source: Checkpoint) -> SavedConfig:
        """Check the config of a checkpoint.

        Raises:
            CheckpointError: it is not one that speculators >= 0.5 saved for EAGLE-3.

        """
        file = source.path / "config.json"
        try:
            saved = cls.model_validate(dict(source.config))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise CheckpointError(
                f"{file}: not an EAGLE-3 draft saved by speculators ({key}: {first['msg']})"
            ) from None
        if _release(saved.speculators_version) < Version("0.5"):
            raise CheckpointError(
                f"{file}: saved by speculators {saved.speculators_version}, which numbered layers otherwise; "
                "convert it with speculators >= 0.5"
            )
        return saved


def _release(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")


def check_whole(source: Checkpoint, saved: SavedConfig) -> None:
    """Refuse a draft that lacks a tensor, or whose tensors have other sizes than its config says."""
    layer, heads = saved.transformer_layer_config, saved.draft_vocab_size
    try:
        hidden, vocab, layers = layer["hidden_size"], layer["vocab_size"], layer["num_hidden_layers"]
    except KeyError as missing:
        file = source.path / "config.json"
        raise CheckpointError(
            f"{file}: transformer_layer_config lacks {missing}; save the draft again"
        ) from None
    states = len(saved.eagle_aux_hidden_state_layer_ids or ()) or 3
    expected: dict[str, tuple[int, ...] | None] = {
        "embed_tokens.weight": (vocab, hidden),
        "fc.weight": (hidden, states * (saved.target_hidden_size or hidden)),
        "lm_head.weight": (heads, hidden),
        "norm.weight": (hidden,),
        "layers.0.hidden_norm.weight": (hidden,),
    }
    expected |= {f"layers.{index}.{part}.weight": None for index in range(layers) for part in LAYER_PARTS}
    if heads < vocab:
        expected["d2t"] = (heads,)
    for name, shape in expected.items():
        tensor = source.tensors.get(name)
        if tensor is None:
            raise CheckpointError(f"{source.path}: tensor {name} is missing; save the draft again")
        if shape is not None and tensor.shape != shape:
            raise CheckpointError(
                f"{source.path}: {name} is {list(tensor.shape)}, and config.json says {list(shape)}; "
                "the two are not of one draft"
            )
