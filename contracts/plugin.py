"""The pytest plugin: options, the public fixtures, and what an outcome means for pytest. Nothing else.

Public fixtures, for tests of your own as well: `recipe`, `side`, the five interface facets `weight_names`,
`tensor_shapes`, `aux_layers`, `vocab_map` and `hidden_dims` (each once per side and recipe), `handoff` (both
sides about one recipe's exported draft), `raw_handoff` (as saved), `replay` (what both compute from the same
inputs) and `tiny_target` (a target class in the serving engine, beside transformers).

Heavy imports happen when the first contract is collected, so that an unrelated test session that merely
has this package installed pays nothing.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from contracts import tiers
from contracts.facts import CASE_TIMEOUT, LIBRARIES
from contracts.recipes import RECIPES, Recipe

if TYPE_CHECKING:
    from contracts.acceptance import Acceptance
    from contracts.facts import (
        AuxLayers,
        DraftFacts,
        HiddenDims,
        SideName,
        TensorShapes,
        VocabMap,
        WeightNames,
    )
    from contracts.handoff import Handoff
    from contracts.judge import Judge
    from contracts.replay import Replay
    from contracts.service import Served, Serving
    from contracts.settings import Setting
    from contracts.snapshots import SurfaceSnapshot
    from contracts.targets.bench import Target, Targets
    from contracts.targets.recipes import TargetRecipe, Variation
    from contracts.workbench import Workbench

MARK = "contracts"
T = TypeVar("T")


# ----------------------------------------------------------------------- options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Command-line options; each has an environment variable for CI."""
    group = parser.getgroup("contracts", "contracts between draft-model training and serving")
    for side, library in LIBRARIES.items():
        group.addoption(
            f"--{side}-python",
            metavar="PYTHON",
            default=os.environ.get(f"CONTRACTS_{side.upper()}_PYTHON") or sys.executable,
            help=f"interpreter that has {library}, or a provisioned release as {library}==RELEASE "
            f"[CONTRACTS_{side.upper()}_PYTHON; default: this one]",
        )
    group.addoption(
        "--require-sides",
        action="store_true",
        help="fail, instead of not running, contracts whose side is missing",
    )
    group.addoption(
        "--contracts-cache",
        metavar="FOLDER",
        type=_path,
        default=os.environ.get("CONTRACTS_CACHE"),
        help="where drafts and probe reports are kept [CONTRACTS_CACHE; default: the user cache]",
    )
    group.addoption(
        "--contracts-known",
        metavar="FILE",
        type=_path,
        help="recorded incompatibilities instead of the known.toml that ships",
    )
    group.addoption(
        "--device",
        choices=("cpu", "cuda"),
        default=os.environ.get("CONTRACTS_DEVICE") or None,
        help="where the serving library runs drafts "
        '[CONTRACTS_DEVICE; default: cuda with -m "contracts and gpu", else cpu]',
    )
    group.addoption(
        "--targets",
        metavar="TARGETS",
        default=os.environ.get("CONTRACTS_TARGETS") or "core",
        help="target classes to judge: core, all, none, or names between commas, as docs/targets.md has them "
        "[CONTRACTS_TARGETS; default: core]",
    )
    group.addoption(
        "--server-args",
        metavar="ARGUMENTS",
        default=os.environ.get("CONTRACTS_SERVER_ARGS") or "",
        help="further arguments of the server, as your own has them [CONTRACTS_SERVER_ARGS]",
    )
    group.addoption(
        "--case-timeout",
        metavar="SECONDS",
        type=float,
        default=CASE_TIMEOUT,
        help=f"time limit for one case of a probe [default: {CASE_TIMEOUT:g}]",
    )
    group.addoption(
        "--verdicts", metavar="FILE", type=_path, help="write every verdict to FILE as JSON lines"
    )


