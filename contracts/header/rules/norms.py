"""The optional norms: whether they are switched on where the release looks, and have their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from contracts.causes import Cause
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.reading import LIBRARY, readings
from contracts.header.rule import Offer, rule
from contracts.header.rules.weight_names import listed


@dataclass(frozen=True)
class _Norm:
    flag: str
    cause: Cause
    """If it is not applied."""
    tensors: tuple[str, ...]
    """Beginnings of the names of its weights."""


NORMS = (
    _Norm("norm_before_fc", Cause.INPUT_NORM_MISSING, ("input_norm.",)),
    _Norm("fc_norm", Cause.FC_NORM_MISSING, ("fc_norm.", "aux_norm_")),
    _Norm("norm_output", Cause.RECURRENT_NOT_NORMED, ()),
    _Norm("norm_before_residual", Cause.RESIDUAL_BEFORE_NORM, ()),
)
_CAUSES = tuple(norm.cause for norm in NORMS)


@rule(*_CAUSES)
def norms_of_training_are_applied(offer: Offer) -> Iterator[Finding]:
    """Every optional norm that the draft was trained with is applied."""
    for norm in NORMS:
        places = _places(offer.draft, norm.flag)
        if not places or any(_applies(offer, norm.flag, place) for place in places):
            continue
        refused = next(
            (told for place in places if (told := offer.reading[f"{norm.flag}.{place}"].refused)), None
        )
        elsewhere = next((it for it in ("top", "nested") if _applies(offer, norm.flag, it)), None)
        yield Finding(
            cause=norm.cause,
            damage=Damage.FAILS if refused else Damage.LOSES,
            where=f"eagle_config.{norm.flag}" if places == ["nested"] else norm.flag,
            expected="the norm, applied",
            seen=f"this release does not read it {'there' if elsewhere else 'at all'}",
            fix=_move(norm.flag, elsewhere) if elsewhere else _other_release(norm),
        )


def _places(draft: Draft, flag: str) -> list[str]:
    """Where the norm is switched on."""
    said = {"top": draft.config.flag(flag), "nested": draft.nested.flag(flag)}
    if flag == "norm_before_fc" and flag in draft.nested:
        said["top"] = None  # the key in eagle_config counts, whatever it says
    if flag == "fc_norm" and draft.config.flag("use_aux_norm"):
        said["top"] = True
    return [place for place, value in said.items() if value]


def _applies(offer: Offer, flag: str, place: str) -> bool:
    return offer.reading[f"{flag}.{place}"].applies(flag)


def _move(flag: str, place: str) -> str:
    return f'Write "{flag}": true ' + ("at the top level." if place == "top" else "in eagle_config.")


def _other_release(norm: _Norm) -> str:
    first = _first_with(norm.flag)
    if first is None:
        return f"No release of {LIBRARY} applies it: retrain without, or serve with vLLM."
    return f"Serve it with {LIBRARY} {first} or newer, which applies it, or retrain without."


@cache
def _first_with(flag: str) -> str | None:
    """The release since which every recorded one applies a norm; None if the newest does not."""
    first = None
    for reading in reversed(readings()):
        if not any(reading[f"{flag}.{place}"].applies(flag) for place in ("top", "nested")):
            break
        first = reading.release
    return first


@rule(Cause.RESIDUAL_BEFORE_NORM)
def residual_is_said(offer: Offer) -> Iterator[Finding]:
    """A config.json of speculators says whether the residual is normed, as readers differ about silence."""
    if not offer.draft.needs_export or "norm_before_residual" in offer.draft.raw:
        return
    yield Finding(
        cause=Cause.RESIDUAL_BEFORE_NORM,
        damage=Damage.UNKNOWN,
        where="norm_before_residual",
        expected="true or false, as trained",
        seen="nothing",
        consequence="speculators and its export read that as false, vLLM as true",
        fix='Write "norm_before_residual" to config.json, as the draft was trained.',
    )


@rule(Cause.INPUT_NORM_MISSING, Cause.FC_NORM_MISSING)
def norms_with_weights_are_switched_on(offer: Offer) -> Iterator[Finding]:
    """Every norm that has weights is switched on in config.json."""
    for norm in NORMS:
        found = [
            name
            for bare, names in offer.draft.by_canonical.items()
            for name in names
            if norm.tensors and bare.startswith(norm.tensors)
        ]
        if found and not _places(offer.draft, norm.flag):
            yield Finding(
                cause=norm.cause,
                damage=Damage.LOSES,
                where=norm.flag,
                expected=f"true, as the draft has {listed(found)}",
                seen="nothing" if norm.flag not in offer.draft.config else "false",
                consequence="the loader drops the norm's weights, and fewer draft tokens are accepted",
                fix=f'Write "{norm.flag}": true to config.json.',
            )


@rule(Cause.PARAMETER_UNWRITTEN)
def norms_that_are_on_have_weights(offer: Offer) -> Iterator[Finding]:
    """Every norm that is switched on and applied has its weights in the checkpoint."""
    count = int(offer.draft.num_chunks or 3)
    for norm in NORMS:
        if not norm.tensors or not any(
            _applies(offer, norm.flag, it) for it in _places(offer.draft, norm.flag)
        ):
            continue
        found = [bare for bare in offer.draft.by_canonical if bare.startswith(norm.tensors)]
        due = count if norm.flag == "fc_norm" else 1
        if len(found) < due:
            yield Finding(
                cause=Cause.PARAMETER_UNWRITTEN,
                damage=Damage.LOSES,
                where=f"{norm.tensors[0]}*",
                expected=f"{due} tensor{'s' if due > 1 else ''}, as {norm.flag} is true",
                seen=str(len(found)) if found else "none",
                consequence="the norm runs with the weights that it is built with",
                fix=f'Save the norm\'s weights, or write "{norm.flag}": false if it was trained without.',
            )
