"""One run of both probes over a group of recipes, and what comes between them.

Data flows one way: recipe -> training probe -> checkpoint -> export -> serving probe -> facts. Everything is
run when it is first asked for, and once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from contracts import checkpoint, export, exported, spelled
from contracts.conversation import GPU_TIMEOUT, PROBES, Progress
from contracts.dialect import Dialect
from contracts.facts import CaseResult, Device, DraftFacts, Refusal, SideName
from contracts.handoff import NotRun, describe, observed
from contracts.kept import Case
from contracts.outcome import Kind
from contracts.recipes import DType, Recipe
from contracts.served_target import ServedTarget
from contracts.settings import HEAD_DIM, SETTINGS, STEPS, Setting
from contracts.sides import Side, SideRun

UNUSABLE = ("build", "reload")
"""Stages of training without which there is no draft to hand over."""
TRAINING_TIMEOUT = 600.0
"""Seconds that building a draft by training it may take, at the least."""
RELEASE: Case = {"case": "release", "release": "{folder}/release.json"}
"""Asks a probe for what its release shows whatever the recipe."""
FIXTURES = PROBES.parent / "fixtures"
"""Committed targets and drafts."""


def release_cases(name: SideName) -> list[Case]:
    """What a probe is asked whatever the recipe: the release, and a serving one about every spelling."""
    return [RELEASE, *(spelled.CASES if name == "serving" else ())]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How probes are run."""

    cache: Path
    session: str
    case_timeout: float
    progress: Callable[[str], Progress] | None
    device: Device = "cpu"
    """What depths forward and engine run on."""
    settings: Callable[[], Sequence[Setting]] = lambda: SETTINGS
    """In which the engine serves on that device; none if this machine does not have it."""
    server_args: tuple[str, ...] = ()
    """Of the user's own server, beside what export names."""