def _path(text: str) -> Path | None:
    """A path; an empty one (an unset shell variable) counts as not given."""
    return Path(text) if text else None


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark; refuse bad options before anything is collected."""
    worker = getattr(config, "workerinput", {})
    config.stash[_SESSION] = (
        worker.get("contracts_session") or os.environ.get("CONTRACTS_SESSION") or uuid.uuid4().hex
    )
    config.addinivalue_line("markers", f"{MARK}: a promise about the interface between training and serving")
    for mark, about in tiers.MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {about}")
    config.stash[_REPORTS] = []
    config.pluginmanager.register(_Recorder(config.stash[_REPORTS]), "contracts-recorder")
    expression = getattr(config.option, "markexpr", "") or ""
    selected = MARK in expression and "not" not in expression
    if config.option.device is None:
        config.option.device = "cuda" if tiers.asks_for(expression, tiers.GPU) else "cpu"
    if selected and getattr(config.option, "tbstyle", None) == "auto":
        config.option.tbstyle = "no"  # the summary tells each verdict, once
    if not worker and (selected or (not expression and _options_given(config))):
        _judge(config)  # so that a bad option is refused before any xdist worker starts


def _options_given(config: pytest.Config) -> bool:
    """Whether this session is about contracts although it does not select them by mark."""
    option = config.option
    names = ("contracts_known", "verdicts", "require_sides")
    return any(getattr(option, name, None) for name in names) or option.case_timeout != CASE_TIMEOUT


class _Recorder:
    """Keeps every report of a contract, in the process that the user looks at."""

    def __init__(self, reports: list[pytest.TestReport]) -> None:
        self._reports = reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A report with a verdict, or of an xdist worker that crashed."""
        if getattr(report, "verdict", None) or report.when not in ("setup", "call", "teardown"):
            self._reports.append(report)


def _judge(config: pytest.Config) -> Judge:
    """The session's judge, made when it is first needed.

    Raises:
        pytest.UsageError: an option or known.toml cannot be used.

    """
    from contracts.judge import Judge, Unusable

    judge = config.stash.get(_JUDGE, None)
    if judge is None:
        try:
            judge = config.stash[_JUDGE] = Judge.from_config(
                config, config.stash[_SESSION], config.stash[_REPORTS]
            )
        except Unusable as error:
            raise pytest.UsageError(str(error)) from None
    return judge


_JUDGE: pytest.StashKey[Judge] = pytest.StashKey()
FIGURES: pytest.StashKey[dict[str, float]] = pytest.StashKey()
"""On an item: what was measured for it."""
_SESSION: pytest.StashKey[str] = pytest.StashKey()
_REPORTS: pytest.StashKey[list[pytest.TestReport]] = pytest.StashKey()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Judge each of the chosen targets that a contract is about."""
    if "capability" in metafunc.fixturenames:
        from contracts.targets.capabilities import CAPABILITIES

        groups = {"core", "all"} & set(metafunc.config.option.targets.split(","))
        listed = CAPABILITIES if groups else ()
        metafunc.parametrize("capability", [pytest.param(item, id=item.name) for item in listed])
    if "target_recipe" not in metafunc.fixturenames:
        return
    chosen = _chosen_targets(metafunc.config)
    for name in {"short_window", "rope_base"} & set(metafunc.fixturenames):
        chosen = tuple(item for item in chosen if item.variation(name))
    if "wrapped" in metafunc.fixturenames:
        chosen = tuple(item for item in chosen if item.wraps)
    metafunc.parametrize("target_recipe", [pytest.param(item, id=item.name) for item in chosen])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out contracts about targets that none of the chosen ones is judged by, and other tiers'."""
    nobody = [
        item for item in items if _is_about_no_target(item) or (is_contract(item) and tiers.is_another(item))
    ]
    if nobody:
        items[:] = [item for item in items if item not in nobody]
        config.hook.pytest_deselected(items=nobody)


