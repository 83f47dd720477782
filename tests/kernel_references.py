"""Programs that run each stand-in beside an independent reference: sglang's torch backend, or a Triton twin.

Each is run by an interpreter that has sglang, and prints "alike".
"""

from __future__ import annotations

from tests import linear_attention_references

_STAND_INS = """
import torch
from contracts.probes.kernels import sgl_kernel, torchvision_ops
torchvision_ops.install()
sgl_kernel.install()
"""
_INTERPRETED = """
import os
os.environ.update(TRITON_INTERPRET="1", SGLANG_USE_CPU_ENGINE="1", TORCHDYNAMO_DISABLE="1")
"""
"""Triton's kernels run on a CPU, by its interpreter."""

_ATTENTION = """
from contracts.probes.kernels import reference
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
backend = TorchNativeAttnBackend.__new__(TorchNativeAttnBackend)
torch.manual_seed(0)

def close(ours, theirs):
    assert torch.allclose(ours, theirs, atol=2e-6), (ours - theirs).abs().max()

for trial in range(24):
    heads, kv_heads, dim = [(4, 2, 16), (4, 4, 8), (6, 1, 32)][trial % 3]
    window = [0, 1, 3, 50][trial % 4]
    theirs_window = window - 1 if window else None
    requests = int(torch.randint(1, 4, ()))
    prefix = torch.randint(0 if trial % 2 else 1, 9, (requests,))
    new = torch.randint(1, 7, (requests,))
    length = prefix + new
    slots = torch.randperm(100)
    table = torch.zeros(5, 40, dtype=torch.int32)
    rows = torch.randperm(5)[:requests]
    for row, total in zip(rows.tolist(), length.tolist()):
        table[row, :total], slots = slots[:total], slots[total:]
    k_cache, v_cache = torch.randn(100, kv_heads, dim), torch.randn(100, kv_heads, dim)
    tokens = int(new.sum())
    q = torch.randn(tokens, heads, dim)
    k, v = torch.randn(tokens, kv_heads, dim), torch.randn(tokens, kv_heads, dim)
    start = torch.cat([torch.zeros(1, dtype=torch.long), new.cumsum(0)[:-1]])
    ours = torch.zeros_like(q)
    reference.extend_attention_cpu(
        q, k.flatten(1) if trial % 2 else k, v, ours, k_cache, v_cache, 1.0, 1.0, table, rows, length, new,
        start, int(new.max()), 0.3, 0.0, False, window, None, None, None, True)
    at = torch.cat([table[r, p:t].long() for r, p, t in zip(rows, prefix, length)])
    k_cache[at], v_cache[at] = k, v
    theirs = torch.zeros_like(q)
    backend._run_sdpa_forward_extend(
        q, theirs, k_cache, v_cache, table, rows, length, prefix, new, scaling=0.3,
        enable_gqa=heads != kv_heads, causal=True, sliding_window_size=theirs_window)
    close(ours, theirs)

    q = torch.randn(requests, heads, dim)
    k, v = torch.randn(requests, kv_heads, dim), torch.randn(requests, kv_heads, dim)
    at = torch.stack([table[r, t - 1].long() for r, t in zip(rows, length)])
    ours, theirs = torch.zeros_like(q), torch.zeros_like(q)
    ours_k, ours_v = k_cache.clone(), v_cache.clone()
    reference.decode_attention_cpu(
        q, ours_k, ours_v, 1.0, 1.0, ours, k, v, at, None, table, rows, length, 0.3, 0.0, False, window, None,
        None)
    k_cache[at], v_cache[at] = k, v
    assert torch.equal(ours_k, k_cache) and torch.equal(ours_v, v_cache)
    backend._run_sdpa_forward_decode(
        q, theirs, k_cache, v_cache, table, rows, length, scaling=0.3,
        enable_gqa=heads != kv_heads, causal=False, sliding_window_size=theirs_window)
    close(ours, theirs)
print("alike")
"""

