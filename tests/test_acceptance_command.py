"""`contracts acceptance`, against servers that answer as they are told."""

from __future__ import annotations

import json
import socket
import threading
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


def test_everything_rejected_is_told_as_such(tmp_path: Path) -> None:
    log = tmp_path / "val_metrics.json"
    log.write_text('{"full_acc_0_epoch": 0.9, "full_acc_1_epoch": 0.8, "full_acc_2_epoch": 0.7}')
    for promise in (("--training-log", str(log)), ("--expect", "3.4")):
        result = ask(sglang(32), *promise)  # sglang ends a histogram where nothing more was accepted
        assert result.exit_code == EXIT_BROKEN
        assert "accepted      0.000  0.000  0.000\n" in result.stdout
        assert "1. Even the first draft token is rejected nearly always" in result.stdout


def test_later_tokens_that_were_never_accepted_are_told_as_such() -> None:
    result = ask(sglang(0, 100), "--expect", "3.9")
    assert "1. The first draft token is about as right as it should be and" in result.stdout


def test_only_what_training_measured_is_compared(tmp_path: Path) -> None:
    log = tmp_path / "val_metrics.json"
    log.write_text('{"full_acc_0_epoch": 0.9, "full_acc_1_epoch": 0.8, "full_acc_2_epoch": 0.7}')
    result = ask(sglang(50, 0, 0, 0, 0, 50, speculative_num_steps=5), "--training-log", str(log))
    assert result.exit_code == EXIT_BROKEN  # the promise is about three tokens
    told = "below  accept length 3.50, 2.50 by the first 3 draft tokens, promised 3.40"
    assert result.stdout.startswith(told)


def test_trees_are_noted_to_accept_more() -> None:
    assert "trees accept more" in ask(sglang(0, 9, speculative_eagle_topk=4), "--expect", "2").stdout
    assert "trees accept more" not in ask(sglang(0, 9), "--expect", "2").stdout


def test_more_than_a_server_can_accept_is_no_promise() -> None:
    one_line(ask(sglang(0, 9), "--expect", "9"), "--expect 9", "drafts 3 tokens in a row")


def test_draft_tokens_that_were_never_accepted_are_shown() -> None:
    result = ask(sglang(9, 1))
    (shares,) = (line.split()[1:] for line in result.stdout.splitlines() if "accepted " in line)
    assert shares == ["0.100", "0.000", "0.000"]


def test_promise_that_is_kept() -> None:
    result = ask(sglang(10, 20, 30, 40), "--expect", "3.1")
    assert result.exit_code == 0
    assert result.stdout.startswith("as promised  accept length 3.00, promised 3.10, at least 2.68 due\n")
    assert "what to check" not in result.stdout


def test_promise_that_is_broken() -> None:
    result = ask(sglang(10, 20, 30, 40), "--expect", "3.9")
    assert result.exit_code == EXIT_BROKEN
    assert result.stdout.startswith("below  accept length 3.00, promised 3.90, at least 3.32 due\n")
    assert "what to check next\n  1. " in result.stdout


def test_too_few_rounds_tell_nothing() -> None:
    result = ask(sglang(1, 0, 0, 1), "--expect", "3.5")
    # 16 rounds, half of them with 3 accepted and half with none: a standard error of 1.5 / 4
    assert result.exit_code == EXIT_BAD_INPUT
    assert result.stdout.startswith("too few rounds  accept length 2.50, promised 3.50, at least 3.00 due; ")
    assert "--tokens" in result.stdout


def test_nothing_accepted_is_below_any_promise() -> None:
    result = ask(sglang(100), "--expect", "1.1")
    assert result.exit_code == EXIT_BROKEN
    assert result.stdout.startswith("below  accept length 1.00, promised 1.10, at least 1.08 due\n")


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


def test_last_epoch_of_a_log_counts_whole(tmp_path: Path) -> None:
    log = tmp_path / "training.log"
    epochs = [(0.9, 0.8, 0.7), (0.2, 0.1)]
    log.write_text(
        "\n".join(f"INFO val/full_acc_{k}_epoch={a}," for accs in epochs for k, a in enumerate(accs))
    )
    assert "trained       0.200  0.100\n" in ask(sglang(1, 2, 3, 4), "--training-log", str(log)).stdout


def test_server_that_drafts_more_than_training_measured(tmp_path: Path) -> None:
    log = tmp_path / "training.log"
    log.write_text(
        "INFO val/full_acc_0_epoch=0.5, epoch=1\n INFO train/full_acc_0=0.99, val/full_acc_0_epoch=0.9"
    )
    result = ask(sglang(1, 2, 3, 4), "--training-log", str(log))
    assert "promised 1.90" in result.stdout
    assert "the server drafts 3 tokens in a row, of which training measured the first 1" in result.stdout


