"""Whether a release makes an EAGLE-3 draft out of config.json at all."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from contracts.causes import Cause
from contracts.header.findings import Damage, Finding
from contracts.header.kind import Kind, kind_of
from contracts.header.reading import LIBRARY
from contracts.header.rule import Offer, rule

CLASSES = {Kind.EAGLE3: "LlamaForCausalLMEagle3", Kind.EAGLE3_MLA: "Eagle3DeepseekV2ForCausalLM"}
"""The class of sglang's that runs each kind of draft."""
KNOWN_MODEL_TYPES = ("llama", "qwen3", "llama4_text")


@rule(Cause.CONFIG_NOT_RESOLVED)
def format_is_one_that_is_read(offer: Offer) -> Iterator[Finding]:
    """config.json is written as the serving side reads it, not as speculators saves it."""
    refused = offer.reading["format.speculators"].refused
    if not offer.draft.needs_export or refused is None:
        return
    target = f" --target {shlex.quote(str(offer.target.folder))}" if offer.target else ""
    draft, release = shlex.quote(offer.draft.name), offer.reading.release
    first = "" if Path(offer.draft.name).exists() else "Download it, then: "
    yield Finding(
        cause=Cause.CONFIG_NOT_RESOLVED,
        damage=Damage.FAILS,
        where="config.json",
        expected="a config.json with everything at its top level",
        seen="one of speculators, which nests the layer's in transformer_layer_config",
        fix=f"{first}contracts export {draft} --for {LIBRARY}=={release}{target} -o OUT",
    )


@rule(Cause.CLASS_UNKNOWN, about="eagle3")
def class_runs_eagle3(offer: Offer) -> Iterator[Finding]:
    """Architectures names a class that runs EAGLE-3 drafts in this release."""
    named, known = offer.draft.architecture, offer.reading.draft_classes
    due = CLASSES[kind_of(offer.draft)]
    if due in known and due in offer.draft.config.words("architectures"):
        return  # the first that is known counts
    yield Finding(
        cause=Cause.CLASS_UNKNOWN,
        damage=Damage.FAILS,
        where="architectures",
        expected=due if due in known else f"one of {', '.join(known)}",
        seen=named or "nothing",
        fix=f'Write "architectures": ["{due}"] to config.json.'
        if due in known
        else f"Serve it with a release that has {due}; this one has {', '.join(known)}.",
    )


@rule(Cause.CONFIG_NOT_RESOLVED)
def model_type_is_known(offer: Offer) -> Iterator[Finding]:
    """model_type names a configuration that transformers knows."""
    named = offer.draft.config.text("model_type")
    if named in KNOWN_MODEL_TYPES:
        return
    absent = named is None and bool(offer.reading["model_type.absent"].refused)
    yield Finding(
        cause=Cause.CONFIG_NOT_RESOLVED,
        damage=Damage.FAILS if absent else Damage.UNKNOWN,
        where="model_type",
        expected="llama",
        seen=named or "nothing",
        consequence="" if absent else "the server fails if its transformers does not know this type",
        fix='Write "model_type": "llama" to config.json.',
    )


@rule(Cause.CONFIG_NOT_RESOLVED)
def draft_vocab_size_is_said(offer: Offer) -> Iterator[Finding]:
    """config.json states draft_vocab_size."""
    if "draft_vocab_size" in offer.draft.config or not offer.reading["draft_vocab_size.absent_full"].refused:
        return
    known = [shape[0] for name in ("lm_head.weight", "d2t") if (shape := offer.draft.shape(name))]
    due = str(known[0]) if known else "null"
    yield Finding(
        cause=Cause.CONFIG_NOT_RESOLVED,
        damage=Damage.FAILS,
        where="draft_vocab_size",
        expected=f"{due}, the rows of lm_head.weight"
        if known
        else "null, as the draft has no head of its own",
        seen="nothing",
        fix=f'Write "draft_vocab_size": {due} to config.json.',
    )


NEEDED = {
    "num_hidden_layers": Damage.COLLAPSES,
    "intermediate_size": Damage.FAILS,
    "vocab_size": Damage.FAILS,
    "max_position_embeddings": Damage.FAILS,
    "hidden_size": Damage.FAILS,
    "num_attention_heads": Damage.FAILS,
}
"""Keys without which a library's own default is taken, and what comes of that."""
NOT_NULL = (
    *NEEDED, "target_hidden_size", "tie_word_embeddings", "hidden_act", "attention_bias", "rope_theta",
    "rms_norm_eps",
)  # fmt: skip
"""Keys of which null is not the same as no key: the library computes with it, and raises."""


