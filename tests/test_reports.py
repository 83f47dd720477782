"""What a session tells: record, JUnit, workers, words, snapshots. Both sides are fakes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from contracts import records
from contracts.facts import DraftFacts, Refusal, to_json
from contracts.judge import EXIT_BROKEN, EXIT_ERROR
from tests.bench import FAULTY, Bench
from tests.facts import SERVED, TRAINED
from tests.fake_python import fake_python, runs

# ------------------------------------------------------------------------------ reports


def test_record_has_header_verdicts_and_closing_line(bench: Bench) -> None:
    bench.run()
    header, *verdicts, end = bench.record()
    assert header["kind"] == "header"
    assert header["expected"] == len(verdicts) == end["verdicts"] == 5
    assert "sglang 0.5.23" in header["sides"]["serving"][0]
    assert verdicts[0]["promise"].endswith(".")
    assert list(bench.root.glob(".verdicts*")) == []


def test_session_that_stops_early_says_what_was_never_judged(bench: Bench) -> None:
    bench.serve(replace(FAULTY, norms=replace(FAULTY.norms, fc_norm=True)))  # type: ignore[type-var]
    result = bench.run("-x")
    assert result.ret != 0
    header, *verdicts, _ = bench.record()
    assert len(verdicts) < header["expected"]
    result.stdout.fnmatch_lines(["*of 5 cases were never judged"])


def test_junit_has_causes_in_properties(bench: Bench) -> None:
    bench.serve(FAULTY)
    bench.run("--junitxml=junit.xml")
    cases = ET.parse(bench.root / "junit.xml").getroot().iter("testcase")
    properties = {
        case.attrib["name"]: {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        for case in cases
    }
    broken = properties["test_norm_output_is_honoured[plain]"]
    assert broken["outcome"] == "broken"
    assert broken["cause"] == "norm-differs"
    assert broken["fix"]
    assert properties["test_fc_norm_is_honoured[plain]"]["outcome"] == "holds"


def test_workers_share_one_probe_run_and_report_alike(bench: Bench) -> None:
    bench.serve(FAULTY)
    result = bench.run("-n2", k="plain or two_layers")
    assert result.ret == EXIT_BROKEN
    assert runs(bench.serving) == runs(bench.training) == 1
    assert bench.record()[0]["expected"] == 10
    assert list(bench.outcomes().values()).count("broken") == 1
    result.stdout.fnmatch_lines(["*8 holds, 2 broken"])


def test_workers_share_a_failed_probe_run(bench: Bench) -> None:
    bench.serve(SERVED, steps=("kill",))
    result = bench.run("-n2", k="plain or two_layers")
    assert result.ret == EXIT_ERROR
    assert runs(bench.serving) == 1


def test_option_is_refused_before_workers_start(bench: Bench) -> None:
    result = bench.run("-n2", "--serving-python=/nowhere/python")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_listing_contracts_judges_nothing(bench: Bench) -> None:
    result = bench.run("--collect-only", "-q")
    assert result.ret == 0
    assert runs(bench.training) == 0
    result.stdout.no_fnmatch_line("*never judged*")


def test_leaving_contracts_out_asks_for_no_side(bench: Bench) -> None:
    result = bench.run("-m", "not contracts", "--serving-python=/nowhere")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_recipe_that_the_training_library_refuses_is_broken_once(bench: Bench) -> None:
    refused = {
        "facts": to_json(DraftFacts()),
        "refusals": [to_json(Refusal(stage="build", error="TypeError", message="no fc_norm"))],
    }
    good = {"facts": to_json(TRAINED)}
    bench.training = fake_python(
        bench.root / "training",
        "speculators",
        files=bench.trained,
        answers={"*": good, "plain": refused},
    )
    result = bench.run(target="contracts", k="plain and not surface")
    assert result.ret == EXIT_BROKEN
    outcomes = bench.outcomes()
    assert outcomes.pop("config.draft_can_be_trained") == "broken"
    assert set(outcomes.values()) == {"not-run"}


def test_words_in_verbose_mode(bench: Bench) -> None:
    bench.serve(FAULTY)
    result = bench.run("-v")
    result.stdout.fnmatch_lines(
        ["*test_fc_norm_is_honoured?plain? HOLDS*", "*test_norm_output_is_honoured?plain? BROKEN*"]
    )


def test_output_that_is_no_terminal_has_no_colour(bench: Bench) -> None:
    assert "\x1b[" not in bench.run().stdout.str()


# ---------------------------------------------------------------------- public fixtures


def test_facets_are_fixtures_for_tests_of_ones_own(bench: Bench) -> None:
    bench.pytester.makepyfile(
        """
        def test_facets(weight_names, tensor_shapes, aux_layers, vocab_map, hidden_dims, side, recipe):
            assert "norm.weight" in weight_names.names
            assert tensor_shapes.shapes["norm.weight"] == (64,)
            assert aux_layers.states == (1, 4, 6)
            assert vocab_map.mapped
            assert hidden_dims.fc_in == 192

        def test_handoff(handoff):
            trained, served = handoff.both(lambda facts: facts.rope)
            assert trained == served
        """
    )
    result = bench.run("-v", "-m", "", target="test_facets_are_fixtures_for_tests_of_ones_own.py")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["*test_facets?training-plain? PASSED*", "*test_facets?serving-plain? PASSED*"]
    )


# --------------------------------------------------------------------------- snapshots


def surfaces(bench: Bench, *arguments: str) -> pytest.RunResult:
    return bench.run(*arguments, target="contracts.test_surface")


def test_difference_from_the_record_says_what_it_means(bench: Bench) -> None:
    result = surfaces(bench)
    assert result.ret == EXIT_BROKEN
    assert bench.outcomes() == {"surface.surface_is_as_recorded": "changed"}
    result.stdout.fnmatch_lines(
        [
            "CHANGED *",
            "*as recorded in speculators 0.9.0, plain*",
            "*rope.inverse_frequencies: *->*rotate by other angles*",
        ]
    )


def test_newer_release_is_compared_with_the_newest_record(bench: Bench) -> None:
    newest = records.recorded_releases("speculators")[-1]
    facts = to_json(records.surface("speculators", newest)["plain"])
    bench.training = fake_python(
        bench.root / "training", "speculators", files=bench.trained, answers={"*": {"facts": facts}}
    )
    bench.serve(SERVED, version="0.6.0")
    result = surfaces(bench, "-k", "serving and plain")
    result.stdout.fnmatch_lines(["*as recorded in sglang 0.5.23, plain*"])


def test_other_draft_than_the_recorded_one_is_not_compared(bench: Bench) -> None:
    bench.serve(SERVED, version="0.6.0")  # and the fake training side makes a draft of its own
    result = surfaces(bench, "-k", "serving and plain")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["NOT-RUN*", "*other-draft*", "*the record is about the draft of speculators*"]
    )


def test_paths_of_fakes_do_not_leak_into_the_package() -> None:
    releases = Path(__file__).parent.parent / "contracts" / "releases"
    kept = {f"{release}.json" for release in records.catalog("sglang").matrix}
    assert {path.name for path in (releases / "sglang").iterdir()} == kept
