"""Breaks of the interface, each of them one thing wrong with a draft or with how its server is started.

Every one is applied to drafts that were trained, so that what it does to the accept length is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from contracts.causes import Cause
from tests.mutations import (
    Config,
    Mutation,
    Tensors,
    absolute_d2t,
    capture_off,
    drop,
    edit,
    ids,
    linear_rope,
    norm_before_fc,
    nothing,
    other_rope,
    permute_fc,
    rename,
    swap,
    swap_halves,
)


@dataclass(frozen=True, kw_only=True)
class Break:
    """One thing wrong, or, without a cause, something that looks odd and is right."""

    name: str
    about: str
    apply: Mutation = nothing
    cause: Cause | None = None
    """Its right name."""
    depth: str = "load"
    """The first depth that has to give it: load, forward or engine."""
    server_args: tuple[str, ...] = ()
    """How the server is started besides; {target} is the folder of the target."""
    reports: tuple[str, ...] = ()
    """Where somebody met it: owner/repository#number."""
    prefix: str = "midlayer."
    """Of the decoder layer's tensors, as the exporter would have to write them for this."""

    def spelling(self, name: str) -> str:
        """The name that a tensor is meant to have in the checkpoint."""
        return name.replace("midlayer.", self.prefix)


def no_eagle_config(tensors: Tensors, config: Config) -> None:
    del config["eagle_config"]


def other_d2t(tensors: Tensors, config: Config) -> None:
    """As of another training run, which chose the neighbours of some tokens."""
    draft_ids = torch.arange(len(tensors["d2t"]))
    target_ids = (tensors["d2t"] + draft_ids + 1).clamp(max=config["vocab_size"] - 1)
    tensors["d2t"] = target_ids - draft_ids


def head_reversed(tensors: Tensors, config: Config) -> None:
    tensors["lm_head.weight"] = tensors["lm_head.weight"].flip(0)


def flip_norm_before_fc(tensors: Tensors, config: Config) -> None:
    norm_before_fc(tensors, config, value=not config["norm_before_fc"])


def flip_norm_output(tensors: Tensors, config: Config) -> None:
    config["norm_output"] = not config["norm_output"]


def other_base(tensors: Tensors, config: Config) -> None:
    config["rope_theta"] = config["rope_parameters"]["rope_theta"] = 500.0


def without(*keys: str) -> Mutation:
    def apply(tensors: Tensors, config: Config) -> None:
        for key in keys:
            del config[key]

    return apply


def with_t2d(tensors: Tensors, config: Config) -> None:
    known = torch.zeros(config["vocab_size"], dtype=torch.bool)
    known[tensors["d2t"] + torch.arange(len(tensors["d2t"]))] = True
    tensors["t2d"] = known


K, V = (f"midlayer.self_attn.{part}_proj.weight" for part in ("k", "v"))
GATE, UP = (f"midlayer.mlp.{part}_proj.weight" for part in ("gate", "up"))
NORMS = ("midlayer.input_layernorm.weight", "midlayer.hidden_norm.weight")

