"""What export has to refuse of a draft: whatever a serving release cannot be given, each with a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from contracts.causes import Cause
from contracts.conventions import NORM_FLAGS, ROPE_KEYS, WINDOW_ARGUMENT
from contracts.dialect import Dialect, first_with_norm, pattern
from contracts.saved_draft import SavedConfig

ACTIVATIONS = frozenset({"silu"})
"""The only one that sglang's Llama MLP takes; it raises for others."""
ATTENTION_KINDS = frozenset({"full_attention", "sliding_attention"})


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Something trained that this serving release cannot be given."""

    cause: Cause
    what: str
    """The tensor or config key, and its value."""
    own_fix: str | None = None
    own_consequence: str | None = None
    """What happens if it is served all the same, where that is not what the cause usually leads to."""

    @property
    def fix(self) -> str:
        """What helps: usually what helps against the cause."""
        return self.own_fix or self.cause.fix


class Refused(Exception):
    """The draft cannot be expressed for this serving release; nothing was written."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        told = (f"{item.what} ({item.cause}). {item.fix}" for item in self.refusals)
        super().__init__("cannot be exported: " + " ".join(told))


def keys(saved: SavedConfig, dialect: Dialect) -> list[Refusal]:
    """Options that the release does not read, does otherwise, or that export knows nothing about."""
    flags = [flag for flag in NORM_FLAGS if getattr(saved, flag) and flag not in dialect.norms]
    refusals = [
        Refusal(cause=Cause.NORM_NOT_SERVED, what=f"{flag}: true", own_fix=_instead_of_norm(flag))
        for flag in flags
    ]
    if saved.embed_requires_grad and dialect.shares_embedding:
        refusals.append(Refusal(cause=Cause.EMBEDDING_REPLACED, what="embed_requires_grad: true"))
    refusals += [
        Refusal(cause=Cause.NOT_EXPRESSIBLE, what=f"{key}: {value!r:.80}")
        for key, value in sorted(saved.not_understood.items())
    ]
    return refusals


def _instead_of_norm(flag: str) -> str:
    """What helps where a release does not apply a norm."""
    first = first_with_norm(flag)
    retrain = f"Retrain without it (speculators train --no-{flag.replace('_', '-')})"
    where = f"sglang {first} or newer, which applies" if first else "a library that applies"
    return f"{retrain}, or serve with {where} it."


def values(saved: SavedConfig) -> list[Refusal]:
    """Values that no forward contract has shown to cross."""
    layer = saved.transformer_layer_config
    rope = layer.rope
    kind = rope["rope_type"]
    odd = [f"rope_type: {kind}"] if kind not in ROPE_KEYS else []
    known = ROPE_KEYS.get(kind, rope.keys()) | {"rope_type", "rope_theta"}
    needed = {"rope_theta", *ROPE_KEYS.get(kind, ())}
    odd += [
        f"rope_parameters.{key}: {rope.get(key)!r:.80}, which has to be a number"
        for key in sorted(needed)
        if not isinstance(rope.get(key), (int, float)) or isinstance(rope.get(key), bool)
    ]
    odd += [
        f"rope_parameters.{key}: {value!r:.80}"
        for key, value in sorted(rope.items())
        if key not in known and value is not None
    ]
    if layer.rope_parameters and layer.rope_scaling and layer.rope_scaling != layer.rope_parameters:
        odd.append("rope_parameters and rope_scaling, which differ")
    odd += [f"layer_types: {item}" for item in sorted({*(layer.layer_types or ())} - ATTENTION_KINDS)]
    refusals = [Refusal(cause=Cause.NOT_EXPRESSIBLE, what=item) for item in odd]
    if layer.hidden_act not in ACTIVATIONS:
        what, loud = f"hidden_act: {layer.hidden_act}", "the server fails when it builds the draft"
        refusals.append(Refusal(cause=Cause.NOT_EXPRESSIBLE, what=what, own_consequence=loud))
    return refusals


def tensors(renames: Mapping[str, str], dialect: Dialect) -> list[Refusal]:
    """Tensors that the release has no place for, or that would take the place of another."""
    taken = Counter(renames.values())
    return [
        Refusal(cause=_why_no_place(name), what=name)
        for name, exported in sorted(renames.items())
        if pattern(exported) not in dialect.tensors or taken[exported] > 1
    ]


def _why_no_place(name: str) -> Cause:
    if name.endswith((".q_norm.weight", ".k_norm.weight")):
        return Cause.QK_NORM_MISSING
    return Cause.BIAS_DROPPED if ".self_attn." in name and name.endswith(".bias") else Cause.NOT_EXPRESSIBLE


def window(saved: SavedConfig) -> tuple[tuple[str, ...], list[Refusal]]:
    """Server arguments for the trained attention window.

    sglang gives one window to all draft layers, on the command line, and counts the positions before a
    token's own; training counts its own too.
    """
    kinds = set(saved.transformer_layer_config.layer_types or ())
    if "sliding_attention" not in kinds:
        return (), []
    if len(kinds) > 1:
        what, fix = f"layer_types: {sorted(kinds)} in one draft", "Train all layers with the same attention."
        return (), [Refusal(cause=Cause.WINDOW_DIFFERS, what=what, own_fix=fix)]
    if saved.window is None or saved.window < 2:
        what, fix = f"sliding_window: {saved.window}", "Train with a window of two positions or more."
        return (), [Refusal(cause=Cause.WINDOW_DIFFERS, what=what, own_fix=fix)]
    return (WINDOW_ARGUMENT, str(saved.window - 1)), []
