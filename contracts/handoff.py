"""Joins the facts of two sides about one recipe, and the workbench that gets them.

Data flows one way: recipe -> training probe -> checkpoint -> export -> serving probe -> facts.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from filelock import FileLock

from contracts import checkpoint, export, tensor_copy
from contracts.conversation import Progress
from contracts.dialect import Dialect
from contracts.facts import CASE_TIMEOUT, CaseResult, DraftFacts, Refusal, SideName
from contracts.recipes import RECIPES, Recipe, Target
from contracts.refusals import Refusal as ExportRefusal
from contracts.replay import Replay
from contracts.served_target import ServedTarget
from contracts.sides import Side, SideRun, SideUnavailable, is_intact, manifest

T = TypeVar("T")
Kind = Literal["exported", "raw"]
UNUSABLE = ("build", "reload")
"""Stages of training without which there is no draft to hand over."""


class NotRun(pytest.skip.Exception):  # type: ignore[name-defined, misc]
    """A contract could not be judged, and why. A test of anybody's that meets it is skipped."""

    def __init__(self, reason: str, *, side_missing: bool = False) -> None:
        self.side_missing = side_missing
        super().__init__(reason, pytrace=False)


class ProbeFailed(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A probe reported an error instead of facts: the suite or the machine failed, not the interface."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, pytrace=False)


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """One draft as the training side made it and as the serving side took it."""

    recipe: Recipe
    kind: Kind
    training: DraftFacts
    serving: DraftFacts
    serving_refusals: tuple[Refusal, ...] = ()
    """What the serving library raised, by stage."""
    export_refusals: tuple[ExportRefusal, ...] = ()
    """What could not be written for this serving release."""
    renames: Mapping[str, str]
    """Name of each trained tensor -> its name in the checkpoint that was served."""

    def both(self, facet: Callable[[DraftFacts], T | None]) -> tuple[T, T]:
        """The facet as training and as serving show it.

        Raises:
            NotRun: the serving library refused the draft before it could show this.

        """
        return self.trained(facet), self.served(facet)

    def trained(self, facet: Callable[[DraftFacts], T | None]) -> T:
        """The facet as training shows it."""
        return _shown(facet(self.training), "training", ())

    def served(self, facet: Callable[[DraftFacts], T | None]) -> T:
        """The facet as serving shows it."""
        return _shown(facet(self.serving), "serving", self.serving_refusals)

    def remedy(self, *parts: str) -> str | None:
        """The fix for what cannot be carried across at all; None if every one of `parts` can."""
        for item in self.export_refusals:
            if item.what.partition(":")[0] in parts:
                return item.fix
        return None


def _shown(value: T | None, side: SideName, refusals: tuple[Refusal, ...]) -> T:
    if value is None:
        raise NotRun(f"the {side} side did not get that far: {describe(refusals)}")
    return value


def describe(refusals: tuple[Refusal, ...]) -> str:
    """What a library said when it refused, in one line."""
    return "; ".join(f"{item.stage}: {item.error}: {item.message}" for item in refusals) or "no such fact"


class Workbench:
    """Both sides, run once, and every handoff between them."""

    def __init__(
        self,
        *,
        pythons: Mapping[SideName, str],
        cache: Path,
        session: str = "",
        case_timeout: float = CASE_TIMEOUT,
        progress: Callable[[str], Progress] | None = None,
        recipes: tuple[Recipe, ...] = RECIPES,
    ) -> None:
        self._pythons = pythons
        self._cache = cache
        self._options: dict[str, Any] = {"session": session, "case_timeout": case_timeout}
        self._progress = progress
        self._recipes = {recipe.name: recipe for recipe in recipes}
        self._sides: dict[SideName, Side | SideUnavailable] = {}
        self._unreadable: dict[str, str] = {}

    def side(self, name: SideName) -> Side:
        """The side called `name`.

        Raises:
            NotRun: it is missing, with the line that installs it.
            BadInterpreter: the interpreter given for it does not run.

        """
        if name not in self._sides:
            try:
                self._sides[name] = Side.find(name, self._pythons[name])
            except SideUnavailable as missing:
                self._sides[name] = missing
        found = self._sides[name]
        if isinstance(found, SideUnavailable):
            raise NotRun(str(found), side_missing=True)
        return found

    def stand_ins(self) -> dict[str, list[str]]:
        """What was stood in for, by side, as far as their probes have run here; runs none."""
        done = {"training": vars(self).get("_trained"), "serving": vars(self).get("_served")}
        return {name: list(run.stand_ins) for name, run in done.items() if run is not None}

    def facts(self, name: SideName, recipe: str) -> DraftFacts:
        """What one side shows about the draft of a recipe (the serving side: about the exported draft)."""
        if name == "training":
            return self._training_facts(recipe)
        return self.handoff(recipe).serving

    def handoff(self, recipe: str, kind: Kind = "exported") -> Handoff:
        """The handoff of a recipe's draft, as saved or as exported for this serving release."""
        self.side("serving")
        training = self._training_facts(recipe)
        planned = self._plans.get(recipe)
        if planned is None:
            raise ProbeFailed(
                f"the training probe saved a draft that cannot be read: {self._unreadable[recipe]}"
            )
        result = _observed(self._served.results[f"{kind}/{recipe}"], "serving")
        assert result.facts is not None
        return Handoff(
            recipe=self._recipes[recipe],
            kind=kind,
            training=training,
            serving=result.facts,
            serving_refusals=tuple(map(self._without_paths, result.refusals)),
            export_refusals=planned.refusals,
            renames=planned.renames
            if kind == "exported"
            else {name: name for name in planned.source.tensors},
        )

    def replay_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        """What the serving library raised instead of running the recipe's draft.

        Raises:
            NotRun: it was not asked, because the training library did not run the draft either.

        """
        self.handoff(recipe)
        untrained = self.training_refusals(recipe, "replay")
        if untrained:
            raise NotRun(f"the training side did not run the draft: {describe(untrained)}")
        result = _observed(self._served.results[f"forward/{recipe}"], "serving")
        return tuple(map(self._without_paths, result.refusals))

    def replay(self, recipe: str) -> Replay:
        """The recipe's draft on the same inputs on both sides.

        Raises:
            NotRun: the serving library raised instead of running it.

        """
        refusals = self.replay_refusals(recipe)
        if refusals:
            raise NotRun(f"the serving side did not run the draft: {describe(refusals)}")
        served = self._served.folder / "replays" / f"{recipe}.safetensors"
        return Replay.read(self._golden(recipe), served, self._recipes[recipe].served_dtype)

    def _golden(self, recipe: str) -> Path:
        return self._trained.folder / "golden" / f"{recipe}.safetensors"

    def _without_paths(self, refusal: Refusal) -> Refusal:
        """What the library said, without the folders of this machine, so that it reads the same anywhere."""
        message = refusal.message.replace(str(self._exports), "exported").replace(
            str(self._trained.folder), ""
        )
        return replace(
            refusal, message=message.replace(" /drafts/", " drafts/").replace(" /targets/", " targets/")
        )

    # ------------------------------------------------------------------ training

    @cached_property
    def _trained(self) -> SideRun:
        side = self.side("training")
        cases = [
            {
                "case": recipe.name,
                "recipe": asdict(recipe),
                "folder": f"{{folder}}/drafts/{recipe.name}",
                "target": f"{{folder}}/targets/{recipe.target.name}",
                "golden": f"{{folder}}/golden/{recipe.name}.safetensors",
            }
            for recipe in map(_plain, self._recipes.values())
        ]
        return side.run(cases, self._cache, progress=self._report("training"), **self._options)

    def training_refusals(self, recipe: str, *stages: str) -> tuple[Refusal, ...]:
        """What the training library raised in these stages (build, reload, replay) of a recipe."""
        refusals = _observed(self._trained.results[recipe], "training").refusals
        return tuple(item for item in refusals if item.stage in stages)

    def training_replay_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        """What the training library raised instead of running the draft that it saved.

        Raises:
            NotRun: it did not even save one.

        """
        self._training_facts(recipe)
        return self.training_refusals(recipe, "replay", "run")

    def _training_facts(self, recipe: str) -> DraftFacts:
        refusals = self.training_refusals(recipe, *UNUSABLE)
        if refusals:
            raise NotRun(f"the training side refused the recipe: {describe(refusals)}")
        facts = self._trained.results[recipe].facts
        assert facts is not None
        return facts

    def draft_folder(self, recipe: str, kind: Kind = "raw") -> Path:
        """The checkpoint that training saved, or its export."""
        return (self._exports if kind == "exported" else self._trained.folder / "drafts") / recipe

    def target_folder(self, target: Target) -> Path:
        """The target that recipes with `target` are for."""
        return self._trained.folder / "targets" / target.name

    # -------------------------------------------------------------------- export

    @cached_property
    def dialect(self) -> Dialect:
        """What the serving release reads, from its record or from the newest older one."""
        return Dialect.for_release(self.side("serving").version)

    @cached_property
    def _plans(self) -> dict[str, export.Plan]:
        """How each draft is exported; one that cannot be read is an error of its recipe alone."""
        plans = {}
        for name, run in self._trained.results.items():
            if run.error or self.training_refusals(name, *UNUSABLE):
                continue
            try:
                target = ServedTarget.read(self.target_folder(self._recipes[name].target))
                planned = export.plan(checkpoint.read(self.draft_folder(name)), self.dialect, target)
                plans[name] = planned.spelling_rope(self._recipes[name].rope_keys)
            except checkpoint.CheckpointError as error:
                self._unreadable[name] = str(error)
        return plans

    @cached_property
    def _exports(self) -> Path:
        """Every draft, exported as far as it can be expressed: the serving library judges the rest."""
        written = {name: [dict(item.config), dict(item.renames)] for name, item in self._plans.items()}
        code = [Path(str(module.__file__)).read_bytes() for module in (export, tensor_copy)]
        content = b"".join([json.dumps(written, sort_keys=True).encode(), *code])
        digest = hashlib.sha256(content).hexdigest()[:12]
        folder = self._trained.folder / f"exported-{digest}"
        complete = folder.with_suffix(".json")
        with FileLock(folder.with_suffix(".lock")):
            if not (complete.exists() and is_intact(folder, json.loads(complete.read_text()))):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                for name, planned in self._plans.items():
                    export.write(planned, folder / name, force=True)
                complete.write_text(json.dumps(manifest(folder)))
        return folder

    # ------------------------------------------------------------------- serving

    @cached_property
    def _served(self) -> SideRun:
        side = self.side("serving")
        cases: list[dict[str, Any]] = []
        for name in self._plans:
            cases += [self._load_case(name, "raw"), self._load_case(name, "exported")]
            if not self.training_refusals(name, "replay"):
                cases.append(self.forward_case(name))
        inputs = [self._trained.folder / part for part in ("drafts", "targets", "golden")]
        inputs.append(self._exports)
        return side.run(cases, self._cache, inputs=inputs, progress=self._report("serving"), **self._options)

    def _load_case(self, recipe: str, kind: Kind) -> dict[str, Any]:
        return {
            "case": f"{kind}/{recipe}",
            "folder": str(self.draft_folder(recipe, kind)),
            "target": str(self.target_folder(self._recipes[recipe].target)),
            "server_args": list(self._plans[recipe].server_args) if kind == "exported" else [],
        }

    def forward_case(self, recipe: str) -> dict[str, Any]:
        """What the serving probe is asked so that it runs the recipe's exported draft."""
        return {
            **self._load_case(recipe, "exported"),
            "case": f"forward/{recipe}",
            "dtype": self._recipes[recipe].served_dtype,
            "golden": str(self._golden(recipe)),
            "replay": f"{{folder}}/replays/{recipe}.safetensors",
        }

    def _report(self, name: SideName) -> Progress | None:
        side = self.side(name)
        return self._progress(f"{name} side, {side.library} {side.version}") if self._progress else None


def _observed(result: CaseResult, side: SideName) -> CaseResult:
    if result.error:
        raise ProbeFailed(f"the {side} probe failed on {result.case}: {result.error}")
    return result


def _plain(recipe: Recipe) -> Recipe:
    """The recipe with plain dicts, which `asdict` can copy."""
    return Recipe(**{**vars(recipe), "layer": _dicts(recipe.layer), "flags": dict(recipe.flags)})


def _dicts(value: Any) -> Any:
    return {key: _dicts(item) for key, item in value.items()} if isinstance(value, Mapping) else value
