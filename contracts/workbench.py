"""The workbench that gets what contracts compare: both sides, and every handoff between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from contracts import records, service, spelled
from contracts.acceptance import Acceptance
from contracts.causes import Cause
from contracts.conversation import Progress
from contracts.facts import CASE_TIMEOUT, CaseResult, Device, DraftFacts, Refusal, SideName
from contracts.group import Group, Options
from contracts.handoff import Handoff, NotRun, describe, observed
from contracts.kept import Case, Kept
from contracts.outcome import Kind
from contracts.probes import language
from contracts.promise import METRICS
from contracts.reach import Reach
from contracts.recipes import RECIPES, DType, Recipe
from contracts.replay import Replay
from contracts.service import Served, Serving
from contracts.settings import TOKENS, Setting
from contracts.sides import Side, SideUnavailable
from contracts.surfaces import Shown, draft_of
from contracts.targets.bench import Targets
from contracts.targets.recipes import TargetRecipe


class Workbench:
    """Both sides, run once, and every handoff between them.

    Recipes whose target speaks a language are a group of their own, because building their drafts takes
    longer: they are built when something is asked about one of them.
    """

    def __init__(
        self,
        *,
        pythons: Mapping[SideName, str],
        cache: Path,
        session: str = "",
        case_timeout: float = CASE_TIMEOUT,
        progress: Callable[[str], Progress] | None = None,
        say: Callable[[str], None] = lambda _: None,
        device: Device = "cpu",
        server_args: tuple[str, ...] = (),
        recipes: tuple[Recipe, ...] = RECIPES,
        targets: tuple[TargetRecipe, ...] = (),
    ) -> None:
        self.cache = cache
        """Where drafts and probe reports are kept."""
        self.device: Device = device
        """What depths forward and engine run on."""
        self._pythons = pythons
        self.reach = Reach(device, lambda: self.side("serving").python)
        """What can be served on that device here."""
        self._recipes = {recipe.name: recipe for recipe in recipes}
        self._sides: dict[SideName, Side | SideUnavailable] = {}
        self._services: dict[tuple[str, Serving], Kept] = {}
        self._session, self._say = session, say
        options = Options(
            cache=cache,
            session=session,
            case_timeout=case_timeout,
            progress=progress,
            device=device,
            settings=self.reach.settings,
            server_args=server_args,
        )
        self.targets = Targets(targets, self.side, options)
        """Target classes in the serving library's engine."""
        silent = [recipe for recipe in recipes if not recipe.speaks]
        speaking = [recipe for recipe in recipes if recipe.speaks]
        scenario = {"prompts": language.prompts(), "tokens": TOKENS}
        self._groups = (
            Group(silent, self.side, options),
            Group(speaking, self.side, options, scenario),
        )

    def group(self, recipe: str) -> Group:
        """The group of a recipe."""
        return self._groups[self._recipes[recipe].speaks]

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

    def train(self) -> None:
        """Let the training probe answer all that contracts will ask it."""
        for group in self._groups:
            group.trained  # noqa: B018 (run when first asked for)
        self._groups[0].release_run("training")

    def serve(self) -> None:
        """Let the serving probe answer all that contracts will ask it."""
        for group in self._groups:
            group.served  # noqa: B018 (run when first asked for)
        self._groups[0].release_run("serving")

    def errors(self) -> list[CaseResult]:
        """Cases in which the suite or the machine failed, of those that were asked so far."""
        asked = [result for group in self._groups for result in group.asked()]
        return [result for result in [*asked, *self.targets.asked] if result.error]

    def serving_cases(self) -> list[Case]:
        """All that contracts will ask the serving probe about the drafts of this training side."""
        return [case for group in self._groups for part in group.serving_cases() for case in part]

    def stand_ins(self) -> dict[str, list[str]]:
        """What was stood in for, by side, as far as their probes have run here; runs none."""
        found: dict[str, list[str]] = {}
        for group in self._groups:
            for side, names in group.stand_ins().items():
                found[side] = list(dict.fromkeys([*found.get(side, []), *names]))
        if self.targets.stand_ins:
            found["serving"] = list(dict.fromkeys([*found.get("serving", []), *self.targets.stand_ins]))
        return found

    def facts(self, name: SideName, recipe: str) -> DraftFacts:
        """What one side shows about the draft of a recipe (the serving side: about the exported draft)."""
        if name == "training":
            return self.group(recipe).training_facts(recipe)
        return self.handoff(recipe).serving

    def shown(self, name: SideName, recipe: str) -> Shown:
        """What one side shows about the draft of a recipe, its refusals included.

        Raises:
            NotRun: the training side refused the recipe, so that the serving side was shown nothing.

        """
        group = self.group(recipe)
        if name == "training":
            result = observed(group.trained.results[recipe], "training")
            refusals = result.refusals
        else:
            self.handoff(recipe)
            result = observed(group.served.results[f"exported/{recipe}"], "serving")
            refusals = result.refusals or self._refusals_when_run(recipe)
        assert result.facts is not None
        return Shown(facts=result.facts, refusals=group.readable(recipe, refusals))

    def _refusals_when_run(self, recipe: str) -> tuple[Refusal, ...]:
        """What the serving library raised as late as that; nothing if it was not asked."""
        result = self.group(recipe).served.results.get(f"forward/{recipe}")
        return observed(result, "serving").refusals if result else ()

    def check_recorded_draft(self, recipe: str) -> None:
        """Make sure that the training side made the draft that serving releases are recorded with.

        Raises:
            NotRun: it is another one than that of the newest recorded training release.

        """
        newest = records.recorded_releases("speculators")[-1]
        due = records.surface("speculators", newest).get(recipe)
        if due is not None and draft_of(self.group(recipe).training_facts(recipe)) != draft_of(due):
            told = f"the record is about the draft of speculators {newest}, which is another one"
            raise NotRun(told, cause=Cause.OTHER_DRAFT)

    def traits(self, name: SideName) -> Shown:
        """What one side's release shows whatever the recipe."""
        run = self._groups[0].release_run(name)
        for result in run.results.values():
            observed(result, name)
        traits = json.loads((run.folders["release"] / "release.json").read_text())
        if name == "serving":
            folders = {case: str(folder / "draft") for case, folder in run.folders.items()}
            traits["spellings"] = spelled.as_trait(run.results, folders)
        return Shown(traits=traits)

    def handoff(self, recipe: str, kind: Kind = "exported") -> Handoff:
        """The handoff of a recipe's draft, as saved or as exported for this serving release."""
        self.side("serving")
        group = self.group(recipe)
        training = group.training_facts(recipe)
        planned = group.plans.get(recipe)
        if planned is None and kind == "exported":
            raise NotRun(f"what the training side saved cannot be exported: {group.unreadable[recipe]}")
        result = observed(group.served.results[f"{kind}/{recipe}"], "serving")
        assert result.facts is not None
        return Handoff(
            recipe=self._recipes[recipe],
            kind=kind,
            training=training,
            serving=result.facts,
            serving_refusals=group.readable(recipe, result.refusals),
            export_refusals=planned.refusals if planned else (),
            renames=planned.renames
            if planned and kind == "exported"
            else {name: name for name in (training.weight_names.names if training.weight_names else ())},
        )

    def why_not_exported(self, recipe: str) -> str | None:
        """Why what the training library saved is no draft that can be exported; None if it is.

        Raises:
            NotRun: it saved none, or the serving side, whose release decides how it is exported, is missing.

        """
        group = self.group(recipe)
        group.training_facts(recipe)
        return None if recipe in group.plans else group.unreadable[recipe]

    def training_refusals(self, recipe: str, *stages: str) -> tuple[Refusal, ...]:
        """What the training library raised in these stages (build, reload, replay, generate) of a recipe."""
        return self.group(recipe).training_refusals(recipe, *stages)

    def training_replay_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        """What the training library raised instead of running the draft that it saved.

        Raises:
            NotRun: it did not even save one.

        """
        group = self.group(recipe)
        group.training_facts(recipe)
        return group.training_refusals(recipe, "replay", "run")

    # ------------------------------------------------------------- depth forward

    def replay_refusals(self, recipe: str) -> tuple[Refusal, ...]:
        """What the serving library raised instead of running the recipe's draft.

        Raises:
            NotRun: it was not asked, because the training library did not run the draft either.

        """
        self.reach.check(self.reach.why_not())
        self.handoff(recipe)
        group = self.group(recipe)
        untrained = group.training_refusals(recipe, "replay")
        if untrained:
            raise NotRun(f"the training side did not run the draft: {describe(untrained)}")
        result = observed(group.served.results[f"forward/{recipe}"], "serving")
        return self.reach.suited(group.readable(recipe, result.refusals))

    def replay(self, recipe: str) -> Replay:
        """The recipe's draft on the same inputs on both sides.

        Raises:
            NotRun: the serving library raised instead of running it.

        """
        refusals = self.replay_refusals(recipe)
        if refusals:
            raise NotRun(f"the serving side did not run the draft: {describe(refusals)}")
        group = self.group(recipe)
        served = group.served.folders[f"forward/{recipe}"] / "replay.safetensors"
        return Replay.read(group.golden(recipe), served, self._recipes[recipe].served_dtype)

    # -------------------------------------------------------------- depth engine

    def engine_refusals(self, recipe: str, setting: Setting) -> tuple[Refusal, ...]:
        """What the serving library raised instead of serving prompts with the recipe's draft.

        Raises:
            NotRun: there is nothing to compare with, because the training library raised.

        """
        self.reach.check(self.reach.why_not(setting))
        group = self._continued(recipe)
        found: list[Refusal] = []
        alone = group.alone(recipe, group.dtype(recipe, setting))
        for case in (alone, f"engine/{recipe}/{setting.name}"):
            found += observed(group.served.results[case], "serving").refusals
        return self.reach.suited(group.readable(recipe, found))

    def _continued(self, recipe: str) -> Group:
        """The group of a recipe whose prompts the training side has continued.

        Raises:
            NotRun: it has not, so that there is nothing to compare an engine with.

        """
        self.handoff(recipe)
        group = self.group(recipe)
        untrained = group.training_refusals(recipe, "generate")
        if untrained:
            raise NotRun(f"the training side did not continue the prompts: {describe(untrained)}")
        return group

    # -------------------------------------------------------------------- the server

    def server_refusals(self, recipe: str, serving: Serving) -> tuple[Refusal, ...]:
        """What the serving library raised instead of starting its server with the recipe's draft.

        Raises:
            NotRun: this machine cannot start it so, or there is nothing to compare with.

        """
        self.reach.check(self.reach.why_not_served(serving))
        group = self._continued(recipe)
        found = observed(self._service(recipe, serving).result, "serving").refusals
        return self.reach.suited(group.readable(recipe, found))

    def served(self, recipe: str, serving: Serving) -> Served:
        """What the server made of the recipe's draft, beside what training expects of it.

        Raises:
            NotRun: it did not start.

        """
        refusals = self.server_refusals(recipe, serving)
        if refusals:
            raise NotRun(f"the server did not start: {describe(refusals)}")
        group = self.group(recipe)
        return Served.read(
            expected=group.expected(recipe),
            service=self._service(recipe, serving).folder / "service.json",
            metrics=group.draft_folder(recipe) / METRICS,
            serving=serving,
            dtype=self._served_dtype(recipe),
        )

    def _served_dtype(self, recipe: str) -> DType:
        return self._recipes[recipe].served_dtype if self.device == "cpu" else "bfloat16"

    def _service(self, recipe: str, serving: Serving) -> Kept:
        if (recipe, serving) not in self._services:
            side, group = self.side("serving"), self.group(recipe)
            title = f"sglang {side.version}, its HTTP server ({serving.name})"
            asked = service.case(
                serving,
                recipe,
                self.device,
                draft=group.draft_folder(recipe, "exported"),
                target=group.target_folder(recipe),
                dtype=self._served_dtype(recipe),
                server_args=[*group.server_args(recipe), *serving.server_args],
                prompts=language.prompts(),
                tokens=TOKENS,
            )
            self._services[recipe, serving] = side.serve(
                asked,
                self.cache,
                lambda case, folder: service.serve(
                    side.python, case, folder, lambda words: self._say(f"{title}: {words}")
                ),
                session=self._session,
                device=self.device,
            )
        return self._services[recipe, serving]

    def acceptance(self, recipe: str, setting: Setting) -> Acceptance:
        """What an engine made of the recipe's draft, beside what training expects of it.

        Raises:
            NotRun: the serving library raised instead of serving.

        """
        refusals = self.engine_refusals(recipe, setting)
        if refusals:
            raise NotRun(f"the serving side did not serve the prompts: {describe(refusals)}")
        group = self.group(recipe)
        folders, dtype = group.served.folders, group.dtype(recipe, setting)
        return Acceptance.read(
            expected=group.expected(recipe),
            run=folders[f"engine/{recipe}/{setting.name}"] / "run.json",
            alone=folders[group.alone(recipe, dtype)] / "run.json",
            metrics=group.draft_folder(recipe) / METRICS,
            setting=setting,
            dtype=dtype,
        )
