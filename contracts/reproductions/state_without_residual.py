def main():
    """Gemma-3: what is captured for a draft lacks the residual (sglang/srt/models/gemma3_causal.py)."""
    print("sglang", sglang.__version__, "transformers", transformers.__version__)
    gemma = transformers.Gemma3TextConfig(**SIZES, head_dim=64, query_pre_attn_scalar=64, pad_token_id=0)
    for model_class, config in (
        (transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**SIZES, head_dim=64)),
        (transformers.Gemma3ForCausalLM, gemma),
    ):
        folder, reference = save(model_class, config)
        for layer, seen in zip((1, 3, 4), captured(folder, [1, 3, 4])):
            due = reference.hidden_states[layer + 1][0]
            print(f"{model_class.__name__}: captured output of layer {layer} is off by {off(seen, due)}")


if __name__ == "__main__":
    main()
