MOE = dict(is_moe_layer=[False] * 8)


def exaone(**settings):
    usual = dict(sliding_window=64, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    return transformers.ExaoneMoeConfig(
        **SIZES, head_dim=64, first_k_dense_replace=8, sliding_window_pattern=4, **{**usual, **settings}
    )


def main():
    """EXAONE-MoE: the base of RoPE is not read from rope_parameters (sglang/srt/models/exaone_moe.py)."""
    print("sglang", sglang.__version__, "transformers", transformers.__version__)
    for base in (1e6, 500.0):
        rope = {"rope_type": "default", "rope_theta": base}
        folder, reference = save(transformers.ExaoneMoeForCausalLM, exaone(rope_parameters=rope), **MOE)
        seen = torch.tensor(serve(folder, enable_return_hidden_states=True)["meta_info"]["hidden_states"][0])
        error = off(seen[: len(PROMPT)], reference.hidden_states[-1][0])
        print(f"a base of {base:g}: last hidden state is off by {error}")


if __name__ == "__main__":
    main()
