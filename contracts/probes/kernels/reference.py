"""Plain torch for the compiled CPU kernels that prefill, decode and a draft chain call.

sglang's CPU path calls them through `sgl_kernel`, which PyPI has for GPUs only. Each function has the
signature and the effects of its namesake (sgl-kernel/csrc/cpu in sglang 0.5.23) for the arguments that this
path uses, and raises `OutOfReach` for those that it does not. tests/test_kernels.py compares each with an
independent reference.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from contracts.probes.kernels import linear_attention, verification
from contracts.probes.kernels.columns import columns
from contracts.probes.stream import OutOfReach

KNOWN_VALUES: dict[str, Any] = {
    "k_scale": 1.0,
    "v_scale": 1.0,
    "logit_cap": 0.0,
    "cross_attention": False,
    "encoder_lens": None,
}
"""The only values of these arguments that the stand-ins know."""


def extend_attention_cpu(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    k_cache: torch.Tensor, v_cache: torch.Tensor, k_scale: float, v_scale: float,
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor, extend_start_loc: torch.Tensor, max_extend_len: int,
    scale: float, logit_cap: float, cross_attention: bool = False, window: int = 0,
    encoder_lens: Any = None, sinks: Any = None, tree_mask: Any = None, is_causal: bool = True,
) -> None:  # fmt: skip
    """Attention of new tokens on a cached prefix and on themselves; writes `out`.

    New queries are [tokens, heads, head_dim], as `out` is; new keys and values [tokens, kv_heads, head_dim]
    or flattened, or None where the caches hold them already. Of the caches, [slots, kv_heads, head_dim], the
    slots `req_to_token[request, :length]` are a request's, its new tokens included in the length. `window`
    counts the positions that each token attends to, its own included; 0 is all of them. `sinks` [heads] are
    scores that take part in the softmax and attend to nothing. `tree_mask` holds new x new truths per
    request, one after the other: which new token attends to which, in place of the causal order among them. A
    window knows chains only: in a tree that branches, places are no positions.

    Multi-head latent attention hands over keys and values of its heads where there is no prefix, and
    otherwise latent ones, of which the values are a part of the keys.
    """
    _only_known(k_scale=k_scale, v_scale=v_scale, logit_cap=logit_cap, cross_attention=cross_attention,
                encoder_lens=encoder_lens)  # fmt: skip
    tree = None if tree_mask is None else tree_mask.flatten()
    rows = zip(req_pool_indices.tolist(), seq_lens.tolist(), extend_seq_lens.tolist(),
               extend_start_loc.tolist(), strict=True)  # fmt: skip
    for request, length, new, start in rows:
        fresh = slice(start, start + new)
        slots = req_to_token[request, :length].long()
        keys, values = (
            _with_new(cache, slots, item, fresh, tokens=len(q))
            for cache, item in ((k_cache, k), (v_cache, v))
        )
        queries = torch.arange(length - new, length)[:, None]
        visible = torch.arange(length)[None] <= queries if is_causal else torch.ones(new, length).bool()
        if tree is not None:
            mask = tree[: new * new].view(new, new).bool()
            tree = tree[new * new :]
            if window > 0 and not torch.equal(mask, visible[:, length - new :]):
                raise OutOfReach(
                    "the attention kernel was given a tree that branches and a window, which have no "
                    "stand-in "
                    "together"
                )
            visible[:, length - new :] = mask
        if window > 0:
            visible &= torch.arange(length)[None] > queries - window
        out[fresh] = attend(q[fresh], keys, values, visible, scale, sinks)


def _with_new(
    cache: torch.Tensor, slots: torch.Tensor, new: torch.Tensor | None, fresh: slice, *, tokens: int
) -> torch.Tensor:
    """Keys or values of one request: those of its prefix from the cache, then the new ones."""
    if new is None:
        return cache[slots]
    heads = new if new.dim() == 3 else new.reshape(tokens, -1, cache.shape[-1])
    rows = heads[fresh]
    prefix = slots[: len(slots) - len(rows)]
    if not len(prefix):
        return rows
    if rows.shape[1:] != cache.shape[1:]:
        raise OutOfReach("the attention kernel was given heads of their own beside latent ones in the cache")
    return torch.cat([cache[prefix], rows])


def decode_attention_cpu(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, k_scale: float, v_scale: float,
    out: torch.Tensor, k: torch.Tensor, v: torch.Tensor, loc: torch.Tensor, attn_logits: torch.Tensor,
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor,
    scale: float, logit_cap: float, cross_attention: bool = False, window: int = 0,
    encoder_lens: Any = None, sinks: Any = None,
) -> None:  # fmt: skip
    """Attention of one new token per request, whose key and value it first writes to the cache at `loc`.

    Of multi-head latent attention the values are a part of the keys, and are written with them.
    """
    _only_known(k_scale=k_scale, v_scale=v_scale, logit_cap=logit_cap, cross_attention=cross_attention,
                encoder_lens=encoder_lens)  # fmt: skip
    if k is not None:
        k_cache[loc] = k.reshape(-1, *k_cache.shape[1:])
        if v_cache.data_ptr() != k_cache.data_ptr():
            v_cache[loc] = v.reshape(-1, *v_cache.shape[1:])
    for row, (request, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        slots = req_to_token[request, :length].long()
        if window > 0:
            slots = slots[-window:]
        visible = torch.ones(1, len(slots), dtype=torch.bool)
        out[row : row + 1] = attend(q[row : row + 1], k_cache[slots], v_cache[slots], visible, scale, sinks)


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor,
    topk: int, num_steps: int, pool_len: int,
) -> torch.Tensor:  # fmt: skip
    """Cache slots of each draft branch: the prefix, then the branch's own steps; [requests * topk, pool_len].

    A request's draft slots follow its prefix, branch by branch.
    """
    table = req_to_token.new_zeros(len(seq_lens) * topk, pool_len)
    for place, (request, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        for branch in range(topk):
            row, start = table[place * topk + branch], length + branch * num_steps
            row[:length] = req_to_token[request, :length]
            row[length : length + num_steps] = req_to_token[request, start : start + num_steps]
    return table


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor, req_to_token: torch.Tensor, seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor, pool_len: int, topk: int, num_steps: int,
) -> None:  # fmt: skip
    """Write to `out_cache_loc` the slots that follow each request's prefix, `topk * num_steps` of them."""
    new = topk * num_steps
    for place, (request, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        slots = req_to_token[request, length : length + new]
        out_cache_loc[place * new : (place + 1) * new] = slots.to(out_cache_loc.dtype)


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor, req_to_token: torch.Tensor, start: torch.Tensor, end: torch.Tensor,
    out_cache_loc: torch.Tensor, pool_len: int,
) -> None:  # fmt: skip
    """Write the new slots in `out_cache_loc`, request by request, to columns `start` to `end` of its row."""
    for row, new, place in columns(req_pool_indices, start, end):
        req_to_token[row, new] = out_cache_loc[place].to(req_to_token.dtype)


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """In each buffer, copy the rows at `src_loc` to `tgt_loc`; all are read before any is written.

    A buffer is given by its address and the bytes of a row.
    """
    for base, size in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + place * size, size) for place in src_loc.tolist()]
        for place, row in zip(tgt_loc.tolist(), rows, strict=True):
            ctypes.memmove(base + place * size, row, size)


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    visible: torch.Tensor,
    scale: float,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Softmax attention in float32, [rows, heads, head_dim]; groups of query heads share a key head."""
    groups = q.shape[1] // k.shape[1]
    keys, values = (item.float().repeat_interleave(groups, 1) for item in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.float(), keys) * scale
    scores = scores.masked_fill(~visible, float("-inf"))
    if sinks is not None:
        column = sinks.float().view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        scores = torch.cat([scores, column], -1)
    weights = scores.softmax(-1)[..., : len(k)]
    return torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)


def _only_known(**arguments: Any) -> None:
    for name, value in arguments.items():
        known = KNOWN_VALUES[name]
        if value is not known and (known is None or value != known):
            raise OutOfReach(f"the attention kernel was given {name}={value!r}, which has no stand-in")


KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        extend_attention_cpu,
        decode_attention_cpu,
        build_draft_decode_metadata_cpu,
        assign_draft_cache_locs_contiguous_cpu,
        assign_req_to_token_pool_cpu,
        copy_all_layer_kv_cache_cpu,
        *verification.KERNELS,
        *linear_attention.KERNELS,
    )
}
