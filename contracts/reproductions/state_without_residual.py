def main():
    """Gemma3 aux_hidden_states omit the residual (sglang/srt/models/gemma3_causal.py, since 0.5.17).

    The model appends `hidden_states` where it carries `residual` beside it; up to 0.5.16 the states are right.
    What is returned here is what an EAGLE-3 draft is given: the same setter and the same forward pass. Expected:
    every line off by a few percent, which is bfloat16; Gemma-3 is off by nine tenths. Needs a release with
    enable_return_aux_hidden_states (0.5.23).
    """
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
