"""The pytest plugin for one checkpoint: `--draft`, the contracts about it, and the report as a fixture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from contracts.header.report import Report

DRAFT_CONTRACTS = Path(__file__).with_name("draft_contracts.py")
"""The contracts about the checkpoint of --draft; collected when there is one."""
_REPORT: pytest.StashKey[Report] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Command-line options."""
    group = parser.getgroup("contracts", "contracts between draft-model training and serving")
    group.addoption(
        "--draft",
        metavar="DRAFT",
        help="judge this draft checkpoint, too: a folder, a safetensors file, or org/name of the hub",
    )
    group.addoption(
        "--target",
        metavar="TARGET",
        help="what --draft is to be served with, likewise; only config.json is read",
    )
    group.addoption(
        "--draft-for",
        metavar="RELEASE",
        help="sglang==VERSION that --draft is judged for [default: the installed one, else the newest]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the contracts about the checkpoint; refuse one that cannot be read at once."""
    if config.option.draft:
        config.args.append(str(DRAFT_CONTRACTS))
        if not hasattr(config, "workerinput"):
            _report(config)
    elif config.option.target or config.option.draft_for:
        raise pytest.UsageError("--target and --draft-for are about the checkpoint of --draft: name it, too")


@pytest.fixture(scope="session")
def draft_report(pytestconfig: pytest.Config) -> Report:
    """What depth header says of the checkpoint of --draft."""
    if not pytestconfig.option.draft:
        pytest.skip("no --draft was given")
    return _report(pytestconfig)


def _report(config: pytest.Config) -> Report:
    """The report on --draft, made once.

    Raises:
        pytest.UsageError: it cannot be read.

    """
    from contracts.header.api import check
    from contracts.header.reading import NothingRecorded
    from contracts.judge import Unusable, words
    from contracts.places import CheckpointError
    from contracts.records import UnsupportedRelease

    if _REPORT not in config.stash:
        option = config.option
        try:
            config.stash[_REPORT] = check(
                option.draft,
                target=option.target or None,
                serving=option.draft_for or None,
                server_args=words(option.server_args),
            )
        except (CheckpointError, NothingRecorded, UnsupportedRelease) as error:
            raise pytest.UsageError(f"--draft: {error}") from None
        except Unusable as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_REPORT]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item for each contract of depth header."""
    if "header_rule" in metafunc.fixturenames and metafunc.config.option.draft:
        from contracts.header.rules import RULES

        metafunc.parametrize("header_rule", RULES.values(), ids=RULES)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What --draft is, and which contracts cannot be asked about it."""
    if not config.option.draft:
        return []
    from contracts.header.views import about, headline

    report = _report(config)
    return [f"draft: {headline(report)}", *(f"  {word}: {told}" for word, told in about(report))]
