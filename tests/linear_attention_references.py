"""A program that runs the stand-ins for linear attention beside sglang's Triton twins and transformers.

Like those of kernel_references, it is run by an interpreter that has sglang, and prints "alike".
"""

from __future__ import annotations

PROGRAM = """
from torch.nn import functional
from contracts.probes.kernels import linear_attention as ours, target_kernels
from sglang.kernels.ops.attention.linear.fused_gdn_gating import fused_gdn_gating
from sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent import (
    fused_sigmoid_gating_delta_rule_update)
from sglang.kernels.ops.attention.triton_gdn_fused_proj import fused_qkvzba_split_reshape_cat_contiguous
from sglang.kernels.ops.elementwise.elementwise import fused_gate_sigmoid_mul_add
from sglang.kernels.ops.mamba import mamba_state_scatter_triton as scatter
from sglang.kernels.ops.mamba.causal_conv1d_triton import causal_conv1d_fn, causal_conv1d_update
from sglang.srt.layers.moe.fused_moe_triton.fused_marlin_moe import swiglu_limit_func
from transformers.models.qwen3_next import modeling_qwen3_next as theirs
torch.manual_seed(0)
H, HV, K, V = 2, 4, 16, 8
LENGTHS = [3, 1, 6]
STARTS = torch.tensor([0, 3, 4, 10], dtype=torch.int32)
SLOTS = torch.tensor([2, 0, 4], dtype=torch.int32)
T = sum(LENGTHS)

def close(mine, other, atol=2e-6):
    assert mine.shape == other.shape and mine.dtype == other.dtype, (mine.shape, other.shape)
    assert torch.allclose(mine.float(), other.float(), atol=atol), (mine - other).abs().max()

# Gates, which let more or less of the state stay.
A_log, dt_bias = torch.rand(HV), torch.randn(HV)
a, b = 10 * torch.randn(T, HV), torch.randn(T, HV)
for mine, other in zip(*(gates(A_log, a, b, dt_bias) for gates in (
        ours.fused_gdn_gating_cpu, fused_gdn_gating))):
    close(mine, other)

# Convolutions: of prompts, some of which go on; of single tokens; of a chain of draft tokens.
channels, width = 2 * H * K + HV * V, 4
weight, bias = torch.randn(channels, width), torch.randn(channels)
for kept in ([True, False, True], [False] * 3):
    x, states = torch.randn(T, channels).transpose(0, 1), torch.randn(6, channels, width - 1)
    told = [states.clone(), states.clone()]
    kept = torch.tensor(kept)
    mine = ours.causal_conv1d_fn_cpu(x, weight, bias, told[0], STARTS, LENGTHS, SLOTS, kept, "silu")
    close(mine, causal_conv1d_fn(x, weight, bias, told[1], STARTS, LENGTHS, SLOTS, kept, "silu"), 1e-5)
    close(*told)
for shape in ((3, channels), (3, channels, 5)):
    x, states = torch.randn(shape), torch.randn(6, channels, width - 1)
    told = [(states.clone(), torch.zeros(4, 5, channels, width - 1)) for _ in range(2)]
    more = {"activation": "silu", "conv_state_indices": SLOTS}
    results = []
    for update, (state, windows) in zip((ours.causal_conv1d_update_cpu, causal_conv1d_update), told):
        if len(shape) == 3:
            places = torch.tensor([3, 1, 0])
            more |= {"intermediate_conv_window": windows, "intermediate_state_indices": places}
        results.append(update(x, state, weight, bias, **more))
    close(*results, 1e-5)
    for mine, other in zip(*told):
        close(mine, other)

# The delta rule over prompts, each from the state of its request.
q, k, v = torch.randn(1, T, H, K), torch.randn(1, T, H, K), torch.randn(1, T, HV, V)
decay, share = ours.fused_gdn_gating_cpu(A_log, a, b, dt_bias)
states = torch.randn(6, HV, V, K)
mine, before = states.clone(), states.clone()
read, _, _ = ours.chunk_gated_delta_rule_cpu(
    q, k, v, decay, share, mine, STARTS, use_qk_l2norm_in_kernel=True, initial_state_indices=SLOTS)
for number, slot in enumerate(SLOTS.tolist()):
    part = slice(STARTS[number], STARTS[number + 1])
    wide = [item[:, part].repeat_interleave(HV // H, 2) for item in (q, k)]
    out, last = theirs.torch_chunk_gated_delta_rule(
        *wide, v[:, part], decay[:, part], share[:, part], initial_state=states[slot][None].transpose(2, 3),
        output_final_state=True, use_qk_l2norm_in_kernel=True)
    close(read[:, part], out, 1e-5)
    close(mine[slot], last[0].transpose(1, 2), 1e-5)
gathered = before[SLOTS.long()]
again, last, _ = ours.chunk_gated_delta_rule_cpu(
    q, k, v, decay, share, gathered, STARTS, use_qk_l2norm_in_kernel=True)
assert torch.equal(again, read) and torch.equal(last, mine[SLOTS.long()])
assert torch.equal(gathered, before[SLOTS.long()])
untouched = [slot for slot in range(6) if slot not in SLOTS.tolist()]
assert torch.equal(mine[untouched], before[untouched])

# The delta rule token by token, and over a chain of draft tokens whose states are kept apart.
for lengths, verifying in (([1, 1, 1], False), ([3, 3, 3], True)):
    starts = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0).int()
    tokens = sum(lengths)
    told, results = [], []
    for rule in (ours.fused_sigmoid_gating_delta_rule_update_cpu, fused_sigmoid_gating_delta_rule_update):
        state, between = states.clone(), torch.zeros(4, 3, HV, V, K)
        more = {"disable_state_update": True, "intermediate_states_buffer": between, "cache_steps": 3,
                "intermediate_state_indices": torch.tensor([3, 1, 0])} if verifying else {}
        results.append(rule(
            A_log=A_log, dt_bias=dt_bias, q=q[:, :tokens], k=k[:, :tokens], v=v[:, :tokens], a=a[:tokens],
            b=b[:tokens], initial_state_source=state, initial_state_indices=SLOTS, cu_seqlens=starts,
            use_qk_l2norm_in_kernel=True, softplus_beta=1.0, softplus_threshold=20.0, **more))
        told.append((state, between))
    close(*results, 1e-5)
    for mine, other in zip(*told):
        close(mine, other, 1e-5)

# Norms and gates around it.
norm = theirs.Qwen3NextRMSNormGated(V, eps=1e-5)
norm.weight.data = torch.randn(V)
x, gate = torch.randn(5, HV, V), torch.randn(5, HV, V)
close(ours.fused_rmsnorm_gated_cpu(x, norm.weight, gate, 1e-5), norm(x, gate).detach())
norms = [theirs.Qwen3NextRMSNorm(K, eps=1e-5) for _ in range(2)]
for item in norms:
    item.weight.data = torch.randn(K)
weights = [item.weight.data for item in norms]
q_gate, keys = torch.randn(5, HV * 2 * K), torch.randn(5, H * K)
heads, gates = q_gate.view(5, HV, 2, K).unbind(2)
due = [norms[0](heads.reshape(-1, K)).detach(), norms[1](keys.view(-1, K)).detach()]
found = ours.fused_qk_gemma_rmsnorm_with_gate_cpu(q_gate, keys, *weights, 1e-5, K, HV)
for mine, other in zip(found, [*due, gates.reshape(-1, K)]):
    close(mine, other)
for mine, other in zip(ours.fused_qk_gemma_rmsnorm_cpu(heads.flatten(1), keys, *weights, 1e-5, K), due):
    close(mine, other)
mine, other = (x.flatten(1).clone() for _ in range(2))
close(ours.fused_sigmoid_mul_cpu(mine, gate.flatten(1), False), other * gate.flatten(1).sigmoid())
ours.fused_sigmoid_mul_cpu(mine, gate.flatten(1))
close(mine, other * gate.flatten(1).sigmoid())

# What is cut apart, what is put back, and what is added.
mixed, gated = torch.randn(5, channels + HV * V), torch.randn(5, 2 * HV)
for mine, other in zip(ours.fused_qkvzba_split_reshape_cat_contiguous_cpu(mixed, gated, H, HV, K, V),
                       fused_qkvzba_split_reshape_cat_contiguous(mixed, gated, H, HV, K, V)):
    close(mine, other)
torch.Tensor.is_cuda = True  # which these two ask before they call their kernels; one skips row -1
for name, shape in ((target_kernels.SCATTERS[0], (HV, V, K)), (target_kernels.SCATTERS[1], (channels, 3))):
    whole, kept = torch.randn(2, 6, *shape), torch.randn(2, 4, 5, *shape)
    for rows in (None, torch.tensor([3, 0, 1]), *([torch.tensor([3, 0, -1])] if len(shape) == 3 else [])):
        told = [whole.clone(), whole.clone()]
        for put, into in zip((target_kernels.scatter_of_accepted, getattr(scatter, name)), told):
            put(into, kept, SLOTS, torch.tensor([2, -1, 4]), rows)
        close(*told)
del torch.Tensor.is_cuda
x, gate, said, total = torch.randn(5, 32), torch.randn(32), torch.randn(5, 32), torch.randn(5, 32)
told = [total.clone(), total.clone()]
for add, into in zip((target_kernels.fused_gate_sigmoid_mul_add, fused_gate_sigmoid_mul_add), told):
    add(x, gate, said, into)
close(*told)
x, told = 3 * torch.randn(5, 32), [torch.zeros(5, 16) for _ in range(2)]
target_kernels.silu_and_mul_clamp(x, told[0], 2.0)
swiglu_limit_func(told[1], x, 2.0)
close(*told)
print("alike")
"""
