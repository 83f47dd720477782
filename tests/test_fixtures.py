"""The committed target and canary, their language, and the script that makes them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import contracts
from contracts.probes import language

if TYPE_CHECKING:
    from contracts.workbench import Workbench

FOLDER = Path(contracts.__file__).parent / "fixtures"
BRIEF = """
import sys
from contracts.fixtures import make
make.TARGET_STEPS = make.CANARY_STEPS = 2
make.main()
"""


def test_language_is_the_one_that_the_target_knows() -> None:
    """Python does not promise that its generator draws the same in every release."""
    table = json.dumps([language.KEY_IDS, language.SYMBOL_IDS, language.CYCLES, language.prompts()])
    assert hashlib.sha256(table.encode()).hexdigest()[:16] == "141fa0313e45e5be"


def test_fixtures_are_small_and_hold_no_code() -> None:
    files = [file for part in ("target", "canary") for file in (FOLDER / part).rglob("*")]
    assert sum(file.stat().st_size for file in files) < 1_000_000
    assert {file.suffix for file in files} == {".json", ".safetensors"}


def test_script_makes_what_is_committed(real_workbench: Workbench, tmp_path: Path) -> None:
    done = subprocess.run(
        [real_workbench.side("training").python, "-c", BRIEF, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(FOLDER.parent.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for part in ("target", "canary"):
        made, committed = tmp_path / part, FOLDER / part
        assert {file.name for file in made.iterdir()} == {file.name for file in committed.iterdir()}
        assert json.loads((made / "config.json").read_text()) == json.loads(
            (committed / "config.json").read_text()
        )
