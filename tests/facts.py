"""A pair of sides between which every contract holds, to break in one place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts import export
from contracts.checkpoint import Checkpoint, Tensor
from contracts.conventions import exported_name
from contracts.facts import (
    Attention,
    AuxLayers,
    ComputeDtypes,
    DraftFacts,
    HiddenDims,
    NormFlags,
    Rope,
    Sharing,
    TensorShapes,
    VocabMap,
    WeightNames,
)
from contracts.handoff import Handoff
from contracts.recipes import by_name

SHAPES: dict[str, tuple[int, ...]] = {
    "d2t": (192,),
    "t2d": (256,),
    "embed_tokens.weight": (256, 64),
    "fc.weight": (64, 192),
    "layers.0.hidden_norm.weight": (64,),
    "layers.0.input_layernorm.weight": (64,),
    "layers.0.mlp.down_proj.weight": (64, 160),
    "layers.0.mlp.gate_proj.weight": (160, 64),
    "layers.0.mlp.up_proj.weight": (160, 64),
    "layers.0.post_attention_layernorm.weight": (64,),
    "layers.0.self_attn.k_proj.weight": (32, 128),
    "layers.0.self_attn.o_proj.weight": (64, 64),
    "layers.0.self_attn.q_proj.weight": (64, 128),
    "layers.0.self_attn.v_proj.weight": (32, 128),
    "lm_head.weight": (192, 64),
    "norm.weight": (64,),
}

TRAINED = DraftFacts(
    architecture="Eagle3DraftModel",
    algorithm="eagle3",
    reads_target_state=True,
    config_keys=("architectures",),
    weight_names=WeightNames(names=tuple(SHAPES)),
    tensor_shapes=TensorShapes(shapes=SHAPES),
    aux_layers=AuxLayers(states=(1, 4, 6), layer_ids=(1, 4, 6), num_layers=8),
    vocab_map=VocabMap(
        target_ids=tuple(range(10, 202)), mapped=True, draft_vocab_size=192, target_vocab_size=256
    ),
    hidden_dims=HiddenDims(target=64, delivered=192, fc_in=192, draft=64, recurrent=64, fc_applied=True),
    norms=NormFlags(norm_before_fc=False, fc_norm=False, norm_output=False, norm_before_residual=False),
    norm_eps=1e-5,
    rope=Rope(inverse_frequencies=(1.0, 0.1, 0.01), amplitude=1.0),
    attention=Attention(
        num_heads=4, num_kv_heads=2, head_dim=16, scale=0.25, biased=False, qk_norm=False, windows=(None,)
    ),
    sharing=Sharing(embedding="target", head="draft"),
)

RENAMES = {name: exported_name(name) for name in SHAPES if name not in export.DERIVED}

SERVED = replace(
    TRAINED,
    architecture="LlamaForCausalLMEagle3",
    weight_names=WeightNames(names=tuple(RENAMES.values())),
    tensor_shapes=TensorShapes(shapes={RENAMES[name]: SHAPES[name] for name in RENAMES}),
    aux_layers=AuxLayers(states=(1, 4, 6), layer_ids=(0, 3, 5), num_layers=8),
    compute=ComputeDtypes(draft="bfloat16", target="bfloat16"),
)

HANDOFF = Handoff(recipe=by_name("plain"), kind="exported", training=TRAINED, serving=SERVED, renames=RENAMES)


def with_facet(facts: DraftFacts, facet: str, **changes: Any) -> DraftFacts:
    """`facts` with fields of one facet changed."""
    return replace(facts, **{facet: replace(getattr(facts, facet), **changes)})


def saved_config(**changes: Any) -> dict[str, Any]:
    """A config.json as speculators 0.9.0 writes it."""
    layer = {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "model_type": "llama",
        "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0},
    } | changes.pop("layer", {})
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": 192,
        "dtype": "float32",
        "eagle_aux_hidden_state_layer_ids": [1, 4, 6],
        "transformer_layer_config": layer,
    } | changes


def checkpoint(**changes: Any) -> Checkpoint:
    """Headers of a plain draft, nothing on disk."""
    kinds = {"d2t": "I64", "t2d": "BOOL"}
    tensors = {
        name: Tensor(dtype=kinds.get(name, "F32"), shape=shape, file="model.safetensors")
        for name, shape in SHAPES.items()
    }
    return Checkpoint(path=Path("draft"), config=saved_config(**changes), tensors=tensors)


def save_draft(folder: Path, **changes: Any) -> Path:
    """The same draft on disk; every weight is one, and draft ids are target ids."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(saved_config(**changes)))
    tensors = {name: torch.ones(shape) for name, shape in SHAPES.items()}
    tensors["d2t"] = torch.zeros(192, dtype=torch.int64)
    tensors["t2d"] = torch.arange(256) < 192
    save_file(tensors, folder / "model.safetensors")
    return folder


def save_target(folder: Path, **changes: Any) -> Path:
    """The config.json of a target that the draft is for."""
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 8,
        "hidden_size": 64,
        "vocab_size": 256,
        "max_position_embeddings": 512,
        "dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder
