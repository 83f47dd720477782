"""Runs every contract on given facts, without probes: what the liars are judged by."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import contracts
from contracts.facts import DraftFacts, Refusal
from contracts.handoff import Handoff, NotRun
from contracts.verdict import Broken

FACETS = ("weight_names", "tensor_shapes", "aux_layers", "vocab_map", "hidden_dims")


def all_contracts() -> dict[str, Callable[..., None]]:
    """Every contract that ships, by id."""
    found = {}
    for file in sorted(Path(contracts.__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"contracts.{file.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                found[f"{file.stem.removeprefix('test_')}.{name.removeprefix('test_')}"] = function
    return found


def broken(
    handoff: Handoff, raw: Handoff | None = None, snapshot: Any = None, workbench: Any = None
) -> dict[str, Broken]:
    """The contracts that do not hold for a handoff, each with its first verdict."""
    failures = {}
    for contract, function in all_contracts().items():
        for arguments in _arguments(function, handoff, raw or handoff, snapshot, workbench):
            try:
                function(**arguments)
            except Broken as verdict:
                failures.setdefault(contract, verdict)
            except NotRun:
                # The side refused the draft before it could show this; nothing else may leave a contract out.
                assert handoff.serving_refusals
    return failures


def _arguments(
    function: Callable[..., None], handoff: Handoff, raw: Handoff, snapshot: Any, workbench: Any
) -> Iterator[dict[str, Any]]:
    names = inspect.signature(function).parameters
    if set(names) & {*FACETS, "draft_facts"}:
        for side in ("training", "serving"):
            facts: DraftFacts = getattr(handoff, side)
            offered = {facet: getattr(facts, facet) for facet in FACETS} | {
                "draft_facts": facts,
                "side": side,
                "surface_snapshot": snapshot or _AsRecorded(),
                "workbench": TrainingSide(),
                "recipe": handoff.recipe,
            }
            if all(offered[name] is not None for name in set(names) & set(FACETS)):
                yield {name: offered[name] for name in names}
    elif "workbench" in names:
        yield {"workbench": workbench or TrainingSide(), "recipe": handoff.recipe}
    else:
        yield {name: {"handoff": handoff, "raw_handoff": raw}[name] for name in names}


class TrainingSide:
    """A workbench whose training side raised what it is given."""

    def __init__(self, *refusals: Refusal) -> None:
        self._refusals = refusals

    def training_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        return self._refusals


class _AsRecorded:
    """A record that everything matches."""

    def matches(self, facts: DraftFacts) -> bool:
        return True
