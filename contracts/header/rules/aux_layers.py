"""Which hidden states of the target the draft will be given."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from contracts import layer_ids
from contracts.captures import Captures, Rule, default_states
from contracts.causes import Cause
from contracts.header.draft import IDS
from contracts.header.findings import Damage, Finding
from contracts.header.origin import DEFAULT_STATES, Writer
from contracts.header.reading import LIBRARY
from contracts.header.rule import Offer, rule
from contracts.layer_ids import Meanings
from contracts.spellings import LAYERS

NESTED = f"eagle_config.{IDS}"


@rule(Cause.IDS_NOT_READ, about="eagle3")
def ids_stand_where_they_are_read(offer: Offer) -> Iterator[Finding]:
    """Layer ids stand where the release looks for them."""
    draft = offer.draft
    top, nested = draft.config.ids(IDS), draft.nested.ids(IDS)
    spelled = offer.reading["ids.top"]
    if top is None or nested is not None or spelled.layer_ids is not None:
        return
    layers = offer.target.num_hidden_layers if offer.target else None
    same = layers is not None and tuple(item + 1 for item in top) == default_states(layers)
    yield Finding(
        cause=Cause.IDS_NOT_READ,
        damage=Damage.NOTE if same else Damage.LOSES,
        where=IDS,
        expected=f"the ids under {NESTED}",
        seen=f"{list(top)} at the top level alone",
        consequence="none: the defaults, which are captured instead, are the same"
        if same
        else f"the target's defaults are captured instead, as if there were no ids{_defaults(offer)}",
        fix=f"Write the ids to {NESTED}.",
    )


def _defaults(offer: Offer) -> str:
    layers = offer.target.num_hidden_layers if offer.target else None
    return f": hidden states {list(default_states(layers))} of {layers} layers" if layers else ""


@rule(Cause.IDS_GUESSED, about="eagle3")
def ids_are_said(offer: Offer) -> Iterator[Finding]:
    """config.json says which layers the draft was trained on, or its trainer has no other."""
    draft = offer.draft
    if draft.ids or draft.ids == () or not offer.draft.is_fused:
        return  # of an empty list another rule speaks
    if draft.needs_export:  # states that nobody wrote down
        yield _guessed(offer, f"speculators {draft.origin.release or 'of old'} wrote none")
    elif draft.origin.writer not in DEFAULT_STATES:
        yield _guessed(offer, "nothing")


def _guessed(offer: Offer, seen: str) -> Finding:
    return Finding(
        cause=Cause.IDS_GUESSED,
        damage=Damage.UNKNOWN,
        where=NESTED,
        expected="the ids of training",
        seen=seen,
        consequence=f"the target's defaults are captured{_defaults(offer)}; right if trained on them",
    )


@rule(Cause.DRAFT_REFUSED, about="eagle3")
def list_of_ids_is_not_empty(offer: Offer) -> Iterator[Finding]:
    """A list of ids that is there names layers."""
    if offer.draft.nested.ids(IDS) != ():
        return
    spelled = offer.reading["ids.empty"]
    yield Finding(
        cause=Cause.DRAFT_REFUSED if spelled.refused else Cause.IDS_GUESSED,
        damage=Damage.FAILS if spelled.refused else Damage.UNKNOWN,
        where=NESTED,
        expected="the ids of training",
        seen="an empty list",
        consequence=f"the server raises: {spelled.refused}"
        if spelled.refused
        else "as if there were no list",
        fix=f"Write the ids of training to {NESTED}.",
    )


@rule(Cause.IDS_REPEATED, about="eagle3")
def no_layer_is_named_twice(offer: Offer) -> Iterator[Finding]:
    """Every layer is named once."""
    ids = offer.draft.ids or ()
    if len(set(ids)) < len(ids):
        refused = offer.reading["ids.repeated"].refused
        yield Finding(
            cause=Cause.IDS_REPEATED,
            damage=Damage.FAILS if refused else Damage.LOSES,
            where=IDS,
            expected="different layers",
            seen=str(list(ids)),
            consequence="fc gets fewer states than it is wide, and the first batch fails" if refused else "",
        )


@rule(Cause.LAYER_ORDER, about="eagle3")
def ids_ascend(offer: Offer) -> Iterator[Finding]:
    """Layers are named in the order in which they are delivered."""
    ids = offer.draft.ids or ()
    spelled = offer.reading["ids.descending"]
    ascending = spelled.states == tuple(sorted(spelled.states))
    if list(ids) != sorted(ids) and ascending and not _order_is_meant(offer, ids):
        yield Finding(
            cause=Cause.LAYER_ORDER,
            damage=Damage.LOSES,
            where=IDS,
            expected="ascending ids: that is how states are delivered, whatever the list says",
            seen=str(list(ids)),
            consequence="fc reads the states in another order than trained",
        )


def _order_is_meant(offer: Offer, ids: Sequence[int]) -> bool:
    """Whether export wrote the list so, for a class that takes sorted ids for other layers."""
    rule = _rule(offer)
    if rule is None or offer.draft.origin.writer is not Writer.EXPORTED:
        return False
    return rule.shift(ids) != rule.shift(sorted(ids))


@rule(Cause.LAYER_OUT_OF_RANGE, needs_target=True, about="eagle3")
def target_has_these_layers(offer: Offer) -> Iterator[Finding]:
    """Every layer id names a state that the target delivers."""
    assert offer.target is not None
    ids = offer.draft.states or offer.draft.ids
    if not ids:
        return
    layers = offer.target.num_hidden_layers
    lowest = 0 if offer.reading["ids.embeddings"].states[:1] == (0,) else 1
    states = ids if offer.draft.states else states_of(offer, ids)
    rule = _rule(offer)
    delivers_last = rule.delivers_last if rule else None
    highest = layers if delivers_last else layers - 1
    outside = [
        (item, state) for item, state in zip(ids, states, strict=True) if not lowest <= state <= highest
    ]
    if outside:
        item, state = outside[0]
        last = state == layers and delivers_last is None  # nobody has seen the class run
        yield Finding(
            cause=Cause.LAYER_OUT_OF_RANGE,
            damage=Damage.UNKNOWN if last else Damage.FAILS,
            where=IDS,
            expected=f"hidden states {lowest} to {highest} of a target of {layers} layers",
            seen=f"id {item}, which is hidden state {state}",
            consequence="few classes deliver the last hidden state; see that the server starts"
            if last
            else "the state is never captured, and the first batch fails for want of it",
        )


def states_of(offer: Offer, ids: Sequence[int]) -> tuple[int, ...]:
    """Hidden-state indices that ids name to the target's class."""
    assert offer.target is not None
    shift = _shift(offer, ids)
    return tuple(item + shift for item in ids)