@pytest.mark.parametrize(
    ("by_accepted", "info", "words"),
    [
        ((98, 1, 1, 0), {}, "Even the first draft token is rejected"),
        ((60, 10, 10, 20), {}, "The first draft token already is right too seldom"),
        ((2, 68, 20, 10), {}, "The first draft token is about as right as it should be and the later"),
        ((9, 14, 14, 63), {}, "Draft tokens are too seldom right at every place"),
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
    result = ask(sglang(*by_accepted, **info), "--training-log", str(log), "--tolerance", "0.1")
    assert result.exit_code == EXIT_BROKEN, result.stdout
    first, *_ = result.stdout.split("what to check next\n")[1].splitlines()
    assert words in first


def test_without_accuracies_the_checks_follow_the_servers_counts_alone() -> None:
    result = ask(sglang(10, 60, 20, 10), "--expect", "3.9")
    assert "1. The first draft token is about as right as it should be and" in result.stdout


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


@pytest.mark.parametrize("answer", [404, 400, 422, {"object": "error"}])
def test_server_without_a_chat_template_gets_plain_text(answer: Answer) -> None:
    questions = asked_of(sglang() | {"/tokenize": answer})
    assert [question["text"] for question in questions] == list(prompts.QUESTIONS)


def test_plain_text_is_noted_once() -> None:
    assert ask(sglang(1) | {"/tokenize": 404}).stdout.count("note ") == 1
    assert "note " not in ask(sglang(1)).stdout


def test_server_whose_chat_template_fails_is_told() -> None:
    one_line(ask(sglang(1) | {"/tokenize": 500}), "prompt 1 of 8 was refused by /tokenize with 500")


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


def test_line_breaks_within_a_prompt_and_a_mark_at_the_beginning(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('\ufeff"one\u2028line"\r\n"another"\n', encoding="utf-8")
    assert [q["text"] for q in asked_of(sglang(), "--prompts", str(file))] == ["one\u2028line", "another"]


@pytest.mark.parametrize("file", ["/dev/zero", "/dev/null"])
def test_device_is_no_file(file: str) -> None:
    one_line(ask(sglang(1), "--prompts", file), "not a file")
    one_line(ask(sglang(1), "--training-log", file), "not a file")


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


@pytest.mark.parametrize("name", ["spec_correct_drafts_histogram", "spec_accept_histogram"])
def test_histogram_has_had_two_names(name: str) -> None:
    counts = {"completion_tokens": 31, "spec_verify_ct": 10, "spec_accept_token_num": 20, name: [1, 2, 3, 4]}
    assert "0.900  0.700  0.400" in ask(sglang() | {"/generate": {"meta_info": counts}}).stdout


@pytest.mark.parametrize(
    "odd",
    [
        *({"spec_verify_ct": value} for value in ("ten", -1, 1.5, float("nan"), [1], True, 10**4000)),
        *({"spec_num_correct_drafts": value} for value in ("x", -100, [], float("inf"))),
        *({"spec_correct_drafts_histogram": value} for value in ("abc", {"a": 1}, 5, [[1]], [-1, 2], ["x"])),
        {"spec_num_correct_drafts": None, "completion_tokens": "31"},
    ],
)
def test_odd_counts_are_told(odd: dict[str, Any]) -> None:
    answer = {"meta_info": meta(1, 2, 3, 4)["meta_info"] | odd}
    one_line(ask(sglang() | {"/generate": answer}), "meta_info of prompt 1 of 8 is odd")


@pytest.mark.parametrize(
    "impossible",
    [
        {"spec_num_correct_drafts": 1000, "spec_correct_drafts_histogram": []},
        {"spec_correct_drafts_histogram": [0, 0, 0, 1000]},
        {"spec_num_correct_drafts": None, "completion_tokens": 2, "spec_correct_drafts_histogram": []},
    ],
)
def test_counts_that_cannot_be_are_told(impossible: dict[str, Any]) -> None:
    answer = {"meta_info": meta(1, 2, 3, 4)["meta_info"] | impossible}
    one_line(ask(sglang() | {"/generate": answer}), "the counts of prompt 1 of 8 contradict each other")


@pytest.mark.parametrize(
    "odd",
    [
        *({"speculative_num_steps": value} for value in ("3", 2.5, 0, 10**7)),
        {"speculative_algorithm": 3},
        {"speculative_draft_model_path": 5},
        {"speculative_accept_threshold_acc": "high"},
        {"model_path": None},
        {"version": 1},
    ],
)
def test_odd_server_info_is_told(odd: dict[str, Any]) -> None:
    one_line(ask(sglang(1, **odd)), "/server_info is odd", next(iter(odd)))


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
    assert "accept length 3.00" in (told := ask(routes).stdout)
    assert told.count("asked as plain text") == 1
    routes["/v1/chat/completions"] = 500
    one_line(ask(routes), "refused by /v1/chat/completions with 500")


def test_promise_to_vllm_is_for_as_many_tokens_as_it_drafts(tmp_path: Path) -> None:
    log = tmp_path / "val_metrics.json"
    log.write_text('{"full_acc_0_epoch": 0.9, "full_acc_1_epoch": 0.8, "full_acc_2_epoch": 0.7}')
    result = ask(Vllm(9, rounds=10), "--training-log", str(log))
    assert result.stdout.startswith("as promised  accept length 1.90, promised 1.90")


@pytest.mark.parametrize(
    "metrics",
    [
        "vllm:spec_decode_num_drafts_total{} NaN",
        "vllm:spec_decode_num_drafts_total{} +Inf",
        "vllm:spec_decode_num_drafts_total{} -3",
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="x"} 1',
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="-1"} 1',
        "vllm:spec_decode_num_accepted_tokens_per_pos_total 1",
    ],
)
def test_vllm_with_odd_metrics(metrics: str) -> None:
    routes = Vllm(1, rounds=1)
    name = metrics.partition("{")[0].partition(" ")[0]
    drafts = "# TYPE vllm:spec_decode_num_drafts_total counter\nvllm:spec_decode_num_drafts_total 1\n"
    routes["/metrics"] = f"{'' if 'drafts' in name else drafts}# TYPE {name} counter\n{metrics}\n"
    one_line(ask(routes), "/metrics is not as vLLM writes it")


def test_vllm_whose_counters_fall_is_told() -> None:
    routes = Vllm(9, 7, 4, rounds=10, before=100)
    routes["/v1/chat/completions"] = lambda _: setattr(routes, "answered", 1) or {"choices": []}  # type: ignore[func-returns-value]
    one_line(ask(routes), "contradict each other: fewer than before")


@pytest.mark.parametrize("models", [{"data": None}, {"data": ["x"]}, {"data": []}, [], 404])
def test_vllm_that_names_no_model(models: Answer) -> None:
    routes = Vllm(1, rounds=1)
    routes["/v1/models"] = models
    one_line(ask(routes), "names no model")


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("# TYPE python_info gauge\npython_info 1.0\n", "without --disable-log-stats"),
        ("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1.0\n", "without speculation"),
        (404, "without --disable-log-stats"),
        ("}{ nonsense", "not as vLLM writes it"),
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
    one_line(acceptance(f"http://127.0.0.1:{port}"), "no server answers there", "is it started")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:30000",
        "ftp://host",
        "",
        "http://[",
        "nonsense",
        "http://",
        "http://xn--:1",
        f"http://{'a' * 300}",
    ],
)
def test_address_that_is_none(url: str) -> None:
    one_line(acceptance(url))


