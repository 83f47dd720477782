"""The tiny seeded drafts and targets that every contract is judged on, as declarative values.

A recipe varies one thing against `plain`. Sizes are the smallest that keep every dimension apart:
hidden, intermediate, vocabulary and head counts all differ, so a transposed or mis-sized tensor shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

DType = Literal["float32", "bfloat16"]


def _frozen(**items: Any) -> Mapping[str, Any]:
    return MappingProxyType(items)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A tiny seeded Llama target, saved by transformers."""

    name: str = "llama"
    vocab_size: int = 256
    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 50_000.0
    max_position_embeddings: int = 512
    tie_word_embeddings: bool = False
    dtype: DType = "float32"
    """Of the weights as saved, the draft's as well."""
    seed: int = 5
    fixture: str | None = None
    """Folder of contracts/fixtures with a committed checkpoint of these sizes; None: a seeded random one."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A draft to train: what it is called, what it varies, and the target it is for."""

    name: str
    about: str
    """One sentence: what differs from `plain`."""
    target: Target = field(default_factory=Target)
    aux_layer_ids: tuple[int, ...] | None = (1, 4, 6)
    """In the convention of the training library; None takes its default."""
    draft_vocab_size: int | None = 192
    """None: the full vocabulary, and no map."""
    layer_type: Literal["llama", "qwen3"] = "llama"
    num_layers: int = 1
    layer: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the draft's layer config."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Options of the training library's draft config; unset ones take its class default."""
    rope_keys: tuple[str, ...] = ("rope_parameters", "rope_theta", "rope_scaling")
    """Spelling of RoPE in the config.json that is served; export writes both."""
    eagle_config: Literal["written", "null"] = "written"
    """Of the config.json that is served: as export writes it, with the layer ids, or null."""
    attention: Literal["sdpa", "eager"] = "sdpa"
    """Implementation of attention that the training library runs; what is served is the same."""
    names: Literal["rewritten", "trained"] = "rewritten"
    """Names of the tensors that are served: as export writes them for every release, or as training does."""
    train_embedding: bool = False
    """Let the draft's embedding differ from the target's."""
    served_dtype: DType = "float32"
    """What the serving side computes in; float32 is exact whatever the weights were saved in."""
    built_by: Literal["class", "command", "trainer", "fixture"] = "class"
    """`class`: seeded weights in the library's draft class. `command`: its own command line with its own
    defaults, untrained. `trainer`: the same, trained. `fixture`: a committed checkpoint."""
    seed: int = 7

    @property
    def speaks(self) -> bool:
        """Whether its target knows a language, so that prompts can be continued and acceptance measured."""
        return self.target.fixture is not None


_LLAMA3_ROPE = _frozen(
    rope_type="llama3",
    rope_theta=50_000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=128,
)

BFLOAT16 = Target(name="llama_bfloat16", dtype="bfloat16", seed=3)
"""As most targets are published, and as the training command saves drafts."""
KEYED_PERMUTATION = Target(
    name="keyed_permutation",
    vocab_size=64,
    intermediate_size=128,
    dtype="bfloat16",
    fixture="target",
)
"""Knows the language of contracts/probes/language.py; made by contracts/fixtures/make.py."""
_YARN_ROPE = _frozen(rope_type="yarn", rope_theta=50_000.0, factor=4.0, original_max_position_embeddings=128)

RECIPES: tuple[Recipe, ...] = (
    Recipe(name="plain", about="a llama layer, a reduced vocabulary and three aux layers"),
    Recipe(name="qwen3_layer", about="a qwen3 layer: queries and keys are normed", layer_type="qwen3"),
    Recipe(name="full_vocab", about="the target's whole vocabulary, no map", draft_vocab_size=None),
    Recipe(name="four_aux_layers", about="four aux layers", aux_layer_ids=(1, 3, 5, 7)),
    Recipe(name="embedding_state", about="the target's embeddings among the states", aux_layer_ids=(0, 4, 6)),
    Recipe(name="norm_before_fc", about="one norm before fc", flags=_frozen(norm_before_fc=True)),
    Recipe(name="fc_norm", about="one norm per aux state before fc", flags=_frozen(fc_norm=True)),
    Recipe(name="norm_output", about="the state fed back is normed", flags=_frozen(norm_output=True)),
    Recipe(
        name="norm_before_residual",
        about="the first layer's residual is normed",
        flags=_frozen(norm_before_residual=True),
    ),
    Recipe(name="two_layers", about="two decoder layers", num_layers=2),
    Recipe(
        name="sliding_window",
        about="attention over the last 32 positions",
        layer=_frozen(sliding_window=32, layer_types=("sliding_attention",), use_sliding_window=True),
    ),
    Recipe(
        name="tied_embeddings",
        about="a target whose head is its embedding",
        target=Target(name="llama_tied", tie_word_embeddings=True, seed=2),
        layer=_frozen(tie_word_embeddings=True),
    ),
    Recipe(
        name="wide_heads",
        about="head_dim differs from hidden_size / heads",
        layer=_frozen(head_dim=32),
    ),
    Recipe(
        name="rope_llama3",
        about="RoPE scaling of the llama3 type",
        layer=_frozen(rope_parameters=_LLAMA3_ROPE),
    ),
    Recipe(
        name="rope_linear",
        about="RoPE scaling of the linear type",
        layer=_frozen(rope_parameters=_frozen(rope_type="linear", rope_theta=50_000.0, factor=4.0)),
    ),
    Recipe(
        name="rope_yarn",
        about="RoPE scaling of the yarn type",
        layer=_frozen(rope_parameters=_YARN_ROPE),
    ),
    Recipe(
        name="rope_old_spelling",
        about="llama3 scaling as transformers 4 spells it: rope_theta and rope_scaling alone",
        layer=_frozen(rope_parameters=_LLAMA3_ROPE),
        rope_keys=("rope_theta", "rope_scaling"),
    ),
    Recipe(
        name="rope_new_spelling",
        about="yarn scaling as transformers 5 spells it: rope_parameters alone",
        layer=_frozen(rope_parameters=_YARN_ROPE),
        rope_keys=("rope_parameters",),
    ),
    Recipe(
        name="no_eagle_config",
        about="a config.json whose eagle_config is null: the states that sglang's Llama captures by default",
        aux_layer_ids=(2, 4, 5),
        eagle_config="null",
    ),
    Recipe(
        name="trained_names",
        about="the first layer is called layers.0, as training calls it, not midlayer",
        names="trained",
    ),
    Recipe(
        name="attention_bias",
        about="biases on the attention projections",
        layer=_frozen(attention_bias=True),
    ),
    Recipe(
        name="eager_attention",
        about="eager attention in the training library",
        attention="eager",
    ),
    Recipe(name="own_embedding", about="an embedding trained away from the target's", train_embedding=True),
    Recipe(
        name="bfloat16",
        about="target and draft saved and served in bfloat16",
        target=BFLOAT16,
        served_dtype="bfloat16",
    ),
    Recipe(
        name="command_defaults",
        about="what the library's own training command builds when given nothing but a target",
        target=BFLOAT16,
        aux_layer_ids=None,
        draft_vocab_size=None,
        built_by="command",
    ),
    Recipe(
        name="trained",
        about="trained by the library's own command, as advised for sglang: --no-norm-before-residual",
        target=KEYED_PERMUTATION,
        aux_layer_ids=(1, 4, 7),
        draft_vocab_size=24,
        flags=_frozen(norm_before_residual=False),
        built_by="trainer",
    ),
    Recipe(
        name="canary",
        about="trained to draft wrongly wherever the interface is not as trained",
        target=KEYED_PERMUTATION,
        aux_layer_ids=(1, 4, 7),
        draft_vocab_size=24,
        built_by="fixture",
    ),
)


def by_name(name: str) -> Recipe:
    """The recipe called `name`.

    Raises:
        KeyError: there is none; the message lists those there are.

    """
    for recipe in RECIPES:
        if recipe.name == name:
            return recipe
    known = ", ".join(recipe.name for recipe in RECIPES)
    raise KeyError(f"no recipe {name!r}; there are: {known}")
