"""`--device` and `--server-args`: what they change, and what a machine without a GPU says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from contracts.facts import DraftFacts, to_json
from contracts.judge import EXIT_ERROR
from tests.bench import RAW_REFUSED, Bench
from tests.facts import SERVED
from tests.fake_python import HELLO, fake_python, orders, runs

if TYPE_CHECKING:
    from contracts.sides import Side


def test_cpu_is_one_run_of_the_probe(bench: Bench) -> None:
    result = bench.run()
    assert runs(bench.serving) == 1
    (order,) = orders(bench.serving)
    assert order["device"] == "cpu"
    result.stdout.fnmatch_lines(["*depths: load (on cpu)", "*stand-in: a stand-in*"])


def test_gpu_runs_drafts_apart_from_loading_them(bench: Bench) -> None:
    result = bench.run("--device=cuda")
    assert result.ret == 0
    assert runs(bench.serving) == 2
    found = {
        order["device"]: {case["case"].split("/")[0] for case in order["cases"]}
        for order in orders(bench.serving)
    }
    assert found == {"cpu": {"raw", "exported"}, "cuda": {"forward"}}
    result.stdout.fnmatch_lines(["*(on cuda)", "*stand-in: a stand-in, at depth load*"])


def test_reproduction_names_the_device(bench: Bench) -> None:
    bench.serve(SERVED, answers={"raw/*": RAW_REFUSED, "exported/*": {"facts": to_json(DraftFacts())}})
    bench.run("--device=cuda")
    verdicts = [line for line in bench.record() if line["kind"] == "verdict"]
    assert all("--device=cuda" in line["reproduce"] for line in verdicts)


def test_arguments_of_ones_own_server_are_taken(bench: Bench) -> None:
    result = bench.run("--server-args=--speculative-algorithm EAGLE")
    assert result.ret == 0
    (order,) = orders(bench.serving)
    given = {case["case"].split("/")[0]: case["server_args"] for case in order["cases"]}
    assert given["exported"] == given["forward"] == ["--speculative-algorithm", "EAGLE"]
    assert given["raw"] == []
    verdicts = [line for line in bench.record() if line["kind"] == "verdict"]
    assert all("'--server-args=--speculative-algorithm EAGLE'" in line["reproduce"] for line in verdicts)


def test_arguments_that_no_shell_would_take(bench: Bench) -> None:
    result = bench.run("--server-args=--model 'x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--server-args: No closing quotation*"])


def test_library_with_its_own_kernels_is_told(bench: Bench) -> None:
    hello = HELLO.replace('"a stand-in"', "")
    bench.serve(SERVED, steps=(hello, "answers", "end"))
    bench.run().stdout.fnmatch_lines(["*serving: sglang*", "*kernels: the library's own"])


@pytest.mark.parametrize("given", ["environment", "option"])
def test_other_devices_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("CONTRACTS_DEVICE", "tpu" if given == "environment" else "")
    result = bench.run(*(["--device=tpu"] if given == "option" else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert runs(bench.training) == 0


def test_machine_that_cannot_is_an_error_in_one_line(bench: Bench) -> None:
    unable = json.dumps({"kind": "unable", "reason": "torch finds no GPU here"})
    bench.serving = fake_python(bench.root / "serving", "sglang", version="0.5.23", steps=(unable,))
    result = bench.run()
    assert result.ret == EXIT_ERROR
    result.stdout.fnmatch_lines(["*torch finds no GPU here*"])


def test_real_probe_says_that_there_is_no_gpu(sglang: Side, bench: Bench) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    run = sglang.run([{"case": "one"}], bench.root / "cache", device="cuda")
    error = run.results["one"].error
    assert error is not None
    assert "finds no GPU here; leave --device cuda out" in error.splitlines()[0]
