"""One run of both probes over a group of recipes, and what comes between them.

Data flows one way: recipe -> training probe -> checkpoint -> export -> serving probe -> facts. Everything is
run when it is first asked for, and once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

from contracts import checkpoint, export, tensor_copy
from contracts.conversation import Progress
from contracts.dialect import Dialect
from contracts.facts import Device, DraftFacts, Refusal, SideName
from contracts.handoff import Kind, NotRun, describe, observed
from contracts.recipes import Recipe, Target
from contracts.served_target import ServedTarget
from contracts.settings import SETTINGS, Setting
from contracts.sides import Side, SideRun, is_intact, manifest

UNUSABLE = ("build", "reload")
"""Stages of training without which there is no draft to hand over."""
TRAINING_TIMEOUT = 600.0
"""Seconds that building a draft by training it may take, at the least."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How probes are run."""

    cache: Path
    session: str
    case_timeout: float
    progress: Callable[[str], Progress] | None
    device: Device = "cpu"
    """What depths forward and engine run on."""
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
        done = {"training": vars(self).get("trained"), "serving": vars(self).get("served")}
        return {name: list(run.stand_ins) for name, run in done.items() if run is not None}

    def _run(
        self,
        name: SideName,
        about: str,
        cases: Sequence[Mapping[str, Any]],
        inputs: Sequence[Path],
        device: Device = "cpu",
    ) -> SideRun:
        side, options = self._side(name), self._options
        title = f"{name} side, {side.library} {side.version}{about}"
        return side.run(
            cases,
            options.cache,
            inputs=inputs,
            session=options.session,
            case_timeout=options.case_timeout,
            progress=options.progress(title) if options.progress else None,
            device=device,
        )

    def release_run(self, name: SideName) -> SideRun:
        """What a side's release shows whatever the recipe."""
        case = {"case": "release", "release": "{folder}/release.json"}
        return self._run(name, ", the release itself", [case], ())

    # ------------------------------------------------------------------ training

    @cached_property
    def trained(self) -> SideRun:
        """The training probe over all recipes."""
        cases = [self._training_case(recipe) for recipe in map(_plain, self._recipes.values())]
        about = ", training a draft (half a minute)" if self._scenario else ""
        return self._run("training", about, cases, ())

    def _training_case(self, recipe: Recipe) -> dict[str, Any]:
        case: dict[str, Any] = {
            "case": recipe.name,
            "recipe": asdict(recipe),
            "folder": f"{{folder}}/drafts/{recipe.name}",
            "target": f"{{folder}}/targets/{recipe.target.name}",
            "golden": f"{{folder}}/golden/{recipe.name}.safetensors",
        }
        if self._scenario:
            case |= {"expected": f"{{folder}}/expected/{recipe.name}.safetensors", **self._scenario}
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
        return (self.exports if kind == "exported" else self.trained.folder / "drafts") / recipe

    def target_folder(self, target: Target) -> Path:
        """The target that recipes with `target` are for."""
        return self.trained.folder / "targets" / target.name

    def golden(self, recipe: str) -> Path:
        """What the training side computed from the inputs of depth forward."""
        return self.trained.folder / "golden" / f"{recipe}.safetensors"

    def expected(self, recipe: str) -> Path:
        """What the training side expects of an engine."""
        return self.trained.folder / "expected" / f"{recipe}.safetensors"

    # -------------------------------------------------------------------- export

    @cached_property
    def plans(self) -> dict[str, export.Plan]:
        """How each draft is exported; one that cannot be read is an error of its recipe alone."""
        plans = {}
        dialect = Dialect.for_release(self._side("serving").version)
        for name, run in self.trained.results.items():
            if run.error or self.training_refusals(name, *UNUSABLE):
                continue
            try:
                target = ServedTarget.read(self.target_folder(self._recipes[name].target))
                planned = export.plan(checkpoint.read(self.draft_folder(name)), dialect, target)
                spelled = planned.spelling_rope(self._recipes[name].rope_keys)
                plans[name] = spelled.keeping_names() if self._recipes[name].names == "trained" else spelled
            except checkpoint.CheckpointError as error:
                self.unreadable[name] = str(error)
        return plans

    @cached_property
    def exports(self) -> Path:
        """Every draft, exported as far as it can be expressed: the serving library judges the rest."""
        written = {name: [dict(item.config), dict(item.renames)] for name, item in self.plans.items()}
        code = [Path(str(module.__file__)).read_bytes() for module in (export, tensor_copy)]
        content = b"".join([json.dumps(written, sort_keys=True).encode(), *code])
        digest = hashlib.sha256(content).hexdigest()[:12]
        folder = self.trained.folder / f"exported-{digest}"
        complete = folder.with_suffix(".json")
        with FileLock(folder.with_suffix(".lock")):
            if not (complete.exists() and is_intact(folder, json.loads(complete.read_text()))):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                for name, planned in self.plans.items():
                    export.write(planned, folder / name, force=True)
                complete.write_text(json.dumps(manifest(folder)))
        return folder

    # ------------------------------------------------------------------- serving

    @cached_property
    def served(self) -> SideRun:
        """The serving probe over all drafts, raw and exported, at every depth."""
        loading: list[dict[str, Any]] = []
        running: list[dict[str, Any]] = []
        for name in self.plans:
            loading += [self._load_case(name, "raw"), self._load_case(name, "exported")]
            if not self.training_refusals(name, "replay"):
                running.append(self.forward_case(name))
        if self._scenario:
            for target in {self._recipes[name].target.name: name for name in self.plans}.values():
                running.append(self.engine_case(target, None))
            running += [self.engine_case(name, setting) for name in self.plans for setting in SETTINGS]
        inputs = [*(self.trained.folder / part for part in ("drafts", "targets", "golden")), self.exports]
        about = ", running the engine" if self._scenario else ""
        if self._options.device == "cpu":
            return self._run("serving", about, [*loading, *running], inputs)
        # The meta device of depth load needs the CPU's classes, which one process cannot have beside a GPU's.
        loaded = self._run("serving", ", loading", loading, inputs)
        ran = self._run(
            "serving", f"{about} on {self._options.device}", running, inputs, self._options.device
        )
        return SideRun(
            results={**loaded.results, **ran.results},
            stand_ins=(*(f"{item}, at depth load" for item in loaded.stand_ins), *ran.stand_ins),
            folder=ran.folder,
        )

    def _load_case(self, recipe: str, kind: Kind) -> dict[str, Any]:
        return {
            "case": f"{kind}/{recipe}",
            "folder": str(self.draft_folder(recipe, kind)),
            "target": str(self.target_folder(self._recipes[recipe].target)),
            "server_args": [*self.plans[recipe].server_args, *self._options.server_args]
            if kind == "exported"
            else [],
        }

    def forward_case(self, recipe: str) -> dict[str, Any]:
        """What the serving probe is asked so that it runs the recipe's exported draft."""
        return {
            **self._load_case(recipe, "exported"),
            "case": f"forward/{recipe}",
            "device": self._options.device,
            "dtype": self._recipes[recipe].served_dtype,
            "golden": str(self.golden(recipe)),
            "replay": f"{{folder}}/replays/{recipe}.safetensors",
        }

    def engine_case(self, recipe: str, setting: Setting | None) -> dict[str, Any]:
        """What the serving probe is asked so that its engine serves prompts; without a setting, no draft."""
        assert self._scenario is not None
        case = {
            **self._load_case(recipe, "exported"),
            "case": f"engine/{recipe}/{setting.name}" if setting else self.alone(recipe),
            "device": self._options.device,
            "dtype": self._recipes[recipe].served_dtype,
            **self._scenario,
        }
        case["run"] = f"{{folder}}/runs/{case['case']}.json"
        if setting:
            case["server_args"] = [*case["server_args"], *setting.server_args]
        else:
            del case["folder"]
            case["server_args"] = []
        return case

    def alone(self, recipe: str) -> str:
        """Name of the case in which the target of a recipe serves without a draft."""
        return f"engine/{self._recipes[recipe].target.name}/alone"

    def without_paths(self, message: str) -> str:
        """What a library said, without the folders of this machine, so that it reads the same anywhere."""
        message = message.replace(str(self.exports), "exported").replace(str(self.trained.folder), "")
        return message.replace(" /drafts/", " drafts/").replace(" /targets/", " targets/")


def _plain(recipe: Recipe) -> Recipe:
    """The recipe with plain dicts, which `asdict` can copy."""
    return Recipe(**{**vars(recipe), "layer": _dicts(recipe.layer), "flags": dict(recipe.flags)})


def _dicts(value: Any) -> Any:
    return {key: _dicts(item) for key, item in value.items()} if isinstance(value, Mapping) else value
