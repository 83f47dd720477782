"""Turns what pytest saw of a contract into a verdict, and the verdicts of a session into an exit status."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from contracts import known as known_file
from contracts import outcome
from contracts.conversation import Progress
from contracts.environments import NotProvisioned, interpreter
from contracts.facts import Device
from contracts.handoff import NotRun, ProbeFailed
from contracts.header.plugin import DRAFT_CONTRACTS
from contracts.known import Entry, Known, KnownError
from contracts.outcome import FAILING, SEVERITY, Outcome, Verdict, unaccounted
from contracts.placing import write_whole
from contracts.plugin import MARK
from contracts.report import environment, explain
from contracts.sides import BadInterpreter, CacheUnavailable, make_folder
from contracts.targets.recipes import TargetRecipe, selected
from contracts.terminal import EXIT_BROKEN, EXIT_ERROR, EXIT_NOT_RUN, cache_folder
from contracts.verdict import Broken, Cause
from contracts.wanted import BadRequirement, shown
from contracts.workbench import Workbench

if TYPE_CHECKING:
    from contracts.facts import SideName


SCRIPT = "contracts reproduce "
"""Beginning of a reproduction that needs the serving library alone, which is better than a contract's own."""


class Unusable(Exception):
    """An option or file that the user gave cannot be used; one line."""


def _check_options(option: Any) -> None:
    """Refuse what could only fail at the end of the session, or must not happen at all."""
    if getattr(option, "update_snapshots", False) and os.environ.get("CI"):
        raise Unusable("--snapshot-update: recorded surfaces are never updated in CI; update and commit")
    if not 0 < option.case_timeout < math.inf:
        raise Unusable(f"--case-timeout: {option.case_timeout:g} s is no time at all; give a positive number")
    if option.device not in get_args(Device):
        raise Unusable(f"CONTRACTS_DEVICE: {option.device!r} is none of {', '.join(get_args(Device))}")
    if option.verdicts is None:
        return
    file = option.verdicts.absolute()
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise Unusable(f"--verdicts: cannot write {option.verdicts}; name a file in an existing folder")


def _targets(chosen: str) -> tuple[TargetRecipe, ...]:
    try:
        return selected(chosen)
    except KeyError as error:
        raise Unusable(f"--targets: {error.args[0]}") from None


def words(arguments: str) -> tuple[str, ...]:
    """Arguments of the server, as a shell would take them apart.

    Raises:
        Unusable: it could not.

    """
    try:
        return tuple(shlex.split(arguments))
    except ValueError as error:
        raise Unusable(f"--server-args: {error}: {arguments}") from None


