"""Decides from recorded verdicts whether a pair of releases, or a draft, is fit to go out."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from contracts.outcome import FORMAT, Outcome

HEADER = "header."
"""Begins the names of contracts of depth header."""
DAMAGES = {
    "fails": Outcome.BROKEN,
    "collapses": Outcome.BROKEN,
    "loses": Outcome.BROKEN,
    "unknown": Outcome.NOT_RUN,
    "note": Outcome.HOLDS,
}
"""What a finding of `contracts check` counts as."""
SHOWN = 20
"""Reasons that are told one by one."""


class PolicyError(Exception):
    """The policy file cannot be used; one line."""


class RecordError(Exception):
    """A record of verdicts cannot be used; one line."""


class _NotWhole(Exception):
    """What is missing of a record."""


class Answer(StrEnum):
    """Of the gate."""

    COMPATIBLE = "compatible"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Policy(BaseModel):
    """What is asked of contracts, by patterns of their names (`acceptance.*`, `*`).

    A second word is a pattern of what they were judged on: `acceptance.* triton_chain/*`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    must_hold: list[str] = []
    """Not even a recorded incompatibility is accepted."""
    may_be_known: list[str] = ["*"]
    """May be broken as known.toml records."""
    may_not_run: list[str] = []
    """May be left out, or tell nothing."""


@dataclass(frozen=True)
class Line:
    """One verdict, as the gate sees it."""

    contract: str
    case: str
    outcome: Outcome
    cause: str
    reason: str
    until: str = ""
    """Last day on which what is known is accepted, ISO 8601; empty: no end."""


@dataclass(frozen=True)
class Record:
    """One file of verdicts."""

    name: str
    lines: tuple[Line, ...]
    missing: int = 0
    """Contracts that should have been judged, and were not."""


@dataclass(frozen=True)
class Decision:
    """The answer, and why."""

    answer: Answer
    told: str
    reasons: tuple[str, ...]


POLICIES = Path(__file__).parent / "policies"


def shipped() -> list[str]:
    """Names of the policies that ship."""
    return sorted(file.stem for file in POLICIES.glob("*.toml"))


def find_policy(words: str) -> Policy:
    """A policy that ships, by its name, or one of a file.

    Raises:
        PolicyError: there is none of that name, or it cannot be used.

    """
    file = Path(words)
    if not file.exists() and words in shipped():
        return read_policy(POLICIES / f"{words}.toml")
    if not file.exists():
        raise PolicyError(f"--policy {words}: no such file; policies that ship: {', '.join(shipped())}")
    return read_policy(file)


