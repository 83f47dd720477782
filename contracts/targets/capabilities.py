"""Targets that need a GPU, or several: what a release says of them.

None of them is ever judged; a run names each as not run, and docs/targets.md shows what the releases say.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A target, as it is published or as it is split, that nothing here runs."""

    name: str
    about: str
    architecture: str | None = None
    """None: any class."""
    quantization: str | None = None
    """As sglang's command line calls it; None: not quantised."""
    needs: str
    """What this machine lacks."""

    def said(self, setters: Collection[str], quantizations: Collection[str]) -> str | None:
        """What a release lacks for it, by the classes that it captures from and what it takes."""
        if self.architecture is not None and self.architecture not in setters:
            return f"it cannot capture from {self.architecture}"
        if self.quantization is not None and self.quantization not in quantizations:
            return f"its command line knows no --quantization {self.quantization}"
        return None


CAPABILITIES = (
    Capability(
        name="fp8",
        about="any target in FP8",
        quantization="fp8",
        needs="FP8 matrix kernels of a GPU",
    ),
    Capability(
        name="awq",
        about="any target in INT4 by AWQ",
        quantization="awq",
        needs="INT4 matrix kernels of a GPU",
    ),
    Capability(
        name="gptq",
        about="any target in INT4 by GPTQ",
        quantization="gptq",
        needs="INT4 matrix kernels of a GPU",
    ),
    Capability(
        name="gpt_oss_mxfp4",
        about="gpt-oss as published, in MXFP4",
        architecture="GptOssForCausalLM",
        quantization="mxfp4",
        needs="MXFP4 expert kernels of a GPU; the class itself is judged in float32",
    ),
    Capability(
        name="glm5_nvfp4",
        about="GLM-5 in NVFP4",
        architecture="GlmMoeDsaForCausalLM",
        quantization="modelopt_fp4",
        needs="sparse attention (DSA) and FP4 kernels of a Blackwell GPU",
    ),
    Capability(
        name="kimi_k25_int4",
        about="Kimi K2.5 as published, in INT4",
        architecture="KimiK25ForConditionalGeneration",
        quantization="compressed-tensors",
        needs="INT4 expert kernels of a GPU; the class itself is judged in float32",
    ),
    Capability(
        name="tensor_parallel",
        about="any target split among ranks",
        needs="as many GPUs as ranks, among which embedding, head and states are split",
    ),
)
