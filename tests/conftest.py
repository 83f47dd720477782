from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts.handoff import NotRun
from tests.bench import Bench
from tests.facts import save_draft, save_target

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench


@pytest.fixture(scope="session")
def real_workbench(workbench: Workbench, pytestconfig: pytest.Config) -> Workbench:
    """The two real libraries; skipped where one is missing, failed where both are required."""
    try:
        workbench.side("training")
        workbench.side("serving")
    except NotRun as missing:
        if pytestconfig.option.require_sides:
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    return workbench


@pytest.fixture(scope="session")
def sglang(real_workbench: Workbench) -> Side:
    return real_workbench.side("serving")


@pytest.fixture
def bench(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.delenv("CI", raising=False)
    return Bench(pytester)


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return save_draft(tmp_path / "draft")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return save_target(tmp_path / "target", max_position_embeddings=4096, dtype="bfloat16")
