"""The rotary embedding: base, scaling and spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from contracts.causes import Cause
from contracts.conventions import ROPE_KEYS
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.origin import DEFAULT_STATES
from contracts.header.reading import LIBRARY, Reading
from contracts.header.rule import Offer, given, rule
from contracts.served_target import context_length

DEFAULT_BASE = 10_000.0
PARAMETERS, SCALING, BASE = "rope_parameters", "rope_scaling", "rope_theta"
RECORDED = ("llama3", "yarn", "linear", "dynamic")
COMPUTED_AS_DEFAULT = ("mrope",)
"""Types that models/llama_eagle3.py computes without a scaling of its own."""
"""Types of scaling that are recorded as spellings."""


def _by_layer_type(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters) and all(isinstance(value, dict) for value in parameters.values())


def _kind(rope: Mapping[str, Any]) -> str:
    return str(rope.get("rope_type") or rope.get("type") or "default")


def base_of(draft: Draft) -> float | None:
    """The base that config.json states, in whichever place; None if it states none."""
    stated = draft.config.inner(PARAMETERS).number(BASE)
    return stated if stated is not None else draft.config.number(BASE)


@rule(Cause.ROPE_BASE_DEFAULT)
def base_is_read(offer: Offer) -> Iterator[Finding]:
    """The release reads the base of the rotary embedding where config.json states it."""
    draft, reading = offer.draft, offer.reading
    only_there = draft.config.inner(PARAMETERS).number(BASE)
    if only_there is None or draft.config.number(BASE) is not None or only_there == DEFAULT_BASE:
        return
    if not reading["rope.parameters"].refused and reading.same("rope.parameters", "plain", "rope"):
        return
    yield Finding(
        cause=Cause.ROPE_BASE_DEFAULT,
        damage=Damage.LOSES,
        where=f"{PARAMETERS}.{BASE}",
        expected=f"a base of {only_there:g}",
        seen=f"{LIBRARY} {reading.release} looks for {BASE} at the top level, and takes {DEFAULT_BASE:g}",
        fix=f'Write "{BASE}": {only_there:g} at the top level, too.',
    )


@rule(Cause.ROPE_BASE_DEFAULT)
def base_is_said(offer: Offer) -> Iterator[Finding]:
    """config.json states the base of the rotary embedding, or the target has the default one, too."""
    draft = offer.draft
    if base_of(draft) is not None or _by_layer_type(draft.config.section(PARAMETERS)):
        return
    sure = draft.origin.writer in DEFAULT_STATES
    yield Finding(
        cause=Cause.ROPE_BASE_DEFAULT,
        damage=Damage.NOTE if sure else Damage.UNKNOWN,
        where=BASE,
        expected="the base that the draft was trained with",
        seen=f"nothing, which is read as {DEFAULT_BASE:g}",
        consequence=f"right if the draft was trained with {DEFAULT_BASE:g}"
        + (f", as {draft.origin.writer} does with the same config.json" if sure else ""),
    )


@rule(Cause.ROPE_UNSCALED)
def scaling_is_read(offer: Offer) -> Iterator[Finding]:
    """The release reads the scaling of the rotary embedding where config.json states it."""
    draft, reading = offer.draft, offer.reading
    for place, rope in _scalings(draft):
        kind = _kind(rope)
        if kind not in RECORDED:
            continue
        own = f"rope.{kind}_{place}"
        spelling = own if own in reading.spelled else f"rope.llama3_{place}"
        spelled = reading[spelling]
        if spelled.refused or not _unscaled(reading, spelling):
            return  # another rule speaks of a refusal
        if place == "parameters" and draft.config.section(SCALING):
            continue
        yield Finding(
            cause=Cause.ROPE_UNSCALED,
            damage=Damage.LOSES,
            where=PARAMETERS if place == "parameters" else SCALING,
            expected=f"{kind} scaling, applied",
            seen=f"{LIBRARY} {reading.release} does not read it there",
            fix=f"Write it to {SCALING if place == 'parameters' else PARAMETERS}, too, as export does.",
        )


def _scalings(draft: Draft) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, key in (("scaling", SCALING), ("parameters", PARAMETERS)):
        rope = draft.config.section(key)
        if rope and _kind(rope) != "default" and not _by_layer_type(rope):
            yield place, rope


@rule(Cause.NOT_EXPRESSIBLE)
def scaling_has_its_numbers(offer: Offer) -> Iterator[Finding]:
    """A scaling of the rotary embedding has the numbers that its type is computed from."""
    for place, rope in _scalings(offer.draft):
        missing = sorted(key for key in ROPE_KEYS.get(_kind(rope), ()) if rope.get(key) is None)
        if missing:
            yield Finding(
                cause=Cause.NOT_EXPRESSIBLE,
                damage=Damage.UNKNOWN,
                where=f"{PARAMETERS if place == 'parameters' else SCALING}.{missing[0]}",
                expected="a number",
                seen="nothing",
                consequence="the library raises for want of it, or computes other angles",
                fix=f"Write {', '.join(missing)}, as trained.",
            )


@rule(Cause.NOT_EXPRESSIBLE)
def scaling_has_a_type(offer: Offer) -> Iterator[Finding]:
    """A scaling of the rotary embedding says of which type it is."""
    rope = offer.draft.config.section(SCALING)
    if "factor" in rope and "rope_type" not in rope and "type" not in rope:
        yield Finding(
            cause=Cause.NOT_EXPRESSIBLE,
            damage=Damage.UNKNOWN,
            where=f"{SCALING}.rope_type",
            expected=f"one of {', '.join(RECORDED)}",
            seen="nothing",
            consequence="without a type it may not be applied at all",
            fix="Write the type that the draft was trained with.",
        )


def _unscaled(reading: Reading, spelling: str) -> bool:
    """Whether angles are those without scaling, at either base."""
    return any(reading.same(spelling, other, "rope") for other in ("plain", "rope.absent"))


@rule(Cause.NOT_EXPRESSIBLE)
def scaling_is_of_a_type_that_is_computed(offer: Offer) -> Iterator[Finding]:
    """The release computes the type of scaling that config.json names."""
    for place, rope in _scalings(offer.draft):
        kind = _kind(rope)
        known = kind in RECORDED or kind in COMPUTED_AS_DEFAULT
        refused = offer.reading["rope.unheard_of"].refused
        if known or (place == "scaling" and refused is None):
            continue
        yield Finding(
            cause=Cause.NOT_EXPRESSIBLE,
            damage=Damage.UNKNOWN,
            where=f"{PARAMETERS if place == 'parameters' else SCALING}.rope_type",
            expected=f"one of default, {', '.join(RECORDED)}",
            seen=kind,
            consequence="a type that the release does not know ends the server" if refused else "",
            fix="Correct the type, if it is a slip; else see with --deep what the release makes of it.",
        )
        return


@rule(Cause.DRAFT_REFUSED)
def rope_is_one_for_all_layers(offer: Offer) -> Iterator[Finding]:
    """rope_parameters holds one rotary embedding, not one by type of layer."""
    if not _by_layer_type(offer.draft.config.section(PARAMETERS)):
        return
    refused = offer.reading["rope.by_layer_type"].refused
    yield Finding(
        cause=Cause.DRAFT_REFUSED if refused else Cause.ROPE_BASE_DEFAULT,
        damage=Damage.FAILS if refused else Damage.LOSES,
        where=PARAMETERS,
        expected="rope_type and rope_theta",
        seen=f"an object for each of {', '.join(offer.draft.config.section(PARAMETERS))}",
        consequence=f"the server raises: {refused}" if refused else "none of it is read",
        fix="Write the one that the draft's layer was trained with, without the layer type.",
    )


@rule(Cause.CONTRADICTION)
def both_spellings_say_the_same(offer: Offer) -> Iterator[Finding]:
    """rope_theta and rope_parameters state the same base."""
    top, inner = offer.draft.config.number(BASE), offer.draft.config.inner(PARAMETERS).number(BASE)
    if top is None or inner is None or top == inner:
        return
    first = offer.reading.same("rope.contradicting", "plain", "rope")
    yield Finding(
        cause=Cause.CONTRADICTION,
        damage=Damage.UNKNOWN,
        where=BASE,
        expected="one base",
        seen=f"{top:g} at the top level, {inner:g} in {PARAMETERS}",
        consequence=f"this release takes {top if first else inner:g}",
    )


@rule(Cause.ROPE_PAIRS)
def halves_are_rotated_together(offer: Offer) -> Iterator[Finding]:
    """The rotary embedding turns the halves of a head together, as every trainer does."""
    if offer.draft.config.flag("rope_is_neox_style") is not False:
        return
    if (offer.reading["rope.interleaved"].facts.get("rope") or {}).get("interleaved"):
        yield Finding(
            cause=Cause.ROPE_PAIRS,
            damage=Damage.COLLAPSES,
            where="rope_is_neox_style",
            expected="true, or no such key",
            seen="false",
        )


@rule(Cause.ROPE_FREQUENCIES, needs_target=True)
def base_is_that_of_the_target(offer: Offer) -> Iterator[Finding]:
    """The base of the rotary embedding is the target's, as trainers usually take it."""
    assert offer.target is not None
    own, its = base_of(offer.draft), offer.target.rope_theta
    top = offer.draft.config.number(BASE)
    if own is not None and its is not None and own != its and top in (None, own):
        yield Finding(
            cause=Cause.ROPE_FREQUENCIES,
            damage=Damage.NOTE,
            where=BASE,
            expected=f"{its:g}, as the target has",
            seen=f"{own:g}",
            consequence="none if the draft was trained so; a base that was lost on the way costs acceptance "
            "with distance",
        )


@rule(Cause.LENGTH_SHORT, needs_target=True, about="eagle3")
def context_is_as_long_as_the_target(offer: Offer) -> Iterator[Finding]:
    """The draft states no fewer positions than its target's context has."""
    assert offer.target is not None
    asked = given(offer.server_args, "--context-length") or ""
    offer.draft.config.integer("max_position_embeddings")  # refuses what is no size
    own = context_length(dict(offer.draft.config.values))
    its = int(asked) if asked.isdecimal() and len(asked) < 10 else offer.target.context_length
    if not isinstance(own, int) or its is None or own >= its or offer.draft.needs_export:
        return  # export states the target's
    refused = offer.reading["max_position_embeddings.short"].refused
    yield Finding(
        cause=Cause.LENGTH_SHORT,
        damage=Damage.FAILS if refused else Damage.LOSES,
        where="max_position_embeddings",
        expected=f"{its} or more, the target's context",
        seen=str(own),
        consequence="the server refuses to start with a context that is longer than the draft's"
        if refused
        else "acceptance drops beyond that length",
        fix=f'Write "max_position_embeddings": {its} to config.json (a longer table of angles, no more), '
        f"or serve with --context-length {own}.",
    )
