"""A draft checkpoint as the rules see it: as a serving side would be given it, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from contracts import layer_ids
from contracts.checkpoint import Tensor
from contracts.conventions import LAYER_KEYS, NORM_FLAGS, exported_name
from contracts.header.maps import Maps
from contracts.header.origin import Origin, Writer
from contracts.header.settings import NEST, Settings
from contracts.places import CheckpointError

IDS = "eagle_aux_hidden_state_layer_ids"
SAVED = "transformer_layer_config"
MOST_LAYERS = 256
"""Decoder layers that a draft may have; what is built by them is bounded so."""
_LAYER = re.compile(r"^layers\.(\d+)\.")
_PREFIXED = re.compile(
    r"((?:(?!midlayer|layers)\w+\.)*)"
    r"((?:midlayer|layers\.\d+)\..+|(?:fc|norm|input_norm|fc_norm\.\d+|embed_tokens|lm_head)\.(?:weight|bias)|d2t|t2d)"
)
"""Whatever a wrapper put in front of a name, and the name."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A draft checkpoint, flat: what speculators nests is where its export would put it."""

    name: str
    """Folder, file or repository, as the user named it."""
    origin: Origin
    config: Settings
    """As a serving side would read it."""
    raw: Mapping[str, Any] = field(repr=False)
    """config.json as it is."""
    tensors: Mapping[str, Tensor] = field(repr=False)
    """By the name under which a serving side would be given them."""
    d2t: Sequence[int] | None = field(default=None, repr=False)
    t2d: bytes | None = field(default=None, repr=False)
    """One byte per token of the target."""
    beside: tuple[str, ...] = ()
    """Other files that lie with it; none of them is opened."""

    @property
    def architecture(self) -> str | None:
        """The class that config.json names first."""
        return next(iter(self.config.words("architectures")), None)

    @property
    def nested(self) -> Settings:
        """The keys of eagle_config."""
        return self.config.inner(NEST)

    @property
    def num_layers(self) -> int:
        """Decoder layers, by config.json; one if it does not say.

        Raises:
            CheckpointError: more than any draft has.

        """
        layers = self.config.integer("num_hidden_layers") or 1
        if layers > MOST_LAYERS:
            told = f"num_hidden_layers is {layers}, and no draft has as many; correct it"
            raise CheckpointError(f"{self.config.where}: {told}")
        return layers

    @property
    def is_fused(self) -> bool:
        """Whether the target is told to deliver several states: unless a key that is there says otherwise."""
        return "use_aux_hidden_state" not in self.nested or bool(self.nested.get("use_aux_hidden_state"))

    @property
    def needs_export(self) -> bool:
        """Whether speculators wrote it, for itself and vLLM."""
        return self.origin.writer is Writer.SPECULATORS

    @property
    def states(self) -> tuple[int, ...] | None:
        """Hidden states that it was trained on, where config.json tells without doubt."""
        if not self.needs_export:
            return None
        written = Settings(self.config.where, self.raw).ids(IDS)
        return layer_ids.as_trained(self.origin.writer, self.origin.release, written).states

    @property
    def ids(self) -> tuple[int, ...] | None:
        """Layer ids as they stand in eagle_config, or beside it."""
        nested = self.nested.ids(IDS)
        return nested if nested is not None else self.config.ids(IDS)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of the tensor that fills a place, under whichever name; None if there is none."""
        found = self.tensor(name)
        return None if found is None else found.shape

    def tensor(self, name: str) -> Tensor | None:
        """The tensor of a canonical name."""
        named = self.named(name)
        return None if named is None else self.tensors[named]

    def named(self, name: str) -> str | None:
        """What the tensor of a canonical name is called here."""
        return next(iter(self.by_canonical.get(name, ())), None)

    @cached_property
    def by_canonical(self) -> Mapping[str, tuple[str, ...]]:
        """What the tensor of each canonical name is called here; several if it is there twice."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.tensors:
            found[canonical(name)] = (*found.get(canonical(name), ()), name)
        return found

    @property
    def num_chunks(self) -> float | None:
        """How many hidden states of the target's width fc takes; None without fc or a width."""
        shape, width = self.shape("fc.weight"), self.state_width
        if shape is None or len(shape) != 2 or width is None:
            return None
        return shape[1] / width

    @property
    def state_width(self) -> int | None:
        """The width of one hidden state of its target, by config.json."""
        return self.config.integer("target_hidden_size") or self.config.integer("hidden_size")

    @cached_property
    def maps(self) -> Maps | None:
        """Both maps of token ids; None if there is no d2t."""
        if self.d2t is None:
            return None
        return Maps(d2t=self.d2t, t2d=self.t2d, size=self.config.integer("vocab_size"))

    @property
    def is_reduced(self) -> bool:
        """Whether it drafts from a part of the target's vocabulary."""
        drafted, whole = self.config.integer("draft_vocab_size"), self.config.integer("vocab_size")
        if drafted is None:
            rows = [shape[0] for name in ("lm_head.weight", "d2t") if (shape := self.shape(name))]
            drafted = rows[0] if rows else None
        return drafted is not None and whole is not None and drafted < whole


@cache
def canonical(name: str) -> str:
    """One name for what several spellings call otherwise, those that no release reads included."""
    match = _PREFIXED.fullmatch(name)
    bare = match[2] if match else name.removeprefix("model.")
    return f"layers.0.{bare.removeprefix('midlayer.')}" if bare.startswith("midlayer.") else bare


def layer_of(name: str) -> int | None:
    """The decoder layer that a canonical name belongs to."""
    match = _LAYER.match(name)
    return int(match[1]) if match else None


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config of speculators as its export would write it, as far as it can be told whatever is in it."""
    layer = config.get(SAVED)
    inner: Mapping[str, Any] = layer if isinstance(layer, dict) else {}
    rope_keys = ("rope_parameters", "rope_theta", "rope_scaling")
    attention = ("layer_types", "sliding_window", "use_sliding_window")
    taken = {key: inner[key] for key in (*LAYER_KEYS, *rope_keys, *attention) if inner.get(key) is not None}
    given = (
        "draft_vocab_size",
        "target_hidden_size",
        "dtype",
        "torch_dtype",
        "quantization_config",
        *NORM_FLAGS,
    )
    taken |= {key: config[key] for key in given if config.get(key) is not None}
    return {
        **_both_spellings(taken),
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "tie_word_embeddings": False,
        NEST: {
            IDS: config.get(IDS),
            "use_aux_hidden_state": True,
            "norm_before_fc": taken.get("norm_before_fc"),
        },
    }


def _both_spellings(config: dict[str, Any]) -> dict[str, Any]:
    """RoPE as export writes it: where each release looks for it."""
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(rope, dict) or any(isinstance(value, dict) for value in rope.values()):
        return config
    theta = rope.get("rope_theta", config.get("rope_theta"))
    kind = rope.get("rope_type") or rope.get("type") or "default"
    scaling = {key: value for key, value in rope.items() if key not in ("rope_theta", "type")}
    scaling["rope_type"] = kind
    return {
        **config,
        "rope_theta": theta,
        "rope_scaling": None if kind == "default" else scaling,
        "rope_parameters": {**scaling, "rope_theta": theta},
    }


def served_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of speculators under the names that its export gives them."""
    return {exported_name(name): tensor for name, tensor in tensors.items()}
