"""The ways in which draft checkpoints are written, each tried out on every release of the serving library.

A spelling is a tiny draft without weights that writes one thing otherwise than `plain`, which is written as
SpecForge and most published drafts for sglang are. What the library's own resolver and loader make of each is
recorded with the release, so that a checkpoint can be judged on a machine that has no library at all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from contracts import blank
from contracts.blank import Blank, weight

VOCAB, DRAFT_VOCAB, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM = 96, 16, 64, 160, 4, 2, 16
LAYERS = 8
"""Of the target."""
GONE = "<gone>"
"""In place of a config value: the key is not there."""
TARGET_IDS = tuple(range(0, VOCAB, VOCAB // DRAFT_VOCAB))
"""Target token id of each draft token id."""
NEST = "eagle_config"

TARGET: Mapping[str, Any] = MappingProxyType(
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "rope_theta": 50_000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
)
CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        **TARGET,
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": DRAFT_VOCAB,
        NEST: {"eagle_aux_hidden_state_layer_ids": [1, 3, 5], "use_aux_hidden_state": True},
    }
)


def decoder_layer(name: str, width: int, head_dim: int = HEAD_DIM) -> dict[str, Blank]:
    """The tensors of one Llama layer whose attention reads `width` elements."""
    queries, keys = HEADS * head_dim, KV_HEADS * head_dim
    shapes = {
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (HIDDEN, queries),
        "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        "mlp.up_proj": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj": (HIDDEN, INTERMEDIATE),
        "post_attention_layernorm": (HIDDEN,),
    }
    return {f"{name}.{part}.weight": weight(*shape) for part, shape in shapes.items()}


def offsets(target_ids: tuple[int, ...] = TARGET_IDS) -> tuple[int, ...]:
    """What d2t holds: target id minus draft id."""
    return tuple(target - draft for draft, target in enumerate(target_ids))


TENSORS: Mapping[str, Blank] = MappingProxyType(
    {
        "embed_tokens.weight": weight(VOCAB, HIDDEN),
        "fc.weight": weight(HIDDEN, 3 * HIDDEN),
        "midlayer.hidden_norm.weight": weight(HIDDEN),
        "midlayer.input_layernorm.weight": weight(HIDDEN),
        **decoder_layer("midlayer", 2 * HIDDEN),
        "norm.weight": weight(HIDDEN),
        "lm_head.weight": weight(DRAFT_VOCAB, HIDDEN),
        "d2t": blank.integers(offsets()),
        "t2d": blank.flags(TARGET_IDS, VOCAB),
    }
)
FIRST = "midlayer"
PREFIXED = tuple(name for name in TENSORS if name not in ("d2t", "t2d", "lm_head.weight"))
"""Tensors that a Hugging Face model keeps under `model.`"""


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """One way to write one thing."""

    name: str
    """`what.how`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Keys of config.json that are set otherwise than in `plain`; those of eagle_config dotted."""
    tensors: Mapping[str, Blank | None] = field(default_factory=dict)
    """Tensors that are there otherwise than in `plain`; None: not there."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Beginning of a tensor's name -> what it is called instead."""
    target: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the target's config.json."""
    server_args: tuple[str, ...] = ()

    def draft_config(self) -> dict[str, Any]:
        """The whole config.json of the draft."""
        return _changed(CONFIG, self.config)

    def target_config(self) -> dict[str, Any]:
        """The whole config.json of its target."""
        return _changed(TARGET, self.target)

    def draft_tensors(self) -> dict[str, Blank]:
        """All tensors of the draft."""
        found = {name: tensor for name, tensor in {**TENSORS, **self.tensors}.items() if tensor is not None}
        return {self._renamed(name): tensor for name, tensor in found.items()}

    def _renamed(self, name: str) -> str:
        for old, new in self.renames.items():
            if name.startswith(old):
                return new + name.removeprefix(old)
        return name

    def write(self, draft: Path, target: Path) -> None:
        """Write draft and target to two folders."""
        blank.write(draft, self.draft_config(), self.draft_tensors())
        blank.write(target, self.target_config(), {"norm.weight": weight(HIDDEN)})


def _changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    config = copy.deepcopy(dict(base))
    for key, value in changes.items():
        room, _, inner = key.rpartition(".")
        place = config.setdefault(room, {}) if room else config
        if value == GONE:
            place.pop(inner, None)
        else:
            place[inner] = copy.deepcopy(value)
    return config


