"""Good drafts of many origins, in each writer's own conventions, without weights.

Conventions are those of the trainers' published files: names, keys, layer ids, types of the maps. What the
raw files of a trainer cannot do in sglang is listed as its `known` causes: nothing else may be found in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts import blank
from contracts.blank import Blank, weight
from contracts.causes import Cause
from contracts.conventions import STAMP
from contracts.spellings import (
    CONFIG,
    DRAFT_VOCAB,
    HEADS,
    HIDDEN,
    KV_HEADS,
    NEST,
    TARGET,
    VOCAB,
    decoder_layer,
    offsets,
)
from contracts.spellings import (
    TENSORS as SPELLED,
)
from tests.memory import Memory

IDS = "eagle_aux_hidden_state_layer_ids"
MAP = (0, 1, 2, 3, 7, 8, 9, 20, 21, 22, 40, 41, 50, 51, 52, 90)
"""Target token id of each draft token id; as in any real map, some stand side by side."""
TENSORS = {**SPELLED, "d2t": blank.integers(offsets(MAP)), "t2d": blank.flags(MAP, VOCAB)}


@dataclass(frozen=True, kw_only=True)
class Good:
    """A good draft and the target that it is for."""

    name: str
    about: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Blank]
    target: Mapping[str, Any] = field(default_factory=lambda: dict(TARGET))
    known: frozenset[Cause] = frozenset()
    """Causes that its writer's own format has in sglang."""
    beside: tuple[str, ...] = ()
    server_args: tuple[str, ...] = ()

    def place(self) -> Memory:
        return Memory(self.config, self.tensors, self.beside)


def _renamed(tensors: Mapping[str, Blank], beginnings: Mapping[str, str]) -> dict[str, Blank]:
    found = {}
    for name, tensor in tensors.items():
        old = next((it for it in beginnings if name.startswith(it)), "")
        found[beginnings.get(old, "") + name.removeprefix(old)] = tensor
    return found