_BOOKKEEPING = """
from contracts.probes.kernels import reference
from sglang.kernels.ops.speculative import cache_locs
from sglang.srt.mem_cache import allocation
torch.manual_seed(0)
WIDTH = 40
for trial in range(12):
    topk, steps = [1, 2, 3][trial % 3], 4
    requests = int(torch.randint(1, 4, ()))
    length = torch.randint(1, 9, (requests,))
    rows = torch.randperm(6)[:requests]
    table = torch.randint(0, 999, (6, WIDTH), dtype=torch.int32)

    ours, theirs = (torch.zeros(requests * topk * steps, dtype=torch.long) for _ in range(2))
    reference.assign_draft_cache_locs_contiguous_cpu(rows, table, length, ours, WIDTH, topk, steps)
    cache_locs.assign_draft_cache_locs_contiguous[(requests,)](
        rows, table, length, theirs, WIDTH, topk, steps)
    assert torch.equal(ours, theirs)

    end = length + torch.randint(1, 5, (requests,))
    new = torch.randint(0, 999, (int((end - length).sum()),))
    ours, theirs = table.clone(), table.clone()
    reference.assign_req_to_token_pool_cpu(rows, ours, length, end, new, WIDTH)
    allocation.assign_req_to_token_pool[(requests,)](rows, theirs, length, end, new, WIDTH, 4)
    assert torch.equal(ours, theirs)

    branches = reference.build_draft_decode_metadata_cpu(table, rows, length, topk, steps, WIDTH)
    size = int((length.sum() + requests * steps) * topk)
    indices = torch.zeros(steps, size, dtype=torch.int32)
    pointers = torch.zeros(steps, requests * topk + 1, dtype=torch.int32)
    positions = length.repeat_interleave(topk)
    cache_locs.generate_draft_decode_kv_indices[(steps, requests, topk)](
        rows, table, length, indices, pointers, positions, WIDTH, size, requests * topk + 1, 4, 4, 16, 1)
    for step in range(steps - 1):
        for branch in range(requests * topk):
            first, last = pointers[step, branch], pointers[step, branch + 1]
            ours = branches[branch, : length[branch // topk] + step + 1]
            assert torch.equal(ours, indices[step, first:last]), (step, branch)

buffers = [torch.randn(20, 6), torch.randint(0, 99, (20, 3))]
expected = [buffer.clone() for buffer in buffers]
source, target = torch.tensor([1, 2, 3]), torch.tensor([2, 3, 9])
for buffer in expected:
    buffer[target] = buffer[source]
addresses = torch.tensor([buffer.data_ptr() for buffer in buffers])
sizes = torch.tensor([buffer.stride(0) * buffer.element_size() for buffer in buffers])
reference.copy_all_layer_kv_cache_cpu(addresses, sizes, target, source)
assert all(map(torch.equal, buffers, expected))
print("alike")
"""

