def main():
    """DeepSeek-V3: the same layers in another order are taken for others (sglang/srt/models/deepseek_v2.py)."""
    print("sglang", sglang.__version__, "transformers", transformers.__version__)
    latent = dict(q_lora_rank=64, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
    experts = dict(
        n_routed_experts=8, num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=8
    )
    sizes = {**SIZES, "num_key_value_heads": SIZES["num_attention_heads"]}
    rope = dict(rope_type="yarn", rope_theta=10_000.0, factor=4.0, original_max_position_embeddings=128)
    rope |= dict(beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
    config = transformers.DeepseekV3Config(**sizes, **latent, **experts, rope_parameters=rope)
    further = dict(moe_layer_freq=1, topk_method="noaux_tc", scoring_func="sigmoid")
    folder, reference = save(transformers.DeepseekV3ForCausalLM, config, **further)
    for ids in ([1, 3, 4], [3, 1, 4]):
        states = captured(folder, ids)[: len(ids)]
        errors = [[off(seen, due[0]) for due in reference.hidden_states[:-1]] for seen in states]
        nearest = [min(range(len(row)), key=lambda index: float(row[index][:-1])) for row in errors]
        print(f"ids {ids}: captured are the hidden states {nearest} of transformers")


if __name__ == "__main__":
    main()