def _flag(key: str, tensors: Mapping[str, Blank]) -> tuple[Spelling, Spelling]:
    """An optional norm, switched on where each trainer writes it."""
    return (
        Spelling(name=f"{key}.top", config={key: True}, tensors=tensors),
        Spelling(name=f"{key}.nested", config={f"{NEST}.{key}": True}, tensors=tensors),
    )


_IDS = f"{NEST}.eagle_aux_hidden_state_layer_ids"
_FC_NORMS = {f"fc_norm.{index}.weight": weight(HIDDEN) for index in range(3)}
_AUX_NORMS = {f"aux_norm_{where}.weight": weight(HIDDEN) for where in ("low", "mid", "high")}
_WIDE = {name: tensor for name, tensor in decoder_layer(FIRST, 2 * HIDDEN, 32).items() if "self_attn" in name}
_FOUR = {"fc.weight": weight(HIDDEN, 4 * HIDDEN)}
_LLAMA3 = {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128,
}  # fmt: skip
_YARN = {"factor": 4.0, "original_max_position_embeddings": 128}
_QKV_BIAS = {
    f"{FIRST}.self_attn.{part}_proj.bias": weight(heads * HEAD_DIM)
    for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
}
_MLP_BIAS = {
    f"{FIRST}.mlp.{part}_proj.bias": weight(width)
    for part, width in (("gate", INTERMEDIATE), ("up", INTERMEDIATE), ("down", HIDDEN))
}
_SECOND = {**decoder_layer("layers.1", HIDDEN), "layers.1.hidden_norm.weight": weight(HIDDEN)}
_SECOND_AS_LLAMA = {**decoder_layer("layers.1", HIDDEN), "layers.1.input_layernorm.weight": weight(HIDDEN)}

_ARCHITECTURES = (
    "LlamaForCausalLM", "LlamaForCausalLMEagle", "Eagle3LlamaForCausalLM", "Qwen3ForCausalLMEagle3",
    "Eagle3DraftModel", "Eagle3Speculator", "DFlashDraftModel", "PEagleDraftModel",
)  # fmt: skip
"""Classes that drafts name, of which sglang knows some."""