def _rule(offer: Offer) -> Rule | None:
    """How the target's class numbers its layers, of which contracts.layer_ids makes states."""
    if offer.target is None:
        return None
    return Captures.for_release(offer.reading.release).rule(offer.target.architectures)


def _shift(offer: Offer, ids: Sequence[int]) -> int:
    """What the target's class adds to ids; one where nothing is known of it."""
    rule = _rule(offer)
    found = rule.shift(ids, offer.target.num_hidden_layers) if rule and offer.target else None
    return 1 if found is None else found


def _meanings(offer: Offer, ids: Sequence[int]) -> Meanings:
    """What ids name to who trained with them, and to the release with this target."""
    assert offer.target is not None
    return layer_ids.meanings(
        offer.draft.origin.writer,
        offer.draft.origin.release,
        ids,
        serving=offer.reading.release,
        classes=offer.target.architectures,
        num_layers=offer.target.num_hidden_layers,
    )


@rule(Cause.IDS_CONVENTION, needs_target=True, about="eagle3")
def ids_are_of_the_convention_that_is_read(offer: Offer) -> Iterator[Finding]:
    """Layer ids count as the release counts: an id names the output of a layer."""
    assert offer.target is not None
    draft, layers = offer.draft, offer.target.num_hidden_layers
    if draft.states or draft.origin.writer is Writer.EXPORTED or not draft.ids:
        return
    told = _meanings(offer, draft.ids)
    if _shift(offer, draft.ids) == 0 and not told.agree:
        yield Finding(
            cause=Cause.IDS_CONVENTION,
            damage=Damage.UNKNOWN,
            where=IDS,
            expected="ids that count hidden states, as this class takes them where the first is not 1 "
            f"({told.served.evidence})",
            seen=f"{list(draft.ids)} ({told.trained.evidence})",
            consequence="if these name outputs of layers, every tap is one layer early and acceptance drops; "
            "if they count hidden states, all is well",
            fix="Ask whoever trained the draft; if the ids name outputs of layers, add one to each.",
        )
    if tuple(draft.ids) == default_states(layers) and _shift(offer, draft.ids) == 1:
        yield Finding(
            cause=Cause.IDS_CONVENTION,
            damage=Damage.UNKNOWN,
            where=IDS,
            expected=f"{[state - 1 for state in default_states(layers)]} for the usual hidden states of "
            f"{layers} layers",
            seen=str(list(draft.ids)),
            consequence="if these count hidden states, every tap is one layer late and acceptance drops; "
            "if they name outputs of layers, all is well",
        )


