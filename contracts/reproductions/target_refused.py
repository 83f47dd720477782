def main():
    """Qwen2-MoE: has the setter for EAGLE-3 and no get_embed_and_head (sglang/srt/models/qwen2_moe.py)."""
    from safetensors.torch import save_file

    print("sglang", sglang.__version__, "transformers", transformers.__version__)
    print("A server should start. Here it ends: no attribute 'get_embed_and_head', which is the defect.")
    experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)
    config = transformers.Qwen2MoeConfig(**SIZES, **experts, shared_expert_intermediate_size=64)
    folder, _ = save(transformers.Qwen2MoeForCausalLM, config)

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

    serve(
        folder,
        speculative_algorithm="EAGLE3",
        speculative_draft_model_path=draft,
        speculative_num_steps=3,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=4,
    )


if __name__ == "__main__":
    main()