@dataclass
class Judge:
    """One session: its options, its workbench and the verdicts so far."""

    workbench: Workbench
    known: Known
    pythons: dict[SideName, str]
    options: tuple[str, ...]
    """Options that a reproduction needs."""
    require_sides: bool
    record: Path | None
    reports: list[pytest.TestReport]
    """Of every contract that was judged, and of workers that crashed."""
    expected: int = 0
    selection: str = ""
    """What pytest's -k selects; empty for everything."""

    @classmethod
    def from_config(cls, config: pytest.Config, session: str, reports: list[pytest.TestReport]) -> Judge:
        """Read and check the options.

        Args:
            config: pytest's.
            session: a name that all processes of the session share.
            reports: where the reports of contracts are kept.

        Raises:
            Unusable: one of them cannot be used.

        """
        option = config.option
        asked: dict[SideName, str] = {"training": option.training_python, "serving": option.serving_python}
        cache = cache_folder(option.contracts_cache and Path(option.contracts_cache))
        _check_options(option)
        worker = getattr(config, "workerinput", None)
        try:
            make_folder(cache)
            pythons = {side: interpreter(side, words, cache) for side, words in asked.items()}
            known = known_file.load(option.contracts_known or known_file.FILE)
            workbench = Workbench(
                pythons=pythons,
                cache=cache.resolve(),
                session=session,
                case_timeout=option.case_timeout,
                progress=None if worker else _ProgressLine(config).start,
                say=(lambda _: None) if worker else _ProgressLine(config).say,
                device=option.device,
                server_args=words(option.server_args),
                targets=_targets(option.targets),
            )
            for side in pythons:
                with contextlib.suppress(NotRun):  # said by every contract that needs it
                    workbench.side(side)
        except KnownError as error:
            raise Unusable(f"--contracts-known: {error}" if option.contracts_known else str(error)) from None
        except (CacheUnavailable, BadInterpreter, BadRequirement, NotProvisioned) as error:
            raise Unusable(str(error)) from None
        given = [
            f"--{side}-python={shown(words)}" for side, words in asked.items() if words != sys.executable
        ]
        if option.targets != "core":
            given.append(f"--targets={option.targets}")
        if option.device != "cpu":
            given.append(f"--device={option.device}")
        if option.server_args:
            given.append(f"--server-args={option.server_args}")
        if option.contracts_known:
            given.append(f"--contracts-known={option.contracts_known}")
        return cls(
            workbench=workbench,
            known=known,
            pythons=pythons,
            options=tuple(given),
            require_sides=option.require_sides,
            record=option.verdicts,
            reports=reports,
            selection=getattr(option, "keyword", "") or "",
        )

    def expect(self, number: int) -> None:
        """Note how many contracts were collected; every xdist worker collects the same."""
        self.expected = max(self.expected, number)

    # ------------------------------------------------------------------ one contract

    def judge(
        self,
        item: pytest.Item,
        call: pytest.CallInfo[None],
        report: pytest.TestReport,
        figures: dict[str, float] | None,
    ) -> None:
        """Attach the verdict to `report`, and make pytest's outcome agree with it."""
        contract, promise, case = describe_item(item)
        reproduce = shlex.join(["pytest", *_address(item), *self.options])
        base = Verdict(
            contract=contract,
            promise=promise,
            case=case,
            draft="raw" if "raw_handoff" in getattr(item, "fixturenames", ()) else "exported",
            outcome=Outcome.HOLDS,
            reproduce=reproduce,
            figures=figures,
        )
        error = call.excinfo.value if call.excinfo else None
        entry = self._entry(contract, item)
        verdict = _verdict(base, error, report, entry)
        missing = isinstance(error, NotRun) and error.side_missing
        if missing and self.require_sides:
            report.outcome, report.longrepr = "failed", str(error)
        else:
            _apply(report, verdict, item, error)
        # These travel with the report, between xdist workers too.
        report.verdict = {**asdict(verdict), "outcome": str(verdict.outcome)}  # type: ignore[attr-defined]
        report.side_missing = missing  # type: ignore[attr-defined]
        report.stand_ins = self.workbench.stand_ins()  # type: ignore[attr-defined]
        item.user_properties.extend(_properties(verdict))  # JUnit XML reads them off the item

    def _entry(self, contract: str, item: pytest.Item) -> Entry | None:
        params = getattr(getattr(item, "callspec", None), "params", {})
        about = params.get("recipe") or params.get("target_recipe")
        if about is None:
            return None
        try:
            serving = self.workbench.side("serving").version
            # A target is judged whatever the drafts, so nothing is asked of training.
            training = self.workbench.side("training").version if "recipe" in params else None
        except NotRun:
            return None
        return self.known.find(contract, about.name, training, serving)

    # ----------------------------------------------------------------- whole session

    def verdicts(self) -> list[Verdict]:
        """One verdict per contract and case: the worst, if setup or teardown had another to add."""
        worst: dict[str, Verdict] = {}
        for report in self.reports:
            if getattr(report, "verdict", None):
                verdict = Verdict(**report.verdict | {"outcome": Outcome(report.verdict["outcome"])})
                before = worst.setdefault(report.nodeid, verdict)
                if SEVERITY[verdict.outcome] > SEVERITY[before.outcome]:
                    worst[report.nodeid] = verdict
        return list(worst.values())

    def finish(self, exitstatus: int) -> int:
        """Write the record and decide the exit status; usage errors and interrupts keep pytest's own."""
        verdicts = self.verdicts()
        if self.record is not None:
            write_record(self.record, self, verdicts)
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return int(exitstatus)
        outcomes = {verdict.outcome for verdict in verdicts}
        crashed = any(not getattr(report, "verdict", None) for report in self.reports)
        missing = any(getattr(report, "side_missing", False) for report in self.reports)
        if outcomes & FAILING or (missing and self.require_sides):
            return EXIT_BROKEN
        if Outcome.ERROR in outcomes or crashed or len(verdicts) < self.expected:
            return EXIT_ERROR
        others_failed = exitstatus == pytest.ExitCode.TESTS_FAILED
        if not others_failed and (missing or unaccounted(verdicts)):
            return EXIT_NOT_RUN
        return int(exitstatus)


def describe_item(item: pytest.Item) -> tuple[str, str, str]:
    """Contract id, its promise, and what it is judged on."""
    function = getattr(item, "originalname", None) or item.name
    module = Path(item.path).stem
    contract = f"{module.removeprefix('test_')}.{function.removeprefix('test_')}"
    docstring = (getattr(getattr(item, "obj", None), "__doc__", None) or "").strip()
    promise = " ".join(docstring.split("\n\n")[0].split())
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return contract, promise, "-"
    if "header_rule" in callspec.params:
        rule = callspec.params["header_rule"]
        return f"header.{rule.name}", rule.promise, "draft"
    if "target_recipe" in callspec.params:
        words = [
            getattr(value, "name", str(value))
            for name, value in callspec.params.items()
            if name != "target_recipe"
        ]
        return contract, promise, "/".join([*words, callspec.params["target_recipe"].name])
    if set(callspec.params) - {"recipe", "side", "setting"}:
        return contract, promise, callspec.id  # parameters of a user's own
    side, setting, recipe = map(callspec.params.get, ("side", "setting", "recipe"))
    about = recipe.name if recipe else "release" if side else None
    parts = [part for part in (side, setting and setting.name, about) if part]
    return contract, promise, "/".join(parts) or callspec.id


