"""`contracts acceptance`, against servers that answer as they are told."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from contracts import prompts
from contracts.cli import app
from contracts.terminal import EXIT_BAD_INPUT, EXIT_BROKEN
from tests import fake_server
from tests.fake_server import Answer, Vllm, meta, serving, sglang

ASKED = len(prompts.DEFAULT)


def acceptance(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["acceptance", "--url", url, *arguments])


def ask(routes: dict[str, Answer], *arguments: str) -> Result:
    with serving(routes) as url:
        return acceptance(url, *arguments)


def one_line(result: Result, *words: str) -> None:
    assert result.exit_code == EXIT_BAD_INPUT, result.output
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert not result.stdout
    for word in words:
        assert word in result.stderr


def test_figure_is_the_servers_own_count() -> None:
    result = ask(sglang(1, 2, 3, 4))  # 20 of 30 accepted in 10 rounds, for each prompt
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("measured  accept length 3.00; give --expect or --training-log")
    assert "sglang 0.5.23 at http://127.0.0.1:" in result.stdout
    assert "EAGLE3, 3 steps, topk 1, 4 draft tokens" in result.stdout
    assert f"{ASKED} prompts, {10 * ASKED} rounds" in result.stdout
    assert "/models/draft" in result.stdout
    (shares,) = (line.split()[1:] for line in result.stdout.splitlines() if "accepted " in line)
    assert shares == ["0.900", "0.700", "0.400"]


def test_draft_tokens_that_were_never_accepted_are_shown() -> None:
    result = ask(sglang(9, 1))
    (shares,) = (line.split()[1:] for line in result.stdout.splitlines() if "accepted " in line)
    assert shares == ["0.100", "0.000", "0.000"]


def test_promise_that_is_kept() -> None:
    result = ask(sglang(10, 20, 30, 40), "--expect", "3.1")
    assert result.exit_code == 0
    assert result.stdout.startswith("as promised  accept length 3.00, promised 3.10, at least 2.79 due\n")
    assert "what to check" not in result.stdout


def test_promise_that_is_broken() -> None:
    result = ask(sglang(1, 2, 3, 4), "--expect", "3.9")
    assert result.exit_code == EXIT_BROKEN
    assert result.stdout.startswith("below  accept length 3.00, promised 3.90, at least 3.51 due\n")
    assert "what to check next\n  1. " in result.stdout


def test_few_rounds_are_given_more_allowance() -> None:
    result = ask(sglang(1, 0, 0, 1), "--expect", "3.5", "--tolerance", "0")
    # 16 rounds, half of them with 3 accepted and half with none: a standard error of 1.5 / 4
    assert "accept length 2.50, promised 3.50, at least 2.38 due" in result.stdout
    assert result.exit_code == 0


def test_promise_of_a_training_log(tmp_path: Path) -> None:
    metrics = {
        "loss_epoch": 1.0,
        **{f"full_acc_{k}_epoch": share for k, share in enumerate((0.9, 0.7, 0.4, 0.3))},
    }
    (tmp_path / "val_metrics.json").write_text(json.dumps(metrics))
    for file in (tmp_path, tmp_path / "val_metrics.json"):
        result = ask(sglang(1, 2, 3, 4), "--training-log", str(file))
        assert result.exit_code == 0
        assert "promised 3.00" in result.stdout  # of three draft tokens, as the server drafts
        assert "trained       0.900  0.700  0.400\n" in result.stdout
        assert "note" not in result.stdout


def test_server_that_drafts_more_than_training_measured(tmp_path: Path) -> None:
    log = tmp_path / "training.log"
    log.write_text(
        "INFO val/full_acc_0_epoch=0.5, epoch=1\n INFO train/full_acc_0=0.99, val/full_acc_0_epoch=0.9"
    )
    result = ask(sglang(1, 2, 3, 4), "--training-log", str(log))
    assert "promised 1.90" in result.stdout
    assert "training measured 1 draft tokens and the server drafts 3" in result.stdout


@pytest.mark.parametrize(
    ("by_accepted", "info", "words"),
    [
        ((98, 1, 1, 0), {}, "Even the first draft token is rejected"),
        ((60, 10, 10, 20), {}, "The first draft token is right too seldom"),
        ((10, 60, 20, 10), {}, "The first draft token is as right as trained and the later ones are not"),
        ((13, 14, 14, 59), {}, "Every draft token is a little too seldom right"),
        ((98, 1, 1, 0), {"speculative_algorithm": "EAGLE"}, "The server speculates by EAGLE."),
        (
            (98, 1, 1, 0),
            {"speculative_accept_threshold_acc": 0.5},
            "accepts tokens that its target would not",
        ),
    ],
)
def test_what_to_check_next_follows_the_figures(
    by_accepted: tuple[int, ...], info: dict[str, Any], words: str, tmp_path: Path
) -> None:
    log = tmp_path / "val_metrics.json"
    log.write_text(json.dumps({f"full_acc_{k}_epoch": 0.95 ** (k + 1) for k in range(3)}))
    result = ask(sglang(*by_accepted, **info), "--training-log", str(log))
    assert result.exit_code == EXIT_BROKEN, result.stdout
    first, *_ = result.stdout.split("what to check next\n")[1].splitlines()
    assert words in first


def test_without_accuracies_the_checks_follow_the_servers_counts_alone() -> None:
    result = ask(sglang(10, 60, 20, 10), "--expect", "3.9")
    assert "1. The first draft token is as right as trained and the later" in result.stdout


# ------------------------------------------------------------------------- prompts


def asked_of(routes: dict[str, Answer], *arguments: str) -> list[Any]:
    questions: list[Any] = []

    def generate(question: Any) -> Answer:
        questions.append(question)
        return meta(0, 0, 0, 1)

    result = ask(routes | {"/generate": generate}, *arguments)
    assert result.exit_code == 0, result.output
    return questions


def test_prompts_go_through_the_servers_chat_template() -> None:
    templated: list[Any] = []

    def tokenize(question: Any) -> Answer:
        templated.append(question["messages"])
        return {"tokens": [1, len(templated)]}

    questions = asked_of(sglang() | {"/tokenize": tokenize})
    assert templated == list(prompts.DEFAULT)
    assert [question["input_ids"] for question in questions] == [[1, n] for n in range(1, ASKED + 1)]
    assert questions[0]["sampling_params"] == {"temperature": 0.0, "max_new_tokens": 128}


@pytest.mark.parametrize("answer", [404, 400, {"object": "error"}])
def test_server_without_a_chat_template_gets_plain_text(answer: Answer) -> None:
    questions = asked_of(sglang() | {"/tokenize": answer})
    assert [question["text"] for question in questions] == list(prompts.QUESTIONS)


def test_prompts_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('"some text"\n\n[4, 5, 6]\n[{"role": "user", "content": "hello"}]\n')
    questions = asked_of(sglang(), "--prompts", str(file), "--tokens", "16")
    asked = [{key: value for key, value in q.items() if key != "sampling_params"} for q in questions]
    assert asked == [{"text": "some text"}, {"input_ids": [4, 5, 6]}, {"input_ids": [5, 6, 7]}]
    assert questions[0]["sampling_params"]["max_new_tokens"] == 16


def test_server_without_a_tokenizer_asks_for_token_ids(tmp_path: Path) -> None:
    routes = sglang(0, 1, skip_tokenizer_init=True)
    one_line(ask(routes), "without a tokenizer", "--prompts FILE")
    file = tmp_path / "prompts.jsonl"
    file.write_text("[4, 5]\n")
    assert ask(routes, "--prompts", str(file)).exit_code == 0


@pytest.mark.parametrize(
    "line", ["hello", "{}", "[]", '""', "[1, true]", '[1, "a"]', '[{"role": "user"}]', "[" * 5000, "3"]
)
def test_line_that_is_no_prompt_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(f"[4, 5]\n{line}\n")
    one_line(ask(sglang(1), "--prompts", str(file)), f"{file}, line 2", "JSON string")


@pytest.mark.parametrize(("content", "words"), [(b"", "no prompt in it"), (b"\xff\xfe", "decode")])
def test_prompts_file_that_holds_none(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(content)
    one_line(ask(sglang(1), "--prompts", str(file)), str(file), words)
    one_line(ask(sglang(1), "--prompts", str(tmp_path)), "directory")
    one_line(ask(sglang(1), "--prompts", str(tmp_path / "none")), "No such file")


# ------------------------------------------------------------ other servers, bad servers


def test_earlier_releases_of_sglang_count_under_other_names() -> None:
    old = {"completion_tokens": 31, "spec_verify_ct": 10, "spec_accept_token_num": 20}
    oldest = {"completion_tokens": 31, "spec_verify_ct": 10}
    for counts in (old, oldest):
        info = {"/get_server_info": fake_server.INFO | {"version": "0.5.4"}}
        result = ask({**info, "/generate": {"meta_info": counts}})
        assert "accept length 3.00" in result.stdout
        assert "sglang 0.5.4" in result.stdout
        assert "draft token " not in result.stdout  # what it does not count is not shown


def test_vllm_counts_in_its_metrics() -> None:
    result = ask(Vllm(9, 7, 4, rounds=10), "--expect", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("as promised  accept length 3.00")
    assert "vLLM 0.32.0" in result.stdout
    assert f"{10 * ASKED} rounds" in result.stdout  # not those before
    assert "0.900  0.700  0.400" in result.stdout


def test_vllm_without_a_chat_template_gets_plain_text() -> None:
    routes = Vllm(9, 7, 4, rounds=10)
    routes["/v1/chat/completions"] = 400
    assert "accept length 3.00" in ask(routes).stdout


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("# TYPE python_info gauge\npython_info 1.0\n", "without --disable-log-stats"),
        ("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1.0\n", "without speculation"),
        (404, "without --disable-log-stats"),
        ("}{ nonsense", "format of Prometheus"),
    ],
)
def test_vllm_that_does_not_count(metrics: Answer, words: str) -> None:
    routes = Vllm(1, rounds=1)
    routes["/metrics"] = metrics
    one_line(ask(routes), words)


def test_vllm_whose_counters_stand_still() -> None:
    routes = Vllm(1, rounds=1)
    routes["/v1/chat/completions"] = {"choices": []}
    one_line(ask(routes), "no draft was verified")


def test_server_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    one_line(acceptance(f"http://127.0.0.1:{port}"), "no server answers there", "is it started?")


@pytest.mark.parametrize("url", ["127.0.0.1:30000", "ftp://host", "", "http://[", "nonsense"])
def test_address_that_is_none(url: str) -> None:
    one_line(acceptance(url))


@pytest.mark.parametrize("answer", [404, 500, "hello", [1], {"status": "ok"}])
def test_server_of_another_kind(answer: Answer) -> None:
    routes = dict.fromkeys(("/server_info", "/get_server_info", "/version", "/health"), answer)
    one_line(ask(routes), "neither sglang", "nor vLLM")


def test_sglang_without_speculation() -> None:
    one_line(
        ask(sglang(1, speculative_algorithm=None)), "without speculation", "--speculative-algorithm EAGLE3"
    )


def test_server_that_asks_for_a_key() -> None:
    one_line(ask({"/server_info": 401}), "asks for a key", "--api-key")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, ("the connection broke at prompt 1 of 8", "the server's own log")),
        (500, ("prompt 1 of 8 was refused by /generate with 500",)),
        ("hello", ("prompt 1 of 8 was refused by /generate with 200: hello",)),
        ([], ("has no meta_info",)),
        ({"meta_info": {"completion_tokens": 9}}, ("no draft was verified",)),
    ],
)
def test_answer_that_says_nothing(answer: Answer, words: tuple[str, ...]) -> None:
    one_line(ask(sglang(1) | {"/generate": answer}), *words)


def test_server_that_does_not_answer_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        one_line(acceptance(url, "--timeout", "0.2"), "within 0.2 s", "--timeout")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--expect", "0.5"), "1 (nothing accepted) or more"),
        (("--expect", "nan"), "1 (nothing accepted) or more"),
        (("--expect", "2", "--training-log", "x"), "give one"),
        (("--training-log", "/nowhere/x"), "No such file"),
    ],
)
def test_bad_option(arguments: tuple[str, ...], words: str) -> None:
    one_line(acceptance("http://127.0.0.1:9", *arguments), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no full_acc_0"),
        ("[]", "no full_acc_0"),
        ("train/full_acc_0=0.5", "no full_acc_0 of a validation"),
        ('{"full_acc_1_epoch": 0.5}', "no full_acc_0"),
        ('{"full_acc_0_epoch": 97.5}', "no share"),
        ('{"full_acc_0_epoch": NaN}', "no share"),
        ("val/full_acc_0_epoch=0.5.5", "no share"),
    ],
)
def test_training_log_without_accuracies(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "log"
    file.write_text(content)
    one_line(acceptance("http://127.0.0.1:9", "--training-log", str(file)), str(file), words)


def test_words_of_a_server_cannot_steer_the_terminal() -> None:
    result = ask(sglang(1, 1, model_path="\x1b[31m[red]/models"))
    assert "\x1b" not in result.stdout
    assert r"\x1b[31m[red]/models" in result.stdout


def test_help_has_examples() -> None:
    result = CliRunner().invoke(app, ["acceptance", "--help"])
    assert "--expect 2.8" in result.stdout
