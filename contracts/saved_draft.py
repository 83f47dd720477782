"""A draft as speculators saves it: what export understands of its config, and whether it is whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts import tensor_copy
from contracts.checkpoint import Checkpoint, CheckpointError
from contracts.layer_ids import counts_states

WEIGHT_DTYPES = ("F32", "BF16", "F16")
MAP_DTYPES = {"d2t": ("I64", "I32"), "t2d": ("BOOL",)}
"""What speculators saves tensors in, and what a draft can be trained in."""

IGNORED = frozenset(
    {
        "architectures", "auto_map", "speculators_config", "tie_word_embeddings", "transformers_version",
        "has_no_defaults_at_init",
    }
)  # fmt: skip
"""Keys of a saved config that say nothing about how the draft computes."""
IGNORED_OF_LAYER = frozenset(
    {
        "architectures", "attention_dropout", "dtype", "initializer_range", "max_window_layers",
        "pretraining_tp", "tie_word_embeddings", "torch_dtype", "transformers_version", "use_cache",
        "use_sliding_window",
    }
)  # fmt: skip
"""Likewise, of its layer config."""

Positive = Annotated[int, Field(gt=0)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RopeConfig = dict[str, str | Number | bool | None]
"""`rope_type` or `type`, and numbers; what export makes of each is its own matter."""


class LayerConfig(BaseModel):
    """The keys of `transformer_layer_config` that export understands."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    model_type: Literal["llama", "qwen3"]
    vocab_size: Positive
    hidden_size: Positive
    intermediate_size: Positive
    num_hidden_layers: Annotated[int, Field(gt=0, le=1000)]
    num_attention_heads: Positive
    num_key_value_heads: Positive
    head_dim: Positive | None = None
    hidden_act: str = "silu"
    rms_norm_eps: Number = 1e-6
    max_position_embeddings: Positive
    attention_bias: bool = False
    mlp_bias: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    layer_types: list[str] | None = None
    sliding_window: int | None = None
    rope_parameters: RopeConfig | None = None
    rope_scaling: RopeConfig | None = None
    rope_theta: Number = 10_000.0

    @property
    def rope(self) -> dict[str, Any]:
        """RoPE as transformers 5 spells it, however it was saved: `rope_type`, `rope_theta`, scaling."""
        rope = dict(self.rope_parameters or self.rope_scaling or {})
        rope["rope_type"] = rope.pop("type", None) or rope.get("rope_type") or "default"
        rope.setdefault("rope_theta", self.rope_theta)
        return rope


