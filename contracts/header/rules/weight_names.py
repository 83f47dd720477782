"""Which tensors reach the model, and which parts of the model get none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contracts.causes import Cause
from contracts.header.draft import Draft, canonical, layer_of
from contracts.header.findings import Damage, Finding
from contracts.header.reading import Reading, pattern
from contracts.header.rule import Offer, rule
from contracts.header.rules.dtypes import OF_QUANTISATION
from contracts.spellings import TENSORS

SAY_NOTHING = ("t2d", "rotary_emb.inv_freq")
"""Endings of tensors that nobody has to read: what they hold is known otherwise."""
OF_NORMS = ("input_norm.", "fc_norm.", "aux_norm_")
"""Beginnings of tensors that contracts.header.rules.norms is about."""
NOT_NEEDED = ("embed_tokens.weight", "lm_head.weight", "d2t", "t2d")
"""Tensors without which a draft may be whole; other rules say when it is not."""
PER_LAYER = tuple(
    canonical(name).removeprefix("layers.0.") for name in TENSORS if name.startswith("midlayer.")
)
"""What the first layer is made of."""


@rule(Cause.TENSOR_DROPPED, Cause.BIAS_DROPPED, Cause.QK_NORM_MISSING)
def every_tensor_is_read(offer: Offer) -> Iterator[Finding]:
    """The loader reads every tensor that the draft has."""
    dropped: dict[Cause, list[str]] = {}
    for name in unread(offer.draft, offer.reading):
        bare = canonical(name)
        scale = bare.endswith(OF_QUANTISATION) and not bare.startswith("fc.")  # fc is never quantised
        if not scale and not bare.startswith(OF_NORMS):
            dropped.setdefault(_why(name), []).append(name)
    for cause, names in dropped.items():
        damage = _damage(cause, names)
        yield Finding(
            cause=cause,
            damage=damage,
            where=listed(names),
            expected="a name under which this release loads it",
            seen="no parameter takes this name",
            consequence=_consequence(damage),
            fix=_fix(offer, cause, names),
        )


def unread(draft: Draft, reading: Reading) -> list[str]:
    """Tensors that the loader drops, though somebody would have to read them."""
    read = reading.read(_spellings(draft))
    layers = draft.num_layers
    return [
        name
        for name in draft.tensors
        if not name.endswith(SAY_NOTHING)
        and (pattern(name) not in read or (layer_of(canonical(name)) or 0) >= layers)
    ]


def _spellings(draft: Draft) -> Iterator[str]:
    """The spellings that a draft uses, of those that make a difference for names."""
    yield "plain"
    beginnings = {
        "names.layers": "layers.",
        "names.model": "model.midlayer.",
        "names.model_layers": "model.layers.",
    }
    yield from (
        name for name, start in beginnings.items() if any(it.startswith(start) for it in draft.tensors)
    )
    if any(name.startswith("model.") for name in draft.tensors):
        yield from ("names.model", "d2t.model")
    if draft.config.flag("bias"):
        yield "fc_bias.said"
    if draft.config.flag("attention_bias"):
        yield "attention_bias.output"
    if draft.num_layers > 1:
        yield from ("two_layers.hidden_norm", "two_layers.input_layernorm")
    for norm in ("norm_before_fc", "fc_norm"):
        yield from (
            f"{norm}.{where}"
            for where, said in (("top", draft.config.flag(norm)), ("nested", draft.nested.flag(norm)))
            if said
        )
    if draft.config.flag("use_aux_norm"):
        yield from ("use_aux_norm.top", "use_aux_norm.old_names")


def _why(name: str) -> Cause:
    if ".self_attn." in name and name.endswith(".bias"):
        return Cause.BIAS_DROPPED
    return (
        Cause.QK_NORM_MISSING if name.endswith(("q_norm.weight", "k_norm.weight")) else Cause.TENSOR_DROPPED
    )


def _needed(name: str) -> bool:
    """Whether a draft computes nothing of use without this tensor."""
    layer, bare = layer_of(canonical(name)), canonical(name)
    if layer is not None:
        return bare.removeprefix(f"layers.{layer}.") in PER_LAYER
    return bare in ("fc.weight", "norm.weight", "lm_head.weight")


def _damage(cause: Cause, names: Iterable[str]) -> Damage:
    if cause is Cause.TENSOR_DROPPED and any(map(_needed, names)):
        return Damage.COLLAPSES
    return Damage.LOSES


def _consequence(damage: Damage) -> str:
    if damage is Damage.COLLAPSES:
        return "the draft runs on whatever memory held in their place, and next to no draft token is accepted"
    return "the draft runs without what was trained here, and fewer draft tokens are accepted"


def _fix(offer: Offer, cause: Cause, names: list[str]) -> str:
    if cause is not Cause.TENSOR_DROPPED:
        return ""
    bare = canonical(names[0])
    layer = layer_of(bare)
    layers = offer.draft.num_layers
    if layer is not None and layer >= layers:
        return f'Write "num_hidden_layers": {layer + 1} to config.json, if all layers were trained.'
    due = bare.replace("layers.0.", "midlayer.", 1)
    if due in TENSORS:
        return f"Rename {names[0]} to {due}" + (", and the others likewise." if len(names) > 1 else ".")
    if bare == "fc.bias":
        return 'Write "bias": true to config.json; mind that o_proj then has a bias, too.'
    return "Retrain without it, or ask upstream what would read it."


@rule(Cause.PARAMETER_UNWRITTEN)
def every_parameter_is_provided(offer: Offer) -> Iterator[Finding]:
    """The draft has a tensor for every parameter that its forward pass reads."""
    draft = offer.draft
    missing = [name for name in _required(draft) if name not in draft.by_canonical]
    missing += [name for name in _biases(draft, offer.reading) if name not in draft.by_canonical]
    if missing:
        yield Finding(
            cause=Cause.PARAMETER_UNWRITTEN,
            damage=Damage.COLLAPSES,
            where=listed(missing),
            expected="a tensor",
            seen="none",
            consequence="the draft runs on whatever memory held in its place",
            fix="Save the draft again, with these tensors.",
        )


def _required(draft: Draft) -> Iterator[str]:
    fused = draft.is_fused
    for name in map(canonical, TENSORS):
        if name not in NOT_NEEDED and (name != "fc.weight" or fused):
            yield name
    later = [part for part in PER_LAYER if part != "input_layernorm.weight"]
    for layer in range(1, draft.num_layers):
        yield from (f"layers.{layer}.{part}" for part in later)


def _biases(draft: Draft, reading: Reading) -> Iterator[str]:
    """Biases that the model has because config.json says so."""
    for key, spelling in (("bias", "fc_bias.missing"), ("attention_bias", "attention_bias.missing")):
        if draft.config.flag(key):
            for parameter in reading[spelling].unwritten:
                yield canonical(parameter)


@rule(Cause.TENSOR_TWICE, about="eagle3")
def no_tensor_is_there_twice(offer: Offer) -> Iterator[Finding]:
    """No parameter is offered two tensors."""
    twice = [names for names in offer.draft.by_canonical.values() if len(names) > 1]
    if twice:
        yield Finding(
            cause=Cause.TENSOR_TWICE,
            damage=Damage.UNKNOWN,
            where=" and ".join(twice[0]) + (f", and {len(twice) - 1} more pairs" if len(twice) > 1 else ""),
            expected="one tensor",
            seen="two for one parameter",
            consequence="right if they are equal; else it depends on the order in which files are read",
        )


def listed(names: list[str]) -> str:
    """Some names in a line."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