def _without(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


_MAPS = ("d2t", "t2d")
_FULL = {**_without(TENSORS, *_MAPS), "lm_head.weight": weight(VOCAB, HIDDEN)}
_LAYERS = {"midlayer.": "layers.0."}
_WIDE = {
    f"midlayer.self_attn.{part}_proj.weight": weight(*shape)
    for part, shape in {
        "q": (HEADS * 32, 2 * HIDDEN),
        "k": (KV_HEADS * 32, 2 * HIDDEN),
        "v": (KV_HEADS * 32, 2 * HIDDEN),
        "o": (HIDDEN, HEADS * 32),
    }.items()
}
_FC_NORMS = {f"fc_norm.{index}.weight": weight(HIDDEN) for index in range(3)}


def _nested(**keys: Any) -> dict[str, Any]:
    return {NEST: {IDS: [1, 3, 4], "use_aux_hidden_state": True, **keys}}


def _speculators(version: str, **keys: Any) -> dict[str, Any]:
    layer = {**_without(TARGET, "architectures", "torch_dtype"), "num_hidden_layers": 1}
    return {
        "architectures": ["Eagle3DraftModel"],
        "draft_vocab_size": DRAFT_VOCAB,
        "norm_before_residual": False,
        "speculators_config": {"algorithm": "eagle3", "verifier": {"architectures": ["LlamaForCausalLM"]}},
        "speculators_model_type": "eagle3",
        "speculators_version": version,
        "torch_dtype": "bfloat16",
        "transformer_layer_config": layer,
        **keys,
    }


GOOD: tuple[Good, ...] = (
    Good(
        name="specforge",
        about="as SpecForge saves it: midlayer.*, both maps, the target's embedding, no layer ids",
        config=_without(CONFIG, NEST),
        tensors=_without(TENSORS, "embed_tokens.weight"),
    ),
    Good(
        name="specforge_ids",
        about="the same with layer ids, and heads wider than hidden_size / heads",
        config={**CONFIG, **_nested(), "head_dim": 32},
        tensors=_without({**TENSORS, **_WIDE}, "embed_tokens.weight"),
    ),
    Good(
        name="modelopt",
        about="as ModelOpt exports it: layers.0.*, the whole vocabulary, ids in eagle_config",
        config={
            **CONFIG,
            "draft_vocab_size": VOCAB,
            **_nested(
                use_input_layernorm_in_first_layer=True, use_last_layernorm=True, use_mtp_layernorm=False
            ),
        },
        tensors=_renamed(_without(_FULL, "embed_tokens.weight"), _LAYERS),
    ),
    Good(
        name="torchspec",
        about="as TorchSpec saves it: layers.0.*, an embedding, EAGLE 3.1 norms, the whole vocabulary",
        config={**CONFIG, "draft_vocab_size": VOCAB, **_nested(), "fc_norm": True, "norm_output": True},
        tensors=_renamed({**_FULL, **_FC_NORMS}, _LAYERS),
    ),
    Good(
        name="prefixed",
        about="names as a Hugging Face model has them, model.*; norm_before_fc",
        config={**CONFIG, **_nested(norm_before_fc=True)},
        tensors=_renamed(
            {**TENSORS, "input_norm.weight": weight(3 * HIDDEN)},
            {
                "midlayer.": "model.layers.0.",
                "embed_": "model.embed_",
                "fc.": "model.fc.",
                "norm.": "model.norm.",
            }
            | {"input_norm.": "model.input_norm."},
        ),
    ),
    Good(
        name="shared_head",
        about="no head of its own: draft_vocab_size null, the target's head",
        config={**CONFIG, **_nested(), "draft_vocab_size": None},
        tensors=_without(_FULL, "lm_head.weight"),
    ),
    Good(
        name="two_layers",
        about="two decoder layers, four hidden states",
        config={**CONFIG, "num_hidden_layers": 2, NEST: {IDS: [0, 1, 3, 5], "use_aux_hidden_state": True}},
        tensors={
            **_renamed(TENSORS, _LAYERS),
            "fc.weight": weight(HIDDEN, 4 * HIDDEN),
            **decoder_layer("layers.1", HIDDEN),
            "layers.1.hidden_norm.weight": weight(HIDDEN),
        },
    ),
    Good(
        name="exported",
        about="as contracts export writes it",
        config={**CONFIG, **_nested(), STAMP: {"for": "sglang 0.5.23", "not_expressed": []}},
        tensors=_without(TENSORS, "t2d"),
    ),
    Good(
        name="int32_map",
        about="d2t in 32 bits, no t2d, llama3 scaling in the old spelling",
        config={
            **CONFIG,
            **_nested(),
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 128,
            },
        },
        tensors={**_without(TENSORS, *_MAPS), "d2t": blank.integers(offsets(MAP), "I32")},
    ),
    Good(
        name="eagle_reference",
        about="as the EAGLE reference saves it: no draft class, midlayer.*, no layer ids",
        config={**_without(CONFIG, NEST), "architectures": ["LlamaForCausalLM"]},
        tensors=_without(TENSORS, "embed_tokens.weight"),
        known=frozenset({Cause.CLASS_UNKNOWN}),
    ),
    Good(
        name="angelslim",
        about="as AngelSlim saves it: a class of vLLM's, no t2d",
        config={**CONFIG, **_nested(), "architectures": ["Eagle3LlamaForCausalLM"]},
        tensors=_without(TENSORS, "embed_tokens.weight", "t2d"),
        known=frozenset({Cause.CLASS_UNKNOWN}),
    ),
    Good(
        name="speculators_0_9",
        about="as speculators 0.9 saves it: nested, hidden-state indices",
        config=_speculators("0.9.0", **{IDS: [2, 4, 5], "fc_norm": False, "norm_output": False}),
        tensors=_renamed(TENSORS, _LAYERS),
        known=frozenset({Cause.CONFIG_NOT_RESOLVED}),
    ),
    Good(
        name="speculators_0_5",
        about="as speculators 0.5 saves it",
        config=_speculators("0.5.0", **{IDS: [2, 4, 5], "norm_before_fc": False}),
        tensors=_renamed(TENSORS, _LAYERS),
        known=frozenset({Cause.CONFIG_NOT_RESOLVED}),
    ),
    Good(
        name="speculators_0_3",
        about="as speculators 0.3 saves it: which hidden states it was trained on is written nowhere",
        config=_speculators("0.3.0", **{IDS: None}),
        tensors=_renamed(TENSORS, _LAYERS),
        known=frozenset({Cause.CONFIG_NOT_RESOLVED, Cause.IDS_GUESSED}),
    ),
)


def by_name(name: str) -> Good:
    return next(good for good in GOOD if good.name == name)
