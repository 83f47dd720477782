"""Depth engine in a session over two fake sides: what is asked of them, and what a session tells."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.facts import DraftFacts, Refusal, to_json
from contracts.judge import EXIT_BROKEN, EXIT_ERROR
from contracts.probes import language
from contracts.settings import SETTINGS, TOKENS
from tests.bench import RAW_REFUSED, Bench
from tests.facts import SERVED, TRAINED
from tests.fake_python import fake_python, orders

ENGINE = "contracts.test_acceptance"
CRASHED = {"error": "killed by SIGSEGV"}
RAISED = {
    "facts": to_json(DraftFacts()),
    "refusals": [to_json(Refusal(stage="engine", error="IndexError", message="index 70 is out of bounds"))],
}


def answering(bench: Bench, **engine: Any) -> None:
    facts = {"facts": to_json(DraftFacts())}
    exported = {"facts": to_json(SERVED)}
    answers = {"raw/*": RAW_REFUSED, "exported/*": exported, "forward/*": facts, "engine/*": facts}
    bench.serve(SERVED, answers={**answers, **engine})


def test_accept_lengths_are_told_beside_what_they_should_be(bench: Bench) -> None:
    result = bench.run(target=ENGINE, k="chain-trained")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*accept length, of 4 (3 draft tokens *trained",
            "*served: chains of three*",
            "*replayed by training*",
            "*promised*2.80",
        ]
    )


def test_every_setting_is_asked_of_the_engine_and_the_target_alone(bench: Bench) -> None:
    bench.run(target=ENGINE, k="chain-trained")
    (order,) = orders(bench.serving)
    cases = {case["case"]: case for case in order["cases"]}
    names = {f"engine/trained/{setting.name}" for setting in SETTINGS}
    alone_in = {f"engine/keyed_permutation/alone-{dtype}" for dtype in ("float32", "bfloat16")}
    assert {*names, *alone_in} <= set(cases)
    alone, tree = cases["engine/keyed_permutation/alone-float32"], cases["engine/trained/tree"]
    assert "folder" not in alone
    assert alone["server_args"] == []
    assert tree["prompts"] == alone["prompts"] == language.prompts()
    assert tree["tokens"] == TOKENS
    assert tree["server_args"][-4:] == [
        *("--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "8")
    ]


def test_engine_that_raises_is_broken_once_and_leaves_the_rest_not_run(bench: Bench) -> None:
    answering(bench, **{"engine/trained/chain": RAISED})
    result = bench.run(target=ENGINE, k="chain-trained or tree-trained")
    assert result.ret == EXIT_BROKEN
    outcomes = {
        (line["contract"].partition(".")[2], line["case"]): line["outcome"]
        for line in bench.record()
        if line["kind"] == "verdict"
    }
    assert outcomes.pop(("prompts_are_served", "chain/trained")) == "broken"
    assert {outcome for (_, case), outcome in outcomes.items() if case.startswith("chain")} == {"not-run"}
    assert outcomes["prompts_are_served", "tree/trained"] == "holds"
    result.stdout.fnmatch_lines(["*draft-refused*", "*engine: IndexError: index 70 is out of bounds*"])


def test_case_that_dies_costs_no_other(bench: Bench) -> None:
    answering(bench, **{"engine/trained/chain": CRASHED})
    result = bench.run(target=ENGINE, k="prompts_are_served and (chain-trained or tree-trained)")
    assert result.ret == EXIT_ERROR
    outcomes = {line["case"]: line["outcome"] for line in bench.record() if line["kind"] == "verdict"}
    assert outcomes == {"chain/trained": "error", "tree/trained": "holds"}
    result.stdout.fnmatch_lines(["*killed by SIGSEGV*"])


def test_training_that_cannot_continue_the_prompts_is_told(bench: Bench) -> None:
    refusal = Refusal(stage="generate", error="RuntimeError", message="no greedy search")
    bench.training = fake_python(
        bench.root / "training",
        "speculators",
        files=bench.trained,
        answers={"*": {"facts": to_json(TRAINED), "refusals": [to_json(refusal)]}},
    )
    result = bench.run("-rs", target=ENGINE, k="chain-trained")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["*the training side did not continue the prompts: generate: RuntimeError*"])


def test_engine_is_not_run_when_nothing_asks_for_it(bench: Bench) -> None:
    bench.run()
    (order,) = orders(bench.serving)
    kinds = {case["case"].partition("/")[0] for case in order["cases"]}
    assert kinds == {"raw", "exported", "forward"}