SPELLINGS: tuple[Spelling, ...] = (
    Spelling(name="plain"),
    # names
    Spelling(name="names.layers", renames={"midlayer.": "layers.0."}),
    Spelling(name="names.model", renames={name: f"model.{name}" for name in PREFIXED}),
    Spelling(
        name="names.model_layers",
        renames={"midlayer.": "model.layers.0."}
        | {name: f"model.{name}" for name in PREFIXED if not name.startswith("midlayer.")},
    ),
    Spelling(name="names.unheard_of", tensors={"unheard_of.weight": weight(HIDDEN)}),
    Spelling(name="embed_tokens.absent", tensors={"embed_tokens.weight": None}),
    Spelling(name="norm.absent", tensors={"norm.weight": None}),
    Spelling(name="fc.absent", tensors={"fc.weight": None}),
    Spelling(name="first_layer.absent", tensors={f"{FIRST}.hidden_norm.weight": None}),
    Spelling(name="two_layers.hidden_norm", config={"num_hidden_layers": 2}, tensors=_SECOND),
    Spelling(name="two_layers.input_layernorm", config={"num_hidden_layers": 2}, tensors=_SECOND_AS_LLAMA),
    Spelling(name="fc_bias.unsaid", tensors={"fc.bias": weight(HIDDEN)}),
    Spelling(name="fc_bias.said", config={"bias": True}, tensors={"fc.bias": weight(HIDDEN)}),
    Spelling(name="fc_bias.missing", config={"bias": True}),
    # the vocabulary and the head
    Spelling(name="d2t.absent", tensors={"d2t": None, "t2d": None}),
    Spelling(name="d2t.int32", tensors={"d2t": blank.integers(offsets(), "I32")}),
    Spelling(name="d2t.model", renames={"d2t": "model.d2t", "t2d": "model.t2d"}),
    Spelling(name="t2d.absent", tensors={"t2d": None}),
    Spelling(
        name="d2t.full_vocab",
        config={"draft_vocab_size": VOCAB},
        tensors={"d2t": None, "t2d": None, "lm_head.weight": weight(VOCAB, HIDDEN)},
    ),
    Spelling(name="draft_vocab_size.absent", config={"draft_vocab_size": GONE}),
    Spelling(name="draft_vocab_size.null", config={"draft_vocab_size": None}),
    Spelling(
        name="draft_vocab_size.null_full",
        config={"draft_vocab_size": None},
        tensors={"d2t": None, "t2d": None, "lm_head.weight": weight(VOCAB, HIDDEN)},
    ),
    Spelling(
        name="draft_vocab_size.absent_full",
        config={"draft_vocab_size": GONE},
        tensors={"d2t": None, "t2d": None, "lm_head.weight": weight(VOCAB, HIDDEN)},
    ),
    Spelling(name="draft_vocab_size.other", config={"draft_vocab_size": DRAFT_VOCAB * 2}),
    Spelling(name="lm_head.absent", tensors={"lm_head.weight": None}),
    Spelling(
        name="lm_head.absent_full",
        config={"draft_vocab_size": VOCAB},
        tensors={"d2t": None, "t2d": None, "lm_head.weight": None},
    ),
    Spelling(
        name="lm_head.absent_null",
        config={"draft_vocab_size": None},
        tensors={"d2t": None, "t2d": None, "lm_head.weight": None},
    ),
    Spelling(name="tie_word_embeddings.true", config={"tie_word_embeddings": True}),
    Spelling(
        name="tie_word_embeddings.true_full",
        config={"tie_word_embeddings": True, "draft_vocab_size": VOCAB},
        tensors={"d2t": None, "t2d": None, "lm_head.weight": None},
    ),
    # which hidden states
    Spelling(name="ids.top", config={_IDS: GONE, "eagle_aux_hidden_state_layer_ids": [1, 3, 5]}),
    Spelling(name="ids.absent", config={_IDS: GONE}),
    Spelling(name="ids.null", config={_IDS: None}),
    Spelling(name="ids.empty", config={_IDS: []}),
    Spelling(name="ids.four", config={_IDS: [1, 3, 5, 6]}, tensors=_FOUR),
    Spelling(
        name="ids.four_counted",
        config={_IDS: [1, 3, 5, 6], "num_aux_hidden_states": 4},
        tensors=_FOUR,
    ),
    Spelling(name="ids.four_of_three", config={_IDS: [1, 3, 5, 6]}),
    Spelling(
        name="ids.top_four",
        config={_IDS: GONE, "eagle_aux_hidden_state_layer_ids": [1, 3, 5, 6]},
        tensors=_FOUR,
    ),
    Spelling(name="ids.descending", config={_IDS: [5, 3, 1]}),
    Spelling(name="ids.repeated", config={_IDS: [1, 1, 5]}),
    Spelling(name="ids.embeddings", config={_IDS: [-1, 3, 5]}),
    Spelling(name="ids.last", config={_IDS: [1, 3, LAYERS - 1]}),
    Spelling(name="ids.beyond", config={_IDS: [1, 3, LAYERS]}),
    Spelling(name="ids.far_beyond", config={_IDS: [1, 3, LAYERS + 5]}),
    Spelling(name="eagle_config.absent", config={NEST: GONE}),
    Spelling(name="eagle_config.null", config={NEST: None}),
    Spelling(name="use_aux_hidden_state.absent", config={f"{NEST}.use_aux_hidden_state": GONE}),
    Spelling(name="use_aux_hidden_state.false", config={f"{NEST}.use_aux_hidden_state": False}),
    Spelling(
        name="target_hidden_size.other",
        config={"target_hidden_size": 96},
        tensors={"fc.weight": weight(HIDDEN, 3 * 96)},
        target={"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2},
    ),
    Spelling(
        name="target_hidden_size.no_embedding",
        config={"target_hidden_size": 96},
        tensors={"fc.weight": weight(HIDDEN, 3 * 96), "embed_tokens.weight": None},
        target={"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2},
    ),
    Spelling(name="hidden_size.other", target={"hidden_size": 96, "num_attention_heads": 6}),
    # norms
    *_flag("norm_before_fc", {"input_norm.weight": weight(3 * HIDDEN)}),
    *_flag("fc_norm", _FC_NORMS),
    *_flag("norm_output", {}),
    *_flag("norm_before_residual", {}),
    Spelling(name="norm_before_fc.unsaid", tensors={"input_norm.weight": weight(3 * HIDDEN)}),
    Spelling(name="fc_norm.unsaid", tensors=_FC_NORMS),
    Spelling(name="use_aux_norm.top", config={"use_aux_norm": True}, tensors=_FC_NORMS),
    Spelling(name="use_aux_norm.old_names", config={"use_aux_norm": True}, tensors=_AUX_NORMS),
    Spelling(name="rms_norm_eps.absent", config={"rms_norm_eps": GONE}),
    # rotary embedding
    Spelling(name="rope.absent", config={"rope_theta": GONE}),
    Spelling(
        name="rope.parameters",
        config={"rope_theta": GONE, "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0}},
    ),
    Spelling(
        name="rope.contradicting",
        config={"rope_parameters": {"rope_type": "default", "rope_theta": 20_000.0}},
    ),
    Spelling(name="rope.llama3_scaling", config={"rope_scaling": {"rope_type": "llama3", **_LLAMA3}}),
    Spelling(name="rope.llama3_type", config={"rope_scaling": {"type": "llama3", **_LLAMA3}}),
    Spelling(
        name="rope.llama3_parameters",
        config={
            "rope_theta": GONE,
            "rope_parameters": {"rope_type": "llama3", "rope_theta": 50_000.0, **_LLAMA3},
        },
    ),
    Spelling(name="rope.yarn_scaling", config={"rope_scaling": {"rope_type": "yarn", **_YARN}}),
    Spelling(
        name="rope.yarn_parameters",
        config={
            "rope_theta": GONE,
            "rope_parameters": {"rope_type": "yarn", "rope_theta": 50_000.0, **_YARN},
        },
    ),
    Spelling(name="rope.linear_scaling", config={"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    Spelling(name="rope.dynamic_scaling", config={"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    Spelling(name="rope.unheard_of", config={"rope_scaling": {"rope_type": "unheard_of", "factor": 4.0}}),
    Spelling(
        name="rope.by_layer_type",
        config={
            "rope_theta": GONE,
            "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 50_000.0}},
        },
    ),
    Spelling(name="rope.interleaved", config={"rope_is_neox_style": False}),
    Spelling(name="max_position_embeddings.short", config={"max_position_embeddings": 256}),
    # attention and MLP
    Spelling(name="head_dim.wide", config={"head_dim": 32}, tensors=_WIDE),
    Spelling(name="attention_bias.said", config={"attention_bias": True}, tensors=_QKV_BIAS),
    Spelling(name="attention_bias.unsaid", tensors=_QKV_BIAS),
    Spelling(
        name="attention_bias.output",
        config={"attention_bias": True},
        tensors={f"{FIRST}.self_attn.o_proj.bias": weight(HIDDEN)},
    ),
    Spelling(name="attention_bias.missing", config={"attention_bias": True}),
    Spelling(name="mlp_bias.said", config={"mlp_bias": True}, tensors=_MLP_BIAS),
    Spelling(
        name="qk_norm.saved",
        tensors={f"{FIRST}.self_attn.{part}_norm.weight": weight(HEAD_DIM) for part in "qk"},
    ),
    Spelling(
        name="sliding_window.layer_types",
        config={"sliding_window": 32, "layer_types": ["sliding_attention"], "use_sliding_window": True},
    ),
    Spelling(name="hidden_act.gelu", config={"hidden_act": "gelu"}),
    # types
    Spelling(name="dtype.absent", config={"torch_dtype": GONE}),
    Spelling(name="dtype.new_key", config={"torch_dtype": GONE, "dtype": "bfloat16"}),
    Spelling(name="dtype.other", config={"torch_dtype": "float16"}),
    Spelling(name="dtype.float32", config={"torch_dtype": "float32"}),
    Spelling(name="quantization.unheard_of", config={"quantization_config": {"quant_method": "unheard_of"}}),
    # the class and the command line
    Spelling(name="architectures.absent", config={"architectures": GONE}),
    *(Spelling(name=f"architectures.{name}", config={"architectures": [name]}) for name in _ARCHITECTURES),
    Spelling(
        name="format.speculators",
        config=dict.fromkeys(CONFIG, GONE)
        | {
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": DRAFT_VOCAB,
            "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
            "speculators_model_type": "eagle3",
            "speculators_version": "0.9.0",
            "transformer_layer_config": {**TARGET, "num_hidden_layers": 1},
        },
        renames={"midlayer.": "layers.0."},
    ),
    Spelling(name="model_type.absent", config={"model_type": GONE}),
    Spelling(name="model_type.qwen3", config={"model_type": "qwen3"}),
    Spelling(name="model_type.unheard_of", config={"model_type": "unheard_of"}),
    Spelling(name="algorithm.EAGLE", server_args=("--speculative-algorithm", "EAGLE")),
    Spelling(name="algorithm.NEXTN", server_args=("--speculative-algorithm", "NEXTN")),
)


def by_name(name: str) -> Spelling:
    """The spelling called `name`.

    Raises:
        KeyError: there is none.

    """
    return next(item for item in SPELLINGS if item.name == name)
