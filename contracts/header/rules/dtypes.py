"""What the draft is computed in, and whether its weights are quantised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from contracts.causes import Cause
from contracts.conventions import DTYPES
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.rule import Offer, given, rule

MAPS = ("d2t", "t2d")
ALIASES = {"half": "float16", "float": "float32", **{name: name for name in DTYPES.values()}}
"""Other words for a dtype."""
HF_QUANT = "hf_quant_config.json"
"""File in which ModelOpt states a quantisation."""
OF_QUANTISATION = ("_scale", ".scale", "scale_inv", "_packed", "_zero_point", "_shape", "_g_idx")
"""Endings of what a quantised weight has beside itself."""


def stated(draft: Draft) -> str | None:
    """The dtype that config.json states."""
    said = draft.config.text("dtype") or draft.config.text("torch_dtype")
    return ALIASES.get((said or "").removeprefix("torch."), said)


def stored(draft: Draft) -> str | None:
    """What most weights are stored in, as safetensors calls it."""
    sizes = Counter[str]()
    for name, tensor in draft.tensors.items():
        if not name.endswith(MAPS):
            sizes[tensor.dtype] += tensor.size
    return next((dtype for dtype, _ in sizes.most_common(1)), None)


def _computed(offer: Offer, said: str | None) -> str | None:
    """What a model is computed in that states a dtype, or none."""
    spelling = {None: "dtype.absent", "float32": "dtype.float32"}.get(said)
    if spelling is None:
        return said
    found: str | None = (offer.reading[spelling].facts.get("compute") or {}).get("draft")
    return found


@rule(Cause.DTYPE_DIFFERS, needs_target=True)
def dtype_is_that_of_the_target(offer: Offer) -> Iterator[Finding]:
    """The draft is computed in what its target is computed in."""
    assert offer.target is not None
    if offer.draft.needs_export:
        return  # export states the target's
    said, its = stated(offer.draft), offer.target.dtype
    told = given(offer.server_args, "--dtype") not in (None, "auto")
    if told or _computed(offer, said) == _computed(offer, its):
        return
    yield Finding(
        cause=Cause.DTYPE_DIFFERS,
        damage=Damage.FAILS if offer.target.states_dtype else Damage.UNKNOWN,
        where="dtype",
        expected=f"{its}, as the target" + ("" if offer.target.states_dtype else ", which states none"),
        seen=said or f"nothing, which is served as {_computed(offer, said)}",
        consequence="the server starts, and ends with the first batch",
        fix=f'Write "dtype": "{its}" to config.json (its weights are cast), or serve with --dtype {its}.',
    )


@rule(Cause.DTYPE_DIFFERS)
def dtype_is_that_of_the_weights(offer: Offer) -> Iterator[Finding]:
    """config.json states the dtype that the weights are stored in."""
    said, held = stated(offer.draft), stored(offer.draft)
    if offer.draft.needs_export or offer.target:
        return  # what counts is the target's, which export states
    if held not in DTYPES or said == DTYPES[held]:
        return
    yield Finding(
        cause=Cause.DTYPE_DIFFERS,
        damage=Damage.NOTE,
        where="dtype",
        expected=f"{DTYPES[held]}, as the weights are stored",
        seen=said or "nothing",
        consequence="weights are cast when they are loaded; what counts is that it is the target's",
    )


@rule(Cause.QUANTIZATION)
def quantization_is_that_of_the_weights(offer: Offer) -> Iterator[Finding]:
    """config.json states a quantisation if and only if the weights are quantised."""
    block, quantised = offer.draft.config.section("quantization_config"), _quantised(offer.draft)
    beside = HF_QUANT in offer.draft.beside
    if bool(block or beside) == bool(quantised):
        return
    if block or beside:
        yield Finding(
            cause=Cause.QUANTIZATION,
            damage=Damage.COLLAPSES,
            where="quantization_config" if block else HF_QUANT,
            expected=f"none: all weights are {stored(offer.draft)}",
            seen=f"{block.get('quant_method', 'a block without quant_method')}" if block else "the file",
            consequence="layers are built for quantised weights and scales, which are not there: it drafts "
            "nonsense, where the server starts at all",
        )
    else:
        yield Finding(
            cause=Cause.QUANTIZATION,
            damage=Damage.COLLAPSES,
            where=quantised[0],
            expected="a quantization_config",
            seen=f"{offer.draft.tensors[quantised[0]].dtype} weights, and none",
            consequence="quantised numbers are taken for weights, without their scales",
            fix="Write the quantization_config with which the weights were made.",
        )


def _quantised(draft: Draft) -> list[str]:
    return [
        name
        for name, tensor in draft.tensors.items()
        if not name.endswith(MAPS) and (tensor.dtype not in DTYPES or name.endswith(OF_QUANTISATION))
    ]


@rule(Cause.QUANTIZATION)
def quantization_is_one_that_is_known(offer: Offer) -> Iterator[Finding]:
    """What a quantised draft computes is not looked into."""
    block = offer.draft.config.section("quantization_config")
    if block and _quantised(offer.draft):
        yield Finding(
            cause=Cause.QUANTIZATION,
            damage=Damage.UNKNOWN,
            where="quantization_config",
            expected="weights as trained",
            seen=str(block.get("quant_method", "a block without quant_method")),
            consequence="a quantised draft is not judged on a CPU; see that it is accepted as trained",
            fix="contracts acceptance measures a running server.",
        )