_VERIFICATION = """
from contracts.probes.kernels import verification as ours
from sglang.kernels.ops.speculative import cache_locs, eagle, spec_tree
from sglang.srt.speculative.eagle_utils import organize_draft_results
from sglang.srt.speculative.spec_utils import select_top_k_tokens
torch.manual_seed(0)
STEPS, VOCAB, WIDTH = 3, 50, 40
deep = 0

def grown_tree(requests, topk, size):
    # the library's own growth, so that trees are such as it makes
    scores, states = None, torch.zeros(requests, 4)
    probabilities, tokens = torch.rand(requests, topk), torch.randint(0, VOCAB, (requests, topk))
    found = [], [], []
    for step in range(STEPS):
        _, states, scores, grown = select_top_k_tokens(step, probabilities, tokens, states, scores, topk)
        for kept, part in zip(found, grown):
            kept.append(part)
        probabilities = torch.rand(requests * topk, topk)
        tokens = torch.randint(0, VOCAB, (requests * topk, topk))
        states = torch.zeros(requests * topk, 4)
    return organize_draft_results(*found, size)

for trial in range(30):
    requests, topk = int(torch.randint(1, 4, ())), [1, 2, 3][trial % 3]
    size = STEPS + 1 if topk == 1 else int(torch.randint(3, 9 if topk == 2 else 11, ()))
    length = torch.randint(1, 9, (requests,))
    parents, selected, drafted = grown_tree(requests, topk, size)
    for mode in (ours.FULL_MASK, ours.QLEN_ONLY):
        cells = requests * size * size + (int(length.sum()) * size if mode == ours.FULL_MASK else 0)

        def outputs():
            return (torch.ones(cells, dtype=torch.bool), torch.zeros(requests * size, dtype=torch.long),
                    *(torch.full((requests, size), -1) for _ in range(3)))

        mine, theirs = outputs(), outputs()
        ours.build_tree_kernel_efficient_cpu(parents, selected, length, *mine, topk, STEPS, size, mode)
        spec_tree.sgl_build_tree_kernel_triton(parents, selected, length, *theirs, topk, STEPS, size, mode)
        assert all(map(torch.equal, mine, theirs)), (topk, mode)

    _, _, rows, first_child, sibling = mine
    candidates = torch.cat([torch.randint(0, VOCAB, (requests, 1)), drafted], 1)
    chosen = torch.randint(0, VOCAB, (requests, size))
    for request in range(requests):  # mostly, the target says what some child of a node does
        for node in range(size):
            child = int(first_child[request, node])
            if child != -1 and torch.rand(()) < 0.8:
                if torch.rand(()) < 0.5 and sibling[request, child] != -1:
                    child = int(sibling[request, child])
                chosen[request, node] = candidates[request, child]

    def outputs():
        return (torch.zeros(requests * size, dtype=torch.int32),
                torch.full((requests, STEPS + 1), -1, dtype=torch.int32),
                torch.zeros(requests, dtype=torch.int32))

    mine, theirs = outputs(), outputs()
    ours.verify_tree_greedy_cpu(*mine, candidates, rows, first_child, sibling, chosen)
    spec_tree.verify_tree_greedy_triton(*theirs, candidates, rows, first_child, sibling, chosen)
    assert all(map(torch.equal, mine, theirs)), topk
    deep += int((mine[2] > 1).sum())
    accepted = mine[1]

    tokens = torch.randint(0, 99, (requests * size,), dtype=torch.int32)
    counts = torch.randint(1, size + 1, (requests,), dtype=torch.int32)
    mine, theirs = (torch.zeros(requests, dtype=torch.int32) for _ in range(2))
    ours.fill_bonus_tokens_cpu(tokens, counts, mine, size)
    eagle.fill_bonus_tokens[(requests,)](tokens, counts, theirs, size)
    assert torch.equal(mine, theirs)

    accepted, slots = accepted.flatten(), torch.randint(0, 999, (requests * size,))
    mine, theirs = (torch.zeros(len(accepted), dtype=torch.long) for _ in range(2))
    ours.fill_accept_out_cache_loc_cpu(accepted, slots, mine)
    eagle.fill_accept_out_cache_loc[(len(accepted),)](accepted, slots, theirs, 16)
    assert torch.equal(mine, theirs)

    table = torch.randint(0, 999, (6, WIDTH), dtype=torch.int32)
    pool_rows, end = torch.randperm(6)[:requests], length + torch.randint(1, 5, (requests,))
    mine, theirs = (torch.zeros(int((end - length).sum()), dtype=torch.long) for _ in range(2))
    ours.assign_extend_cache_locs_cpu(pool_rows, table, length, end, mine, WIDTH)
    cache_locs.assign_extend_cache_locs[(requests,)](pool_rows, table, length, end, theirs, WIDTH, 4)
    assert torch.equal(mine, theirs)
assert deep > 10, "too few trees were accepted beyond their first token to say anything"
print("alike")
"""

