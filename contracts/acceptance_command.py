"""`contracts acceptance`: options in, words and an exit status out."""

from __future__ import annotations

import math
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from contracts import promise, prompts
from contracts.acceptance_report import Finding, Measured, Promise
from contracts.launch import LaunchFailed, launched
from contracts.servers import Counts, Served, Server, ServerError, connect
from contracts.terminal import EXIT_BAD_INPUT, EXIT_BROKEN, EXIT_INTERRUPTED, fail, new_console, text

EXAMPLES = """
Examples:

contracts acceptance --url http://127.0.0.1:30000

contracts acceptance --url http://127.0.0.1:30000 --expect 2.8

contracts acceptance --url http://127.0.0.1:30000 --training-log checkpoints/7/val_metrics.json

contracts acceptance --expect 2.8 --launch "python -m sglang.launch_server --model-path org/target \
    --speculative-algorithm EAGLE3 --speculative-draft-model-path my-draft --speculative-num-steps 3 \
    --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
"""

Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="Address of an sglang or vLLM server.")]
Launch = Annotated[
    str | None,
    typer.Option(
        "--launch",
        metavar="COMMAND",
        help="Start this server, wait until it answers, and end it afterwards; without --host and --port.",
    ),
]
ReadyTimeout = Annotated[
    float,
    typer.Option(
        "--ready-timeout",
        metavar="SECONDS",
        min=1,
        max=86400,
        help="Time limit for it to load, with --launch.",
    ),
]
Expect = Annotated[
    float | None, typer.Option("--expect", metavar="LENGTH", help="Accept length that is promised.")
]
TrainingLog = Annotated[
    Path | None,
    typer.Option(
        "--training-log",
        metavar="FILE",
        help="val_metrics.json of the checkpoint, its folder, or the trainer's log: what training promises.",
    ),
]
PromptFile = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help="Your own prompts, one JSON value a line: a string, chat messages, or the target's token ids.",
    ),
]
Tokens = Annotated[int, typer.Option("--tokens", metavar="N", min=2, help="Tokens to generate per prompt.")]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="PART",
        min=0,
        max=1,
        help="Part of the promise that other prompts may cost.",
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key", metavar="KEY", envvar="CONTRACTS_API_KEY", help="Key of the server, if it asks."
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, max=86400, help="Time limit for each answer."),
]

STATUSES = {
    Finding.AS_PROMISED: 0,
    Finding.BELOW: EXIT_BROKEN,
    Finding.TOO_FEW: EXIT_BAD_INPUT,
    Finding.MEASURED: 0,
}
COLOURS = {
    Finding.AS_PROMISED: "green",
    Finding.BELOW: "red",
    Finding.TOO_FEW: "yellow",
    Finding.MEASURED: "yellow",
}


def acceptance(
    url: Url = None,
    expect: Expect = None,
    training_log: TrainingLog = None,
    prompt_file: PromptFile = None,
    tokens: Tokens = 128,
    tolerance: Tolerance = 0.2,
    api_key: ApiKey = None,
    timeout: Timeout = 120.0,
    launch: Launch = None,
    ready_timeout: ReadyTimeout = 1800.0,
) -> None:
    """Say whether a running server accepts as many draft tokens as the draft's training promises.

    A few prompts are asked, greedily, and the server's own counts are read: of sglang those of each answer,
    of vLLM its /metrics (so let nobody else ask it meanwhile). Exit status 0: as promised, or nothing was
    promised; 1: below; 2: the server or an option cannot be used, or there were too few rounds to tell.
    """
    if (url is None) is (launch is None):
        fail("give the address of a server with --url, or have one started with --launch")
    if expect is not None and training_log is not None:
        fail("--expect and --training-log both say what is promised; give one")
    if expect is not None and not (math.isfinite(expect) and expect >= 1):
        fail(f"--expect {expect:g}: an accept length is 1 (nothing accepted) or more")
    try:
        asked = prompts.DEFAULT if prompt_file is None else prompts.read(prompt_file)
        trained = () if training_log is None else promise.read(training_log)
        with (
            _address(url, launch, ready_timeout) as address,
            connect(address, api_key=api_key, timeout=timeout) as server,
        ):
            _check_possible(expect, server.served)
            counts = _measure(server, asked, tokens)
    except LaunchFailed as error:
        first, _, log = str(error).partition("\n")
        for line in log.splitlines():
            new_console(stderr=True).print(text(line))
        fail(first)
    except (ServerError, prompts.PromptsError, promise.TrainingLogError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted", EXIT_INTERRUPTED)
    promised = None
    if trained:
        promised = Promise.of_training(trained, server.served, tolerance)
    elif expect is not None:
        promised = Promise(length=expect, tolerance=tolerance)
    measured = Measured(
        served=server.served,
        counts=counts,
        prompts=len(asked),
        promise=promised,
        notes=tuple(server.notes),
    )
    _tell(new_console(), measured)
    if STATUSES[measured.finding]:
        raise typer.Exit(STATUSES[measured.finding])


@contextmanager
def _address(url: str | None, launch: str | None, ready_timeout: float) -> Iterator[str]:
    """The address of the server, which is started if it is to be launched, and ended then."""
    if launch is None:
        assert url is not None
        yield url
        return
    try:
        command = shlex.split(launch)
    except ValueError as error:
        fail(f"--launch: {error}: {launch}")
    if not command or shutil.which(command[0]) is None:
        fail(f"--launch: there is no program {(command or ['at all'])[0]}")
    console = new_console(stderr=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        told = lambda words: console.print(text(f"{words} ..."))  # noqa: E731
        with launched(command, Path(folder), ready_timeout=ready_timeout, told=told) as server:
            yield server.url
    for left in server.left:
        console.print(text(f"outlived the server, and was ended: {left}"))


def _check_possible(expect: float | None, served: Served) -> None:
    """Refuse a promise that no draft of the server's length can keep."""
    if expect is not None and served.steps is not None and expect > served.steps + 1:
        told = f"who drafts {served.steps} tokens in a row accepts {served.steps + 1} at the most"
        fail(f"--expect {expect:g}: {told}")


def _measure(server: Server, asked: tuple[prompts.Prompt, ...], tokens: int) -> Counts:
    with _progress(len(asked)) as answered:
        return server.measure(asked, tokens, answered)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on the terminal, and nothing elsewhere."""
    console = new_console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("prompts answered", total=total)
        yield lambda: bar.advance(task)


def _tell(console: Console, measured: Measured) -> None:
    finding = measured.finding
    console.print(f"[{COLOURS[finding]}]{finding}[/]  {measured.headline()}")
    for label, words in measured.facts():
        console.print(f"  {label:<12}  {text(words)}")
    if finding is Finding.BELOW:
        console.print("\nwhat to check next")
        for number, check in enumerate(measured.next_checks(), 1):
            console.print(f"  {number}. {text(check)}")
