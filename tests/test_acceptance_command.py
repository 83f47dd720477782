"""`contracts acceptance`: promise, verdict and advice, against servers that answer as they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contracts.cli import app
from contracts.terminal import EXIT_BAD_INPUT, EXIT_BROKEN
from tests.asking import ASKED, acceptance, ask, one_line
from tests.fake_server import sglang


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


def test_words_of_a_server_cannot_steer_the_terminal() -> None:
    result = ask(sglang(1, 1, model_path="\x1b[31m[red]/models"))
    assert "\x1b" not in result.stdout
    assert r"\x1b[31m[red]/models" in result.stdout


def test_help_has_examples() -> None:
    result = CliRunner().invoke(app, ["acceptance", "--help"])
    assert "--expect 2.8" in result.stdout
