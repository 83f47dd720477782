"""Facts of a draft that the real speculators built: of the live model, a forward pass, and what it saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from contracts import checkpoint
from contracts.facts import (
    Attention,
    AuxLayers,
    DraftFacts,
    HiddenDims,
    NormFlags,
    Rope,
    Sharing,
    TensorShapes,
    VocabMap,
    WeightNames,
)
from contracts.probes import (
    speculators_capture,
    speculators_meta,
    speculators_release,
    transformers_target,
)
from contracts.probes.observe import STATE, angles, epsilon, reads


def describe(
    model: Any,
    saved: checkpoint.Checkpoint,
    taps: tuple[int, ...],
    target: Path,
    ran: speculators_meta.Ran | None,
) -> DraftFacts:
    """Facts of a built draft: from the live model, from a forward pass of it if it ran, and what it saved."""
    config = model.config
    target_config = checkpoint.read_json(target / "config.json")
    offsets = [0] * config.draft_vocab_size if model.d2t is None else model.d2t.tolist()
    return DraftFacts(
        architecture=type(model).__name__,
        algorithm=str(config.speculators_config.algorithm).lower(),
        reads_target_state=None if ran is None else STATE in ran.logits_from,
        config_keys=tuple(sorted(_keys(dict(saved.config)))),
        weight_names=WeightNames(names=tuple(sorted(saved.tensors))),
        tensor_shapes=TensorShapes(
            shapes={name: tensor.shape for name, tensor in sorted(saved.tensors.items())},
            dtypes={name: tensor.dtype for name, tensor in sorted(saved.tensors.items())},
        ),
        aux_layers=AuxLayers(
            states=taps,
            layer_ids=speculators_release.target_layer_ids(model),
            num_layers=target_config["num_hidden_layers"],
        ),
        vocab_map=VocabMap(
            target_ids=tuple(draft + offset for draft, offset in enumerate(offsets)),
            mapped=model.d2t is not None,
            draft_vocab_size=config.draft_vocab_size,
            target_vocab_size=target_config["vocab_size"],
        ),
        hidden_dims=None
        if ran is None
        else _hidden_dims(model, len(taps), target_config["hidden_size"], ran),
        norms=None if ran is None else _norms(ran),
        norm_eps=epsilon(model),
        rope=_rope(model),
        attention=_attention(model),
        sharing=_sharing(model, target),
    )


def _hidden_dims(model: Any, taps: int, target: int, ran: speculators_meta.Ran) -> HiddenDims:
    return HiddenDims(
        target=target,
        delivered=taps * target,
        fc_in=model.fc.in_features,
        draft=model.embed_tokens.weight.shape[1],
        recurrent=ran.recurrent_width,
        fc_applied="fc.weight" in ran.logits_from,
    )


def _norms(ran: speculators_meta.Ran) -> NormFlags:
    return NormFlags(
        norm_before_fc=reads(ran.logits_from, "input_norm."),
        fc_norm=reads(ran.logits_from, "fc_norm."),
        norm_output=reads(ran.recurrent_from, "norm."),
        norm_before_residual=reads(ran.residual_from, "layers.0.hidden_norm."),
    )


def _rope(model: Any) -> Rope:
    """What the rotary module tabulates, and which dimensions the layer's own function rotates together."""
    cos, sin = model.rotary_emb(torch.zeros(1, 2, model.hidden_size), torch.arange(2)[None])
    pairs = cos.shape[-1] // 2
    frequencies, amplitude = angles(cos[0, :, :pairs], sin[0, :, :pairs])
    layer = sys.modules[type(model.layers[0].self_attn).__module__]
    unit = torch.zeros(1, 1, 1, cos.shape[-1])
    unit[..., 0] = 1.0
    turned, _ = layer.apply_rotary_pos_emb(unit, unit, cos[:, 1:], sin[:, 1:])
    partner = int(turned[0, 0, 0, 1:].abs().argmax()) + 1
    return Rope(inverse_frequencies=frequencies, interleaved=partner == 1, amplitude=amplitude)


def _attention(model: Any) -> Attention:
    first, layer_config = model.layers[0].self_attn, model.config.transformer_layer_config
    windowed = getattr(model, "sliding_window_indices", ())  # none before 0.7
    windows = (model.sliding_window if index in windowed else None for index in range(len(model.layers)))
    return Attention(
        num_heads=layer_config.num_attention_heads,
        num_kv_heads=layer_config.num_key_value_heads,
        head_dim=first.head_dim,
        scale=float(first.scaling),
        biased=first.q_proj.bias is not None,
        qk_norm=hasattr(first, "q_norm"),
        windows=tuple(windows),
    )


def taps(model: Any, recipe: dict[str, Any], target: Path) -> tuple[int, ...]:
    """Hidden-state indices of the target that the draft is trained on.

    Since 0.5.0 a layer id is the index itself: id i is the input of layer i. Where the library validates ids,
    it is asked: it has to accept the number of layers, the final state, and to refuse the next. Before 0.5.0
    ids were those of the library's own capture, which is asked as well, and the draft does not record them.
    """
    ids = speculators_release.target_layer_ids(model)
    if not speculators_release.has("ids-recorded") and ids is None:
        return speculators_capture.states(recipe["aux_layer_ids"])
    assert ids is not None
    if speculators_release.has("ids-validated"):
        _check_convention(str(target), transformers_target.num_layers(target))
    return ids


def _check_convention(target: str, last: int) -> None:
    from speculators.models.utils import resolve_target_layer_ids

    resolve_target_layer_ids([last], target)
    try:
        resolve_target_layer_ids([last + 1], target)
    except ValueError:
        return
    raise NotImplementedError(
        "this release numbers the target's layers in a way that this probe does not know"
    )


def _sharing(model: Any, target: Path) -> Sharing:
    """Whether the saved embedding and head are the target's own, bit for bit."""
    from transformers import AutoModelForCausalLM

    owner = AutoModelForCausalLM.from_pretrained(target)
    embedding = owner.get_input_embeddings().weight.to(model.embed_tokens.weight.dtype)
    head = owner.get_output_embeddings().weight.to(model.lm_head.weight.dtype)
    return Sharing(
        embedding="target" if torch.equal(model.embed_tokens.weight, embedding) else "draft",
        head="target" if torch.equal(model.lm_head.weight, head) else "draft",
    )


def _keys(config: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys of a nested config, dotted; which library version wrote it is no term of the interface."""
    keys = []
    for key, value in config.items():
        if key in ("speculators_version", "transformers_version"):
            continue
        keys.append(prefix + key)
        if isinstance(value, dict):
            keys += _keys(value, f"{prefix}{key}.")
    return keys
