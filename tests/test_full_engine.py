"""The whole engine and the real HTTP server, once each: they count what the in-process scheduler counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from typer.testing import CliRunner

import contracts
from contracts.cli import app
from contracts.launch import launched
from contracts.probes import language
from contracts.settings import SETTINGS, TOKENS
from contracts.speculation import EngineRun
from contracts.terminal import EXIT_BROKEN

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench

START = 180.0
"""Seconds that the server may take until it answers."""


@contextmanager
def program(python: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the serving interpreter and everything that it starts; all of it is ended."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{Path(contracts.__file__).parent.parent}",
        "TMPDIR": str(log.parent),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [python, *arguments], env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def told(log: Path) -> str:
    """The end of a log, without the line in which the library tells its whole configuration."""
    return "\n".join(line[:300] for line in log.read_text(errors="replace").splitlines()[-30:])


def save_speaking_target(source: Path, folder: Path) -> None:
    """The target with a tokenizer: token 5 is the word t5, and a chat is what was said."""
    shutil.copytree(source, folder)
    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"t{number}": number for number in range(3, 64)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def in_process(real_workbench: Workbench) -> EngineRun:
    """What the scheduler in the probe's own process did with the trained draft."""
    return real_workbench.acceptance("trained", SETTINGS[0]).run


@pytest.fixture(scope="module")
def server_args(real_workbench: Workbench) -> Sequence[str]:
    """How a user starts a server with the trained draft, but for the target."""
    group = real_workbench.group("trained")
    return (
        *("--speculative-draft-model-path", str(group.draft_folder("trained", "exported"))),
        *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
        *("--dtype", "float32", "--max-running-requests", "8"),
    )


def check(answers: Sequence[Mapping[str, Any]], run: EngineRun) -> None:
    """The same tokens, rounds and accepted tokens."""
    for answer, generation in zip(answers, run.generations, strict=True):
        assert answer["output_ids"] == list(generation.tokens[:TOKENS])  # the last round may go beyond
        assert answer["meta_info"]["spec_verify_ct"] == generation.verifications
        assert answer["meta_info"]["spec_num_correct_drafts"] == generation.accepted


def test_full_engine_agrees_with_the_scheduler_in_process(
    real_workbench: Workbench, sglang: Side, server_args: Sequence[str], in_process: EngineRun, tmp_path: Path
) -> None:
    target = real_workbench.group("trained").target_folder("trained")
    case = {
        "server_args": ["--model-path", str(target), *server_args],
        "prompts": language.prompts(),
        "tokens": TOKENS,
    }
    (tmp_path / "case.json").write_text(json.dumps(case))
    script = str(Path(__file__).with_name("full_engine.py"))
    files = [str(tmp_path / name) for name in ("case.json", "answers.json")]
    log = tmp_path / "engine.log"
    with program(sglang.python, script, *files, log=log) as process:
        assert process.wait(START) == 0, told(log)
    check(json.loads(Path(files[1]).read_text()), in_process)


@pytest.fixture(scope="module")
def url(
    real_workbench: Workbench,
    sglang: Side,
    server_args: Sequence[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The address of the real HTTP server with the trained draft."""
    root = tmp_path_factory.mktemp("server")
    source = real_workbench.group("trained").target_folder("trained")
    save_speaking_target(source, root / "target")
    arguments = ("--model-path", str(root / "target"), *server_args)
    command = [sglang.python, "-m", "contracts.probes.sglang_server", *arguments]
    path = {"PYTHONPATH": f"{Path(contracts.__file__).parent.parent}"}
    with launched(command, root, environment=path, ready_timeout=START) as server:
        yield server.url
    assert server.left == ()


def test_server_agrees_with_the_scheduler_in_process(url: str, in_process: EngineRun) -> None:
    sampling = {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}
    question = {"input_ids": language.prompts(), "sampling_params": sampling}
    answers = httpx.post(f"{url}/generate", json=question, timeout=60).json()
    check(answers, in_process)


@pytest.fixture(params=["ids", "text", "chat"])
def prompts_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The prompts of the language in each way in which a user may write them."""
    lines: list[Any] = []
    for prompt in language.prompts():
        text = " ".join(f"t{token}" for token in prompt)
        chat = [{"role": "user", "content": text}]
        lines.append({"ids": prompt, "text": text, "chat": chat}[request.param])
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def test_accept_length_of_the_server_is_as_trained(
    url: str, prompts_file: Path, in_process: EngineRun, real_workbench: Workbench
) -> None:
    draft = real_workbench.group("trained").draft_folder("trained")
    arguments = ["--prompts", str(prompts_file), "--tokens", str(TOKENS), "--training-log", str(draft)]
    result = CliRunner().invoke(app, ["acceptance", "--url", url, *arguments])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"as promised  accept length {in_process.accept_length:.2f}, promised")


def test_accept_length_below_its_promise(url: str) -> None:
    result = CliRunner().invoke(app, ["acceptance", "--url", url, "--tokens", "64", "--expect", "3.9"])
    assert result.exit_code == EXIT_BROKEN, result.output  # it was never trained on English
    assert "what to check next" in result.stdout
