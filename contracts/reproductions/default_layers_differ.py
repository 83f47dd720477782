from types import SimpleNamespace


def main():
    """MiniMax-M3: the wrapper adds one to the default layers (sglang/srt/models/minimax_m3_vl.py)."""
    from sglang.srt.models import minimax_m3, minimax_m3_vl

    print("sglang", sglang.__version__)
    config = SimpleNamespace(num_hidden_layers=8)
    config.text_config = config
    for model_class in (
        minimax_m3.MiniMaxM3SparseForCausalLM,
        minimax_m3_vl.MiniMaxM3SparseForConditionalGeneration,
    ):
        inner = SimpleNamespace(layers=[SimpleNamespace() for _ in range(8)])
        model = SimpleNamespace(config=config, model=inner, pp_group=SimpleNamespace(is_last_rank=True))
        model_class.set_eagle3_layers_to_capture(model, None)
        told = inner.layers_to_capture
        print(f"{model_class.__name__}, no ids: captures the inputs of layers {told}")


if __name__ == "__main__":
    main()