_TREE_ATTENTION = """
from contracts.probes.kernels import reference
from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd
torch.manual_seed(0)
for trial in range(6):
    heads, kv_heads, dim, size = 4, [4, 2][trial % 2], 16, [4, 7, 5][trial % 3]
    requests = int(torch.randint(1, 4, ()))
    prefix = torch.randint(1, 9, (requests,))
    new = torch.full((requests,), size)
    length = prefix + new
    slots = torch.randperm(100)
    table = torch.zeros(5, 40, dtype=torch.int32)
    rows = torch.randperm(5)[:requests]
    for row, total in zip(rows.tolist(), length.tolist()):
        table[row, :total], slots = slots[:total], slots[total:]
    k_cache, v_cache = torch.randn(100, kv_heads, dim), torch.randn(100, kv_heads, dim)
    tokens = requests * size
    q = torch.randn(tokens, heads, dim)
    k, v = torch.randn(tokens, kv_heads, dim), torch.randn(tokens, kv_heads, dim)
    tree = torch.rand(requests, size, size) < 0.5
    tree |= torch.eye(size, dtype=torch.bool)
    tree &= torch.ones(size, size, dtype=torch.bool).tril()
    window = [0, 0, 6][trial % 3]
    if window:  # which knows chains only
        tree = torch.ones(requests, size, size, dtype=torch.bool).tril()
    sinks = torch.randn(heads) if trial > 2 else None
    start = torch.arange(requests) * size
    ours = torch.zeros_like(q)
    reference.extend_attention_cpu(
        q, k, v, ours, k_cache, v_cache, 1.0, 1.0, table, rows, length, new, start, size, 0.3, 0.0, False,
        window, None, sinks, tree.flatten(), True)
    masks = [torch.cat([torch.ones(size, p, dtype=torch.bool), tree[r]], 1).flatten()
             for r, p in enumerate(prefix.tolist())]
    kv = torch.cat([table[row, :p] for row, p in zip(rows.tolist(), prefix.tolist())]).long()
    begins = lambda sizes: torch.cat([torch.zeros(1, dtype=torch.long), torch.as_tensor(sizes).cumsum(0)])
    theirs = torch.zeros_like(q)
    extend_attention_fwd(
        q, k, v, theirs, k_cache, v_cache, begins(new), begins(prefix), kv, torch.cat(masks), True,
        begins([len(mask) for mask in masks]), size, 1.0, 1.0, sm_scale=0.3, sinks=sinks,
        sliding_window_size=window - 1 if window else -1,
        window_kv_offsets=torch.zeros(requests, dtype=torch.int32))
    assert torch.allclose(ours, theirs, atol=2e-6), (ours - theirs).abs().max()
print("alike")
"""

