import json
import os
import tempfile

import sglang
import torch
import transformers

PROMPT = [17, 203, 64, 130, 49, 188, 77, 222, 28, 91, 155, 42, 9, 211, 35, 120]
SIZES = dict(
    vocab_size=256,
    hidden_size=256,
    intermediate_size=256,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    bos_token_id=1,
    eos_token_id=2,
)
ENGINE = dict(skip_tokenizer_init=True, dtype="bfloat16", mem_fraction_static=0.2, disable_cuda_graph=True)
ENGINE |= json.loads(os.environ.get("ENGINE", "{}"))  # whatever your machine needs, as JSON


FOLDERS = []


def temporary_folder():
    """A folder that goes with this process."""
    FOLDERS.append(tempfile.TemporaryDirectory())
    return FOLDERS[-1].name


def save(model_class, config, **further):
    """A tiny random target in a temporary folder, and what transformers computes with it over PROMPT."""
    torch.manual_seed(0)
    model = model_class(config).to(torch.bfloat16).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.1)
    folder = temporary_folder()
    model.save_pretrained(folder)
    with open(f"{folder}/config.json") as file:
        written = json.load(file)
    with open(f"{folder}/config.json", "w") as file:
        for key, value in further.items():
            written[key] = {**written[key], **value} if isinstance(value, dict) and key in written else value
        json.dump({**written, "dtype": "bfloat16"}, file)
    with torch.no_grad():
        return folder, model(torch.tensor([PROMPT]), output_hidden_states=True)


def serve(folder, **options):
    """What sglang answers to PROMPT, greedily."""
    engine = sglang.Engine(model_path=folder, **ENGINE, **options)
    try:
        return engine.generate(
            input_ids=PROMPT,
            sampling_params={"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            return_hidden_states=options.get("enable_return_hidden_states", False),
        )
    finally:
        engine.shutdown()


def captured(folder, ids):
    """The hidden states that sglang captures for an EAGLE-3 draft that names `ids`, one after the other."""
    answer = serve(
        folder,
        speculative_algorithm="EAGLE3",
        enable_return_aux_hidden_states=True,
        return_aux_hidden_state_layer_ids=ids,
        enable_return_hidden_states=True,
    )
    states = torch.tensor(answer["meta_info"]["hidden_states"][0])
    return states[: len(PROMPT)].split(SIZES["hidden_size"], -1)


def off(seen, due):
    """How far two tensors are apart, relative to the largest value due."""
    return f"{float((seen.float() - due.float()).abs().max() / due.float().abs().max()):.1%}"
