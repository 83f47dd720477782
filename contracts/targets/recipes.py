"""The tiny targets, one per class of target that sglang captures from, as declarative values.

Each is made by transformers' own class with seeded weights, and served by sglang's class of the same name.
Which classes a release has is asked of the release; a class without a recipe here is reported as not run.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

LAYERS, HIDDEN, VOCAB = 8, 64, 256
"""Of the language model of each target; 8 layers keep defaults, both conventions of ids and the last layer
apart."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A target that differs in settings in which a class may compute otherwise."""

    name: str
    settings: Mapping[str, Any]
    """Settings of the language model that are others."""


SHORT_WINDOW = Variation(name="short_window", settings={"sliding_window": 6})
"""Shorter than every prompt."""
ROPE_BASE = Variation(
    name="rope_base", settings={"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
)


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How weights of transformers' class become those of a class that transformers does not have."""

    prefix: str = ""
    """In front of every name."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Parts of names, and what stands in their place."""
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Part of a name -> the parts whose tensors it holds, one under the other."""
    dropped: tuple[str, ...] = ()
    """Parts of the names of tensors that are left out."""
    without: tuple[str, ...] = ()
    """Keys of config.json that are left out; those of nested configs dotted."""
    kept: str | None = None
    """Key of transformers' config that is the whole config.json."""
    config: Mapping[str, Any] | None = None
    """The whole config.json; `text_config` None is replaced by what transformers saved."""


@dataclass(frozen=True, kw_only=True)
class TargetRecipe:
    """One target class, and how a tiny target of it is made."""

    name: str
    architecture: str
    """The class, as config.json and sglang's registry call it."""
    config: str
    """Config class of transformers."""
    settings: Mapping[str, Any]
    """Its arguments, as transformers 5 calls them."""
    model: str | None = None
    """Model class of transformers; None: as `architecture`."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """Keys that sglang's class needs and transformers does not write; those of nested configs dotted."""
    conversion: Conversion | None = None
    wraps: str | None = None
    """Name of the recipe of the text model inside, if this is a multimodal wrapper."""
    core: bool = False
    """Whether `--targets core`, the default, judges it."""
    streams: int = 1
    """Residual streams, all of which are a hidden state (manifold-constrained hyper-connections)."""
    server_args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that sglang reads."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Parts of the names of parameters that all have one value; the others are drawn."""
    variations: tuple[Variation, ...] = ()
    """Settings in which the class is compared with transformers once more."""
    judged_by: str = "transformers' class of the same name"
    note: str = ""
    """What else has to be known about it."""

    def variation(self, name: str) -> Variation | None:
        """That of its variations which is called so."""
        return next((item for item in self.variations if item.name == name), None)

    def varied(self, variation: Variation | None) -> TargetRecipe:
        """The same with other settings of its language model."""
        if variation is None:
            return self
        text = self.settings.get("text_config")
        if text is None:
            return replace(self, settings={**self.settings, **variation.settings})
        return replace(self, settings={**self.settings, "text_config": {**text, **variation.settings}})


SIZES: Mapping[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 128, "num_hidden_layers": LAYERS,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
}  # fmt: skip
HEAD: Mapping[str, Any] = {"head_dim": 16}


def _rope(**more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, **more}}


HALF = _rope(partial_rotary_factor=0.5)
YARN = {
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 128,
    }
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
GROUPED = {
    "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "v_head_dim": 16,
}  # fmt: skip
"""Multi-head latent attention (DeepSeek-V2)."""
DEEPSEEK = {**SIZES, **LATENT, **YARN, **GROUPED, "n_group": 2, "routed_scaling_factor": 1.5}
LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
}  # fmt: skip
SINGLE_PRECISION = {"SGLANG_MAMBA_CONV_DTYPE": "float32"}
"""Of the windows of a convolution, which sglang keeps in bfloat16."""
QWEN3_5 = {
    **SIZES, **HEAD, **LINEAR,
    **_rope(partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True),
}  # fmt: skip
GEMMA = {**SIZES, **HEAD, "tie_word_embeddings": True, "pad_token_id": 0}
GEMMA_3 = {
    **GEMMA, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}  # fmt: skip