class Group:
    """Recipes whose drafts one run of the training probe builds and one of the serving probe serves."""

    def __init__(
        self,
        recipes: Sequence[Recipe],
        side: Callable[[SideName], Side],
        options: Options,
        scenario: Mapping[str, Any] | None = None,
    ) -> None:
        """Take note; nothing runs yet.

        Args:
            recipes: of the group.
            side: finds a side.
            options: of the probes.
            scenario: `prompts` and `tokens` that each draft is to serve at depth engine; None for none.

        """
        self._recipes = {recipe.name: recipe for recipe in recipes}
        self._side = side
        self._options = options
        self._scenario = scenario
        self.unreadable: dict[str, str] = {}
        """Why a draft that the training probe saved cannot be read, by recipe."""

    def stand_ins(self) -> dict[str, list[str]]:
        """What was stood in for, by side, as far as their probes have run here; runs none."""
        return {name: list(run.stand_ins) for name, run in self._done().items()}

    def asked(self) -> list[CaseResult]:
        """What its probes have answered here; runs none."""
        return [result for run in self._done().values() for result in run.results.values()]

    def _done(self) -> dict[str, SideRun]:
        done = {"training": vars(self).get("trained"), "serving": vars(self).get("served")}
        return {name: run for name, run in done.items() if run is not None}

    def _run(self, name: SideName, about: str, cases: Sequence[Case], device: Device = "cpu") -> SideRun:
        side, options = self._side(name), self._options
        title = f"{name} side, {side.library} {side.version}{about}"
        return side.run(
            cases,
            options.cache,
            session=options.session,
            case_timeout=options.case_timeout,
            progress=options.progress(title) if options.progress else None,
            device=device,
        )

    def release_run(self, name: SideName) -> SideRun:
        """What a side's release shows whatever the recipe."""
        return self._run(name, ", the release itself", release_cases(name))

    # ------------------------------------------------------------------ training

    @cached_property
    def trained(self) -> SideRun:
        """The training probe over all recipes."""
        cases = [self._training_case(recipe) for recipe in map(_plain, self._recipes.values())]
        about = ", training a draft (half a minute)" if self._scenario else ""
        return self._run("training", about, cases)

    def _training_case(self, recipe: Recipe) -> Case:
        case: dict[str, Any] = {
            "case": recipe.name,
            "recipe": asdict(recipe),
            "folder": "{folder}/draft",
            "target": "{folder}/target",
            "golden": "{folder}/golden.safetensors",
            "inputs": "{folder}/inputs.safetensors",
        }
        if self._scenario:
            case |= {"expected": "{folder}/expected.safetensors", "fixtures": FIXTURES, **self._scenario}
        if recipe.built_by == "trainer":
            case["timeout"] = max(TRAINING_TIMEOUT, self._options.case_timeout)
        return case

    def training_refusals(self, recipe: str, *stages: str) -> tuple[Refusal, ...]:
        """What the training library raised in these stages (build, reload, replay, run, ...)."""
        refusals = observed(self.trained.results[recipe], "training").refusals
        return tuple(item for item in refusals if item.stage in stages)

    def training_facts(self, recipe: str) -> DraftFacts:
        """What the training side shows.

        Raises:
            NotRun: it refused the recipe.

        """
        refusals = self.training_refusals(recipe, *UNUSABLE)
        if refusals:
            raise NotRun(f"the training side refused the recipe: {describe(refusals)}")
        facts = self.trained.results[recipe].facts
        assert facts is not None
        return facts

    def draft_folder(self, recipe: str, kind: Kind = "raw") -> Path:
        """The checkpoint that training saved, or its export."""
        return self.exports[recipe] if kind == "exported" else self.trained.folders[recipe] / "draft"

    def target_folder(self, recipe: str) -> Path:
        """The target that the recipe's draft is for."""
        return self.trained.folders[recipe] / "target"

    def golden(self, recipe: str) -> Path:
        """What the training side computed from the inputs of depth forward."""
        return self.trained.folders[recipe] / "golden.safetensors"

    def expected(self, recipe: str) -> Path:
        """What the training side expects of an engine."""
        return self.trained.folders[recipe] / "expected.safetensors"

    # -------------------------------------------------------------------- export

    @cached_property
    def plans(self) -> dict[str, export.Plan]:
        """How each draft is exported; one that cannot be read leaves its own recipe without a plan."""
        plans = {}
        dialect = Dialect.for_release(self._side("serving").version)
        for name, run in self.trained.results.items():
            if run.error or self.training_refusals(name, *UNUSABLE):
                continue
            try:
                target = ServedTarget.read(self.target_folder(name))
                planned = export.plan(checkpoint.read(self.draft_folder(name)), dialect, target)
                as_told = planned.spelling_rope(self._recipes[name].rope_keys)
                if self._recipes[name].names == "trained":
                    as_told = as_told.keeping_names()
                if self._recipes[name].eagle_config == "null":
                    as_told = as_told.without_eagle_config()
                plans[name] = as_told
            except checkpoint.CheckpointError as error:
                self.unreadable[name] = str(error).replace(str(self.draft_folder(name)), f"drafts/{name}")
        return plans

    @cached_property
    def exports(self) -> Mapping[str, Path]:
        """Every draft, exported as far as it can be expressed: the serving library judges the rest."""
        return {name: exported.draft(planned, self._options.cache) for name, planned in self.plans.items()}

    # ------------------------------------------------------------------- serving

    @cached_property
    def served(self) -> SideRun:
        """The serving probe over all drafts, raw and exported, at every depth."""
        loading, running = self.serving_cases()
        about = ", running the engine" if self._scenario else ""
        if self._options.device == "cpu":
            return self._run("serving", about, [*loading, *running])
        # The meta device of depth load needs the CPU's classes, which one process cannot have beside a GPU's.
        loaded = self._run("serving", ", loading", loading)
        if not self._options.settings():
            return loaded
        ran = self._run("serving", f"{about} on {self._options.device}", running, self._options.device)
        told = tuple(f"{item}, at depth load" for item in loaded.stand_ins)
        return replace(loaded, stand_ins=told) | ran

    def serving_cases(self) -> tuple[list[Case], list[Case]]:
        """What the serving probe is asked: at depth load, and at depths forward and engine."""
        loading: list[Case] = []
        running: list[Case] = []
        for name in [*self.plans, *self.unreadable]:
            loading.append(self._load_case(name, "raw"))
        for name in self.plans:
            loading.append(self._load_case(name, "exported"))
            if not self.training_refusals(name, "replay"):
                running.append(self.forward_case(name))
        if self._scenario:
            settings = self._options.settings()
            for target in {self._recipes[name].target.name: name for name in self.plans}.values():
                dtypes = dict.fromkeys(self.dtype(target, setting) for setting in settings)
                running += [self.alone_case(target, dtype) for dtype in dtypes]
            running += [self.engine_case(name, setting) for name in self.plans for setting in settings]
        return loading, running

    def server_args(self, recipe: str) -> list[str]:
        """What a server is told so that it serves the recipe's exported draft in chains."""
        chain = ("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", str(STEPS))
        return [
            *(*chain, *SETTINGS[0].server_args),
            *(*self.plans[recipe].server_args, *self._options.server_args),
        ]

    def _load_case(self, recipe: str, kind: Kind) -> dict[str, Any]:
        return {
            "case": f"{kind}/{recipe}",
            "folder": self.draft_folder(recipe, kind),
            "target": self.target_folder(recipe),
            "server_args": [*self.plans[recipe].server_args, *self._options.server_args]
            if kind == "exported"
            else [],
        }

    def forward_case(self, recipe: str) -> dict[str, Any]:
        """What the serving probe is asked so that it runs the recipe's exported draft."""
        return {
            **self._running_case(recipe),
            "case": f"forward/{recipe}",
            "dtype": self._recipes[recipe].served_dtype,
            "inputs": self.trained.folders[recipe] / "inputs.safetensors",
            "replay": "{folder}/replay.safetensors",
        }

    def _running_case(self, recipe: str) -> dict[str, Any]:
        case = self._load_case(recipe, "exported") | {"device": self._options.device}
        if self._options.device != "cpu":
            case["timeout"] = max(GPU_TIMEOUT, self._options.case_timeout)
        return case

    def engine_case(self, recipe: str, setting: Setting) -> dict[str, Any]:
        """What the serving probe is asked so that its engine serves prompts with the recipe's draft."""
        assert self._scenario is not None
        case = self._running_case(recipe)
        return {
            **case,
            "case": f"engine/{recipe}/{setting.name}",
            "dtype": self.dtype(recipe, setting),
            "graphs": setting.graphs,
            "head_dim": HEAD_DIM if setting.of_gpus else None,
            "run": "{folder}/run.json",
            **self._scenario,
            "server_args": [*case["server_args"], *setting.server_args],
        }

    def alone_case(self, recipe: str, dtype: DType) -> dict[str, Any]:
        """What the serving probe is asked so that its engine serves prompts without a draft."""
        assert self._scenario is not None
        case = {
            **self._running_case(recipe),
            "case": self.alone(recipe, dtype),
            "dtype": dtype,
            "run": "{folder}/run.json",
            **self._scenario,
            "server_args": [],
        }
        del case["folder"]
        return case

    def dtype(self, recipe: str, setting: Setting) -> DType:
        """What the engine computes in."""
        return setting.dtype or self._recipes[recipe].served_dtype

    def alone(self, recipe: str, dtype: DType) -> str:
        """Name of the case in which the target of a recipe serves without a draft."""
        return f"engine/{self._recipes[recipe].target.name}/alone-{dtype}"

    def readable(self, recipe: str, refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
        """What a library said, without the folders of this machine, so that it reads the same anywhere."""
        training = self.trained.folders[recipe]
        names = {training / "draft": f"drafts/{recipe}", training / "target": f"targets/{recipe}"}
        if recipe in self.plans:
            names[self.exports[recipe]] = f"exported/{recipe}"

        def without_paths(message: str) -> str:
            for path, name in names.items():
                message = message.replace(str(path), name)
            return message.replace(str(self._options.cache), "")

        return tuple(replace(item, message=without_paths(item.message)) for item in refusals)


def _plain(recipe: Recipe) -> Recipe:
    """The recipe with plain dicts, which `asdict` can copy."""
    return Recipe(**{**vars(recipe), "layer": _dicts(recipe.layer), "flags": dict(recipe.flags)})


def _dicts(value: Any) -> Any:
    return {key: _dicts(item) for key, item in value.items()} if isinstance(value, Mapping) else value
