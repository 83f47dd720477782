"""`contracts export` as its user runs it, for the tests of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from contracts import checkpoint as checkpoints
from contracts.cli import app
from contracts.terminal import EXIT_BAD_INPUT
from tests.facts import checkpoint


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def one_line(result: Result) -> str:
    """The one line that a user's mistake gets."""
    assert result.exit_code == EXIT_BAD_INPUT
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def change_tensors(draft: Path, **changes: torch.Tensor) -> None:
    file = draft / "model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {name.replace("__", "."): value for name, value in changes.items()}, file)


def nothing_left(tmp_path: Path) -> bool:
    return not [path for path in tmp_path.iterdir() if path.name not in ("draft", "target")]


def with_norms(flag: str) -> checkpoints.Checkpoint:
    """A draft with one norm and its tensors."""
    source = checkpoint(**{flag: True})
    state = source.tensors["norm.weight"]
    added = {
        "norm_before_fc": {"input_norm.weight": replace(state, shape=(192,))},
        "fc_norm": {f"fc_norm.{index}.weight": state for index in range(3)},
    }
    return replace(source, tensors={**source.tensors, **added.get(flag, {})})