WINDOW = 64
"""Longer than any text that is served here."""
EYES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
"""Sizes of a vision tower that no prompt here reaches."""
QWEN_TOKENS = {
    "image_token_id": 250, "video_token_id": 251, "vision_start_token_id": 252, "vision_end_token_id": 253,
}  # fmt: skip
QWEN_EYES = {
    "depth": 1,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 64,
    "out_hidden_size": HIDDEN,
}
GLM = {
    **SIZES, **HEAD, **HALF, **GROUPED, "use_qk_norm": True, "attention_bias": True,
}  # fmt: skip
EXAONE = {
    **SIZES, **HEAD, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2, "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5,
    "sliding_window_pattern": 4, "sliding_window": WINDOW,
}  # fmt: skip
MINIMAX = {**SIZES, **HEAD, **HALF, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2}
MINIMAX_M3 = {
    **MINIMAX, "dense_intermediate_size": 128, "shared_intermediate_size": 32, "rotary_dim": 8,
    "routed_scaling_factor": 1.0, "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
    "layer_types": ["full_attention"] * LAYERS,
}  # fmt: skip
MINIMAX_M3_VL = {
    "text_config": MINIMAX_M3, "vision_config": EYES, "image_token_index": 250, "video_token_index": 251,
    "projector_hidden_size": HIDDEN,
}  # fmt: skip
MINIMAX_M3_EYES = ("vision_tower", "multi_modal_projector", "patch_merge_mlp")
MINIMAX_M3_FURTHER: Mapping[str, Any] = {
    "scoring_func": "sigmoid", "n_shared_experts": 1, "use_qk_norm": True, "qk_norm_type": "per_head",
    "use_gemma_norm": True, "use_routing_bias": True, "hidden_act": "swigluoai", "dtype": "float32",
    "moe_layer_freq": [0] + [1] * (LAYERS - 1), "rotary_dim": 8,
    "sparse_attention_config": {
        "sparse_attention_freq": [0] * LAYERS, "sparse_num_index_heads": 1, "sparse_index_dim": 16,
        "sparse_block_size": 8, "sparse_topk_blocks": 16, "sparse_local_block": 1, "sparse_init_block": 0,
        "sparse_disable_index_value": [1] * LAYERS, "use_sparse_attention": True,
    },
}  # fmt: skip
KIMI: Mapping[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "dtype": "float32",
    "torch_dtype": "float32", "text_config": None, "media_placeholder_token_id": 255, "pad_token_id": 0,
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    "vision_config": {
        **EYES, "patch_size": 14, "init_pos_emb_height": 4, "init_pos_emb_width": 4, "init_pos_emb_time": 2,
        "merge_kernel_size": [2, 2], "mm_hidden_size": 32, "text_hidden_size": HIDDEN, "vt_hidden_size": 32,
    },
}  # fmt: skip
BAILING: Mapping[str, Any] = {
    **SIZES, **HEAD, **HALF, "architectures": ["BailingMoeV2ForCausalLM"], "model_type": "glm4_moe",
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "use_bias": False, "use_qkv_bias": False, "use_qk_norm": True,
    "norm_head": False, "num_experts": 8, "num_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2,
    "topk_group": 1, "routed_scaling_factor": 1.0, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
    "rotary_dim": 8, "norm_topk_prob": True, "moe_router_enable_expert_bias": True, "n_routed_experts": 8,
    "score_function": "sigmoid", "embedding_dropout": 0.0, "rope_theta": 10_000.0, "dtype": "float32",
    "torch_dtype": "float32",
}  # fmt: skip
DENSE = "its sparse attention is switched off, as it has no kernel for a CPU"
STREAMS = (
    "all its layers have softmax attention, and none has linear attention; a draft is given all residual "
    "streams, so its target_hidden_size is hc_mult times the hidden size"
)
DEEPSEEK_FURTHER = {"moe_layer_freq": 1}