def _is_about_no_target(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    about = [params[name] for name in ("target_recipe", "capability") if name in params]
    return any(not hasattr(chosen, "architecture") for chosen in about)  # pytest's word for an empty list


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run nothing that a missing GPU is needed for."""
    if item.get_closest_marker(tiers.GPU) is None or not is_contract(item):
        return
    if item.config.option.device != "cpu":
        from contracts.handoff import NotRun

        why_not = _judge(item.config).workbench.reach.why_not()
        if why_not:
            raise NotRun(why_not)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the contracts about targets out if none is to be judged."""
    is_about = collection_path == Path(__file__).with_name("test_targets.py")
    return True if is_about and not _chosen_targets(config) else None


def _chosen_targets(config: pytest.Config) -> tuple[TargetRecipe, ...]:
    """What `--targets` names, which has been checked unless no contract was asked for."""
    from contracts.targets.recipes import selected

    try:
        return selected(config.option.targets)
    except KeyError as error:
        raise pytest.UsageError(f"--targets: {error.args[0]}") from None


def is_contract(item: pytest.Item) -> bool:
    """Whether an item is a contract of this package (or of a user's own, if marked)."""
    return item.get_closest_marker(MARK) is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count what should run, and check the options if contracts were collected without `-m`."""
    expected = sum(map(is_contract, session.items))
    only_listing = any(getattr(session.config.option, name, False) for name in ("collectonly", "setupplan"))
    if expected and not only_listing:
        _judge(session.config).expect(expected)


# ---------------------------------------------------------------------- fixtures


@pytest.fixture(scope="session")
def workbench(pytestconfig: pytest.Config) -> Workbench:
    """Both sides; their probes run when a contract first asks."""
    return _judge(pytestconfig).workbench


@pytest.fixture(params=[pytest.param(recipe, id=recipe.name) for recipe in RECIPES])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    """One recipe after the other."""
    chosen: Recipe = request.param
    return chosen


@pytest.fixture(params=LIBRARIES)
def side(request: pytest.FixtureRequest) -> SideName:
    """`training`, then `serving`."""
    chosen: SideName = request.param
    return chosen


@pytest.fixture
def draft_facts(workbench: Workbench, side: SideName, recipe: Recipe) -> DraftFacts:
    """All that one side shows about one recipe's draft."""
    return workbench.facts(side, recipe.name)


def _facet(side: SideName, name: str, value: T | None) -> T:
    from contracts.handoff import NotRun

    if value is None:
        raise NotRun(f"the {side} side refused the draft before it could show its {name}")
    return value


@pytest.fixture
def weight_names(draft_facts: DraftFacts, side: SideName) -> WeightNames:
    """Facet: which checkpoint tensors the side has a use for."""
    return _facet(side, "weight_names", draft_facts.weight_names)


@pytest.fixture
def tensor_shapes(draft_facts: DraftFacts, side: SideName) -> TensorShapes:
    """Facet: the shape of each tensor, as saved or as the slot that it fills."""
    return _facet(side, "tensor_shapes", draft_facts.tensor_shapes)


@pytest.fixture
def aux_layers(draft_facts: DraftFacts, side: SideName) -> AuxLayers:
    """Facet: which target hidden states the draft is conditioned on."""
    return _facet(side, "aux_layers", draft_facts.aux_layers)


@pytest.fixture
def vocab_map(draft_facts: DraftFacts, side: SideName) -> VocabMap:
    """Facet: draft token id -> target token id."""
    return _facet(side, "vocab_map", draft_facts.vocab_map)


@pytest.fixture
def hidden_dims(draft_facts: DraftFacts, side: SideName) -> HiddenDims:
    """Facet: widths of the hidden states that cross the interface."""
    return _facet(side, "hidden_dims", draft_facts.hidden_dims)


@pytest.fixture
def handoff(workbench: Workbench, recipe: Recipe) -> Handoff:
    """Both sides about one recipe's draft, exported for this serving release."""
    return workbench.handoff(recipe.name)


@pytest.fixture
def raw_handoff(workbench: Workbench, recipe: Recipe) -> Handoff:
    """Both sides about one recipe's draft, exactly as the training library saved it."""
    return workbench.handoff(recipe.name, "raw")


@pytest.fixture
def replay(workbench: Workbench, recipe: Recipe) -> Replay:
    """One recipe's draft on the same inputs on both sides: what each computed."""
    return workbench.replay(recipe.name)


@pytest.fixture
def acceptance(
    request: pytest.FixtureRequest, workbench: Workbench, recipe: Recipe, setting: Setting
) -> Acceptance:
    """One recipe's draft in the serving library's engine, beside what training expects of it.

    Parametrise `recipe` with those that speak and `setting` with some of contracts.settings.
    """
    found = workbench.acceptance(recipe.name, setting)
    request.node.stash[FIGURES] = found.figures()
    return found


@pytest.fixture
def served(request: pytest.FixtureRequest, workbench: Workbench, recipe: Recipe, setting: Serving) -> Served:
    """The library's own HTTP server with one recipe's draft, beside what training expects of it."""
    found = workbench.served(recipe.name, setting)
    request.node.stash[FIGURES] = found.figures()
    return found


@pytest.fixture
def targets(workbench: Workbench) -> Targets:
    """The chosen target classes in the serving library's engine."""
    return workbench.targets


@pytest.fixture
def tiny_target(targets: Targets, target_recipe: TargetRecipe) -> Target:
    """One target class in the serving library's engine, beside transformers."""
    return targets.of(target_recipe)


@pytest.fixture
def wrapped(targets: Targets, target_recipe: TargetRecipe) -> Target:
    """The text model that a multimodal target wraps, served alone."""
    return targets.wrapped_by(target_recipe)


@pytest.fixture
def short_window(target_recipe: TargetRecipe) -> Variation | None:
    """The same target with a window that is shorter than the prompts."""
    return target_recipe.variation("short_window")


@pytest.fixture
def rope_base(target_recipe: TargetRecipe) -> Variation | None:
    """The same target with another base of RoPE."""
    return target_recipe.variation("rope_base")


@pytest.fixture
def surface_snapshot(
    snapshot: Any, pytestconfig: pytest.Config, workbench: Workbench, side: SideName, recipe: Recipe
) -> SurfaceSnapshot:
    """The recorded surface that this side's facts about this recipe are compared with."""
    from contracts import snapshots

    updating = bool(pytestconfig.option.update_snapshots)
    return snapshots.surface_snapshot(snapshot, workbench.side(side), recipe.name, update=updating)


@pytest.fixture
def release_snapshot(
    snapshot: Any, pytestconfig: pytest.Config, workbench: Workbench, side: SideName
) -> SurfaceSnapshot:
    """The record that this side's release is compared with, whatever the recipe."""
    from contracts import snapshots

    updating = bool(pytestconfig.option.update_snapshots)
    return snapshots.surface_snapshot(snapshot, workbench.side(side), "", update=updating)


# ----------------------------------------------------------------------- outcomes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn what happened to a contract into its verdict."""
    report = yield
    if is_contract(item) and (report.when == "call" or report.outcome != "passed"):
        _judge(item.config).judge(item, call, report, item.stash.get(FIGURES, None))
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> Any:
    """Category, letter and word of a contract's outcome; no two of ours, theirs and unknown look alike."""
    if getattr(report, "verdict", None) is None:
        return None
    from contracts.report import status

    return status(report)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give an xdist worker the name of this session."""
    node.workerinput["contracts_session"] = node.config.stash[_SESSION]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over from an xdist worker how many contracts it collected."""
    expected = (getattr(node, "workeroutput", None) or {}).get("contracts_expected")
    if expected:
        _judge(node.config).expect(expected)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell the controlling process what was expected; there, set the exit status."""
    judge = session.config.stash.get(_JUDGE, None)
    if judge is None:
        return
    worker_output = getattr(session.config, "workeroutput", None)
    if worker_output is not None:
        worker_output["contracts_expected"] = judge.expected
        return
    session.exitstatus = judge.finish(exitstatus)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The report that can be pasted into a bug report."""
    judge = config.stash.get(_JUDGE, None)
    if judge is None or not (judge.expected or judge.verdicts()):
        return
    from contracts.report import write_summary

    write_summary(terminalreporter, judge)
