"""The plugin as a user meets it: outcomes, exit statuses, reports. Both sides are fakes."""

from __future__ import annotations

import pytest

from contracts.facts import DraftFacts, Refusal, to_json
from contracts.judge import EXIT_BROKEN, EXIT_ERROR, EXIT_NOT_RUN
from tests.bench import FAULTY, RAW_REFUSED, Bench
from tests.facts import SERVED
from tests.fake_python import HELLO, fake_python

ENTRY = """
[[known]]
contract = "norms.norm_output_is_honoured"
recipes = ["plain"]
training = ">=0.9"
serving = ">=0.5.23"
cause = "norm-differs"
reason = "it is so"
upstream = "https://example.org/issue"
date = 2026-11-29
"""


# --------------------------------------------------------------------------- outcomes


def test_all_hold(bench: Bench) -> None:
    result = bench.run()
    assert result.ret == 0
    assert set(bench.outcomes().values()) == {"holds"}
    result.stdout.fnmatch_lines(
        ["*speculators 0.9.0*", "*sglang 0.5.23*", "*stand-in: a stand-in*", "5 holds"]
    )


def test_broken_names_cause_evidence_fix_and_reproduction(bench: Bench) -> None:
    bench.serve(FAULTY)
    result = bench.run()
    assert result.ret == EXIT_BROKEN
    result.stdout.fnmatch_lines(
        [
            "BROKEN  norms.norm_output_is_honoured*plain*",
            "*promise *The state that the draft feeds back is normed as in training.",
            "*cause *norm-differs: A norm is applied on one side and not on the other.",
            "*expected *norm_output not applied",
            "*seen *norm_output applied",
            "*fix *",
            "*reproduce *'contracts.test_norms::test_norm_output_is_honoured?plain?'*--contracts-known=*",
            "4 holds, 1 broken",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_known_does_not_fail(bench: Bench) -> None:
    bench.serve(FAULTY)
    bench.known.write_text(ENTRY)
    result = bench.run()
    assert result.ret == 0
    assert bench.outcomes()["norms.norm_output_is_honoured"] == "known"
    result.stdout.fnmatch_lines(["KNOWN *", "*it is so", "*https://example.org/issue"])


@pytest.mark.parametrize(("until", "outcome"), [("9999-12-31", "known"), ("2000-01-01", "broken")])
def test_known_for_a_time_is_broken_after_it(bench: Bench, until: str, outcome: str) -> None:
    bench.serve(FAULTY)
    bench.known.write_text(ENTRY.replace("date =", f"until = {until}\ndate ="))
    result = bench.run()
    assert bench.outcomes()["norms.norm_output_is_honoured"] == outcome
    assert result.ret == (0 if outcome == "known" else EXIT_BROKEN)
    if outcome == "broken":
        result.stdout.fnmatch_lines(["*known.toml accepted this until 2000-01-01: it is so"])


def test_known_for_another_cause_is_broken(bench: Bench) -> None:
    bench.serve(FAULTY)
    bench.known.write_text(ENTRY.replace("norm-differs", "norm-not-served"))
    result = bench.run()
    assert result.ret == EXIT_BROKEN
    result.stdout.fnmatch_lines(["*known.toml records another cause here: norm-not-served"])


def test_known_that_holds_is_fixed_and_fails(bench: Bench) -> None:
    bench.known.write_text(ENTRY)
    result = bench.run()
    assert result.ret == EXIT_BROKEN
    assert bench.outcomes()["norms.norm_output_is_honoured"] == "fixed"
    result.stdout.fnmatch_lines(["*it holds: remove the entry*"])


def test_known_for_other_releases_does_not_count(bench: Bench) -> None:
    bench.serve(FAULTY)
    bench.known.write_text(ENTRY.replace(">=0.5.23", "<0.5.23"))
    assert bench.run().ret == EXIT_BROKEN


def test_refusal_of_the_library_is_broken_once_and_leaves_the_rest_not_run(bench: Bench) -> None:
    refusal = to_json(Refusal(stage="load", error="AssertionError", message="shapes"))
    answers = {"raw/*": RAW_REFUSED, "exported/*": {"facts": to_json(DraftFacts()), "refusals": [refusal]}}
    bench.serve(SERVED, answers=answers)
    result = bench.run(target="contracts")
    assert result.ret == EXIT_BROKEN
    outcomes = bench.outcomes()
    assert outcomes["config.draft_is_accepted"] == "broken"
    assert outcomes["norms.norm_output_is_honoured"] == "not-run"
    result.stdout.fnmatch_lines(["*load: AssertionError: shapes*"])


# ------------------------------------------------------------------ ours, theirs, unknown


def test_crashed_probe_is_an_error_and_never_broken(bench: Bench) -> None:
    bench.serve(SERVED, steps=(HELLO, "kill"))
    result = bench.run()
    assert result.ret == EXIT_ERROR
    assert set(bench.outcomes().values()) == {"error"}
    result.stdout.fnmatch_lines(
        ["ERROR *", "*the serving probe failed on exported/plain*SIGKILL*", "*a line of the log*"]
    )


def test_case_that_failed_stops_no_other(bench: Bench) -> None:
    good = {"facts": to_json(SERVED)}
    answers = {"raw/*": RAW_REFUSED, "exported/*": good, "exported/plain": {"error": "killed by SIGSEGV"}}
    bench.serve(SERVED, answers=answers)
    bench.run(k="plain or two_layers")
    by_case = {line["case"]: line["outcome"] for line in bench.record() if line["kind"] == "verdict"}
    assert by_case == {"plain": "error", "two_layers": "holds"}


def test_broken_outranks_error(bench: Bench) -> None:
    answers = {
        "raw/*": RAW_REFUSED,
        "exported/*": {"facts": to_json(FAULTY)},
        "exported/plain": {"error": "died"},
    }
    bench.serve(SERVED, answers=answers)
    assert bench.run(k="plain or two_layers").ret == EXIT_BROKEN


@pytest.mark.parametrize("missing", ["serving", "training"])
def test_missing_side_is_not_run_with_the_install_line(bench: Bench, missing: str) -> None:
    library = {"serving": "sglang", "training": "speculators"}[missing]
    setattr(bench, missing, fake_python(bench.root / "without", library, version=None))
    result = bench.run()
    assert result.ret == EXIT_NOT_RUN
    assert set(bench.outcomes().values()) == {"not-run"}
    result.stdout.fnmatch_lines(
        [f"*{missing} side: {library} is not installed*pip install {library}*", "5 not-run"]
    )


def test_missing_serving_side_leaves_contracts_about_training(bench: Bench) -> None:
    bench.serving = fake_python(bench.root / "without", "sglang", version=None)
    bench.run(target="contracts.test_vocab_map")
    by_case = {
        (line["contract"], line["case"]): line["outcome"]
        for line in bench.record()
        if line["kind"] == "verdict"
    }
    assert by_case["vocab_map.target_ids_exist", "training/plain"] == "holds"
    assert by_case["vocab_map.target_ids_exist", "serving/plain"] == "not-run"


def test_require_sides_makes_a_missing_side_fail(bench: Bench) -> None:
    bench.serving = fake_python(bench.root / "without", "sglang", version=None)
    result = bench.run("--require-sides")
    assert result.ret == EXIT_BROKEN
    result.assert_outcomes(failed=5)


def test_neither_library(bench: Bench) -> None:
    bench.training = fake_python(bench.root / "no_training", "speculators", version=None)
    bench.serving = fake_python(bench.root / "no_serving", "sglang", version=None)
    result = bench.run()
    assert result.ret == EXIT_NOT_RUN
    result.stdout.fnmatch_lines(["*speculators is not installed*", "*sglang is not installed*"])


def test_release_too_old(bench: Bench) -> None:
    bench.serve(SERVED, version="0.5.2")
    result = bench.run()
    assert result.ret == EXIT_NOT_RUN
    result.stdout.fnmatch_lines(
        ["*sglang 0.5.2 is older than 0.5.6*can be judged: 0.5.6, *, 0.5.23 and newer*"]
    )


def test_nothing_but_not_run_is_no_success(bench: Bench) -> None:
    """A reproduction runs one contract; it must not pass because the draft was refused before."""
    refusal = to_json(Refusal(stage="load", error="AssertionError", message="shapes"))
    answers = {"raw/*": RAW_REFUSED, "exported/*": {"facts": to_json(DraftFacts()), "refusals": [refusal]}}
    bench.serve(SERVED, answers=answers)
    assert bench.run().ret == EXIT_NOT_RUN


def test_what_is_known_of_the_raw_draft_excuses_nothing(bench: Bench) -> None:
    bench.known.write_text(
        ENTRY.replace("norms.norm_output_is_honoured", "config.saved_draft_is_served").replace(
            "norm-differs", "config-not-resolved"
        )
    )
    bench.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.contracts
        def test_own(handoff):
            '''Own promise.'''
            pytest.skip("no idea")
        """
    )
    result = bench.run("test_own.py", target="contracts.test_config")
    assert set(bench.outcomes().values()) == {"holds", "known", "not-run"}
    assert result.ret == EXIT_NOT_RUN


def test_draft_that_cannot_be_exported_is_broken_in_its_recipe_alone(bench: Bench) -> None:
    script = bench.training.read_text()
    anchor = """            out.write(json.dumps({"kind": "case","""
    spoil = (
        """            if case["case"] == "plain":
                open(os.path.join(case["folder"], "config.json"), "w").write("{")
"""
        + anchor
    )
    assert anchor in script
    bench.training.write_text(script.replace(anchor, spoil))
    result = bench.run(k="(plain or two_layers) and not raw", target="contracts.test_export")
    assert result.ret == EXIT_BROKEN
    found = {
        (line["contract"], line["case"]): line["outcome"]
        for line in bench.record()
        if line["kind"] == "verdict"
    }
    assert found == {
        ("export.saved_draft_is_whole", "plain"): "broken",
        ("export.draft_can_be_expressed", "plain"): "not-run",
        ("export.saved_draft_is_whole", "two_layers"): "holds",
        ("export.draft_can_be_expressed", "two_layers"): "holds",
    }
    result.stdout.fnmatch_lines(["*config.json: not readable as JSON*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_parameters_of_ones_own_are_cases_of_their_own(bench: Bench) -> None:
    bench.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.contracts
        @pytest.mark.parametrize("tolerance", [1, 2])
        def test_own(handoff, tolerance):
            '''Own promise.'''
        """
    )
    assert bench.run(target="test_own.py").ret == 0
    header, *verdicts, _ = bench.record()
    assert header["expected"] == len(verdicts) == 2
    assert len({verdict["case"] for verdict in verdicts}) == 2


def test_failure_of_another_test_is_not_hidden_by_a_missing_side(bench: Bench) -> None:
    bench.serving = fake_python(bench.root / "without", "sglang", version=None)
    bench.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.contracts
        def test_own(handoff):
            '''Own promise.'''

        def test_plain_failure():
            assert False
        """
    )
    assert bench.run("-m", "", target="test_own.py", k="").ret == pytest.ExitCode.TESTS_FAILED


def test_teardown_that_fails_makes_one_verdict_of_two(bench: Bench) -> None:
    bench.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def fragile():
            yield
            raise OSError("disk full")

        @pytest.mark.contracts
        def test_own(handoff, fragile):
            '''Own promise.'''
        """
    )
    result = bench.run(target="test_own.py")
    assert result.ret == EXIT_ERROR
    header, verdict, end = bench.record()
    assert header["expected"] == end["verdicts"] == 1
    assert verdict["outcome"] == "error"


def test_crashed_worker_is_an_error_and_not_broken(bench: Bench) -> None:
    bench.pytester.makepyfile(
        test_own="""
        import os
        import pytest

        @pytest.mark.contracts
        def test_own(handoff):
            '''Own promise.'''
            os._exit(1)
        """
    )
    assert bench.run("-n1", "--max-worker-restart=0", target="test_own.py").ret == EXIT_ERROR


def test_verdicts_do_not_depend_on_a_terminal(bench: Bench) -> None:
    bench.serve(FAULTY)
    assert bench.run("-p", "no:terminal").ret == EXIT_BROKEN
    assert bench.outcomes()["norms.norm_output_is_honoured"] == "broken"


def test_user_mistake_in_a_contract_is_an_error(bench: Bench) -> None:
    bench.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.contracts
        def test_own(handoff):
            '''Own promise.'''
            raise KeyError("slip")
        """
    )
    result = bench.run(target="test_own.py")
    assert result.ret == EXIT_ERROR
    assert bench.outcomes() == {"own.own": "error"}


# -------------------------------------------------------------------------- bad options


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--serving-python=/nowhere/python", "--serving-python: no such interpreter: /nowhere/python"),
        ("--training-python=/nowhere/python", "--training-python: no such interpreter: /nowhere/python"),
        (
            "--serving-python=sglang==0.5.7",
            "there is no environment of sglang==0.5.7; make it with: contracts provision 'sglang==0.5.7'",
        ),
        ("--serving-python=speculators==0.9.0", "*is of speculators, not of sglang"),
        ("--verdicts=/nowhere/verdicts.jsonl", "--verdicts: cannot write /nowhere/verdicts.jsonl*"),
        ("--verdicts=/etc/passwd/x", "--verdicts: cannot write /etc/passwd/x*"),
        ("--verdicts=/tmp", "--verdicts: cannot write /tmp*"),
        ("--case-timeout=0", "--case-timeout: 0 s is no time at all*"),
        ("--serving-python=/etc/passwd", "--serving-python: not a program that can be run: /etc/passwd"),
        ("--contracts-known=/nowhere/known.toml", "--contracts-known: /nowhere/known.toml*"),
        ("--contracts-cache=/dev/null/cache", "cache folder /dev/null/cache cannot be written*"),
    ],
)
def test_unusable_option_is_one_line(bench: Bench, option: str, says: str) -> None:
    result = bench.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {says}"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_unusable_option_without_a_mark_expression_and_with_workers(bench: Bench) -> None:
    result = bench.run("--case-timeout=nan", "-n2", "-m", "")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --case-timeout*"])


def test_unusable_option_without_a_mark_expression(bench: Bench) -> None:
    result = bench.run("--serving-python=/nowhere/python", "-m", "")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --serving-python: no such interpreter*"])


def test_surfaces_are_never_updated_in_ci(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = bench.run("--snapshot-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --snapshot-update: recorded surfaces are never updated in CI*"])


def test_unrelated_session_is_left_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        """
        import sys
        import pytest

        @pytest.fixture(params=[1, 2])
        def recipe(request):
            return request.param

        @pytest.fixture
        def side():
            return "left"

        def test_own_fixtures(recipe, side):
            assert side == "left"
            assert "contracts.judge" not in sys.modules
            assert "pydantic" not in sys.modules
        """
    )
    monkeypatch.setenv("CI", "true")  # their own snapshots are theirs to update
    result = pytester.runpytest_subprocess("--serving-python=/nowhere", "--snapshot-update")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*contracts ==*")
