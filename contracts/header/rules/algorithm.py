"""The speculative algorithm that a draft is made for, and the one that the server is told."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from contracts.causes import Cause
from contracts.header.findings import Damage, Finding
from contracts.header.kind import SERVED_BY, Kind, kind_of
from contracts.header.reading import LIBRARY
from contracts.header.rule import Offer, given, rule

FLAG = "--speculative-algorithm"
EAGLE3 = (Kind.EAGLE3, Kind.EAGLE3_MLA)


@rule(Cause.OTHER_KIND, about="any")
def draft_is_for_eagle3(offer: Offer) -> Iterator[Finding]:
    """The checkpoint is an EAGLE-3 draft."""
    kind = kind_of(offer.draft)
    if kind in EAGLE3:
        return
    runs = offer.draft.architecture in offer.reading.draft_classes
    yield Finding(
        cause=Cause.OTHER_KIND,
        damage=Damage.COLLAPSES if runs else Damage.FAILS,
        where="the checkpoint",
        expected="an EAGLE-3 draft",
        seen=f"a {kind}",
        consequence=f"with {FLAG} EAGLE3 " + ("it drafts nonsense" if runs else "the server does not start"),
        fix=f"Serve it by what it is for: {_served_by(kind, offer)}.",
    )


def _served_by(kind: Kind, offer: Offer) -> str:
    served, release = SERVED_BY[kind], f"{LIBRARY} {offer.reading.release}"
    if served.algorithm in offer.reading.algorithms:
        here = f"{FLAG} {served.algorithm} in {release}"
        return f"{here}, or {served.otherwise}" if served.otherwise else here
    return f"{release} has nothing for it; {served.otherwise}" if served.otherwise else f"not in {release}"


@rule(Cause.NOT_LOOKED_INTO, about="any")
def layers_are_of_a_kind_that_is_looked_into(offer: Offer) -> Iterator[Finding]:
    """The draft's layers are Llama's, of which it is recorded how every release reads them."""
    if kind_of(offer.draft) is Kind.EAGLE3_MLA:
        yield Finding(
            cause=Cause.NOT_LOOKED_INTO,
            damage=Damage.UNKNOWN,
            where="self_attn",
            expected="the attention of Llama",
            seen="latent attention (MLA), as in DeepSeek's and Kimi's drafts",
            consequence="names, shapes and norms were not judged; vocabulary map and layer ids were",
        )


@rule(Cause.ALGORITHM_DIFFERS, about="eagle3")
def server_runs_that_algorithm(offer: Offer) -> Iterator[Finding]:
    """The server is told the algorithm that the draft is for."""
    told = given(offer.server_args, FLAG)
    if told is None or told.upper() == "EAGLE3":
        return
    known = f"algorithm.{told.upper()}"
    skipped = known in offer.reading.spelled and not offer.reading[known].refused
    yield Finding(
        cause=Cause.ALGORITHM_DIFFERS,
        damage=Damage.COLLAPSES if skipped else Damage.FAILS,
        where=FLAG,
        expected="EAGLE3",
        seen=told or "no value",
        consequence="the server starts without fc and without the draft's token map, and rejects every draft "
        "token"
        if skipped
        else "",
    )


@rule(Cause.DRAFT_REFUSED, about="eagle3")
def server_has_these_options(offer: Offer) -> Iterator[Finding]:
    """Every option for speculation that the server is given is one that the release has."""
    known = offer.reading.traits["server_options"]
    words = (word.partition("=")[0] for word in offer.server_args)
    for option in words:
        if option.startswith("--speculative-") and not any(it.startswith(option) for it in known):
            near = difflib.get_close_matches(option, known, n=1)
            yield Finding(
                cause=Cause.DRAFT_REFUSED,
                damage=Damage.FAILS,
                where=option,
                expected=near[0] if near else "an option of this release",
                seen="none that it has",
                consequence="the server ends with a usage error",
                fix=f"Write {near[0]}." if near else "Look into the release's --help.",
            )