def _address(item: pytest.Item) -> list[str]:
    """Arguments that select an item wherever the package is installed."""
    module, _, rest = item.nodeid.partition("::")
    package, option = Path(__file__).parent, item.config.option
    if item.path == DRAFT_CONTRACTS:
        given = {"draft": option.draft, "target": option.target, "draft-for": option.draft_for}
        rule = rest.partition("[")[2].removesuffix("]")
        return ["-m", MARK, *(f"--{name}={value}" for name, value in given.items() if value), "-k", rule]
    if item.path.parent == package:
        return ["--pyargs", f"contracts.{item.path.stem}::{rest}"]
    return ["--pyargs", f"{module}::{rest}"]


def _verdict(
    base: Verdict, error: BaseException | None, report: pytest.TestReport, entry: Entry | None
) -> Verdict:
    facts = asdict(base)
    if isinstance(error, Broken):
        facts |= {"cause": str(error.cause), "expected": error.expected, "seen": error.seen, "fix": error.fix}
        if entry and entry.cause == error.cause and not entry.is_over(date.today()):
            recorded = {"reason": entry.reason, "upstream": str(entry.upstream)}
            if entry.until is not None:
                recorded["until"] = entry.until.isoformat()
            if entry.reproduce and entry.reproduce.startswith(SCRIPT):
                recorded["reproduce"] = entry.reproduce
            return Verdict(**facts | recorded | {"outcome": Outcome.KNOWN})
        changed = error.cause is Cause.SURFACE_CHANGED
        if entry and entry.cause == error.cause:
            facts["reason"] = f"known.toml accepted this until {entry.until}: {entry.reason}"
        elif entry:
            facts["reason"] = f"known.toml records another cause here: {entry.cause}"
        return Verdict(**facts | {"outcome": Outcome.CHANGED if changed else Outcome.BROKEN})
    if isinstance(error, NotRun) or report.outcome == "skipped":
        cause = getattr(error, "cause", None)
        told = {"outcome": Outcome.NOT_RUN, "reason": str(error), "cause": cause and str(cause)}
        return Verdict(**facts | told)
    if error is not None:
        reason = str(error) if isinstance(error, ProbeFailed) else _where(error)
        return Verdict(**facts | {"outcome": Outcome.ERROR, "reason": reason})
    if entry:
        reason = f"known.toml says that this does not hold ({entry.cause}); it holds: remove the entry"
        return Verdict(**facts | {"outcome": Outcome.FIXED, "cause": str(entry.cause), "reason": reason})
    if report.outcome != "passed":  # a strict xpass of a user's own mark, say
        return Verdict(**facts | {"outcome": Outcome.ERROR, "reason": str(report.longrepr)})
    return base


def _where(error: BaseException) -> str:
    """An unexpected exception in one line: what, and where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _apply(
    report: pytest.TestReport, verdict: Verdict, item: pytest.Item, error: BaseException | None
) -> None:
    """Make pytest's own outcome and message agree with the verdict."""
    if verdict.outcome is Outcome.NOT_RUN:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"not run: {verdict.reason}")
    elif verdict.outcome is Outcome.KNOWN:
        report.outcome = "skipped"
        report.wasxfail = f"{verdict.cause}: {verdict.reason} ({verdict.upstream})"
    elif verdict.outcome in FAILING:
        report.outcome = "failed"
        report.longrepr = explain(verdict)
    elif verdict.outcome is Outcome.ERROR and isinstance(error, ProbeFailed):
        # Our own traceback says nothing about a probe, and its log is shown once, in the summary.
        report.longrepr = str(error).partition("\n")[0]


def _properties(verdict: Verdict) -> list[tuple[str, object]]:
    return [(name, str(value)) for name, value in asdict(verdict).items() if value is not None]


def write_record(file: Path, judge: Judge, verdicts: Sequence[Verdict]) -> None:
    """All verdicts as JSON lines, between a header and a closing line; whole or not at all."""
    header = {
        "expected": judge.expected,
        "selection": judge.selection,
        "device": judge.workbench.device,
        "sides": environment(judge),
    }
    write_whole(file, outcome.record(header, verdicts))


@dataclass
class _ProgressLine:
    """Says on the terminal what a probe is doing; one line per probe where it is no terminal."""

    config: pytest.Config
    title: str = field(default="", init=False)

    def start(self, title: str) -> Progress:
        """Report on one probe, from when it is started; a run that is in the cache starts none."""
        self.title = title
        return self._show

    def say(self, words: str) -> None:
        """Say what is waited for."""
        self._write(f"{words} ...", "\n")

    def _show(self, done: int, total: int) -> None:
        if done == 0:
            self._write(f"{self.title}: starting the probe ...", end="" if sys.stderr.isatty() else "\n")
        elif sys.stderr.isatty() or done == total:
            self._write(f"{self.title}: {done} of {total} cases", end="\n" if done == total else "")

    def _write(self, text: str, end: str) -> None:
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        start = "\r\033[K" if sys.stderr.isatty() else "\n" if text.endswith("...") else ""
        if capture is None:
            sys.stderr.write(start + text + end)
            return
        with capture.global_and_fixture_disabled():
            sys.stderr.write(start + text + end)
            sys.stderr.flush()
