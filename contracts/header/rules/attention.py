"""How many positions the draft attends to."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.causes import Cause
from contracts.conventions import WINDOW_ARGUMENT
from contracts.header.findings import Damage, Finding
from contracts.header.rule import Offer, given, rule


@rule(Cause.WINDOW_DIFFERS)
def window_is_applied(offer: Offer) -> Iterator[Finding]:
    """A window that the draft was trained with is applied when it is served."""
    config = offer.draft.config
    kinds, window = config.words("layer_types"), config.integer("sliding_window")
    slides = "sliding_attention" in kinds or (not kinds and bool(config.flag("use_sliding_window")))
    if not slides or window is None:
        return
    spelled = offer.reading["sliding_window.layer_types"]
    applied = (spelled.facts.get("attention") or {}).get("windows") != [None]
    if (not spelled.refused and applied) or given(offer.server_args, WINDOW_ARGUMENT) is not None:
        return
    known = WINDOW_ARGUMENT in offer.reading.traits["server_options"]
    yield Finding(
        cause=Cause.WINDOW_DIFFERS,
        damage=Damage.LOSES,
        where="sliding_window",
        expected=f"attention over {window} positions",
        seen="this release attends to all of them, whatever config.json says",
        consequence=f"draft tokens are rejected more often beyond {window} positions",
        fix=f"Start the server with {WINDOW_ARGUMENT} {window - 1}."
        if known
        else "Train with full attention, or serve with a release that has " + WINDOW_ARGUMENT + ".",
    )