@rule(Cause.WRONG_LAYERS, needs_target=True, about="eagle3")
def defaults_are_those_of_training(offer: Offer) -> Iterator[Finding]:
    """Where no ids are given, the target's class captures what EAGLE-3 trainers train on."""
    found = _rule(offer)
    if (
        offer.draft.ids
        or not offer.draft.is_fused
        or found is None
        or not isinstance(found.without_ids, tuple)
    ):
        return
    ascending = list(found.without_ids) == sorted(found.without_ids)  # else a stand-in misled the setter
    if ascending and found.without_ids != default_states(LAYERS):
        assert offer.target is not None
        yield Finding(
            cause=Cause.WRONG_LAYERS,
            damage=Damage.LOSES,
            where=NESTED,
            expected=f"the usual hidden states {list(default_states(LAYERS))} of {LAYERS} layers",
            seen=f"{offer.target.architectures[0]} delivers {list(found.without_ids)} without ids",
            fix=f"Write the ids of training to {NESTED}.",
        )


@rule(Cause.LAYER_OUT_OF_RANGE, needs_target=True, about="eagle3")
def defaults_are_states_of_the_target(offer: Offer) -> Iterator[Finding]:
    """Where no ids are given, the target is deep enough for the defaults."""
    assert offer.target is not None
    layers = offer.target.num_hidden_layers
    states = default_states(layers)
    if offer.draft.ids or not offer.draft.is_fused or 0 < states[0] < states[1] < states[2]:
        return
    yield Finding(
        cause=Cause.LAYER_OUT_OF_RANGE,
        damage=Damage.FAILS,
        where=NESTED,
        expected="the ids of training, as the target is too shallow for defaults",
        seen=f"none, which means hidden states {list(states)} of {layers} layers",
        consequence="fewer states are captured than fc takes, and the first batch fails",
        fix=f"Write the ids of training to {NESTED}.",
    )


@rule(Cause.FC_SKIPPED, about="eagle3")
def capture_is_switched_on(offer: Offer) -> Iterator[Finding]:
    """The target is told to deliver the states that fc was trained for."""
    if offer.draft.is_fused or "fc.weight" not in offer.draft.by_canonical:
        return
    spelled = offer.reading["use_aux_hidden_state.false"]
    applied = (spelled.facts.get("hidden_dims") or {}).get("fc_applied")
    if applied is False or spelled.refused:
        yield Finding(
            cause=Cause.FC_SKIPPED,
            damage=Damage.FAILS if spelled.refused else Damage.COLLAPSES,
            where="eagle_config.use_aux_hidden_state",
            expected="true, as the draft has fc.weight",
            seen=json.dumps(offer.draft.nested.get("use_aux_hidden_state")),
            consequence="the target's last state alone arrives, and fc is skipped",
        )


@rule(Cause.DRAFT_REFUSED, about="eagle3")
def eagle_config_can_be_read(offer: Offer) -> Iterator[Finding]:
    """The release takes eagle_config as it is written."""
    config = offer.draft.config
    if "eagle_config" not in config or config.get("eagle_config") is not None:
        return
    refused = offer.reading.refusals.get("no_eagle_config")
    if refused:
        yield Finding(
            cause=Cause.DRAFT_REFUSED,
            damage=Damage.FAILS,
            where="eagle_config",
            expected="an object, or no such key",
            seen="null",
            consequence=f"{LIBRARY} {offer.reading.release} raises: {refused}",
            fix="Remove the key, or write the layer ids there.",
        )
