"""`contracts gate` answers 0, 1 or 2 from recorded verdicts, as the policy has it."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from contracts import outcome
from contracts.cli import app
from contracts.gate import find_policy, shipped
from contracts.header.rules import RULES
from contracts.outcome import Outcome, Verdict
from tests.checking import NEWEST, faulty, good
from tests.checking import run as check
from tests.runner import all_contracts


def record(folder: Path, *outcomes: Outcome, expected: int | None = None, name: str = "a.jsonl") -> str:
    verdicts = [
        Verdict(
            contract=f"norms.promise_{at}",
            promise="It is kept.",
            case="plain",
            outcome=item,
            cause=_cause(item),
        )
        for at, item in enumerate(outcomes)
    ]
    header = {"expected": len(outcomes) if expected is None else expected, "sides": {}}
    (folder / name).write_text(outcome.record(header, verdicts))
    return str(folder / name)


def _cause(item: Outcome) -> str | None:
    return None if item in (Outcome.HOLDS, Outcome.ERROR, Outcome.NOT_RUN) else "norm-differs"


def gate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", *arguments])


@pytest.mark.parametrize(
    ("outcomes", "status", "word"),
    [
        ([Outcome.HOLDS], 0, "compatible"),
        ([Outcome.HOLDS, Outcome.KNOWN], 0, "compatible"),
        ([Outcome.HOLDS, Outcome.BROKEN], 1, "broken"),
        ([Outcome.HOLDS, Outcome.CHANGED], 1, "broken"),
        ([Outcome.HOLDS, Outcome.FIXED], 1, "broken"),
        ([Outcome.HOLDS, Outcome.ERROR], 2, "unknown"),
        ([Outcome.HOLDS, Outcome.NOT_RUN], 2, "unknown"),
        ([Outcome.BROKEN, Outcome.ERROR], 1, "broken"),
        ([], 2, "unknown"),
    ],
)
def test_answers(tmp_path: Path, outcomes: list[Outcome], status: int, word: str) -> None:
    found = gate(record(tmp_path, *outcomes))
    assert (found.exit_code, found.stdout.split()[0]) == (status, word)


def test_contracts_that_were_never_judged_are_unknown(tmp_path: Path) -> None:
    found = gate(record(tmp_path, Outcome.HOLDS, expected=3))
    assert found.exit_code == 2
    assert "2 contracts were never judged" in found.stdout


def test_each_reason_is_named_with_its_file(tmp_path: Path) -> None:
    one = record(tmp_path, Outcome.HOLDS)
    two = record(tmp_path, Outcome.BROKEN, name="b.jsonl")
    found = gate(one, two)
    assert found.exit_code == 1
    assert f"{two}: norms.promise_0 [plain]: broken (norm-differs)" in found.stdout


POLICIES = {
    'must_hold = ["norms.*"]': {Outcome.KNOWN: 1, Outcome.NOT_RUN: 2},
    "may_be_known = []": {Outcome.KNOWN: 1, Outcome.NOT_RUN: 2},
    'may_be_known = ["rope.*"]': {Outcome.KNOWN: 1},
    'may_not_run = ["norms.*"]': {Outcome.KNOWN: 0, Outcome.NOT_RUN: 0, Outcome.ERROR: 2, Outcome.BROKEN: 1},
    'may_not_run = ["acceptance.*"]': {Outcome.NOT_RUN: 2},
}


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(tmp_path: Path, policy: str) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    for item, status in POLICIES[policy].items():
        found = gate(record(tmp_path, Outcome.HOLDS, item), "--policy", str(tmp_path / "policy.toml"))
        assert found.exit_code == status, item


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("must_hold = 'x'", "must_hold: Input should be a valid list"),
        ("may_hold = []", "may_hold: Extra inputs are not permitted; a policy has lists of must_hold"),
        ("must_hold = [", "not readable as TOML"),
        ("must_hold = " + "[" * 100_000, "not readable as TOML"),
    ],
)
def test_a_bad_policy_is_one_line(tmp_path: Path, policy: str, says: str) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    found = gate(record(tmp_path, Outcome.HOLDS), "--policy", str(tmp_path / "policy.toml"))
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert says in found.stderr


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "not json", '{"kind": "header", "format": 9}\n', "[" * 100_000]
)
def test_what_is_no_record_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    found = gate(str(tmp_path / "a.jsonl"))
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert "no record of verdicts" in found.stderr


def test_a_record_that_was_broken_off_is_no_record(tmp_path: Path) -> None:
    file = Path(record(tmp_path, Outcome.HOLDS, Outcome.HOLDS))
    lines = file.read_text().splitlines(keepends=True)
    for kept in (lines[:-1], lines[:1], [*lines[:1], lines[-1]]):
        file.write_text("".join(kept))
        assert gate(str(file)).exit_code == 2
    assert gate(str(tmp_path / "nothing")).exit_code == 2


def test_reports_of_check(tmp_path: Path) -> None:
    cases = {"good": good(tmp_path / "good"), "bad": faulty(tmp_path / "bad", "map_of_ids")}
    cases["doubt"] = faulty(tmp_path / "doubt", "ids_of_the_other_convention")
    for name, status in {"good": 0, "bad": 1, "doubt": 2}.items():
        draft, target = cases[name]
        report = tmp_path / f"{name}.json"
        report.write_text(check(draft, "--target", target, "--for", NEWEST, "--format", "json").stdout)
        assert gate(str(report)).exit_code == status, name
    assert json.loads((tmp_path / "bad.json").read_text())["verdict"] == "will lose acceptance silently"


def test_without_a_target_what_was_left_out_is_unknown_unless_allowed(tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    report, policy = tmp_path / "report.json", tmp_path / "policy.toml"
    report.write_text(check(draft, "--for", NEWEST, "--format", "json").stdout)
    assert gate(str(report)).exit_code == 2
    policy.write_text('may_not_run = ["header.*"]')
    assert gate(str(report), "--policy", str(policy)).exit_code == 0


def test_options_of_pytest_and_records_exclude_each_other(tmp_path: Path) -> None:
    found = gate(record(tmp_path, Outcome.HOLDS), "--", "-k", "norms")
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)


def test_a_run_that_leaves_no_record_is_one_line() -> None:
    found = gate("--", "--no-such-option")
    assert found.exit_code == 2
    assert "error: the contracts did not run: pytest ended with exit status 4" in found.stderr


# ------------------------------------------------------------- known for a time, and policies that ship


def known_until(folder: Path, day: str) -> str:
    """A record of something known that is accepted until a day."""
    verdict = Verdict(
        contract="norms.promise", promise="It is kept.", case="plain", outcome=Outcome.KNOWN,
        cause="norm-differs", until=day,
    )  # fmt: skip
    (folder / "known.jsonl").write_text(outcome.record({"expected": 1, "sides": {}}, [verdict]))
    return str(folder / "known.jsonl")


@pytest.mark.parametrize(("day", "status"), [("9999-12-31", 0), ("2000-01-01", 1)])
def test_what_is_known_for_a_time_is_broken_after_it(tmp_path: Path, day: str, status: int) -> None:
    found = gate(known_until(tmp_path, day))
    assert found.exit_code == status
    assert ("accepted until 2000-01-01" in found.stdout) is bool(status)


def test_policies_that_ship_name_contracts_that_there_are() -> None:
    names = {*all_contracts(), *all_contracts("targets"), *(f"header.{rule.name}" for rule in RULES.values())}
    for policy in map(find_policy, shipped()):
        for pattern in [*policy.must_hold, *policy.may_be_known, *policy.may_not_run]:
            assert fnmatch.filter(names, pattern.partition(" ")[0]), pattern


def test_case_of_a_pattern_has_to_be_judged(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    for pattern, status in {"norms.* plain": 0, "norms.* pl*": 0, "norms.* two_layers": 2}.items():
        policy.write_text(f'must_hold = ["{pattern}"]')
        assert gate(record(tmp_path, Outcome.HOLDS), "--policy", str(policy)).exit_code == status


@pytest.mark.parametrize("name", shipped())
def test_policies_that_ship_are_told_in_the_help_and_explained(name: str) -> None:
    assert name in CliRunner().invoke(app, ["gate", "--help"], env={"COLUMNS": "200"}).output
    assert f"`{name}`" in (Path(__file__).parent.parent / "docs" / "gate.md").read_text(encoding="utf-8")


def test_policy_that_there_is_not(tmp_path: Path) -> None:
    found = gate(record(tmp_path, Outcome.HOLDS), "--policy", "upgrade-vllm")
    assert found.exit_code == 2
    assert "no such file; policies that ship: gpu-tier, release-draft, " in found.stderr


def test_draft_that_is_good_passes_the_policy_of_a_release(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    draft, target = good(tmp_path)
    report.write_text(check(draft, "--target", target, "--for", NEWEST, "--format", "json").stdout)
    assert gate(str(report), "--policy", "release-draft").exit_code == 0


def test_nothing_but_not_run_is_compatible_with_no_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('may_not_run = ["*"]')
    found = gate(record(tmp_path, Outcome.NOT_RUN), "--policy", str(policy))
    assert found.exit_code == 2
    assert "nothing was judged" in found.stdout
