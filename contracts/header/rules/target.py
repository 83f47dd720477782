"""Whether the draft was trained for the target that it is to be served with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contracts.captures import Captures, NotCaptured
from contracts.causes import Cause
from contracts.header.findings import Damage, Finding
from contracts.header.rule import Offer, rule
from contracts.ranges import ranges
from contracts.records import recorded_releases
from contracts.targets.recorded import COMPUTES_OTHERWISE

DAMAGE = {
    Cause.TARGET_REFUSED: Damage.FAILS,
    Cause.STATE_WITHOUT_RESIDUAL: Damage.LOSES,
    Cause.CAPTURE_UNKNOWN: Damage.UNKNOWN,
}
MISSED = 4
"""Keys that one finding names."""
PADDING = 1024
"""Tokens by which padded vocabularies may differ."""
USUAL = (2, 4, 6)
"""States that any class can be asked for."""


@rule(Cause.OTHER_TARGET, needs_target=True, about="eagle3")
def sizes_are_those_of_the_target(offer: Offer) -> Iterator[Finding]:
    """The draft embeds the target's vocabulary and reads states of the target's width."""
    assert offer.target is not None
    vocab, width = offer.draft.config.integer("vocab_size"), offer.draft.state_width
    for key, own, its in (
        ("vocab_size", vocab, offer.target.vocab_size),
        ("hidden_size", width, offer.target.state_width),
    ):
        if own is None or its is None or own == its:
            continue
        narrow = key == "hidden_size"
        streams = (
            f", of {offer.target.streams} residual streams" if narrow and offer.target.streams > 1 else ""
        )
        padded = not narrow and abs(own - its) <= PADDING
        yield Finding(
            cause=Cause.OTHER_TARGET,
            damage=Damage.FAILS if narrow else Damage.UNKNOWN if padded else Damage.COLLAPSES,
            where=key,
            expected=f"{its}, as the target has{streams}",
            seen=str(own),
            consequence="fc gets states of another width, and the first batch fails"
            if narrow
            else "right if one vocabulary is padded; else token ids mean other tokens"
            if padded
            else "token ids mean other tokens",
            fix="Serve it with the target that it was trained for"
            + ("; a draft that is narrower than its target states target_hidden_size." if narrow else "."),
        )


@rule(Cause.OTHER_TARGET, needs_target=True, about="eagle3")
def target_is_no_draft(offer: Offer) -> Iterator[Finding]:
    """What was named as the target is a language model, not a draft."""
    assert offer.target is not None
    drafts = [name for name in offer.target.architectures if "eagle3" in name.lower()]
    if drafts:
        yield Finding(
            cause=Cause.OTHER_TARGET,
            damage=Damage.FAILS,
            where="the target",
            expected="the language model that the draft was trained for",
            seen=f"a draft ({drafts[0]})",
            fix="Name the target's folder with --target.",
        )


@rule(*DAMAGE, needs_target=True, about="eagle3")
def target_class_can_be_captured(offer: Offer) -> Iterator[Finding]:
    """The target's class delivers hidden states for EAGLE-3 in this release."""
    assert offer.target is not None
    classes, captures = offer.target.architectures, Captures.for_release(offer.reading.release)
    try:
        captures.ids(classes, USUAL, None)
    except NotCaptured as error:
        damage = DAMAGE.get(error.cause)
        if damage is None:
            return
        absent = classes and not any(name in captures.rules for name in classes)
        none = f"none in sglang {offer.reading.release}" if classes else "config.json names no class"
        yield Finding(
            cause=error.cause,
            damage=Damage.FAILS if absent else damage,
            where=f"target {' / '.join(classes) or 'without a class'}",
            expected="a class with a capture setter that is understood",
            seen=none if absent or not classes else error.what,
            consequence="the server raises: the class has no set_eagle3_layers_to_capture" if absent else "",
            fix=_served_by(classes) if classes else 'Write the class to "architectures".',
        )


def _served_by(classes: Sequence[str]) -> str:
    """Which releases deliver the usual states of a class."""
    known = recorded_releases("sglang")
    right = [release for release in known if Captures.for_release(release).right(classes)]
    return f"Serve it with sglang {ranges(right, known)}." if right else "No recorded release serves it."


@rule(Cause.NO_RECIPE, needs_target=True, about="eagle3")
def target_class_was_seen_to_run(offer: Offer) -> Iterator[Finding]:
    """The target's class was run beside transformers, so that what its ids deliver is known."""
    assert offer.target is not None
    classes, captures = offer.target.architectures, Captures.for_release(offer.reading.release)
    if captures.was_run(classes) or [*target_is_no_draft(offer), *target_class_can_be_captured(offer)]:
        return
    refused = captures.refused_kin(classes)
    doubt = f"{refused}, which has the same setter, is refused in this release; most likely this one is, too"
    yield Finding(
        cause=Cause.NO_RECIPE,
        damage=Damage.UNKNOWN if refused else Damage.NOTE,
        where=f"target {classes[0]}",
        expected="a class that was run",
        seen=captures.evidence(classes),
        consequence=doubt if refused else "taken to number its layers so",
        fix=f"See that a server starts with it. Of {refused}: {_served_by([refused])}" if refused else "",
    )


@rule(Cause.TARGET_CONFIG_INCOMPLETE, needs_target=True, about="eagle3")
def config_has_what_the_class_asks_for(offer: Offer) -> Iterator[Finding]:
    """The target's config.json has the keys that its class was seen to miss in this release."""
    assert offer.target is not None
    captures = Captures.for_release(offer.reading.release)
    lacking = captures.missed(offer.target.architectures, offer.target.keys)
    default = f"sglang {captures.release} then takes a default of its own; a tiny target {COMPUTES_OTHERWISE}"
    for refused in (True, False):
        keys = [key for key, said in lacking.items() if (said != COMPUTES_OTHERWISE) is refused]
        if keys:
            more = f" and {len(keys) - MISSED} more" if len(keys) > MISSED else ""
            yield Finding(
                cause=Cause.TARGET_CONFIG_INCOMPLETE,
                damage=Damage.FAILS if refused else Damage.UNKNOWN,
                where=f"target {offer.target.architectures[0]}",
                expected=f"config.json with {', '.join(keys[:MISSED])}{more}",
                seen="no such keys, or null" if len(keys) > 1 else "no such key, or null",
                consequence=f"the server raises: {lacking[keys[0]]}" if refused else default,
                fix="Take over the keys of the config.json that was published with the model.",
            )
