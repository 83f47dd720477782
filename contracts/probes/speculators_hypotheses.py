"""What would come out if an engine broke one term of the interface: one replay per hypothesis.

Each hypothesis changes one thing about the draft, its inputs or how it is run, and then runs the training
library's own modules. A contract that finds other numbers on the serving side looks for the hypothesis that
gives the very same ones. Names are cause codes of `contracts.verdict`, with a detail after a colon.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from contracts.probes import transformers_target
from contracts.probes.speculators_replay import Conventions, Inputs, Outcome, chain, conventions
from contracts.probes.transformers_target import TargetStates

ROPE_BASE = 10_000.0
"""What a library assumes that finds no base in the config."""
MOST_PERMUTED = 4
"""Taps up to which every order of them is a hypothesis; beyond, the reverse alone."""
EPSILONS = (1e-6, 1e-5)
"""Defaults of transformers' LlamaConfig and of the models themselves."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A draft, what it is given, and how it is run."""

    draft: Any
    inputs: Inputs
    how: Conventions
    target: TargetStates

    ids: tuple[int, ...]
    """Hidden-state indices that the draft is given."""

    def with_draft(self, change: Callable[[Any], object]) -> Setting:
        """The same with a changed copy of the draft."""
        draft = copy.deepcopy(self.draft)
        with torch.no_grad():
            change(draft)
        return replace(self, draft=draft)

    def with_how(self, **changes: Any) -> Setting:
        """The same, run otherwise."""
        return replace(self, how=replace(self.how, **changes))

    def with_states(self, states: torch.Tensor) -> Setting:
        """The same, given other hidden states."""
        return replace(self, inputs=replace(self.inputs, states=states))


def setting(draft: Any, target: TargetStates, ids: tuple[int, ...]) -> Setting:
    """The draft, trained on the hidden states `ids`, as it was trained to be run."""
    states = torch.cat([target.states[index] for index in ids], -1)
    return Setting(
        draft=draft,
        inputs=Inputs(tokens=target.tokens[1:], states=states),
        how=conventions(draft),
        target=target,
        ids=ids,
    )


def outcomes(trained: Setting, steps: int) -> Iterator[tuple[str, Outcome]]:
    """Name and outcome of every hypothesis that can be told from training for this draft."""
    for name, changed in itertools.chain(
        _inputs(trained), _fusion(trained), _layer(trained), _rotation(trained), _running(trained)
    ):
        yield name, chain(changed.draft, changed.inputs, steps, changed.how)


def _inputs(trained: Setting) -> Iterator[tuple[str, Setting]]:
    """Other hidden states or tokens are given."""
    target, ids = trained.target, trained.ids
    for name, shift in (("taps-one-layer-early", -1), ("taps-one-layer-late", 1)):
        shifted = [index + shift for index in ids]
        if min(shifted) >= 0 and max(shifted) < len(target.states):
            yield name, trained.with_states(torch.cat([target.states[index] for index in shifted], -1))
    chunks = trained.inputs.states.chunk(len(ids), -1)
    for name, order in _orders(len(ids)):
        yield name, trained.with_states(torch.cat([chunks[place] for place in order], -1))
    yield "state-normed", trained.with_states(torch.cat([target.normed[index] for index in ids], -1))
    yield "state-without-residual", trained.with_states(torch.cat([target.bare[index] for index in ids], -1))
    unshifted = replace(trained.inputs, tokens=target.tokens[:-1])
    yield "tokens-not-shifted", replace(trained, inputs=unshifted)
    if not torch.equal(trained.draft.embed_tokens.weight, target.embedding):
        owned = functools.partial(_set_embedding, embedding=target.embedding)
        yield "embedding-replaced", trained.with_draft(owned)


