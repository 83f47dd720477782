import sys


def qwen2_moe():
    """Qwen2-MoE has the setter for EAGLE-3 and no get_embed_and_head (sglang/srt/models/qwen2_moe.py)."""
    experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)
    config = transformers.Qwen2MoeConfig(**SIZES, **experts, shared_expert_intermediate_size=64)
    return transformers.Qwen2MoeForCausalLM, config, {}, {}


def qwen3_5():
    """Up to 0.5.21 Qwen3.5's wrapper inherits a setter that its language model does not heed, so that the
    forward pass unpacks one tensor into two (sglang/srt/models/qwen3_vl.py)."""
    heads = dict(linear_num_value_heads=4, linear_num_key_heads=2, linear_conv_kernel_dim=4, head_dim=64)
    heads |= dict(linear_key_head_dim=64, linear_value_head_dim=64, full_attention_interval=4)
    rope = dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)
    rope |= dict(mrope_section=[6, 5, 5], mrope_interleaved=True)
    text = {**SIZES, **heads, "rope_parameters": rope, "partial_rotary_factor": 0.5}
    eyes = dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=64, patch_size=16)
    eyes |= dict(num_position_embeddings=16, out_hidden_size=SIZES["hidden_size"])
    config = transformers.Qwen3_5Config(text_config=text, vision_config=eyes, image_token_id=250)
    keys = dict(full_attention_interval=4, partial_rotary_factor=0.5)
    return (
        transformers.Qwen3_5ForConditionalGeneration,
        config,
        dict(text_config=keys),
        dict(enable_multimodal=False),
    )


def glm4_moe_lite():
    """In 0.5.10 to 0.5.12 GLM-4-MoE-lite inherits a forward pass that asks for attributes which it does not
    set (sglang/srt/models/glm4_moe_lite.py)."""
    latent = dict(q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32)
    experts = dict(n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=64)
    sizes = {**SIZES, "num_key_value_heads": 4}
    config = transformers.Glm4MoeLiteConfig(**sizes, **latent, **experts, n_group=1, topk_group=1)
    keys = dict(first_k_dense_replace=1, moe_layer_freq=1, topk_method="noaux_tc", scoring_func="sigmoid")
    return transformers.Glm4MoeLiteForCausalLM, config, keys, {}


def main(target):
    """A draft of no account for one of these targets."""
    from safetensors.torch import save_file

    print("sglang", sglang.__version__, "transformers", transformers.__version__)
    print("A server should start and answer. Where it ends with an error instead:", target.__doc__)
    model, config, further, options = target()
    folder, _ = save(model, config, **further)

    draft, width = temporary_folder(), SIZES["hidden_size"]
    names = {
        "fc": (width, 3 * width),
        "midlayer.self_attn.q_proj": (width, 2 * width),
        "midlayer.self_attn.k_proj": (width // 2, 2 * width),
        "midlayer.self_attn.v_proj": (width // 2, 2 * width),
        "midlayer.self_attn.o_proj": (width, width),
        **{f"midlayer.mlp.{part}_proj": (width, width) for part in ("gate", "up", "down")},
        **{f"midlayer.{part}": (width,) for part in ("hidden_norm", "input_layernorm")},
        "midlayer.post_attention_layernorm": (width,),
        "norm": (width,),
        "lm_head": (SIZES["vocab_size"], width),
    }
    tensors = {f"{name}.weight": torch.ones(shape, dtype=torch.bfloat16) for name, shape in names.items()}
    save_file(tensors, f"{draft}/model.safetensors")
    written = {
        **SIZES,
        "num_hidden_layers": 1,
        "draft_vocab_size": SIZES["vocab_size"],
        "model_type": "llama",
    }
    with open(f"{draft}/config.json", "w") as file:
        json.dump({**written, "architectures": ["LlamaForCausalLMEagle3"], "dtype": "bfloat16"}, file)

    answer = serve(
        folder,
        **options,
        speculative_algorithm="EAGLE3",
        speculative_draft_model_path=draft,
        speculative_num_steps=3,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=4,
    )
    print("answered:", answer["output_ids"])


if __name__ == "__main__":
    targets = {"qwen2_moe": qwen2_moe, "qwen3_5": qwen3_5, "glm4_moe_lite": glm4_moe_lite}
    main(targets[(sys.argv[1:] or ["qwen2_moe"])[0]])