def read_policy(file: Path) -> Policy:
    """Read a policy.

    Raises:
        PolicyError: it cannot be read, or says something else.

    """
    try:
        return Policy.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise PolicyError(f"{file}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(f"{file}: not readable as TOML ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "policy"
        known = ", ".join(Policy.model_fields)
        raise PolicyError(f"{file}: {key}: {first['msg']}; a policy has lists of {known}") from None


def read_record(file: Path) -> Record:
    """Read verdicts that pytest wrote with --verdicts, or a report of `contracts check --format json`.

    Raises:
        RecordError: it is neither, or not whole.

    """
    try:
        text = file.read_text(encoding="utf-8")
        if text.lstrip().startswith("{\n"):
            return _of_check(file, json.loads(text))
        return _of_verdicts(file, [json.loads(line) for line in text.splitlines()])
    except OSError as error:
        raise RecordError(f"{file}: cannot be read ({error.strerror})") from None
    except _NotWhole as error:
        raise RecordError(f"{file}: no record of verdicts: {error}") from None
    except (UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        told = "no record of verdicts; make one with pytest's --verdicts, or contracts check --format json"
        raise RecordError(f"{file}: {told}") from None


def _of_verdicts(file: Path, lines: Sequence[dict[str, Any]]) -> Record:
    if not lines or lines[0].get("kind") != "header" or lines[0].get("format") != FORMAT:
        raise _NotWhole("it does not begin with a header of this format")
    header, *verdicts, end = lines if len(lines) > 1 else (lines[0], {})
    if end.get("kind") != "end" or end["verdicts"] != len(verdicts):
        raise _NotWhole("it has no closing line, so the run was broken off")
    told = [
        Line(
            it["contract"],
            it["case"],
            Outcome(it["outcome"]),
            it.get("cause") or "",
            it.get("reason") or "",
            it.get("until") or "",
        )
        for it in verdicts
    ]
    return Record(str(file), tuple(told), max(0, header.get("expected", 0) - len(told)))


def _of_check(file: Path, report: dict[str, Any]) -> Record:
    lines = [
        Line(it["contract"], release["release"], DAMAGES[it["damage"]], it["cause"], it["consequence"])
        for release in report["releases"]
        for it in release["findings"]
    ]
    lines += [
        Line(f"{HEADER}{name}", "draft", Outcome.NOT_RUN, "", why)
        for name, why in report["not_judged"].items()
    ]
    judged = Line(f"{HEADER}draft", report["draft"], Outcome.HOLDS, "", "")
    return Record(str(file), (*lines, judged) if report["contracts"] and report["releases"] else ())


def decide(records: Iterable[Record], policy: Policy, today: date) -> Decision:
    """Broken if something that counts is, unknown if something that counts is not known, else compatible.

    What is known and was accepted for a time counts as broken once `today` is after that.
    """
    records = list(records)
    broken: list[str] = []
    unknown: list[str] = []
    counts = Counter[Outcome]()
    for record in records:
        where = f"{record.name}: " if len(records) > 1 else ""
        if not record.lines:
            unknown.append(f"{where}no contract was judged")
        if record.missing:
            unknown.append(f"{where}{record.missing} contracts were never judged")
        for line in record.lines:
            counts[line.outcome] += 1
            answer = _judge(line, policy, today)
            told = f"{where}{line.contract} [{line.case}]: {line.outcome}"
            if why := line.cause or line.reason[:120]:
                told += f" ({why})"
            if _is_over(line, today):
                told += f", accepted until {line.until}"
            if answer is Answer.BROKEN:
                broken.append(told)
            elif answer is Answer.UNKNOWN:
                unknown.append(told)
    judged = [
        line
        for record in records
        for line in record.lines
        if line.outcome not in (Outcome.NOT_RUN, Outcome.ERROR)
    ]
    if records and not judged:
        unknown.append("nothing was judged: no contract says anything about the interface")
    for pattern in policy.must_hold:
        if not any(_is(line, pattern) for line in judged):
            unknown.append(f"must_hold: {pattern!r} names no contract that was judged")
    if not records:
        unknown.append("no record at all")
    answer = Answer.BROKEN if broken else Answer.UNKNOWN if unknown else Answer.COMPATIBLE
    numbers = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    reasons = [*broken, *unknown]
    more = [f"and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
    return Decision(answer, numbers, (*reasons[:SHOWN], *more))


def _is_over(line: Line, today: date) -> bool:
    return bool(line.until) and line.until < today.isoformat()


def _judge(line: Line, policy: Policy, today: date) -> Answer:
    if line.outcome is Outcome.HOLDS:
        return Answer.COMPATIBLE
    if line.outcome is Outcome.KNOWN:
        allowed = _among(line, policy.may_be_known) and not _among(line, policy.must_hold)
        allowed = allowed and not _is_over(line, today)
        return Answer.COMPATIBLE if allowed else Answer.BROKEN
    if line.outcome is Outcome.NOT_RUN:
        return Answer.COMPATIBLE if _among(line, policy.may_not_run) else Answer.UNKNOWN
    return Answer.UNKNOWN if line.outcome is Outcome.ERROR else Answer.BROKEN


def _among(line: Line, patterns: Iterable[str]) -> bool:
    return any(_is(line, pattern) for pattern in patterns)


def _is(line: Line, pattern: str) -> bool:
    contract, _, case = pattern.partition(" ")
    return fnmatchcase(line.contract, contract) and fnmatchcase(line.case, case or "*")
