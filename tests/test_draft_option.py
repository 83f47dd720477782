"""A draft in anybody's own pytest session: `pytest -m contracts --draft DIR --target DIR`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.header.rules import RULES
from tests.bench import Bench
from tests.checking import NEWEST, faulty, good


@pytest.fixture
def own(bench: Bench, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a test of its own."""
    pytester.makepyfile(test_own="def test_own() -> None:\n    pass\n")
    return pytester


def run(own: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return own.runpytest("-m", "contracts", "--draft-for", NEWEST, "-p", "no:cacheprovider", *arguments)


def test_a_good_draft_passes(own: pytest.Pytester, tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    found = run(own, f"--draft={draft}", f"--target={target}")
    found.assert_outcomes(passed=len(RULES), deselected=1)
    assert found.ret == 0
    found.stdout.fnmatch_lines(
        [f"draft: accepts  {draft} in sglang *", "*depths: header (on cpu)", f"{len(RULES)} holds"]
    )


def test_a_fault_fails_by_its_contract(own: pytest.Pytester, tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "map_of_ids", "normed_residual")
    record = tmp_path / "verdicts.jsonl"
    found = run(own, f"--draft={draft}", f"--target={target}", f"--verdicts={record}")
    found.assert_outcomes(failed=2, passed=len(RULES) - 2, deselected=1)
    assert found.ret == 1
    found.stdout.fnmatch_lines(
        [
            "BROKEN  header.vocab_map.map_holds_offsets  [[]draft[]]",
            "*cause      d2t-holds-ids: d2t in the checkpoint holds target token ids*",
            "*reproduce  pytest -m contracts --draft=* --draft-for=sglang==* -k vocab_map.map_holds_offsets",
        ]
    )
    verdicts = [json.loads(line) for line in record.read_text().splitlines()[1:-1]]
    assert {it["contract"] for it in verdicts} == {f"header.{name}" for name in RULES}
    assert {it["cause"] for it in verdicts if it["outcome"] == "broken"} == {
        "d2t-holds-ids", "residual-before-norm"
    }  # fmt: skip


def test_doubt_is_not_run_with_the_reason(own: pytest.Pytester, tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "ids_of_the_other_convention")
    found = run(own, f"--draft={draft}", f"--target={target}")
    assert found.ret == 5
    found.stdout.fnmatch_lines(["*why*layer-ids-of-other-convention: *"])


def test_without_a_target_what_needs_it_is_not_run(own: pytest.Pytester, tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    found = run(own, f"--draft={draft}")
    assert found.ret == 5
    needing = sum(rule.needs_target for rule in RULES.values())
    found.assert_outcomes(passed=len(RULES) - needing, skipped=needing, deselected=1)
    found.stdout.fnmatch_lines(
        [f"*not judged: {needing} contracts: they need the target's config.json (--target)"]
    )


@pytest.mark.parametrize("option", ["--target=there", "--draft-for=sglang==0.5.23"])
def test_options_about_no_draft_are_one_line(own: pytest.Pytester, option: str) -> None:
    found = own.runpytest(option)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["ERROR: --target and --draft-for are about the checkpoint of --draft: *"])


def test_with_workers(own: pytest.Pytester, tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    found = run(own, f"--draft={draft}", f"--target={target}", "-n", "2")
    found.assert_outcomes(passed=len(RULES))


def test_a_draft_that_cannot_be_read_is_one_line(own: pytest.Pytester, tmp_path: Path) -> None:
    found = run(own, f"--draft={tmp_path / 'nothing'}")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines([f"ERROR: --draft: {tmp_path / 'nothing'}: no such folder or file; *"])


def test_arguments_of_the_server_that_do_not_close_are_one_line(own: pytest.Pytester, tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    found = run(own, f"--draft={draft}", "--server-args='")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["ERROR: --server-args: *"])


def test_without_the_option_nothing_changes(own: pytest.Pytester) -> None:
    found = own.runpytest("-p", "no:cacheprovider")
    found.assert_outcomes(passed=1)
    assert "draft:" not in found.stdout.str()


def test_the_report_is_a_fixture(own: pytest.Pytester, tmp_path: Path) -> None:
    own.makepyfile(
        test_mine="""
        def test_it_is_of_this_trainer(draft_report):
            assert draft_report.draft.origin.writer == "SpecForge"
        """
    )
    draft, _ = good(tmp_path)
    own.runpytest("test_mine.py", f"--draft={draft}", "-k", "trainer").assert_outcomes(
        passed=1, deselected=len(RULES)
    )
    own.runpytest("test_mine.py").assert_outcomes(skipped=1)
