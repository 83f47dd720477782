"""What a server is asked: the fixed prompts, or a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts import prompts
from tests.asking import ASKED, ask, asked_of, one_line
from tests.fake_server import Answer, sglang


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