_LATENT = """
from contracts.probes.kernels import reference
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
backend = TorchNativeAttnBackend.__new__(TorchNativeAttnBackend)
torch.manual_seed(0)
RANK, ROTATED, HEADS = 24, 8, 4

def close(ours, theirs):
    assert torch.allclose(ours, theirs, atol=2e-6), (ours - theirs).abs().max()

for trial in range(12):
    requests = int(torch.randint(1, 4, ()))
    prefix = torch.randint(1, 9, (requests,))
    new = torch.randint(1, 5, (requests,))
    length = prefix + new
    slots = torch.randperm(100)
    table = torch.zeros(5, 40, dtype=torch.int32)
    rows = torch.randperm(5)[:requests]
    for row, total in zip(rows.tolist(), length.tolist()):
        table[row, :total], slots = slots[:total], slots[total:]
    cache = torch.randn(100, 1, RANK + ROTATED)  # values are the first part of the keys
    tokens, start = int(new.sum()), torch.cat([torch.zeros(1, dtype=torch.long), new.cumsum(0)[:-1]])
    q = torch.randn(tokens, HEADS, RANK + ROTATED)
    k = torch.randn(tokens, 1, RANK + ROTATED)
    ours = torch.zeros(tokens, HEADS, RANK)
    reference.extend_attention_cpu(
        q, k, k[..., :RANK], ours, cache, cache[..., :RANK], 1.0, 1.0, table, rows, length, new, start,
        int(new.max()), 0.3, 0.0, False, 0, None, None, None, True)
    at = torch.cat([table[r, p:t].long() for r, p, t in zip(rows, prefix, length)])
    cache[at] = k
    theirs, again = torch.zeros_like(ours), torch.zeros_like(ours)
    backend._run_sdpa_forward_extend(
        q, theirs, cache, cache[..., :RANK].clone(), table, rows, length, prefix, new, scaling=0.3,
        enable_gqa=True, causal=True)
    close(ours, theirs)
    reference.extend_attention_cpu(  # what is in the cache already is not handed over again
        q, None, None, again, cache, cache[..., :RANK], 1.0, 1.0, table, rows, length, new, start,
        int(new.max()), 0.3, 0.0, False, 0, None, None, None, True)
    close(again, theirs)

    q, k = torch.randn(requests, HEADS, RANK + ROTATED), torch.randn(requests, 1, RANK + ROTATED)
    at = torch.stack([table[r, t - 1].long() for r, t in zip(rows, length)])
    ours, theirs = torch.zeros(requests, HEADS, RANK), torch.zeros(requests, HEADS, RANK)
    reference.decode_attention_cpu(
        q, cache, cache[..., :RANK], 1.0, 1.0, ours, k, k[..., :RANK], at, None, table, rows, length, 0.3,
        0.0, False, 0, None, None)
    assert torch.equal(cache[at], k)
    backend._run_sdpa_forward_decode(
        q, theirs, cache, cache[..., :RANK].clone(), table, rows, length, scaling=0.3, enable_gqa=True,
        causal=False)
    close(ours, theirs)

    # Without a prefix keys and values are those of heads, and no latent ones.
    new, start = length, torch.cat([torch.zeros(1, dtype=torch.long), length.cumsum(0)[:-1]])
    q, k, v = (torch.randn(int(length.sum()), HEADS, n) for n in (16, 16, 12))
    ours = torch.zeros(len(q), HEADS, 12)
    reference.extend_attention_cpu(
        q, k, v, ours, cache, cache[..., :RANK], 1.0, 1.0, table, rows, length, new, start, int(new.max()),
        0.3, 0.0, False, 0, None, None, None, True)
    for begin, total in zip(start.tolist(), length.tolist()):
        one = slice(begin, begin + total)
        due = torch.nn.functional.scaled_dot_product_attention(
            *(item[one].transpose(0, 1) for item in (q, k, v)), is_causal=True, scale=0.3)
        close(ours[one], due.transpose(0, 1))
print("alike")
"""
"""Multi-head latent attention, whose cache holds one latent key of which the value is a part."""

