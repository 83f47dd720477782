"""Runs every contract on given facts, without probes: what the liars are judged by."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import contracts
from contracts.acceptance import Acceptance
from contracts.facts import DraftFacts, Refusal
from contracts.handoff import Handoff, NotRun
from contracts.replay import Replay
from contracts.service import Served, Serving
from contracts.settings import Setting
from contracts.surfaces import Shown
from contracts.verdict import Broken
from tests.acceptances import ACCEPTANCE
from tests.facts import HANDOFF
from tests.replays import REPLAY
from tests.services import SERVED

FACETS = ("weight_names", "tensor_shapes", "aux_layers", "vocab_map", "hidden_dims")


def all_contracts(about: str = "drafts") -> dict[str, Callable[..., None]]:
    """Every contract that ships about `drafts`, or about `targets`, by id."""
    found = {}
    for file in sorted(Path(contracts.__file__).parent.glob("test_*.py")):
        if (file.stem == "test_targets") != (about == "targets"):
            continue
        module = importlib.import_module(f"contracts.{file.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                found[f"{file.stem.removeprefix('test_')}.{name.removeprefix('test_')}"] = function
    return found


def broken(
    handoff: Handoff = HANDOFF,
    raw: Handoff | None = None,
    snapshot: Any = None,
    workbench: Any = None,
    replay: Replay = REPLAY,
    acceptance: Acceptance = ACCEPTANCE,
    release: Any = None,
    served: Served = SERVED,
) -> dict[str, Broken]:
    """The contracts that do not hold for a handoff, a replay and a run, each with its first verdict."""
    failures = {}
    given = {
        "handoff": handoff,
        "raw_handoff": raw or handoff,
        "workbench": workbench or Refusing(),
        "replay": replay,
        "recipe": handoff.recipe,
        "surface_snapshot": snapshot or _AsRecorded(),
        "release_snapshot": release or _AsRecorded(),
        "acceptance": acceptance,
        "setting": acceptance.setting,
        "served": served,
    }
    for contract, function in all_contracts().items():
        if not _is_about(function, acceptance.setting):
            continue
        for arguments in _arguments(function, given):
            try:
                function(**arguments)
            except Broken as verdict:
                failures.setdefault(contract, verdict)
            except NotRun:
                # The side refused the draft before it could show this; nothing else may leave a contract out.
                assert handoff.serving_refusals
    return failures


def _is_about(function: Callable[..., None], setting: Setting) -> bool:
    """Whether a contract is judged in a setting (or in none at all)."""
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize" and mark.args[0] == "setting":
            return any(parameter.values[0] == setting for parameter in mark.args[1])
    return True


def _arguments(function: Callable[..., None], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a contract is called with: once, or once per side if it asks for a facet of one."""
    names = inspect.signature(function).parameters
    if not set(names) & {*FACETS, "draft_facts", "side"}:
        yield {name: given[name] for name in names}
        return
    for side in ("training", "serving"):
        facts: DraftFacts = getattr(given["handoff"], side)
        offered = {facet: getattr(facts, facet) for facet in FACETS} | {"draft_facts": facts, "side": side}
        offered |= given
        if all(offered[name] is not None for name in set(names) & set(FACETS)):
            yield {name: offered[name] for name in names}


class Refusing:
    """A workbench whose libraries raised what it is given, and show nothing else."""

    def __init__(
        self,
        *,
        training: tuple[Refusal, ...] = (),
        replay: tuple[Refusal, ...] = (),
        engine: tuple[Refusal, ...] = (),
        server: tuple[Refusal, ...] = (),
        not_whole: str | None = None,
    ) -> None:
        self._not_whole = not_whole
        self._training, self._replay, self._engine, self._server = training, replay, engine, server

    def shown(self, side: str, recipe: str) -> Shown:
        return Shown()

    def check_recorded_draft(self, recipe: str) -> None:
        pass

    def traits(self, side: str) -> Shown:
        return Shown()

    def why_not_exported(self, recipe: str) -> str | None:
        return self._not_whole

    def training_refusals(self, recipe: str, *stages: str) -> tuple[Refusal, ...]:
        return tuple(item for item in self._training if item.stage in stages)

    def training_replay_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        return self.training_refusals(recipe, "replay")

    def replay_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        return self._replay

    def server_refusals(self, recipe: str, serving: Serving) -> tuple[Refusal, ...]:
        return self._server

    def engine_refusals(self, recipe: str, setting: Setting) -> tuple[Refusal, ...]:
        return self._engine


class _AsRecorded:
    """A record that everything matches."""

    def matches(self, shown: Shown) -> bool:
        return True
