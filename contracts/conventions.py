"""Names and keys of the interface that are the same in every release: what export writes, and check reads.

Standard library only, so that a command that needs no more starts at once.
"""

from __future__ import annotations

import re

LAYER_KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "max_position_embeddings",
    "attention_bias", "mlp_bias", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip
"""Keys of a decoder layer's config that mean the same in training and in serving."""
NORM_FLAGS = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
"""Optional norms of an EAGLE-3 draft, as config.json switches them on."""
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""What weights are stored in, as safetensors and as torch call it."""
WINDOW_ARGUMENT = "--speculative-draft-window-size"
"""Of sglang's command line."""
ORIGINAL_LENGTH = "original_max_position_embeddings"
ROPE_KEYS = {
    "default": frozenset[str](),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", ORIGINAL_LENGTH}),
    "yarn": frozenset({"factor", ORIGINAL_LENGTH}),
}
"""Scalings, with their keys, of which the forward contracts show that both sides compute the same angles."""
STAMP = "exported_by_draft_contracts"
"""Key of config.json that says for which release, and what a forced export could not express; no engine reads
it, and what lacks it is never overwritten."""

_FIRST_LAYER = re.compile(r"^layers\.0\.")
_LATER_INPUT_NORM = re.compile(r"^(layers\.[1-9]\d*)\.input_layernorm\.")


def exported_name(name: str) -> str:
    """Name under which the serving side reads a tensor that speculators saved as `name`.

    The first layer is `midlayer` in the EAGLE-3 reference and in every sglang release. In sglang >= 0.5.12
    the norm before the attention of later layers is called `hidden_norm` (models/llama_eagle3.py);
    speculators calls it `input_layernorm`, as Llama does.
    """
    name = _FIRST_LAYER.sub("midlayer.", name)
    return _LATER_INPUT_NORM.sub(r"\1.hidden_norm.", name)