class SavedConfig(BaseModel):
    """The keys of a config.json saved by speculators that export understands."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    speculators_model_type: Literal["eagle3"]
    speculators_version: str
    transformer_layer_config: LayerConfig
    eagle_aux_hidden_state_layer_ids: list[int] | None = None
    """Hidden-state indices, as speculators numbers layers since 0.5."""
    draft_vocab_size: Positive
    target_hidden_size: Positive | None = None
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_residual: bool = False
    embed_requires_grad: bool = False
    dtype: str | None = None
    torch_dtype: str | None = None

    @property
    def records_states(self) -> bool:
        """Whether the release that saved it records the states that a draft was trained on: since 0.5."""
        return counts_states(self.speculators_version)

    @property
    def window(self) -> int | None:
        """Positions that sliding layers attend to, if there are such layers."""
        layer = self.transformer_layer_config
        return layer.sliding_window if "sliding_attention" in (layer.layer_types or ()) else None

    @property
    def verifier_architectures(self) -> tuple[str, ...]:
        """Classes of the target that it was trained for, as far as config.json says."""
        found: Any = (self.model_extra or {}).get("speculators_config")
        for key in ("verifier", "architectures"):
            found = found.get(key) if isinstance(found, dict) else None
        return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()

    @property
    def num_states(self) -> int:
        """How many of the target's hidden states the draft takes."""
        return len(self.eagle_aux_hidden_state_layer_ids or ()) or 3

    @property
    def not_understood(self) -> dict[str, Any]:
        """Keys that are set and that export knows nothing about."""
        own = {key: value for key, value in (self.model_extra or {}).items() if key not in IGNORED}
        layer = self.transformer_layer_config.model_extra or {}
        own |= {f"transformer_layer_config.{k}": v for k, v in layer.items() if k not in IGNORED_OF_LAYER}
        return {key: value for key, value in own.items() if value}

    @classmethod
    def of(cls, source: Checkpoint) -> SavedConfig:
        """Check the config of a checkpoint.

        Raises:
            CheckpointError: it is not one that speculators saved for EAGLE-3.

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
        try:
            Version(saved.speculators_version)
        except InvalidVersion:
            raise CheckpointError(
                f"{file}: speculators_version {saved.speculators_version!r} is no release, and how layers "
                "are numbered depends on it; write the release that saved the draft"
            ) from None
        return saved


def check_whole(source: Checkpoint, saved: SavedConfig) -> None:
    """Refuse a draft that lacks a tensor, has one too many, or has other sizes than its config says.

    Raises:
        CheckpointError: the tensors and the config are not of one draft.

    """
    layer = saved.transformer_layer_config
    expected = _expected(saved)
    maps = {"d2t": (saved.draft_vocab_size,), "t2d": (layer.vocab_size,)}
    expected |= {name: shape for name, shape in maps.items() if name in source.tensors}
    for name, shape in expected.items():
        tensor = source.tensors.get(name)
        if tensor is None:
            raise CheckpointError(f"{source.path}: tensor {name} is missing; save the draft again")
        if tensor.shape != shape:
            raise CheckpointError(
                f"{source.path}: {name} is {list(tensor.shape)}, and config.json says {list(shape)}; "
                "the two are not of one draft"
            )
    if saved.draft_vocab_size > layer.vocab_size:
        raise CheckpointError(
            f"{source.path / 'config.json'}: draft_vocab_size is {saved.draft_vocab_size} of a vocabulary of "
            f"{layer.vocab_size}; the two are not of one draft"
        )
    if layer.layer_types is not None and len(layer.layer_types) != layer.num_hidden_layers:
        raise CheckpointError(
            f"{source.path / 'config.json'}: {len(layer.layer_types)} layer_types for "
            f"{layer.num_hidden_layers} layers; save the draft again"
        )
    layers = tuple(f"layers.{index}." for index in range(layer.num_hidden_layers))
    for name, tensor in source.tensors.items():
        fitting = MAP_DTYPES.get(name, WEIGHT_DTYPES)
        if tensor.dtype not in fitting:
            raise CheckpointError(
                f"{source.path / tensor.file}: {name} is of dtype {tensor.dtype}, expected "
                f"{' or '.join(fitting)}; save the draft again"
            )
        placed = name in expected or (name.startswith(layers) and not name.endswith(".bias"))
        if not placed:
            raise CheckpointError(
                f"{source.path}: config.json has no place for tensor {name}; the two are not of one draft"
            )


def check_map(source: Checkpoint, saved: SavedConfig) -> None:
    """Refuse a vocabulary map that leads nowhere, twice to the same token, or elsewhere than t2d says.

    Raises:
        CheckpointError: d2t is no sound map of offsets.

    """
    if "d2t" not in source.tensors:
        return
    where = f"{source.path / source.tensors['d2t'].file}: d2t"
    size = saved.transformer_layer_config.vocab_size
    targets = [draft + offset for draft, offset in enumerate(tensor_copy.integers(source, "d2t"))]
    outside = [target for target in targets if not 0 <= target < size]
    if outside:
        raise CheckpointError(
            f"{where} maps to token {outside[0]} of a vocabulary of {size}; it has to hold offsets "
            "(target id minus draft id), not target ids"
        )
    if len(set(targets)) < len(targets):
        raise CheckpointError(f"{where} maps two draft tokens to one; build the vocabulary map again")
    if "t2d" in source.tensors:
        marked = [token for token, chosen in enumerate(tensor_copy.flags(source, "t2d")) if chosen]
        if marked != sorted(targets):
            raise CheckpointError(f"{where} and t2d are not of one vocabulary map; save the draft again")


def _expected(saved: SavedConfig) -> dict[str, tuple[int, ...]]:
    """Tensors that a draft of this config has, with their shapes."""
    layer = saved.transformer_layer_config
    hidden, vocab, rows = layer.hidden_size, layer.vocab_size, saved.draft_vocab_size
    state = saved.target_hidden_size or hidden
    expected: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (vocab, hidden),
        "fc.weight": (hidden, saved.num_states * state),
        "lm_head.weight": (rows, hidden),
        "norm.weight": (hidden,),
        "layers.0.hidden_norm.weight": (hidden,),
    }
    head_dim = layer.head_dim or hidden // layer.num_attention_heads
    queries, keys = layer.num_attention_heads * head_dim, layer.num_key_value_heads * head_dim
    for index in range(layer.num_hidden_layers):
        width = 2 * hidden if index == 0 else hidden  # the first layer reads embedding and state side by side
        parts: dict[str, tuple[int, ...]] = {
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (queries, width),
            "self_attn.k_proj": (keys, width),
            "self_attn.v_proj": (keys, width),
            "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (layer.intermediate_size, hidden),
            "mlp.up_proj": (layer.intermediate_size, hidden),
            "mlp.down_proj": (hidden, layer.intermediate_size),
        }
        expected |= {f"layers.{index}.{part}.weight": shape for part, shape in parts.items()}
        biased = {"self_attn": layer.attention_bias, "mlp": layer.mlp_bias}
        for part, shape in parts.items():
            if biased.get(part.partition(".")[0]):
                expected[f"layers.{index}.{part}.bias"] = shape[:1]
    if rows < vocab:
        expected["d2t"] = (rows,)
    if saved.norm_before_fc:
        expected["input_norm.weight"] = (saved.num_states * state,)
    if saved.fc_norm:
        expected |= {f"fc_norm.{index}.weight": (state,) for index in range(saved.num_states)}
    return expected
