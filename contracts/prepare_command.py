"""`contracts prepare`: run the probes of some releases, so that contracts find their answers in the cache."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from contracts.conversation import Progress
from contracts.environments import NotProvisioned, interpreter
from contracts.facts import CASE_TIMEOUT, Device
from contracts.sides import BadInterpreter, CacheUnavailable
from contracts.terminal import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_NOT_RUN,
    cache_folder,
    fail,
    new_console,
)
from contracts.wanted import BadRequirement

if TYPE_CHECKING:
    from contracts.workbench import Workbench

EXAMPLES = """
Examples:

contracts prepare --training speculators==0.8.1 --training speculators==0.9.0 --serving sglang==0.5.23

contracts prepare --training .venv/bin/python
"""

Training = Annotated[
    list[str],
    typer.Option("--training", metavar="SIDE", help="Interpreter, or speculators==RELEASE; repeatable."),
]
Serving = Annotated[
    str | None, typer.Option("--serving", metavar="SIDE", help="Interpreter, or sglang==RELEASE.")
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FOLDER", envvar="CONTRACTS_CACHE", help="Where answers are kept."),
]
Timeout = Annotated[
    float, typer.Option("--case-timeout", metavar="SECONDS", help="Time limit for one case of a probe.")
]


def prepare(
    training: Training, serving: Serving = None, cache: Cache = None, case_timeout: Timeout = CASE_TIMEOUT
) -> None:
    """Run the probes of some releases over every recipe, so that contracts find their answers in the cache.

    Each training release builds its drafts. One process of the serving release then takes those of all of
    them, equal drafts once. CONTRACTS_DEVICE and CONTRACTS_SERVER_ARGS count as with pytest. Exit status 0:
    all is there; 2: bad input; 3: some case failed; 5: a side is missing.
    """
    from contracts.group import release_cases
    from contracts.handoff import NotRun

    folder = cache_folder(cache)
    try:
        benches = [_bench(words, serving, folder, case_timeout) for words in training]
        for bench in benches:
            bench.train()
        if serving is not None and benches[0].device == "cpu":
            side = benches[0].side("serving")
            side.run(
                [*(case for bench in benches for case in bench.serving_cases()), *release_cases("serving")],
                folder,
                session=_session(),
                case_timeout=case_timeout,
                progress=_progress(f"serving side, {side.library} {side.version}"),
            )
        if serving is not None:
            for bench in benches:
                bench.serve()
    except (CacheUnavailable, BadInterpreter, BadRequirement, NotProvisioned) as error:
        fail(str(error))
    except NotRun as missing:
        fail(str(missing), EXIT_NOT_RUN)
    except KeyboardInterrupt:
        fail("interrupted; what was answered is kept, the rest is asked next time", EXIT_INTERRUPTED)
    errors = [result for bench in benches for result in bench.errors()]
    if errors:
        first = (errors[0].error or "").partition("\n")[0]
        fail(f"{len(errors)} cases failed, the first of them {errors[0].case}: {first}", EXIT_ERROR)


def _bench(training: str, serving: str | None, cache: Path, case_timeout: float) -> Workbench:
    from contracts.workbench import Workbench

    python = interpreter("training", training, cache)
    device = os.environ.get("CONTRACTS_DEVICE") or "cpu"
    if device not in get_args(Device):
        fail(f"CONTRACTS_DEVICE: {device!r} is none of {', '.join(get_args(Device))}")
    return Workbench(
        pythons={
            "training": python,
            "serving": python if serving is None else interpreter("serving", serving, cache),
        },
        cache=cache,
        session=_session(),
        case_timeout=case_timeout,
        progress=_progress,
        device=device,  # type: ignore[arg-type]
        server_args=tuple(shlex.split(os.environ.get("CONTRACTS_SERVER_ARGS", ""))),
    )


def _session() -> str:
    """Failures are shared by the sessions of one matrix."""
    return os.environ.get("CONTRACTS_SESSION", "")


def _progress(title: str) -> Progress:
    console = new_console(stderr=True)

    def show(done: int, total: int) -> None:
        if done == 0:
            console.print(f"{title}: {total} cases ...")
        elif done == total or (console.is_terminal and done % 10 == 0):
            console.print(f"{title}: {done} of {total} cases")

    return show