@pytest.mark.parametrize("answer", [404, 302, "hello", [1], {"status": "ok"}, "[" * 10**5])
def test_server_of_another_kind(answer: Answer) -> None:
    routes = dict.fromkeys(("/server_info", "/get_server_info", "/version", "/health"), answer)
    one_line(ask(routes), "neither sglang", "nor vLLM")


@pytest.mark.parametrize("status", [500, 503])
def test_server_that_is_not_ready(status: int) -> None:
    one_line(ask({"/server_info": status}), f"/server_info answers {status}", "not ready")


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


def test_answer_that_trickles_is_not_waited_for() -> None:
    with socket.socket() as trickling:
        trickling.bind(("127.0.0.1", 0))
        trickling.listen()
        stop = threading.Event()

        def trickle() -> None:
            connection, _ = trickling.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                while not stop.wait(0.05):
                    connection.sendall(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            url = f"http://127.0.0.1:{trickling.getsockname()[1]}"
            one_line(acceptance(url, "--timeout", "0.5"), "within 0.5 s")
        finally:
            stop.set()
            thread.join()


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
        ("val/full_acc_0_epoch=0.9\nval/full_acc_0_epoch=nan", "no share"),
        ('{"full_acc_0_epoch": 1' + "0" * 400 + "}", "no share"),
        ('{"full_acc_0_epoch": true}', "no full_acc_0"),
        ('{"full_acc_0_epoch": 0.5, "full_acc_1_epoch": 0.9}', "fall from step to step"),
    ],
)
def test_training_log_without_accuracies(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "log"
    file.write_text(content)
    one_line(acceptance("http://127.0.0.1:9", "--training-log", str(file)), str(file), words)


def test_proxy_is_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    assert ask(sglang(1)).exit_code == 0
    one_line(acceptance("http://example.invalid"))


def test_password_in_an_address_is_not_shown() -> None:
    with serving(sglang(1)) as url:
        result = acceptance(url.replace("http://", "http://somebody:secret@"))
    assert result.exit_code == 0
    assert "secret" not in result.output


@pytest.mark.parametrize("key", ["schlüssel", "a\nb"])
def test_key_that_cannot_be_sent(key: str) -> None:
    one_line(acceptance("http://127.0.0.1:9", "--api-key", key), "--api-key")


def test_key_is_sent() -> None:
    assert ask(sglang(1), "--api-key", "key").exit_code == 0


def test_words_of_a_server_cannot_steer_the_terminal() -> None:
    result = ask(sglang(1, 1, model_path="\x1b[31m[red]/models"))
    assert "\x1b" not in result.stdout
    assert r"\x1b[31m[red]/models" in result.stdout


def test_help_has_examples() -> None:
    result = CliRunner().invoke(app, ["acceptance", "--help"])
    assert "--expect 2.8" in result.stdout