BREAKS = (
    # Which class is made of it, and how the server is started.
    Break(name="EAGLE for EAGLE3", about="the server is started with --speculative-algorithm EAGLE",
          server_args=("--speculative-algorithm", "EAGLE"), cause=Cause.ALGORITHM_DIFFERS),
    Break(name="no draft path", about="the server is told of no draft, and takes its target for one",
          server_args=("--speculative-draft-model-path", "{target}"), cause=Cause.DRAFT_REFUSED,
          reports=("sgl-project/sglang#36528",)),
    Break(name="architecture of speculators", about="config.json names the training library's class",
          apply=edit(architectures=["Eagle3Speculator"]), cause=Cause.DRAFT_REFUSED,
          reports=("sgl-project/sglang#18216",)),
    Break(name="architecture of the target", about="config.json names the target's class",
          apply=edit(architectures=["LlamaForCausalLM"]), cause=Cause.DRAFT_REFUSED),
    # Names of weights.
    Break(name="decoder under another prefix", about="midlayer.* is saved as decoder.0.*",
          apply=rename("midlayer.", "decoder.0."), cause=Cause.TENSOR_NOT_OFFERED),
    Break(name="fc under another name", about="fc.weight is saved as fusion.weight",
          apply=rename("fc.", "fusion."), cause=Cause.TENSOR_NOT_OFFERED),
    Break(name="no head", about="lm_head.weight is missing",
          apply=drop("lm_head.weight"), cause=Cause.PARAMETER_UNWRITTEN,
          reports=("sgl-project/sglang#27908",)),
    Break(name="bias of fc", about="config.json promises a bias that is not saved",
          apply=edit(bias=True), cause=Cause.PARAMETER_UNWRITTEN, reports=("sgl-project/sglang#5773",)),
    Break(name="one layer too many", about="config.json promises a second decoder layer",
          apply=edit(num_hidden_layers=2), cause=Cause.PARAMETER_UNWRITTEN,
          reports=("sgl-project/sglang#24663",)),
    Break(name="k and v swapped", about="keys and values are saved under each other's name",
          apply=swap(K, V), cause=Cause.K_AND_V_SWAPPED, depth="forward"),
    Break(name="gate and up swapped", about="the projections of the MLP are saved under each other's name",
          apply=swap(GATE, UP), cause=Cause.GATE_AND_UP_SWAPPED, depth="forward"),
    Break(name="halves swapped", about="q, k and v expect the target's state before the embedding",
          apply=swap_halves, cause=Cause.HALVES_SWAPPED, depth="forward"),
    # Aux layers and fc.
    Break(name="capture off", about="use_aux_hidden_state is false", apply=capture_off,
          cause=Cause.FC_SKIPPED),
    Break(name="no eagle_config", about="config.json does not say which layers to capture",
          apply=no_eagle_config, cause=Cause.WRONG_LAYERS),
    Break(name="ids of training copied", about="each tap is one layer late, and the last does not exist",
          apply=ids(1, 4, 7), cause=Cause.WRONG_LAYERS, reports=("sgl-project/sglang#25454",)),
    Break(name="ids shifted twice", about="ids are converted twice, so each tap is one layer early",
          apply=ids(-1, 2, 5), cause=Cause.TAPS_EARLY, depth="forward"),
    Break(name="one id wrong", about="the middle tap is one layer early", apply=ids(0, 2, 6),
          cause=Cause.WRONG_LAYERS),
    Break(name="last id wrong", about="the last tap is one layer early", apply=ids(0, 3, 5),
          cause=Cause.WRONG_LAYERS),
    Break(name="an id missing", about="two ids for an fc of three states", apply=ids(0, 3),
          cause=Cause.WRONG_LAYERS),
    Break(name="fc chunks permuted", about="the column blocks of fc.weight are in another order",
          apply=permute_fc, cause=Cause.CHUNKS_PERMUTED, depth="forward"),
    # Vocabulary.
    Break(name="d2t absolute", about="d2t holds target ids instead of offsets", apply=absolute_d2t,
          cause=Cause.MAP_OUT_OF_RANGE),
    Break(name="no d2t", about="d2t is missing", apply=drop("d2t"), cause=Cause.MAP_MISSING),
    Break(name="d2t of another run", about="d2t is that of another training run", apply=other_d2t,
          cause=Cause.MAP_DIFFERS, reports=("sgl-project/SpecForge#872",)),
    Break(name="draft_vocab_size null", about="config.json does not say how small the vocabulary is",
          apply=edit(draft_vocab_size=None), cause=Cause.DRAFT_REFUSED),
    Break(name="tied head", about="tie_word_embeddings is copied from a target that ties",
          apply=edit(tie_word_embeddings=True), cause=Cause.HEAD_REPLACED, reports=("Tencent/AngelSlim#16",)),
    Break(name="head rows reversed", about="the head is in another order than d2t", apply=head_reversed,
          cause=Cause.HEAD_REPLACED, depth="engine"),
    # Norms.
    Break(name="norm_before_fc flipped", about="the norm before fc is on in one library only",
          apply=flip_norm_before_fc, cause=Cause.NORM_DIFFERS),
    Break(name="norm_output flipped", about="the state fed back is normed in one library only",
          apply=flip_norm_output, cause=Cause.NORM_DIFFERS),
    Break(name="fc_norm added", about="config.json promises norms that the draft does not have",
          apply=edit(fc_norm=True), cause=Cause.NORM_DIFFERS, reports=("sgl-project/sglang#26506",)),
    Break(name="norms swapped", about="input_layernorm and hidden_norm are saved under each other's name",
          apply=swap(*NORMS), cause=Cause.NORMS_SWAPPED, depth="forward"),
    Break(name="epsilon", about="rms_norm_eps is 1e-2", apply=edit(rms_norm_eps=1e-2),
          cause=Cause.NORM_EPSILON),
    # RoPE and attention.
    Break(name="RoPE base 500", about="the rotary base is another", apply=other_base,
          cause=Cause.ROPE_FREQUENCIES, reports=("sgl-project/SpecForge#265",)),
    Break(name="RoPE base 10000", about="the rotary base is a library's default", apply=other_rope,
          cause=Cause.ROPE_BASE_DEFAULT, depth="forward", reports=("NVIDIA-NeMo/Automodel#2920",)),
    Break(name="RoPE scaled", about="linear scaling that training did not have", apply=linear_rope,
          cause=Cause.ROPE_FREQUENCIES),
    Break(name="RoPE interleaved", about="neighbours rotate together instead of halves",
          apply=edit(rope_is_neox_style=False), cause=Cause.ROPE_PAIRS),
    Break(name="short table", about="max_position_embeddings is less than the context that is served",
          apply=edit(max_position_embeddings=16), cause=Cause.DRAFT_REFUSED, depth="forward",
          reports=("sgl-project/SpecForge#249", "sgl-project/sglang#3574")),
    Break(name="dtype of its own", about="config.json states float16, for a target that states bfloat16",
          apply=edit(dtype="float16"), cause=Cause.DTYPE_DIFFERS, reports=("sgl-project/SpecForge#890",)),
    Break(name="head_dim", about="config.json says twice the head_dim", apply=edit(head_dim=32),
          cause=Cause.HEADS_DIFFER),
)  # fmt: skip

VARIANTS = (
    Break(name="as exported", about="nothing"),
    Break(name="layers.0.*", about="the decoder layer under another name that is read",
          apply=rename("midlayer.", "layers.0."), prefix="layers.0."),
    Break(name="model.layers.0.*", about="and under a third", apply=rename("midlayer.", "model.layers.0."),
          prefix="model.layers.0."),
    Break(name="ids in another order", about="sglang captures in ascending order all the same",
          apply=ids(6, 0, 3)),
    Break(name="t2d kept", about="a tensor that says nothing that d2t does not", apply=with_t2d),
    Break(name="RoPE in the old spelling", about="rope_theta and rope_scaling alone",
          apply=without("rope_parameters")),
    Break(name="RoPE in the new spelling", about="rope_parameters alone",
          apply=without("rope_theta", "rope_scaling")),
    Break(name="longer table", about="max_position_embeddings is larger",
          apply=edit(max_position_embeddings=4096)),
)  # fmt: skip
