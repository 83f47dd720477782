MOE = dict(is_moe_layer=[False] * 8)


def exaone(**settings):
    usual = dict(sliding_window=64, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    return transformers.ExaoneMoeConfig(
        **SIZES, head_dim=64, first_k_dense_replace=8, sliding_window_pattern=4, **{**usual, **settings}
    )


def main():
    """EXAONE-MoE: windowed layers attend to one position more than their window (sglang/srt/models/exaone_moe.py)."""
    print("sglang", sglang.__version__, "transformers", transformers.__version__)
    for window in (64, 6):
        folder, reference = save(transformers.ExaoneMoeForCausalLM, exaone(sliding_window=window), **MOE)
        _, longer = save(transformers.ExaoneMoeForCausalLM, exaone(sliding_window=window + 1), **MOE)
        seen = torch.tensor(serve(folder, enable_return_hidden_states=True)["meta_info"]["hidden_states"][0])
        for told, due in ((window, reference), (window + 1, longer)):
            error = off(seen[: len(PROMPT)], due.hidden_states[-1][0])
            print(f"sglang: a window of {window}, transformers: {told}: last state is off by {error}")


if __name__ == "__main__":
    main()
