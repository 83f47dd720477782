"""`contracts reproduce`: scripts that need sglang alone, and what they show."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from contracts import known
from contracts.causes import Cause
from contracts.cli import app
from contracts.reproduce_command import FOLDER, script, with_script

if TYPE_CHECKING:
    from contracts.sides import Side

RUNNER = CliRunner()


def test_every_script_is_listed_and_printed_whole() -> None:
    listed = RUNNER.invoke(app, ["reproduce"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [str(cause) for cause in with_script()]
    assert len(with_script()) == len(list(FOLDER.glob("[!_]*.py"))) - 1  # the prelude is none
    for cause in with_script():
        printed = RUNNER.invoke(app, ["reproduce", cause])
        assert printed.exit_code == 0
        assert printed.stdout == script(cause)
        compile(printed.stdout, cause, "exec")
        assert "contracts" not in printed.stdout.replace("contracts reproduce", "")


def test_every_known_defect_of_a_target_has_a_script() -> None:
    causes = {entry.cause for entry in known.load().entries if entry.contract.startswith("targets.")}
    assert causes - set(with_script()) == {
        Cause.WRAPPER_CAPTURES_OTHERS
    }  # the same defect as of the defaults


def test_cause_without_a_script_is_shown_by_a_command() -> None:
    printed = RUNNER.invoke(app, ["reproduce", "norm-differs"])
    assert printed.exit_code == 0
    assert printed.stdout.startswith("pytest --pyargs ")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("state-without-residul", "do you mean state-without-residual"),
        ("other-target", "nothing of this kind"),
    ],
)
def test_what_cannot_be_reproduced_is_one_line(code: str, told: str) -> None:
    failed = RUNNER.invoke(app, ["reproduce", code])
    assert failed.exit_code == 2
    assert told in " ".join(failed.output.split())


SMALL, LARGE = r"by \d\.\d%", r"by \d\d\d?\.\d%"
SHOWN = {
    Cause.STATE_WITHOUT_RESIDUAL: [f"Qwen3ForCausalLM: .* {SMALL}", f"Gemma3ForCausalLM: .* {LARGE}"],
    Cause.ORDER_DECIDES: [r"ids \[1, 3, 4\]: .* \[2, 4, 5\]", r"ids \[3, 1, 4\]: .* \[1, 3, 4\]"],
    Cause.TARGET_WINDOW_DIFFERS: [
        f"window of 64, transformers: 64: .* {SMALL}",
        f"window of 6, transformers: 6: .* {LARGE}",
        f"window of 6, transformers: 7: .* {SMALL}",
    ],
    Cause.TARGET_ROPE_DIFFERS: [rf"base of 1e\+06: .* {SMALL}", f"base of 500: .* {LARGE}"],
    Cause.DEFAULT_LAYERS_DIFFER: [r"\[2, 4, 5\]", r"\[3, 5, 6\]"],
    Cause.TARGET_REFUSED: ["no attribute 'get_embed_and_head'"],
}


@pytest.mark.parametrize("cause", with_script())
def test_script_shows_the_defect(cause: Cause, tmp_path: Path, sglang: Side) -> None:
    told = run(cause, tmp_path, sglang)
    for pattern in SHOWN[cause]:
        assert re.search(pattern, told), (pattern, told[-3000:])


def test_script_shows_nothing_where_the_defect_is_gone(tmp_path: Path, sglang: Side) -> None:
    """Qwen3.5 was refused up to 0.5.21: so what the script serves is no fault of the script's."""
    told = run(Cause.TARGET_REFUSED, tmp_path, sglang, "qwen3_5")
    assert "answered: [" in told
    assert "inherits a setter" in told


def run(cause: Cause, folder: Path, sglang: Side, *arguments: str) -> str:
    file = folder / "reproduction.py"
    file.write_text(script(cause))
    done = subprocess.run(
        [sglang.python, "-m", "contracts.probes.sglang_script", str(file), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    ends = cause is Cause.TARGET_REFUSED and not arguments
    assert (done.returncode != 0) == ends, done.stderr[-3000:]
    return done.stdout + done.stderr