def _orders(chunks: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names of wrong orders of the chunks that `fc` reads, and the orders."""
    places = tuple(range(chunks))
    orders = itertools.permutations(places) if chunks <= MOST_PERMUTED else [places[::-1]]
    for order in orders:
        if order != places:
            yield f"fc-chunks-permuted:{','.join(map(str, order))}", order


def _fusion(trained: Setting) -> Iterator[tuple[str, Setting]]:
    """The norms before `fc`."""
    draft, norm = trained.draft, type(trained.draft.norm)
    epsilon, taps = draft.norm.variance_epsilon, len(trained.ids)
    if draft.input_norm is not None:
        yield "input-norm-missing", trained.with_draft(lambda draft: setattr(draft, "input_norm", None))
    else:
        one = norm(draft.fc.in_features, eps=epsilon)
        yield "input-norm-added", trained.with_draft(lambda draft: setattr(draft, "input_norm", one))
    if draft.fc_norm is not None:
        yield "fc-norm-missing", trained.with_draft(lambda draft: setattr(draft, "fc_norm", None))
    else:
        each = torch.nn.ModuleList(norm(draft.fc.in_features // taps, eps=epsilon) for _ in range(taps))
        yield "fc-norm-added", trained.with_draft(lambda draft: setattr(draft, "fc_norm", each))
    if draft.input_norm is not None or draft.fc_norm is not None:
        for name, order in _orders(taps):
            permuted = functools.partial(_permute_fc, order=order)
            yield f"{name} after the norm", trained.with_draft(permuted)


def _layer(trained: Setting) -> Iterator[tuple[str, Setting]]:
    """What a decoder layer does."""
    draft, first = trained.draft, trained.draft.layers[0]
    side = "before" if first.norm_before_residual else "after"

    def other_side(draft: Any) -> None:
        draft.layers[0].norm_before_residual = not first.norm_before_residual

    yield f"residual-{side}-norm", trained.with_draft(other_side)
    yield "norms-swapped", trained.with_draft(_swap_norms)
    yield "halves-swapped", trained.with_draft(_swap_halves)
    yield "k-and-v-swapped", trained.with_draft(_each_attention(_swap_k_and_v))
    yield "gate-and-up-swapped", trained.with_draft(_swap_mlp)
    if hasattr(first.self_attn, "q_norm"):
        yield "qk-norm-missing", trained.with_draft(_each_attention(_without_qk_norm))
    if first.self_attn.q_proj.bias is not None:
        yield "attention-bias-dropped", trained.with_draft(_each_attention(_without_biases))
        kept = functools.partial(_without_biases, keep="o_proj")
        yield "attention-bias-dropped:q, k and v", trained.with_draft(_each_attention(kept))
    width = trained.draft.hidden_size // draft.config.transformer_layer_config.num_attention_heads
    for head_dim in sorted({width, 2 * first.self_attn.head_dim} - {first.self_attn.head_dim}):
        scaled = functools.partial(_set_scale, scale=head_dim**-0.5)
        yield f"scale-differs:head_dim {head_dim}", trained.with_draft(_each_attention(scaled))
    for epsilon in EPSILONS:
        if epsilon != draft.norm.variance_epsilon:
            other = functools.partial(_set_epsilon, epsilon=epsilon)
            yield f"norm-epsilon-differs:{epsilon:g}", trained.with_draft(other)
    if len(draft.layers) > 1:
        yield "later-layers-skipped", trained.with_draft(_only_first_layer)


def _rotation(trained: Setting) -> Iterator[tuple[str, Setting]]:
    """The rotary embedding, computed by the library's own class from another config."""
    config = trained.draft.config.transformer_layer_config
    rope = transformers_target.rope_parameters(config)
    default = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    if rope["rope_theta"] != ROPE_BASE:
        yield "rope-base-default", _rotated(trained, {**rope, "rope_theta": ROPE_BASE})
    if rope["rope_type"] != "default":
        yield "rope-unscaled", _rotated(trained, default)
    yield "rope-pairs-differ", trained.with_draft(_each_attention(_interleave))


def _running(trained: Setting) -> Iterator[tuple[str, Setting]]:
    """How the chain is run."""
    normed = trained.how.feed_normed
    name = "recurrent-not-normed" if normed else "recurrent-normed"
    yield name, trained.with_how(feed_normed=not normed)
    yield "final-norm-missing", trained.with_how(score_normed=False)
    yield "feedback-one-step-late", trained.with_how(feed_latest=False)
    yield "positions-one-late", trained.with_how(first_jump=1)
    yield "positions-standing", trained.with_how(position_after=lambda position: position)
    windowed = bool(trained.draft.sliding_window_indices)
    if windowed and trained.draft.sliding_window < len(trained.inputs.tokens):  # else nothing can be told
        yield "window-ignored", trained.with_how(windowed=False)
        yield "window-standing", trained.with_how(window_moves=False)
    if trained.draft.d2t is not None:
        for name, draft_ids in (("d2t-read-as-absolute", 0), ("d2t-holds-ids", 2)):
            mapped = functools.partial(_offset_and, draft_ids=draft_ids)
            yield name, trained.with_how(target_id=mapped)
        yield "d2t-ignored", trained.with_how(target_id=lambda _draft, token: token)


def _offset_and(draft: Any, token: int, *, draft_ids: int) -> int:
    """The entry of d2t and a number of times the draft id; once is right."""
    return int(draft.d2t[token]) + draft_ids * token


# ------------------------------------------------------------------------- changes


def _exchange(module: Any, one: str, other: str) -> None:
    """Swap two submodules."""
    first, second = getattr(module, one), getattr(module, other)
    setattr(module, one, second)
    setattr(module, other, first)


def _each_attention(change: Callable[..., object]) -> Callable[[Any], None]:
    def apply(draft: Any) -> None:
        for layer in draft.layers:
            change(layer.self_attn)

    return apply


def _swap_halves(draft: Any) -> None:
    """Embedding and state reach the first attention in the other order."""
    attention = draft.layers[0].self_attn
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight.copy_(projection.weight.roll(projection.in_features // 2, -1))


def _permute_fc(draft: Any, *, order: tuple[int, ...]) -> None:
    chunks = draft.fc.weight.chunk(len(order), -1)
    draft.fc.weight.copy_(torch.cat([chunks[place] for place in order], -1))


def _only_first_layer(draft: Any) -> None:
    draft.layers = draft.layers[:1]


def _swap_norms(draft: Any) -> None:
    _exchange(draft.layers[0], "input_layernorm", "hidden_norm")


def _swap_k_and_v(attention: Any) -> None:
    _exchange(attention, "k_proj", "v_proj")


def _swap_mlp(draft: Any) -> None:
    for layer in draft.layers:
        _exchange(layer.mlp, "gate_proj", "up_proj")


def _set_scale(attention: Any, scale: float) -> None:
    attention.scaling = scale


def _without_qk_norm(attention: Any) -> None:
    attention.q_norm = attention.k_norm = torch.nn.Identity()


def _without_biases(attention: Any, *, keep: str = "") -> None:
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        if name != keep:
            getattr(attention, name).bias.zero_()


def _set_embedding(draft: Any, embedding: torch.Tensor) -> None:
    draft.embed_tokens.weight.copy_(embedding)


def _set_epsilon(draft: Any, epsilon: float) -> None:
    for module in draft.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = epsilon


def _interleave(attention: Any) -> None:
    """Neighbouring dimensions rotate together.

    Scores do not change if queries and keys are permuted alike, so this is the same as rotating halves with
    the rows of both projections in another order.
    """
    size = attention.head_dim
    order = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])
    for projection in (attention.q_proj, attention.k_proj):
        rows = projection.weight.unflatten(0, (-1, size))[:, order].flatten(0, 1)
        projection.weight.copy_(rows)
        if projection.bias is not None:
            projection.bias.copy_(projection.bias.unflatten(0, (-1, size))[:, order].flatten())
    for norm in (getattr(attention, name, None) for name in ("q_norm", "k_norm")):
        if norm is not None:
            norm.weight.copy_(norm.weight[order])


def _rotated(trained: Setting, rope: dict[str, Any]) -> Setting:
    config = copy.deepcopy(trained.draft.config.transformer_layer_config)
    for key, value in transformers_target.rope(rope).items():
        setattr(config, key, value)
    rotary = type(trained.draft.rotary_emb)(config)
    return trained.with_draft(lambda draft: setattr(draft, "rotary_emb", rotary))