TARGETS: tuple[TargetRecipe, ...] = (
    TargetRecipe(
        name="llama",
        architecture="LlamaForCausalLM",
        config="LlamaConfig",
        settings={**SIZES, **HEAD, **_rope()},
        core=True,
    ),
    TargetRecipe(
        name="mistral",
        architecture="MistralForCausalLM",
        config="MistralConfig",
        settings={**SIZES, **HEAD, **_rope(), "sliding_window": None},
    ),
    TargetRecipe(
        name="phi3",
        architecture="Phi3ForCausalLM",
        config="Phi3Config",
        settings={**SIZES, **_rope(), "pad_token_id": 0},
    ),
    TargetRecipe(
        name="qwen2",
        architecture="Qwen2ForCausalLM",
        config="Qwen2Config",
        settings={**SIZES, **_rope()},
        core=True,
    ),
    TargetRecipe(
        name="qwen3",
        architecture="Qwen3ForCausalLM",
        config="Qwen3Config",
        settings={**SIZES, **HEAD, **_rope()},
        core=True,
    ),
    TargetRecipe(
        name="qwen3_moe",
        architecture="Qwen3MoeForCausalLM",
        config="Qwen3MoeConfig",
        settings={**SIZES, **HEAD, **_rope(), **EXPERTS, "decoder_sparse_step": 1, "mlp_only_layers": []},
        core=True,
    ),
    TargetRecipe(
        name="qwen2_5_vl",
        architecture="Qwen2_5_VLForConditionalGeneration",
        config="Qwen2_5_VLConfig",
        settings={
            **QWEN_TOKENS,
            "text_config": {**SIZES, **_rope(mrope_section=[2, 3, 3])},
            "vision_config": {**QWEN_EYES, "patch_size": 14, "fullatt_block_indexes": [0]},
        },
        wraps="qwen2",
        core=True,
    ),
    TargetRecipe(
        name="qwen3_vl",
        architecture="Qwen3VLForConditionalGeneration",
        config="Qwen3VLConfig",
        settings={
            **QWEN_TOKENS,
            "text_config": {**SIZES, **HEAD, **_rope(mrope_section=[2, 3, 3], mrope_interleaved=True)},
            "vision_config": {
                **QWEN_EYES,
                "patch_size": 16,
                "deepstack_visual_indexes": [0],
                "num_position_embeddings": 16,
            },
        },
        wraps="qwen3",
        core=True,
    ),
    TargetRecipe(
        name="deepseek_v3",
        architecture="DeepseekV3ForCausalLM",
        config="DeepseekV3Config",
        settings=DEEPSEEK,
        further={**DEEPSEEK_FURTHER, "topk_method": "noaux_tc", "scoring_func": "sigmoid"},
        core=True,
    ),
    TargetRecipe(
        name="kimi_k25",
        architecture="KimiK25ForConditionalGeneration",
        config="DeepseekV3Config",
        model="DeepseekV3ForCausalLM",
        settings=DEEPSEEK,
        further={**DEEPSEEK_FURTHER, "topk_method": "noaux_tc", "scoring_func": "sigmoid"},
        conversion=Conversion(prefix="language_model.", config=KIMI),
        wraps="deepseek_v3",
        judged_by="transformers' DeepseekV3ForCausalLM, which is the language model that it wraps",
        core=True,
    ),
    TargetRecipe(
        name="glm4_moe",
        architecture="Glm4MoeForCausalLM",
        config="Glm4MoeConfig",
        settings=GLM,
        core=True,
    ),
    TargetRecipe(
        name="glm4_moe_lite",
        architecture="Glm4MoeLiteForCausalLM",
        config="Glm4MoeLiteConfig",
        settings={
            **{key: value for key, value in DEEPSEEK.items() if key != "first_k_dense_replace"},
            **_rope(),
            "n_group": 1,
            "qk_rope_head_dim": 16,
        },
        further={
            **DEEPSEEK_FURTHER,
            "first_k_dense_replace": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
        },
        core=True,
    ),
    TargetRecipe(
        name="gpt_oss",
        architecture="GptOssForCausalLM",
        config="GptOssConfig",
        settings={
            **SIZES,
            **HEAD,
            "intermediate_size": 64,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": WINDOW,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10_000.0,
                "factor": 2.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 256,
            },
        },
        further={"swiglu_limit": 7.0},
        variations=(SHORT_WINDOW,),
        core=True,
    ),
    TargetRecipe(
        name="gemma3",
        architecture="Gemma3ForCausalLM",
        config="Gemma3TextConfig",
        settings={
            **GEMMA_3,
            "sliding_window": WINDOW,
        },
        variations=(SHORT_WINDOW,),
        core=True,
    ),
    TargetRecipe(
        name="gemma3_mm",
        architecture="Gemma3ForConditionalGeneration",
        config="Gemma3Config",
        settings={
            "text_config": {
                **GEMMA_3,
                "sliding_window": WINDOW,
            },
            "vision_config": {**EYES, "image_size": 28, "patch_size": 14},
            "boi_token_index": 250,
            "eoi_token_index": 251,
            "image_token_index": 252,
            "mm_tokens_per_image": 4,
        },
        conversion=Conversion(dropped=("vision_tower",)),
        wraps="gemma3",
        variations=(SHORT_WINDOW,),
    ),
    TargetRecipe(
        name="gemma4",
        architecture="Gemma4ForCausalLM",
        config="Gemma4TextConfig",
        settings={
            **GEMMA,
            "global_head_dim": 16,
            "num_global_key_value_heads": 2,
            "sliding_window": WINDOW,
            "hidden_size_per_layer_input": 0,
            "num_kv_shared_layers": 0,
            "enable_moe_block": False,
        },
        further={"swa_head_dim": 16, "swa_v_head_dim": 16, "v_head_dim": 16, "swa_num_key_value_heads": 2},
        variations=(SHORT_WINDOW,),
        core=True,
    ),
    TargetRecipe(
        name="gemma4_mm",
        architecture="Gemma4ForConditionalGeneration",
        config="Gemma4Config",
        settings={
            "text_config": {
                **GEMMA,
                "global_head_dim": 16,
                "num_global_key_value_heads": 2,
                "attention_k_eq_v": False,
                "sliding_window": WINDOW,
                "hidden_size_per_layer_input": 0,
                "num_kv_shared_layers": 0,
                "enable_moe_block": False,
            },
            "vision_config": {
                **EYES,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "patch_size": 14,
                "pooling_kernel_size": 1,
            },
            "audio_config": None,
            "boi_token_id": 250,
            "eoi_token_id": 251,
            "image_token_id": 252,
            "video_token_id": 253,
            "audio_token_id": 254,
            "boa_token_id": 249,
            "eoa_token_index": 248,
        },
        conversion=Conversion(dropped=("vision_tower",)),
        wraps="gemma4",
        variations=(SHORT_WINDOW,),
    ),
    TargetRecipe(
        name="minimax_m2",
        architecture="MiniMaxM2ForCausalLM",
        config="MiniMaxM2Config",
        settings=MINIMAX,
        further={"scoring_func": "sigmoid", "rotary_dim": 8, "use_qk_norm": True, "use_routing_bias": True},
        core=True,
    ),
    TargetRecipe(
        name="minimax_m3",
        architecture="MiniMaxM3SparseForCausalLM",
        config="MiniMaxM3VLConfig",
        model="MiniMaxM3SparseForConditionalGeneration",
        settings=MINIMAX_M3_VL,
        # sglang asks for sparse_attention_config, which transformers' config of the text model drops
        further={**MINIMAX_M3_FURTHER, "model_type": "minimax_m2"},
        conversion=Conversion(kept="text_config", renames={"language_model.": ""}, dropped=MINIMAX_M3_EYES),
        environment={"SGLANG_OPT_USE_BF16_ROUTER_GEMM": "0"},
        judged_by="the language model inside transformers' MiniMaxM3SparseForConditionalGeneration",
        note=DENSE,
    ),
    TargetRecipe(
        name="minimax_m3_vl",
        architecture="MiniMaxM3SparseForConditionalGeneration",
        config="MiniMaxM3VLConfig",
        settings=MINIMAX_M3_VL,
        further={
            **{f"text_config.{key}": value for key, value in MINIMAX_M3_FURTHER.items()},
            "vision_config.num_channels": 3,
            "vision_config.image_size": 28,
            "vision_config.layer_norm_eps": 1e-5,
            "vision_config.hidden_act": "gelu",
            "vision_config.rope_theta": 10_000.0,
            "vision_config.img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2},
            "vision_config.position_embedding_type": "rope",
            "vision_config.rope_mode": "3d",
            "vision_config.vision_segment_max_frames": 4,
        },
        conversion=Conversion(dropped=MINIMAX_M3_EYES),
        environment={"SGLANG_OPT_USE_BF16_ROUTER_GEMM": "0"},
        wraps="minimax_m3",
        note=DENSE,
    ),
    TargetRecipe(
        name="apertus",
        architecture="ApertusForCausalLM",
        config="ApertusConfig",
        settings={**SIZES, **_rope()},
        values={"act_fn.alpha": -20.0},
        note="the parameters of its activation are kept in bfloat16 by sglang, so they have values here at "
        "which rounding says nothing",
    ),
    TargetRecipe(
        name="exaone_moe",
        architecture="ExaoneMoeForCausalLM",
        config="ExaoneMoeConfig",
        settings=EXAONE,
        further={"is_moe_layer": [False] + [True] * (LAYERS - 1)},
        server_args=("--attention-backend", "triton"),
        variations=(SHORT_WINDOW, ROPE_BASE),
    ),
    TargetRecipe(
        name="deepseek_v2",
        architecture="DeepseekV2ForCausalLM",
        config="DeepseekV2Config",
        settings={
            **DEEPSEEK,
            "topk_method": "greedy",
            "n_group": 1,
            "norm_topk_prob": False,
            "routed_scaling_factor": 1.0,
        },
        further={**DEEPSEEK_FURTHER, "scoring_func": "softmax"},
    ),
    TargetRecipe(
        name="mllama4",
        architecture="Llama4ForConditionalGeneration",
        config="Llama4Config",
        settings={
            "boi_token_index": 250,
            "eoi_token_index": 251,
            "image_token_index": 252,
            "vision_config": {
                **EYES,
                "vision_output_dim": 32,
                "image_size": 28,
                "patch_size": 14,
                "projector_input_dim": 32,
                "projector_output_dim": 32,
            },
            "text_config": {
                **SIZES,
                **HEAD,
                **_rope(),
                "intermediate_size_mlp": 128,
                "num_local_experts": 4,
                "num_experts_per_tok": 1,
                "interleave_moe_layer_step": 1,
                "attention_chunk_size": 512,
                "no_rope_layer_interval": 4,
                "use_qk_norm": False,
                "attn_temperature_tuning": False,
            },
        },
    ),
    TargetRecipe(
        name="longcat_flash",
        architecture="LongcatFlashForCausalLM",
        config="LongcatFlashConfig",
        settings={
            **{key: value for key, value in SIZES.items() if key != "intermediate_size"},
            **LATENT,
            **_rope(),
            "num_hidden_layers": 2 * LAYERS,
            "num_layers": LAYERS,
            "head_dim": 8,
            "ffn_hidden_size": 128,
            "expert_ffn_hidden_size": 32,
            "n_routed_experts": 8,
            "zero_expert_num": 4,
            "moe_topk": 2,
            "routed_scaling_factor": 1.0,
        },
        further={
            "rope_scaling": {"rope_type": "default", "rope_theta": 10_000.0},
            "rope_theta": 10_000.0,
            "num_hidden_layers": LAYERS,
            "intermediate_size": 128,
            "params_dtype": "float32",
            "norm_topk_prob": False,
        },
    ),
    TargetRecipe(
        name="bailing_moe",
        architecture="BailingMoeV2ForCausalLM",
        config="Glm4MoeConfig",
        model="Glm4MoeForCausalLM",
        settings={
            **SIZES,
            **HEAD,
            **HALF,
            **GROUPED,
            "n_group": 2,
            "use_qk_norm": True,
            "attention_bias": False,
        },
        conversion=Conversion(
            renames={
                "embed_tokens": "word_embeddings",
                "self_attn.o_proj": "attention.dense",
                "self_attn.q_norm": "attention.query_layernorm",
                "self_attn.k_norm": "attention.key_layernorm",
                "gate.e_score_correction_bias": "gate.expert_bias",
            },
            fused={
                "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            },
            config=BAILING,
        ),
        judged_by="transformers' Glm4MoeForCausalLM with the same weights (transformers has no class of its "
        "own; both compute grouped-query attention with normed heads, sigmoid routing in groups and a shared "
        "expert)",
    ),
    TargetRecipe(
        name="qwen3_next",
        architecture="Qwen3NextForCausalLM",
        config="Qwen3NextConfig",
        settings={
            **SIZES,
            **HEAD,
            **HALF,
            **EXPERTS,
            **LINEAR,
            "decoder_sparse_step": 1,
            "shared_expert_intermediate_size": 32,
            "mlp_only_layers": [],
        },
        further={"full_attention_interval": 4, "partial_rotary_factor": 0.5},
        environment=SINGLE_PRECISION,
    ),
    TargetRecipe(
        name="qwen3_5",
        architecture="Qwen3_5ForCausalLM",
        config="Qwen3_5TextConfig",
        settings=QWEN3_5,
        further={"full_attention_interval": 4, "partial_rotary_factor": 0.5},
        environment=SINGLE_PRECISION,
    ),
    TargetRecipe(
        name="qwen3_5_mm",
        architecture="Qwen3_5ForConditionalGeneration",
        config="Qwen3_5Config",
        settings={
            **QWEN_TOKENS,
            "text_config": QWEN3_5,
            "vision_config": {**QWEN_EYES, "patch_size": 16, "num_position_embeddings": 16},
        },
        further={"text_config.full_attention_interval": 4, "text_config.partial_rotary_factor": 0.5},
        environment=SINGLE_PRECISION,
        wraps="qwen3_5",
    ),
    TargetRecipe(
        name="glm5_next",
        architecture="Glm5NextForConditionalGeneration",
        config="Glm5NextConfig",
        settings={
            "text_config": {
                **SIZES,
                **GROUPED,
                "num_key_value_heads": 4,
                "q_lora_rank": 32,
                "kv_lora_rank": 32,
                "qk_nope_head_dim": 16,
                "qk_rope_head_dim": 0,
                "v_head_dim": 16,
                "first_k_dense_replace": 3,
                "layer_types": ["indexed_attention"] * LAYERS,
                "index_topk": 512,
                "index_kpool": 16,
                "index_head_dim": 16,
                "index_n_heads": 2,
                "linear_head_dim": 16,
                "linear_num_heads": 4,
                "hc_mult": 2,
            },
            "vision_config": {**EYES, "depth": 1, "num_heads": 2, "image_size": 28, "out_hidden_size": 64},
            "image_token_id": 250,
            "video_token_id": 251,
            "image_start_token_id": 252,
            "image_end_token_id": 253,
            "video_start_token_id": 254,
            "video_end_token_id": 255,
        },
        further={"text_config.mhc": True},
        conversion=Conversion(without=("text_config.index_topk",)),
        environment={
            **SINGLE_PRECISION,
            "SGLANG_OPT_USE_TILELANG_MHC_PRE": "0",
            "SGLANG_OPT_USE_TILELANG_MHC_POST": "0",
        },
        streams=2,
        note=f"{DENSE}; {STREAMS}",
    ),
    TargetRecipe(
        name="qwen2_moe",
        architecture="Qwen2MoeForCausalLM",
        config="Qwen2MoeConfig",
        settings={
            **SIZES,
            **_rope(),
            **EXPERTS,
            "decoder_sparse_step": 1,
            "shared_expert_intermediate_size": 32,
            "mlp_only_layers": [],
        },
    ),
)


def selected(words: str) -> tuple[TargetRecipe, ...]:
    """Those that are meant by `none`, or by words between commas: `core`, `all`, names of recipes or classes.

    Raises:
        KeyError: there is none of some name; the message lists those there are.

    """
    if words == "none":
        return ()
    known: dict[str, tuple[TargetRecipe, ...]] = {recipe.architecture: (recipe,) for recipe in TARGETS}
    known |= {recipe.name: (recipe,) for recipe in TARGETS}
    known |= {"all": TARGETS, "core": tuple(recipe for recipe in TARGETS if recipe.core)}
    names = [name.strip() for name in words.split(",")]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            told = f"; do you mean {', '.join(near)}?" if near else ""
            short = ", ".join(recipe.name for recipe in TARGETS)
            raise KeyError(
                f"no target {name!r}{told} (there are core, all, none, {short}, and their classes)"
            )
    return tuple({recipe.name: recipe for name in names for recipe in known[name]}.values())
