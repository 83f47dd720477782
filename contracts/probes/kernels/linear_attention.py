"""Plain torch for the kernels of gated delta networks (linear attention of Qwen3-Next and Qwen3.5).

sglang's CPU path calls them through `sgl_kernel`, which PyPI has for GPUs only. Each function has the
signature and the effects of its Triton twin (sglang.kernels.ops in 0.5.23), verification of a chain of draft
tokens included, and raises `OutOfReach` for what it does not do. Shapes:

    T tokens of N requests, one behind the other, request n from `query_start_loc[n]` to the next;
    H heads of queries and keys of width K, HV of values of width V, groups of which share a head of keys;
    a state of HV x V x K numbers per request, in float32; a window of the last W - 1 inputs per request.

tests/test_kernels.py compares each with an independent reference: gates, convolutions, the recurrent rule
and what cuts projections apart with sglang's Triton twins, the rule over prompts (whose twin takes no
float32) and the norms with transformers' torch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional

from contracts.probes.stream import OutOfReach

SOFTPLUS = (1.0, 20.0)
"""Its steepness, and from where on it is the identity: torch's own."""
EPSILON = 1e-6
"""Beside the sum of squares that queries and keys are divided by."""


def fused_gdn_gating_cpu(
    A_log: torch.Tensor,  # noqa: N803 (the library's name)
    a: torch.Tensor,
    b: torch.Tensor,
    dt_bias: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithm of how much of the state stays, and how much of the new value enters; each [1, T, HV]."""
    decay = -A_log.float().exp() * functional.softplus(a.float() + dt_bias.float())
    return decay[None], b.float().sigmoid()[None]


def causal_conv1d_fn_cpu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, conv_states: torch.Tensor,
    query_start_loc: torch.Tensor, seq_lens_cpu: Any, cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor, activation: str | None = "silu", pad_slot_id: int = -1,
    block_table: Any = None,
) -> torch.Tensor:  # fmt: skip
    """Convolution of each channel over the tokens before it, [channels, T]; `weight` is [channels, W].

    The window of request n, [channels, W - 1], is `conv_states[cache_indices[n]]`, and is brought forward;
    `has_initial_state[n]` tells whether there is anything in it.
    """
    _unused("the convolution", block_table=block_table)
    reach = weight.shape[-1] - 1
    out = torch.zeros_like(x)
    for number, (start, end) in enumerate(pairwise(query_start_loc.tolist())):
        window = conv_states[_slot(cache_indices, number)]
        kept = window if has_initial_state[number] else torch.zeros_like(window)
        seen = torch.cat([kept[:, :reach], x[:, start:end]], -1)
        out[:, start:end] = _convolved(seen, weight, bias, activation)
        window[:, :reach] = seen[:, seen.shape[-1] - reach :]
    return out


def causal_conv1d_update_cpu(
    x: torch.Tensor, conv_state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None,
    activation: str | None = None, cache_seqlens: Any = None, *, conv_state_indices: torch.Tensor,
    num_accept_tokens: Any = None, intermediate_conv_window: torch.Tensor | None = None,
    intermediate_state_indices: torch.Tensor | None = None, retrieve_next_token: Any = None,
    retrieve_next_sibling: Any = None, retrieve_parent_token: Any = None, pad_slot_id: int = -1,
) -> torch.Tensor:  # fmt: skip
    """The same for one new token per request, [N, channels], or as many for each, [N, channels, tokens].

    `intermediate_conv_window`, [slots, tokens, channels, W - 1], takes the window after each token, by
    `intermediate_state_indices`, so that those of rejected tokens can be undone.
    """
    _unused(
        "the convolution",
        cache_seqlens=cache_seqlens,
        num_accept_tokens=num_accept_tokens,
        retrieve_next_token=retrieve_next_token,
        retrieve_next_sibling=retrieve_next_sibling,
        retrieve_parent_token=retrieve_parent_token,
    )
    reach = weight.shape[-1] - 1
    tokens = x if x.dim() == 3 else x[..., None]
    out = torch.zeros_like(tokens)
    for number, new in enumerate(tokens):
        window = conv_state[_slot(conv_state_indices, number)]
        seen = torch.cat([window[:, :reach], new], -1)
        out[number] = _convolved(seen, weight, bias, activation)
        window[:, :reach] = seen[:, seen.shape[-1] - reach :]
        if intermediate_conv_window is not None and intermediate_state_indices is not None:
            kept = intermediate_conv_window[_slot(intermediate_state_indices, number)]
            for step in range(new.shape[-1]):
                kept[step] = seen[:, step + 1 : step + 1 + reach]
    return out.view(x.shape)


def _convolved(
    seen: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None
) -> torch.Tensor:
    """Each channel of [channels, W - 1 + tokens] by its own weights."""
    if activation not in ("silu", "swish", None):
        raise OutOfReach(f"the convolution was given activation={activation!r}, which has no stand-in")
    wide = None if bias is None else bias.float()
    out = functional.conv1d(seen.float()[None], weight.float()[:, None], wide, groups=len(weight))[0]
    return (out if activation is None else functional.silu(out)).to(seen.dtype)


def _slot(indices: torch.Tensor, number: int) -> int:
    """Where the state of a request is."""
    slot = int(indices[number])
    if slot < 0:
        raise OutOfReach("linear attention was given a request without a state, which has no stand-in")
    return slot


def _unused(kernel: str, **arguments: Any) -> None:
    """Raise `OutOfReach` for what the kernel is given and does not know."""
    given = [name for name, value in arguments.items() if value is not None and value is not False]
    if given:
        raise OutOfReach(f"{kernel} was given {', '.join(given)}, which has no stand-in")


def chunk_gated_delta_rule_cpu(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor,
    initial_state: torch.Tensor, cu_seqlens: torch.Tensor, head_first: bool = False,
    use_qk_l2norm_in_kernel: bool = False, initial_state_indices: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None, None]:  # fmt: skip
    """What each token reads from its request's state, [1, T, HV, V]; the states are brought forward.

    q, k are [1, T, H, K], v [1, T, HV, V]; `g`, `beta` [1, T, HV] are those of `fused_gdn_gating_cpu`. The
    states of the requests are the entries `initial_state_indices` of `initial_state`; without them
    `initial_state` is theirs, [N, HV, V, K], and the states are returned instead.
    """
    _unused("the delta rule", head_first=head_first, scale=scale)
    out, states = torch.zeros_like(v), initial_state
    if initial_state_indices is None:
        states = initial_state.clone()
    for number, (start, end) in enumerate(pairwise(cu_seqlens.tolist())):
        slot = number if initial_state_indices is None else _slot(initial_state_indices, number)
        state = states[slot].float()
        for token in range(start, end):
            state, out[0, token] = _step(state, token, q, k, v, g, beta, use_qk_l2norm_in_kernel)
        states[slot] = state.to(states.dtype)
    return out, states if initial_state_indices is None else None, None


def fused_sigmoid_gating_delta_rule_update_cpu(
    A_log: torch.Tensor,  # noqa: N803 (the library's name)
    dt_bias: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    a: torch.Tensor, b: torch.Tensor, initial_state_source: torch.Tensor,
    initial_state_indices: torch.Tensor, cu_seqlens: torch.Tensor, use_qk_l2norm_in_kernel: bool = False,
    softplus_beta: float = 1.0, softplus_threshold: float = 20.0, is_kda: bool = False,
    disable_state_update: bool = False, intermediate_states_buffer: torch.Tensor | None = None,
    intermediate_state_indices: torch.Tensor | None = None, cache_steps: int | None = None,
    retrieve_parent_token: Any = None, cache_ring: bool = False, scale: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Gating and delta rule of one new token per request, or of a chain of draft tokens for each.

    `disable_state_update` leaves the states as they are, and `intermediate_states_buffer`, [slots, tokens,
    HV, V, K], takes the state after each token, by `intermediate_state_indices`.
    """
    _unused(
        "the delta rule",
        is_kda=is_kda,
        cache_ring=cache_ring,
        retrieve_parent_token=retrieve_parent_token,
        scale=scale,
        softplus=(softplus_beta, softplus_threshold) != SOFTPLUS,
    )
    decay, share = fused_gdn_gating_cpu(A_log, a.reshape(-1, len(A_log)), b.reshape(-1, len(A_log)), dt_bias)
    out = torch.zeros_like(v)
    for number, (start, end) in enumerate(pairwise(cu_seqlens.tolist())):
        slot = _slot(initial_state_indices, number)
        state = initial_state_source[slot].float()
        for token in range(start, end):
            state, out[0, token] = _step(state, token, q, k, v, decay, share, use_qk_l2norm_in_kernel)
            if intermediate_states_buffer is not None and intermediate_state_indices is not None:
                kept = intermediate_states_buffer[_slot(intermediate_state_indices, number)]
                kept[token - start] = state.to(kept.dtype)
        if not disable_state_update:
            initial_state_source[slot] = state.to(initial_state_source.dtype)
    return out


def _step(
    state: torch.Tensor, token: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor,
    beta: torch.Tensor, normed: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The state after one of the tokens, [HV, V, K], and what it reads from it, [HV, V]."""
    value, groups = v[0, token], v.shape[2] // k.shape[2]
    query, key = (item[0, token].float().repeat_interleave(groups, 0) for item in (q, k))
    if normed:
        query, key = (x * (x.square().sum(-1, keepdim=True) + EPSILON).rsqrt() for x in (query, key))
    state = state * g[0, token].exp()[:, None, None]
    held = torch.einsum("hvk,hk->hv", state, key)
    state = state + torch.einsum("hv,hk->hvk", (value.float() - held) * beta[0, token][:, None], key)
    read = torch.einsum("hvk,hk->hv", state, query * q.shape[-1] ** -0.5)
    return state, read.to(v.dtype)


def fused_rmsnorm_gated_cpu(
    x: torch.Tensor, weight: torch.Tensor, gate: torch.Tensor, eps: float
) -> torch.Tensor:
    """RMSNorm of the rows of `x`, times SiLU of those of `gate`."""
    wide = x.float()
    normed = wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight.float()
    return (normed * functional.silu(gate.float()).view(x.shape)).to(x.dtype)


def fused_sigmoid_mul_cpu(x: torch.Tensor, gate: torch.Tensor, inplace: bool = True) -> torch.Tensor:
    """Multiply `x` by the sigmoid of `gate`: the gate of the layers with softmax attention."""
    factor = gate.float().sigmoid().view(x.shape).to(x.dtype)
    return x.mul_(factor) if inplace else x * factor


def fused_qk_gemma_rmsnorm_cpu(
    q: torch.Tensor, k: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor, eps: float,
    head_dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """RMSNorm of each head of the queries and of the keys; a weight of 0 leaves the size as it is."""

    def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, head_dim).float()
        scale = (rows.square().mean(-1, keepdim=True) + eps).rsqrt()
        return (rows * scale * (weight.float() + 1)).to(x.dtype)

    return normed(q, q_weight), normed(k, k_weight)


def fused_qk_gemma_rmsnorm_with_gate_cpu(
    q_gate: torch.Tensor, k: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor, eps: float,
    head_dim: int, num_heads: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """The same where a gate stands behind each head of the queries; queries, keys and gates, head by head."""
    q, gate = q_gate.reshape(-1, num_heads, 2 * head_dim).chunk(2, dim=-1)
    queries, keys = fused_qk_gemma_rmsnorm_cpu(q, k, q_weight, k_weight, eps, head_dim)
    return queries, keys, gate.reshape(-1, head_dim)


def fused_qkvzba_split_reshape_cat_contiguous_cpu(
    mixed_qkvz: torch.Tensor, mixed_ba: torch.Tensor, num_heads_qk: int, num_heads_v: int, head_qk: int,
    head_v: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Queries, keys and values in one, [T, channels]; the gate, [T, HV, V]; b and a, [T, HV].

    `mixed_qkvz` has them one behind the other, and the gate last; `mixed_ba` b before a.
    """
    channels = 2 * num_heads_qk * head_qk + num_heads_v * head_v
    mixed, gate = mixed_qkvz.split([channels, num_heads_v * head_v], dim=-1)
    b, a = mixed_ba.chunk(2, dim=-1)
    return mixed.contiguous(), gate.reshape(-1, num_heads_v, head_v), b.contiguous(), a.contiguous()


KERNELS = (
    fused_qk_gemma_rmsnorm_cpu,
    fused_qk_gemma_rmsnorm_with_gate_cpu,
    fused_qkvzba_split_reshape_cat_contiguous_cpu,
    fused_sigmoid_mul_cpu,
    fused_rmsnorm_gated_cpu,
    fused_gdn_gating_cpu,
    causal_conv1d_fn_cpu,
    causal_conv1d_update_cpu,
    chunk_gated_delta_rule_cpu,
    fused_sigmoid_gating_delta_rule_update_cpu,
)
