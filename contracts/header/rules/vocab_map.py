"""Which target token each draft token becomes, judged from the values of d2t and t2d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contracts.causes import Cause
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.maps import TYPES
from contracts.header.rule import Offer, rule

SIDE_FILES = ("d2t", "t2d", "token_map", "hot_token", "freq_", "vocab_map")
"""What files with a token map are called, by a part of the name."""


@rule(Cause.MAP_MISSING, about="eagle3")
def reduced_vocabulary_has_a_map(offer: Offer) -> Iterator[Finding]:
    """A draft over a part of the vocabulary says which part."""
    if "d2t" in offer.draft.by_canonical or not offer.draft.is_reduced:
        return
    mapped = offer.reading["d2t.absent"].facts["vocab_map"]["mapped"]
    beside = _side_files(offer.draft)
    if not mapped:
        yield Finding(
            cause=Cause.MAP_MISSING,
            damage=Damage.COLLAPSES,
            where="d2t",
            expected=f"a map of {offer.draft.config.integer('draft_vocab_size')} draft tokens",
            seen="none" + (f" (beside the checkpoint lies {beside[0]})" if beside else ""),
            consequence="draft token ids are used as target token ids, and next to none is accepted",
            fix="Save d2t in the checkpoint: target id minus draft id"
            + (f"; {beside[0]} may hold it" if beside else "")
            + ".",
        )


@rule(Cause.MAP_TYPE, about="eagle3")
def maps_are_lists_of_token_ids(offer: Offer) -> Iterator[Finding]:
    """d2t is a list of integers, t2d one of truth values."""
    for name, types in TYPES.items():
        tensor = offer.draft.tensor(name)
        if tensor is None or (tensor.dtype in types and len(tensor.shape) == 1):
            continue
        read = name == "d2t"
        yield Finding(
            cause=Cause.MAP_TYPE,
            damage=Damage.UNKNOWN if read else Damage.NOTE,
            where=name,
            expected=f"a list of {' or '.join(types)}",
            seen=f"{tensor.dtype} of shape {list(tensor.shape)}",
            consequence="its values were not judged; a type of fewer digits has lost some of them"
            if read
            else "none in sglang, which reads no t2d; its values were not judged",
        )


@rule(Cause.MAP_ELSEWHERE, about="eagle3")
def map_is_in_the_checkpoint(offer: Offer) -> Iterator[Finding]:
    """No file beside the checkpoint holds a token map that no server would read."""
    for name in _side_files(offer.draft):
        yield Finding(
            cause=Cause.MAP_ELSEWHERE,
            damage=Damage.NOTE,
            where=name,
            expected="the map in the checkpoint, as d2t",
            seen="a file that looks like a token map; it was not opened",
        )


def _side_files(draft: Draft) -> list[str]:
    return [name for name in draft.beside if any(part in name.lower() for part in SIDE_FILES)]


@rule(Cause.MAP_HOLDS_IDS, about="eagle3")
def map_holds_offsets(offer: Offer) -> Iterator[Finding]:
    """d2t holds target id minus draft id, as the release reads it."""
    maps = offer.draft.maps
    if maps is None or not maps.holds_ids or not offer.reading.reads_offsets:
        return
    yield Finding(
        cause=Cause.MAP_HOLDS_IDS,
        damage=Damage.COLLAPSES,
        where="d2t",
        expected="offsets: target id minus draft id",
        seen=f"target ids: {_some(maps.d2t)}",
        consequence="each draft token becomes another token than was meant, and is rejected",
        fix="Subtract its index from each entry: d2t - torch.arange(len(d2t)).",
    )


def _some(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:4]))
    return f"{shown}, ..., {values[-1]}" if len(values) > 5 else shown


@rule(Cause.MAP_EMPTY, about="eagle3")
def map_was_filled(offer: Offer) -> Iterator[Finding]:
    """The map of a reduced vocabulary is more than zeros."""
    d2t = offer.draft.d2t
    if d2t and offer.draft.is_reduced and not any(d2t):
        yield Finding(
            cause=Cause.MAP_EMPTY,
            damage=Damage.UNKNOWN,
            where="d2t",
            expected="offsets that grow",
            seen=f"{len(d2t)} zeros",
            consequence=f"the draft can only draft the target's first {len(d2t)} tokens",
        )


@rule(Cause.MAP_OUT_OF_RANGE, about="eagle3")
def map_leads_to_tokens(offer: Offer) -> Iterator[Finding]:
    """Every draft token becomes a token that the target has."""
    maps = offer.draft.maps
    if maps is None or maps.holds_ids or maps.outside is None:  # ids lead nowhere as offsets in any case
        return
    yield Finding(
        cause=Cause.MAP_OUT_OF_RANGE,
        damage=Damage.FAILS,
        where=f"d2t[{maps.outside}]",
        expected=f"a token of the {maps.size} that vocab_size states",
        seen=f"token {maps.targets[maps.outside]}",
        consequence="the first time that it is drafted, the server ends or the token is rejected",
        fix=f"Build the map again: {maps.num_outside} of {len(maps.d2t)} entries lead outside.",
    )


@rule(Cause.MAP_NOT_INJECTIVE, about="eagle3")
def no_token_is_mapped_twice(offer: Offer) -> Iterator[Finding]:
    """No two draft tokens become the same token."""
    maps = offer.draft.maps
    if maps is None or maps.repeated is None:
        return
    first, second = maps.repeated
    yield Finding(
        cause=Cause.MAP_NOT_INJECTIVE,
        damage=Damage.LOSES,
        where=f"d2t[{first}] and d2t[{second}]",
        expected="different target tokens",
        seen=f"both token {maps.targets[first]}",
        consequence="one of the two is drafted in the place of another token",
    )


@rule(Cause.MAP_UNSORTED, about="eagle3")
def map_ascends(offer: Offer) -> Iterator[Finding]:
    """Target ids ascend with draft ids, as every trainer writes them."""
    maps = offer.draft.maps
    if maps is None or maps.descent is None:
        return
    late = maps.descent
    yield Finding(
        cause=Cause.MAP_UNSORTED,
        damage=Damage.UNKNOWN,
        where=f"d2t[{late}]",
        expected=f"a target id above {maps.meant[late - 1]}",
        seen=str(maps.meant[late]),
        consequence="right if the rows of lm_head stand in the same order; else tokens are mixed up",
    )


@rule(Cause.MAP_DISAGREES, about="eagle3")
def both_maps_are_of_one_vocabulary(offer: Offer) -> Iterator[Finding]:
    """t2d marks the tokens that d2t leads to."""
    maps = offer.draft.maps
    if maps is None or not maps.in_one_only:
        return
    yield Finding(
        cause=Cause.MAP_DISAGREES,
        damage=Damage.LOSES,
        where="d2t and t2d",
        expected="one vocabulary",
        seen=f"{len(maps.in_one_only)} tokens are in one of them only, the first is {min(maps.in_one_only)}",
        consequence="if d2t is the wrong one, its draft tokens are rejected; sglang reads no t2d",
    )


@rule(Cause.MAP_LENGTH, about="eagle3")
def map_is_as_long_as_the_vocabulary(offer: Offer) -> Iterator[Finding]:
    """d2t has one entry per draft token."""
    draft = offer.draft
    said, shape = draft.config.integer("draft_vocab_size"), draft.shape("d2t")
    if shape is None or said is None or shape == (said,):
        return
    short = shape[0] < said if shape else True
    yield Finding(
        cause=Cause.MAP_LENGTH,
        damage=Damage.FAILS if short else Damage.LOSES,
        where="d2t",
        expected=f"{said} entries, as draft_vocab_size says",
        seen=f"a tensor of shape {list(shape)}",
        consequence="the server ends when it drafts a token beyond the map" if short else "",
    )


@rule(Cause.MAP_LENGTH, about="eagle3")
def mask_is_as_long_as_the_vocabulary(offer: Offer) -> Iterator[Finding]:
    """t2d has one entry per token of the target."""
    draft = offer.draft
    size, shape = draft.config.integer("vocab_size"), draft.shape("t2d")
    if shape is not None and size is not None and shape != (size,):
        yield Finding(
            cause=Cause.MAP_LENGTH,
            damage=Damage.NOTE,
            where="t2d",
            expected=f"{size} entries, as vocab_size says",
            seen=f"a tensor of shape {list(shape)}",
            consequence="none in sglang, which reads no t2d; vLLM refuses it",
        )