_TARGETS = """
from types import SimpleNamespace as Given
from dataclasses import dataclass
from contracts.probes.kernels import target_kernels as ours
from sglang.kernels.ops.moe.ep_moe_kernels import zero_experts_compute_triton
from sglang.srt.layers.moe.fused_moe_native import moe_forward_native
from sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe import swiglu_no_interleaved_with_alpha_and_limit
from sglang.srt.layers.moe.topk import StandardTopKOutput
from sglang.srt.models import minimax_m2
torch.manual_seed(0)

def close(mine, theirs):
    assert torch.allclose(mine, theirs, atol=2e-6), (mine - theirs).abs().max()

for rows, first, second in ((5, 64, 32), (8, 16, 48), (1, 32, 32)):
    x1, x2 = torch.randn(rows, first), torch.randn(rows, second)
    w1, w2 = torch.randn(first), torch.randn(second)
    mine, theirs = ours.rms_sumsq_serial(x1, x2), torch.zeros((2 * rows + 3) // 4 * 4)
    minimax_m2.rmsnorm_sumsq_kernel_serial[(rows,)](
        x1, x2, x1.stride(0), x2.stride(0), theirs, rows, first, second, first, 64)
    assert mine.shape == theirs.shape
    close(mine, theirs)
    out1, out2 = torch.zeros_like(x1), torch.zeros_like(x2)
    minimax_m2.rmsnorm_apply_kernel_serial[(rows,)](
        x1, x2, w1, w2, theirs, out1, out2, rows, first, second, x1.stride(0), x2.stride(0), 2, 1e-5, first,
        64)
    for one, other in zip(ours.rms_apply_serial(x1, x2, w1, w2, mine, 2, 1e-5), (out1, out2)):
        close(one, other)

for _ in range(5):
    ids, scales, x = torch.randint(0, 12, (6, 3)), torch.rand(6, 3), torch.randn(6, 256)
    told = [(ids.clone(), scales.clone()) for _ in range(2)]
    mine = ours.zero_experts_compute_triton(*told[0], 8, "identity", x)
    close(mine, zero_experts_compute_triton(*told[1], 8, "identity", x))
    assert torch.equal(told[0][0], told[1][0]) and torch.equal(told[0][1], told[1][1])

@dataclass
class Config:
    apply_router_weight_on_input: bool = False
    activation: str = "silu"
    gemm1_alpha: float | None = None
    gemm1_clamp_limit: float | None = None
    gate_up_interleaved: bool = True

layer = Given(num_experts=4, w13_weight=torch.randn(4, 32, 16) / 4, w2_weight=torch.randn(4, 16, 16) / 4)

def one_by_one(x, ids, weights, config):
    out = torch.zeros_like(x)
    for row, (chosen, shares) in enumerate(zip(ids.tolist(), weights)):
        for expert, share in zip(chosen, shares):
            if expert < 0:
                continue
            given = x[row] * share if config.apply_router_weight_on_input else x[row]
            gate, up = (layer.w13_weight[expert] @ given).chunk(2)
            if config.gemm1_alpha is None:
                inner = torch.nn.functional.silu(gate) * up
            else:
                inner = swiglu_no_interleaved_with_alpha_and_limit(
                    torch.cat([gate, up])[None], config.gemm1_alpha, config.gemm1_clamp_limit)[0]
            made = layer.w2_weight[expert] @ inner
            out[row] += made if config.apply_router_weight_on_input else made * share
    return out

experts = ours.by_slot(moe_forward_native)
for config, ids in (
    (Config(), torch.tensor([[0, 1], [2, 3], [1, 0]])),
    (Config(), torch.tensor([[0, 0], [2, 3], [1, 1]])),
    (Config(), torch.tensor([[0, -1], [2, 3], [-1, 1]])),
    (Config(apply_router_weight_on_input=True), torch.tensor([[3], [1], [0]])),
    (Config(gemm1_alpha=1.7, gemm1_clamp_limit=0.5, gate_up_interleaved=False),
     torch.tensor([[0, 1], [2, 3], [1, 0]])),
):
    x, weights = torch.randn(3, 16), torch.rand(ids.shape)
    mine = experts(layer, x, StandardTopKOutput(weights, ids, None), config)
    close(mine, one_by_one(x, ids, weights, config))

q, k, positions = torch.randn(4, 32), torch.randn(4, 16), torch.arange(4)

def get_rope():
    return Given(forward=lambda positions, q, k: (q.roll(1), k.roll(2)))

turned = (q.roll(1), k.roll(2))
ours.in_place(get_rope)().forward(positions, q, k)
assert torch.equal(q, turned[0]) and torch.equal(k, turned[1])
print("alike")
"""
"""The kernels of single classes of targets, beside sglang's Triton kernels and plain loops."""

