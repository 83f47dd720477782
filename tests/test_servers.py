"""Releases of sglang, vLLM, and servers that are neither, refuse, lie or fall silent."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import fake_server
from tests.asking import ASKED, acceptance, ask, one_line
from tests.fake_server import Answer, Vllm, meta, serving, sglang


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
