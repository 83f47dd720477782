"""Attention in plain torch for sglang releases that run EAGLE-3 on a GPU only, for their Triton backend.

Those releases know no attention backend that drafts and verifies on a CPU. This one reads the same batches,
and the same caches at the same slots, as the Triton backend whose place it takes; tests/test_kernels.py holds
it to the kernels of `reference`, which are held to sglang's own. The layout of a draft's slots is sglang's
with a page size of one: behind a request's prefix, branch by branch, one slot per step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from contracts.probes.kernels.reference import attend
from contracts.probes.stream import OutOfReach


def rows(
    batch: Any, req_to_token: torch.Tensor, tokens: int, step: int | None, steps: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Cache slots and visibility [new tokens, slots] of each request, or of each of its draft branches.

    Args:
        batch: the library's ForwardBatch, of `tokens` new tokens, which are in the cache already.
        req_to_token: cache slot of each position, by request.
        tokens: new tokens of all requests.
        step: number of the chained draft step that the tokens are of; None: they are no draft's.
        steps: draft tokens to a branch.

    """
    requests, lengths = batch.req_pool_indices.tolist(), batch.seq_lens.tolist()
    if batch.forward_mode.is_decode_or_idle():
        branches = tokens // max(1, len(requests))
        for request, length in zip(requests, lengths, strict=True):
            for branch in range(branches):
                slots = req_to_token[request, :length]
                if step is not None:
                    first = length + branch * steps
                    slots = torch.cat([slots, req_to_token[request, first : first + step + 1]])
                yield slots.long(), torch.ones(1, len(slots), dtype=torch.bool)
        return
    verifying = batch.forward_mode.is_target_verify()
    mask = batch.spec_info.custom_mask if verifying else None
    tree_alone = mask is not None and mask.numel() == tokens * batch.spec_info.draft_token_num
    for place, (request, length) in enumerate(zip(requests, lengths, strict=True)):
        if verifying:
            new = batch.spec_info.draft_token_num
            total = length + new
        else:
            new = _new_tokens(batch, place)
            total = length
        visible = torch.ones(new, total, dtype=torch.bool).tril(total - new)
        if mask is not None:
            width = new if tree_alone else total
            visible[:, total - width :] = mask[: new * width].view(new, width)
            mask = mask[new * width :]
        yield req_to_token[request, :total].long(), visible


def _new_tokens(batch: Any, place: int) -> int:
    if batch.extend_seq_lens is not None:
        return int(batch.extend_seq_lens[place])
    return int(batch.spec_info.accept_length[place]) + 1  # a draft's own pass over what was accepted


def make_classes() -> tuple[type, type]:
    """The backend, and the one for chained draft steps, as subclasses of what the library asks for."""
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
    from sglang.srt.mem_cache import memory_pool

    def places(locations: torch.Tensor) -> Any:
        """Where to write, as the cache of this release is told."""
        wrapped = getattr(memory_pool, "KVWriteLoc", None)
        return wrapped(locations, None) if wrapped else locations

    class ReferenceBackend(AttentionBackend):
        """One attention for prefill, decode, verification and the draft's steps."""

        def __init__(self, runner: Any, *_: Any, step: int | None = None, steps: int = 0, **__: Any) -> None:
            super().__init__()
            self.runner, self.step, self.steps = runner, step, steps
            self.device = runner.device
            self.max_context_len = runner.model_config.context_len

        @property
        def token_to_kv_pool(self) -> Any:
            """The cache, which some classes of targets ask their backend for."""
            return self.runner.token_to_kv_pool

        @property
        def req_to_token_pool(self) -> Any:
            """The table of cache slots, likewise."""
            return self.runner.req_to_token_pool

        def init_forward_metadata(self, forward_batch: Any) -> None:
            """Nothing is prepared: each call reads the batch."""

        def support_triton(self) -> bool:
            """The library's small index kernels are Triton's, interpreted."""
            return True

        def get_verify_buffers_to_fill_after_draft(self) -> list[None]:
            """No buffers."""
            return [None, None]

        def update_verify_buffers_to_fill_after_draft(self, *_: Any, **__: Any) -> None:
            """No buffers."""

        def run(
            self, q: Any, k: Any, v: Any, layer: Any, batch: Any, save_kv_cache: bool = True,
            sinks: Any = None, q_rope: Any = None, k_rope: Any = None, **_: Any,
        ) -> torch.Tensor:  # fmt: skip
            """Attention of the new tokens, whose keys and values are first written to the cache.

            Multi-head latent attention hands over its rotated part apart (`q_rope`, `k_rope`), and where
            there is no prefix keys and values of its heads, which are not written.
            """
            pool, heads, width = self.runner.token_to_kv_pool, layer.tp_q_head_num, layer.qk_head_dim
            if q_rope is not None:
                q = torch.cat([item.reshape(len(q_rope), heads, -1) for item in (q, q_rope)], -1)
                k = torch.cat(
                    [item.reshape(len(k_rope), layer.tp_k_head_num, -1) for item in (k, k_rope)], -1
                )
            if k is not None:
                keys = k.reshape(-1, layer.tp_k_head_num, width)
                values = v.reshape(-1, layer.tp_v_head_num, layer.v_head_dim)
            if k is not None and save_kv_cache:
                pool.set_kv_buffer(layer, places(batch.out_cache_loc), keys, values)
            own = k is not None and not save_kv_cache
            if not own:
                keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
            queries, begin, window = q.reshape(-1, heads, width), 0, layer.sliding_window_size
            out = queries.new_empty(len(queries), heads, layer.v_head_dim)
            table = self.runner.req_to_token_pool.req_to_token
            for slots, visible in rows(batch, table, len(queries), self.step, self.steps):
                if window is not None and window > -1:
                    last = torch.arange(len(slots) - len(visible), len(slots))[:, None]
                    visible &= torch.arange(len(slots))[None] >= last - window
                new = slice(begin, begin + len(visible))
                if own and len(slots) > len(visible):
                    raise OutOfReach(
                        "the attention backend was given heads of their own beside a cached prefix"
                    )
                at: Any = new if own else slots
                out[new] = attend(queries[new], keys[at], values[at], visible, layer.scaling, sinks)
                begin = new.stop
            return out.view(len(queries), -1)

        forward_decode = forward_extend = run

    class ReferenceSteps:
        """A backend for each chained step of a draft."""

        def __init__(self, runner: Any, _topk: int, steps: int) -> None:
            self.attn_backends = [ReferenceBackend(runner, step=step, steps=steps) for step in range(steps)]

        def init_forward_metadata(self, forward_batch: Any) -> None:
            """Nothing is prepared."""

    return ReferenceBackend, ReferenceSteps


def install() -> tuple[str, ...]:
    """Put it in the place of the Triton backend; says so."""
    from sglang.srt.layers.attention import triton_backend

    backend, steps = make_classes()
    triton_backend.TritonAttnBackend, triton_backend.TritonMultiStepDraftBackend = backend, steps
    return ("the triton attention backend, in plain torch",)