_WHOLE_BACKEND = """
from types import SimpleNamespace as Given
from contracts.probes.kernels import attention_backend, reference
from sglang.srt.mem_cache import memory_pool
Backend, Steps = attention_backend.make_classes()
torch.manual_seed(0)

class Pool:
    def __init__(self, kv_heads):
        self.k, self.v = torch.randn(100, kv_heads, 16), torch.randn(100, kv_heads, 16)
    def get_key_buffer(self, layer): return self.k
    def get_value_buffer(self, layer): return self.v
    def set_kv_buffer(self, layer, places, k, v):
        places = getattr(places, "loc", places)
        self.k[places.long()], self.v[places.long()] = k, v

def a_mode(name):
    return Given(is_decode_or_idle=lambda: name == "decode", is_target_verify=lambda: name == "verify")

def close(ours, theirs):
    assert torch.allclose(ours.view_as(theirs), theirs, atol=2e-6), (ours - theirs.flatten(1)).abs().max()

for trial in range(24):
    heads, kv_heads, window = 4, [4, 2][trial % 2], [-1, -1, 3][trial % 3]
    requests, size = int(torch.randint(1, 4, ())), [4, 7][trial % 2]
    prefix = torch.randint(1, 9, (requests,))
    rows, slots = torch.randperm(5)[:requests], torch.randperm(100)
    table = torch.zeros(5, 40, dtype=torch.int32)
    for row in rows.tolist():
        table[row, :24], slots = slots[:24], slots[24:]
    pool = Pool(kv_heads)
    runner = Given(device="cpu", model_config=Given(context_len=40), token_to_kv_pool=pool,
                   req_to_token_pool=Given(req_to_token=table))
    layer = Given(tp_q_head_num=heads, tp_k_head_num=kv_heads, tp_v_head_num=kv_heads, qk_head_dim=16,
                  v_head_dim=16, layer_id=0, scaling=0.3, sliding_window_size=window)

    # A prompt, or what is drafted on after it was verified: the length counts the new tokens.
    new = torch.randint(1, 7, (requests,))
    length, tokens = prefix + new, int(new.sum())
    q, k, v = (torch.randn(tokens, n, 16) for n in (heads, kv_heads, kv_heads))
    places = torch.cat([table[r, p:t] for r, p, t in zip(rows, prefix, length)])
    theirs = torch.zeros_like(q)
    start = torch.cat([torch.zeros(1, dtype=torch.long), new.cumsum(0)[:-1]])
    reference.extend_attention_cpu(q, k, v, theirs, pool.k, pool.v, 1.0, 1.0, table, rows, length, new, start,
                                   9, 0.3, 0.0, False, window + 1, None, None, None, True)
    batch = Given(forward_mode=a_mode("extend"), req_pool_indices=rows, seq_lens=length, out_cache_loc=places,
                  extend_seq_lens=new)
    close(Backend(runner).run(q.flatten(1), k, v, layer, batch), theirs)
    batch.extend_seq_lens, batch.spec_info = None, Given(accept_length=new - 1)
    close(Backend(runner).run(q.flatten(1), k, v, layer, batch), theirs)

    # Sinks; a rotated part that comes apart; and keys and values of a whole prompt that are not kept.
    batch.extend_seq_lens, sinks = new, torch.randn(heads)
    reference.extend_attention_cpu(q, k, v, theirs, pool.k, pool.v, 1.0, 1.0, table, rows, length, new, start,
                                   9, 0.3, 0.0, False, window + 1, None, sinks, None, True)
    close(Backend(runner).run(q.flatten(1), k, v, layer, batch, sinks=sinks), theirs)
    apart = [item[..., place] for item in (q, k) for place in (slice(10), slice(10, None))]
    close(Backend(runner).run(apart[0], apart[2], v, layer, batch, sinks=sinks, q_rope=apart[1],
                              k_rope=apart[3]), theirs)
    whole = Given(forward_mode=a_mode("extend"), req_pool_indices=rows, seq_lens=new, out_cache_loc=places,
                  extend_seq_lens=new)
    reference.extend_attention_cpu(q, k, v, theirs, pool.k, pool.v, 1.0, 1.0, table, rows, new, new, start,
                                   9, 0.3, 0.0, False, window + 1, None, None, None, True)
    kept = pool.k.clone()
    close(Backend(runner).run(q.flatten(1), k, v, layer, whole, save_kv_cache=False), theirs)
    assert torch.equal(pool.k, kept)

    # A tree to be verified: the length does not count its nodes; the mask may or may not cover the prefix.
    if window < 0:
        new = torch.full((requests,), size)
        length, tokens = prefix + size, requests * size
        q, k, v = (torch.randn(tokens, n, 16) for n in (heads, kv_heads, kv_heads))
        places = torch.cat([table[r, p:t] for r, p, t in zip(rows, prefix, length)])
        tree = (torch.rand(requests, size, size) < 0.5) | torch.eye(size, dtype=torch.bool)
        tree &= torch.ones(size, size, dtype=torch.bool).tril()
        theirs, start = torch.zeros_like(q), torch.arange(requests) * size
        reference.extend_attention_cpu(q, k, v, theirs, pool.k, pool.v, 1.0, 1.0, table, rows, length, new,
                                       start, size, 0.3, 0.0, False, 0, None, None, tree.flatten(), True)
        whole = [torch.cat([torch.ones(size, p, dtype=torch.bool), tree[r]], 1).flatten()
                 for r, p in enumerate(prefix.tolist())]
        for mask in (tree.flatten(), torch.cat(whole)):
            info = Given(draft_token_num=size, custom_mask=mask)
            batch = Given(forward_mode=a_mode("verify"), req_pool_indices=rows, seq_lens=prefix,
                          out_cache_loc=places, extend_seq_lens=None, spec_info=info)
            close(Backend(runner).run(q.flatten(1), k, v, layer, batch), theirs)

    # One token after another, and a draft's chained steps with branches.
    for topk, steps in ((1, 3), (2, 3)):
        slots_of = reference.build_draft_decode_metadata_cpu(table, rows, prefix, topk, steps, 40)
        for step in range(steps):
            q, k, v = (torch.randn(requests * topk, n, 16) for n in (heads, kv_heads, kv_heads))
            length = prefix.repeat_interleave(topk) + step + 1
            at = torch.stack([slots_of[row, total - 1] for row, total in enumerate(length.tolist())])
            theirs = torch.zeros_like(q)
            reference.decode_attention_cpu(
                q, pool.k, pool.v, 1.0, 1.0, theirs, k, v, at.long(), None, slots_of,
                torch.arange(len(length)), length, 0.3, 0.0, False, window + 1)
            batch = Given(forward_mode=a_mode("decode"), req_pool_indices=rows, seq_lens=prefix,
                          out_cache_loc=at)
            chained = Steps(runner, topk, steps).attn_backends[step]
            close(chained.run(q.flatten(1), k, v, layer, batch), theirs)
    q, k, v = (torch.randn(requests, n, 16) for n in (heads, kv_heads, kv_heads))
    at = torch.stack([table[row, total - 1] for row, total in zip(rows.tolist(), prefix.tolist())])
    theirs = torch.zeros_like(q)
    reference.decode_attention_cpu(q, pool.k, pool.v, 1.0, 1.0, theirs, k, v, at.long(), None, table, rows,
                                   prefix, 0.3, 0.0, False, window + 1)
    batch = Given(forward_mode=a_mode("decode"), req_pool_indices=rows, seq_lens=prefix, out_cache_loc=at)
    close(Backend(runner).run(q.flatten(1), k, v, layer, batch), theirs)
print("alike")
"""
"""The backend for releases without a CPU path, beside the kernels that the other programs check."""

REFERENCES = {
    "attention": _STAND_INS + _ATTENTION,
    "bookkeeping": _INTERPRETED + _STAND_INS + _BOOKKEEPING,
    "verification": _INTERPRETED + _STAND_INS + _VERIFICATION,
    "whole_backend": _STAND_INS + _WHOLE_BACKEND,
    "tree_attention": _INTERPRETED + _STAND_INS + _TREE_ATTENTION,
    "latent_attention": _STAND_INS + _LATENT,
    "targets": _INTERPRETED + _STAND_INS + _TARGETS,
    "linear_attention": _INTERPRETED + _STAND_INS + linear_attention_references.PROGRAM,
}
