"""Plain torch for the kernels of single target classes that have no path for a CPU.

Each takes the place of a function that a class calls for a GPU, with its signature and effects; the rest of
the class is sglang's. tests/test_kernels.py compares each with an independent reference.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from contracts.probes.stream import OutOfReach

MODELS = "sglang.srt.models"


def rms_sumsq_serial(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Sums of squares of the rows of both, one behind the other, padded to a multiple of 4 (minimax_m2)."""
    sums = x1.new_zeros((len(x1) + len(x2) + 3) // 4 * 4, dtype=torch.float32)
    sums[: len(x1)] = x1.float().square().sum(-1)
    sums[len(x1) : len(x1) + len(x2)] = x2.float().square().sum(-1)
    return sums


def rms_apply_serial(
    x1: torch.Tensor,
    x2: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    sum_sq: torch.Tensor,
    tp_world: int = 1,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both normed by the sums that `rms_sumsq_serial` made of them (minimax_m2)."""

    def normed(x: torch.Tensor, weight: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(sums / x.shape[-1] / tp_world + eps)
        return (x.float() * scale[:, None] * weight.float()).to(x.dtype)

    return normed(x1, w1, sum_sq[: len(x1)]), normed(x2, w2, sum_sq[len(x1) : len(x1) + len(x2)])


def zero_experts_compute_triton(
    expert_indices: torch.Tensor,
    expert_scales: torch.Tensor,
    num_experts: int,
    zero_expert_type: str,
    hidden_states: torch.Tensor,
) -> torch.Tensor:
    """What the experts that pass their input on contribute; they are taken off the list (longcat_flash).

    Experts from `num_experts` on are such. Sets their indices to 0 and their scales to 0.
    """
    passing = expert_indices >= num_experts
    share = torch.where(passing, expert_scales, 0).sum(-1, keepdim=True)
    expert_indices[passing] = 0
    expert_scales[passing] = 0
    return (hidden_states.float() * share).to(hidden_states.dtype)


def fused_gate_sigmoid_mul_add(
    hidden_states: torch.Tensor,
    gate_weight: torch.Tensor,
    shared_output: torch.Tensor,
    final_hidden_states: torch.Tensor,
) -> None:
    """Add what the shared expert says, times its gate, to what the others say (qwen3_next)."""
    gate = (hidden_states.float() @ gate_weight.float()).sigmoid()
    final_hidden_states += (gate[:, None] * shared_output.float()).to(final_hidden_states.dtype)


def silu_and_mul_clamp(x: torch.Tensor, output: torch.Tensor, swiglu_limit: float) -> None:
    """Write SwiGLU of a gate and an up projection, one behind the other, both clamped (glm5_next)."""
    gate, up = x.float().chunk(2, dim=-1)
    gate, up = gate.clamp(max=swiglu_limit), up.clamp(-swiglu_limit, swiglu_limit)
    output.copy_(gate * torch.sigmoid(gate) * up)


def scatter_of_accepted(
    dst: torch.Tensor,
    src: torch.Tensor,
    dst_indices_raw: torch.Tensor,
    step_indices_raw: torch.Tensor,
    src_indices_raw: torch.Tensor | None = None,
) -> None:
    """Make the state after the last accepted token of each request its state (qwen3_next, qwen3_5).

    `dst` is [layers, slots, *state], `src` [layers, requests, tokens, *state]; requests of which no token
    was verified have a negative step.
    """
    rows = list(range(len(step_indices_raw))) if src_indices_raw is None else src_indices_raw.tolist()
    for row, slot, step in zip(rows, dst_indices_raw.tolist(), step_indices_raw.tolist(), strict=True):
        if min(row, slot, step) >= 0:
            dst[:, slot] = src[:, row, step]


def swiglu_of_halves(x: torch.Tensor, gemm1_alpha: float, gemm1_limit: float) -> torch.Tensor:
    """Clamped SwiGLU of a gate and an up projection, one behind the other (minimax_m3)."""
    gate, up = x.chunk(2, dim=-1)
    gate, up = gate.clamp(max=gemm1_limit), up.clamp(-gemm1_limit, gemm1_limit)
    return gate * torch.sigmoid(gate * gemm1_alpha) * (up + 1)


def by_slot(native: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The library's own mixture of experts for a CPU, for what it does not take.

    It refuses weights that apply to the input (mllama4), and counts an expert that is listed twice once
    (longcat_flash, whose kernels list expert 0 with weight 0). One place of the list at a time, it takes
    both. It also takes gate and up projection for interleaved wherever the activation is clamped (minimax_m3
    has one behind the other).
    """
    module: Any = importlib.import_module(native.__module__)
    interleaved = getattr(module, CLAMPED, None)

    def experts(layer: Any, x: torch.Tensor, topk_output: Any, config: Any) -> torch.Tensor:
        ids, weights = topk_output.topk_ids, topk_output.topk_weights
        first = config.apply_router_weight_on_input
        if interleaved is not None:
            split = not getattr(config, "gate_up_interleaved", True)
            setattr(module, CLAMPED, swiglu_of_halves if split else interleaved)
        ordered = ids.sort(-1).values
        twice = bool((ordered[:, 1:] == ordered[:, :-1]).any())
        if not first and not twice and not bool((ids < 0).any()):
            return native(layer, x, topk_output, config)
        if first:
            config = replace(config, apply_router_weight_on_input=False)
        total = torch.zeros_like(x)
        for place in range(ids.shape[-1]):
            chosen, share = ids[:, place : place + 1], weights[:, place : place + 1]
            share = torch.where(chosen < 0, 0, share)
            one = topk_output._replace(
                topk_ids=chosen.clamp(min=0), topk_weights=torch.ones_like(share) if first else share
            )
            total += native(layer, x * share.to(x.dtype) if first else x, one, config)
        return total

    return experts


def in_place(get_rope: Callable[..., Any]) -> Callable[..., Any]:
    """Rotary embeddings that turn queries and keys where they are, as the kernels for a GPU do (llama4)."""
    turning: list[Any] = []

    def made(*arguments: Any, **named: Any) -> Any:
        rotary = get_rope(*arguments, **named)
        if rotary in turning:  # the library hands out one for all layers
            return rotary
        turning.append(rotary)
        forward = rotary.forward

        def rotate(positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, *more: Any) -> Any:
            turned = forward(positions, query, key, *more)
            for tensor, result in zip((query, key), turned, strict=True):
                tensor.copy_(result.view(tensor.shape))
            return turned

        rotary.forward = rotate
        return rotary

    return made


class Here:
    """torch for code that names a GPU as the place of its tensors, whatever the engine runs on.

    sglang up to 0.5.19 keeps the states of linear attention between draft tokens so.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *arguments: Any, **named: Any) -> torch.Tensor:
        """Zeros, on a CPU where a GPU is named."""
        on_gpu = str(named.get("device")).startswith("cuda")
        made: torch.Tensor = torch.zeros(*arguments, **({**named, "device": "cpu"} if on_gpu else named))
        return made


SCATTERS = ("fused_mamba_state_scatter_with_mask", "fused_conv_window_scatter_with_mask")


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    f"{MODELS}.minimax_m2": {
        "rms_sumsq_serial": rms_sumsq_serial,
        "rms_apply_serial": rms_apply_serial,
    },
    f"{MODELS}.longcat_flash": {"zero_experts_compute_triton": zero_experts_compute_triton},
    f"{MODELS}.deepseek_v2": {"silu_and_mul_clamp": silu_and_mul_clamp},
    f"{MODELS}.qwen2_moe": {"fused_gate_sigmoid_mul_add": fused_gate_sigmoid_mul_add},
    **{
        f"sglang.{place}": dict.fromkeys(SCATTERS, scatter_of_accepted)
        for place in (
            "kernels.ops.mamba.mamba_state_scatter_triton",
            "srt.layers.attention.hybrid_linear_attn_backend",
        )
    },
}
"""What takes the place of a function, by module and name."""
EXPERTS = ("sglang.srt.layers.moe.fused_moe_native", "sglang.srt.layers.quantization.unquant")
"""Modules that know the mixture of experts for a CPU by name."""
NATIVE = "moe_forward_native"
RUNNER, ALIGN = "sglang.srt.model_executor.model_runner", "adjust_config_with_unaligned_cpu_tp"
LOADER = "sglang.srt.layers.moe.fused_moe_triton.layer"
NARROW = "narrow_padded_param_and_loaded_weight"
POOLS, NAMES_A_GPU = "sglang.srt.mem_cache.memory_pool", 'device="cuda"'
WITH_CPU_KERNEL = ("fla.layernorm_gated", "fla.fused_norm_gate")
"""Modules that ask for AMX before they call the operator for a CPU, below either of `ATTENTION`."""
ATTENTION = ("sglang.kernels.ops.attention", "sglang.srt.layers.attention")
CLAMPED = "swiglu_gpt_oss_sigmoid_alpha"
"""The activation of gpt_oss, as the module of the mixture of experts calls it."""


def if_it_can(align: Callable[..., Any]) -> Callable[..., Any]:
    """What pads sizes for a CPU, which nothing here needs, and which stumbles over sizes that are None."""

    def aligned(config: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return align(config, *arguments, **named)
        except TypeError:
            return config

    return aligned


def loud(narrow: Callable[..., Any]) -> Callable[..., Any]:
    """What loads experts for a CPU, and cannot load biases of experts in earlier releases."""

    def narrowed(*arguments: Any, **named: Any) -> Any:
        try:
            return narrow(*arguments, **named)
        except IndexError as error:
            raise OutOfReach(f"this release loads no biases of experts on a CPU ({error})") from None

    return narrowed


def install() -> tuple[str, ...]:
    """Put them in place, as far as this release has the functions; says what is stood in for."""
    told = []
    for module, functions in FUNCTIONS.items():
        found = _module(module)
        names = [name for name in functions if hasattr(found, name)]
        for name in names:
            setattr(found, name, functions[name])
        told += [f"{module.rpartition('.')[2]}: {', '.join(names)}"] if names else []
    found = _module(f"{MODELS}.llama4")
    if found is not None:
        found.get_rope = in_place(found.get_rope)
        told.append("llama4: get_rope, in place")
    runner, experts = _module(RUNNER), _module(LOADER)
    if hasattr(runner, ALIGN):
        setattr(runner, ALIGN, if_it_can(getattr(runner, ALIGN)))
        told.append(f"{ALIGN}, where it can")
    if hasattr(experts, NARROW):
        setattr(experts, NARROW, loud(getattr(experts, NARROW)))
    pools = _module(POOLS)
    if pools is not None and NAMES_A_GPU in inspect.getsource(pools):
        pools.torch = Here()
        told.append("memory_pool: tensors that name a GPU as their place")
    for place in ATTENTION:
        for name in WITH_CPU_KERNEL:
            found = _module(f"{place}.{name}")
            if hasattr(found, "_use_cpu"):
                found._use_cpu = True
                told.append(f"{name.partition('.')[2]}: its path for a CPU, without AMX")
    for name in EXPERTS:
        found = _module(name)
        if hasattr(found, NATIVE):
            setattr(found, NATIVE, by_slot(getattr(found, NATIVE)))
            told += [f"{NATIVE}, one expert at a time"] if name == EXPERTS[0] else []
    return (f"kernels of target classes, in plain torch: {'; '.join(told)}",) if told else ()


def _module(name: str) -> Any:
    """A module of the library; None if this release lacks it, or it cannot be imported here."""
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError, RuntimeError, AssertionError):
        return None