@rule(Cause.SHAPE_MISMATCH)
def sizes_are_said(offer: Offer) -> Iterator[Finding]:
    """config.json states every size that the library has a default of its own for."""
    for key, damage in NEEDED.items():
        if key not in offer.draft.config:
            yield _unsaid(key, damage)
    if offer.draft.config.get("model_type") == "qwen3" and "head_dim" not in offer.draft.config:
        yield _unsaid("head_dim", Damage.FAILS)


def _unsaid(key: str, damage: Damage) -> Finding:
    return Finding(
        cause=Cause.SHAPE_MISMATCH,
        damage=damage,
        where=key,
        expected="the value of training",
        seen="nothing, which is read as a default of transformers' own",
        consequence="layers are built that nothing fills"
        if damage is Damage.COLLAPSES
        else "what is built is of another size than the tensors, or than the target's context",
        fix=f"Write {key} to config.json.",
    )


@rule(Cause.CONFIG_NOT_RESOLVED)
def nothing_is_null_that_must_not_be(offer: Offer) -> Iterator[Finding]:
    """No key is null that the library computes with."""
    config = offer.draft.config
    nulls = [key for key in NOT_NULL if key in config and config.get(key) is None]
    if config.get("quantization_config") == {}:
        nulls.append("quantization_config")
    for key in nulls:
        yield Finding(
            cause=Cause.CONFIG_NOT_RESOLVED,
            damage=Damage.FAILS,
            where=key,
            expected="a value, or no such key",
            seen="null" if config.get(key) is None else "an empty object",
            consequence="the library computes with it, and raises",
            fix=f"Write the value of training, or remove {key}.",
        )


@rule(Cause.NOT_EXPRESSIBLE)
def activation_is_computed(offer: Offer) -> Iterator[Finding]:
    """hidden_act names an activation that the release computes."""
    named = offer.draft.config.text("hidden_act")
    if named in (None, "silu") or not offer.reading["hidden_act.gelu"].refused:
        return
    yield Finding(
        cause=Cause.NOT_EXPRESSIBLE,
        damage=Damage.FAILS,
        where="hidden_act",
        expected="silu",
        seen=named or "",
        fix="Retrain with silu.",
    )


@rule(Cause.DRAFT_REFUSED)
def layers_can_be_several(offer: Offer) -> Iterator[Finding]:
    """The release runs as many decoder layers as the draft has."""
    layers = offer.draft.num_layers
    refused = offer.reading["two_layers.hidden_norm"].refused
    if layers < 2 or refused is None:
        return
    yield Finding(
        cause=Cause.DRAFT_REFUSED,
        damage=Damage.FAILS,
        where="num_hidden_layers",
        expected="1",
        seen=str(layers),
        consequence=f"the server raises: {refused}",
        fix="Serve it with sglang >= 0.5.12, or train one layer.",
    )


@rule(Cause.NORM_EPSILON)
def epsilon_is_said(offer: Offer) -> Iterator[Finding]:
    """config.json states the epsilon of its norms."""
    if offer.draft.config.number("rms_norm_eps") is not None:
        return
    default = offer.reading["rms_norm_eps.absent"].facts.get("norm_eps")
    yield Finding(
        cause=Cause.NORM_EPSILON,
        damage=Damage.UNKNOWN,
        where="rms_norm_eps",
        expected="the epsilon of training",
        seen=f"nothing, which is read as {default}",
        consequence="a little acceptance is lost if training used another one",
    )


@rule(Cause.CONTRADICTION)
def says_nothing_twice_differently(offer: Offer) -> Iterator[Finding]:
    """What config.json says at its top level and in eagle_config is the same."""
    top, nested = offer.draft.config, offer.draft.nested
    for key in ("eagle_aux_hidden_state_layer_ids", "norm_before_fc", "fc_norm", "norm_output"):
        if top.get(key) is None or nested.get(key) is None or top.get(key) == nested.get(key):
            continue
        yield Finding(
            cause=Cause.CONTRADICTION,
            damage=Damage.UNKNOWN,
            where=key,
            expected="one value",
            seen=f"{top.get(key)} at the top level, {nested.get(key)} in eagle_config",
        )
