"""A server's answers on which every contract holds, to break in one place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from contracts.servers import Counts
from contracts.service import SERVINGS, Served, Service
from contracts.speculation import EngineRun
from tests.acceptances import EXPECTED, METRICS, RUN


def counted(run: EngineRun) -> Service:
    """A server that counted what `run` did, asked at once and one by one."""
    rounds = sum(made.verifications for made in run.generations)
    accepted = sum(made.accepted for made in run.generations)
    return Service(
        generations=run.generations,
        measured=Counts(rounds=rounds, accepted=accepted),
        statistics=run.accept_length,
        seconds=17.0,
        left=(),
    )


SERVED = Served(
    serving=SERVINGS[0], dtype="float32", expected=EXPECTED, service=counted(RUN), metrics=METRICS
)


def serving(run: EngineRun = RUN, **changes: Any) -> Served:
    """A server that answered or counted otherwise."""
    return replace(SERVED, service=replace(counted(run), **changes))
