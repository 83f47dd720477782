"""Runs the serving probe over tiny targets, and hands what came of it to contracts.

Depends on the serving side alone: one run for all training releases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from contracts import layer_ids
from contracts.captures import NotCaptured, candidates
from contracts.causes import Cause
from contracts.conversation import GPU_TIMEOUT
from contracts.facts import CaseResult, Refusal, SideName
from contracts.handoff import NotRun, ProbeFailed, observed
from contracts.kept import Case
from contracts.sides import Side, SideRun
from contracts.targets.recipes import HIDDEN, LAYERS, TARGETS, VOCAB, TargetRecipe, Variation
from contracts.targets.recorded import spelled
from contracts.targets.run import TargetRun, read_returned
from contracts.targets.situations import EXTRACTIONS, OUTPUTS, PROMPTS, SITUATIONS, TOKENS, TRAINED, Ids

if TYPE_CHECKING:
    from contracts.group import Options

CLASSES: Case = {"case": "targets", "classes": "{folder}/classes.json"}
"""Asks the probe which target classes the release has."""
NO_CLASS = "class"
"""Stage at which a release is found to have no such class."""


@dataclass(frozen=True, kw_only=True)
class Classes:
    """What a release says of target classes as a whole."""

    setters: Mapping[str, str]
    """By class that can be told what to capture: module and class in which its setter is defined."""
    without: Sequence[str]
    """Classes that cannot."""
    quantizations: Sequence[str]
    """Of targets, which the server's command line takes."""


class Targets:
    """Tiny targets in the engine of one serving side; they run when first asked for, and once."""

    def __init__(
        self, recipes: Sequence[TargetRecipe], side: Callable[[SideName], Side], options: Options
    ) -> None:
        self.recipes = tuple(recipes)
        by_name = {recipe.name: recipe for recipe in TARGETS}
        inside = [by_name[recipe.wraps] for recipe in recipes if recipe.wraps]
        self._all = tuple({recipe.name: recipe for recipe in [*recipes, *inside]}.values())
        """Those that are judged, and the text models that they wrap."""
        self._side, self._options = side, options

    @cached_property
    def ran(self) -> SideRun:
        """The serving probe over all of them."""
        side, options = self._side("serving"), self._options
        title = f"serving side, {side.library} {side.version}, target classes"
        return side.run(
            list(self._cases()),
            options.cache,
            session=options.session,
            case_timeout=options.case_timeout
            if options.device == "cpu"
            else max(GPU_TIMEOUT, options.case_timeout),
            progress=options.progress(title) if options.progress else None,
            device=options.device,
        )

    @property
    def asked(self) -> list[CaseResult]:
        """What the probe has answered here; runs none."""
        done: SideRun | None = vars(self).get("ran")
        return list(done.results.values()) if done else []

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """What was stood in for, as far as the probe has run here."""
        done: SideRun | None = vars(self).get("ran")
        return done.stand_ins if done else ()

    @property
    def release(self) -> str:
        """Of the serving library."""
        return self._side("serving").version

    def classes(self) -> Classes:
        """What the release says of target classes as a whole."""
        observed(self.ran.results["targets"], "serving")
        return Classes(**json.loads((self.ran.folders["targets"] / "classes.json").read_text()))

    def of(self, recipe: TargetRecipe) -> Target:
        """One of them."""
        return Target(recipe, self)

    def wrapped_by(self, recipe: TargetRecipe) -> Target:
        """The text model inside a multimodal one, served alone."""
        return self.of(next(item for item in self._all if item.name == recipe.wraps))

    # --------------------------------------------------------------------- what is asked

    def _cases(self) -> Iterator[Case]:
        yield CLASSES
        for recipe in self._all:
            for ids in self.lists(recipe):
                yield self._case(recipe, ids)
            for variation in recipe.variations:
                yield self._case(recipe, OUTPUTS, variation)
            for name, arguments in EXTRACTIONS.items():
                yield self._extraction(recipe, name, arguments)

    def lists(self, recipe: TargetRecipe) -> list[Ids]:
        """Every list of ids that the class is asked about."""
        wanted = [situation.ids for situation in SITUATIONS]
        for states in TRAINED.values():
            try:
                wanted.append(layer_ids.to_serve(self.release, (recipe.architecture,), states, LAYERS))
            except NotCaptured:
                wanted += candidates(states)
        return list(dict.fromkeys(wanted))

    def _case(self, recipe: TargetRecipe, ids: Ids, variation: Variation | None = None) -> dict[str, Any]:
        return {
            **self._served(recipe.varied(variation)),
            "case": case_name(recipe, ids, variation),
            "ids": None if ids is None else list(ids),
        }

    def _extraction(self, recipe: TargetRecipe, name: str, arguments: Sequence[str]) -> dict[str, Any]:
        served = self._served(recipe)
        told = {"server_args": [*served["server_args"], *arguments]}
        return {**served, **told, "case": f"target/{recipe.name}/returned/{name}"}

    def _served(self, recipe: TargetRecipe) -> dict[str, Any]:
        return {
            "target_recipe": asdict(recipe),
            "vocabulary": VOCAB,
            "hidden": HIDDEN,
            "prompts": [list(prompt) for prompt in PROMPTS],
            "tokens": TOKENS,
            "device": self._options.device,
            "server_args": [*recipe.server_args, *self._options.server_args],
            "run": "{folder}/run.safetensors",
        }


class Target:
    """One target class in the engine."""

    def __init__(self, recipe: TargetRecipe, targets: Targets) -> None:
        self.recipe = recipe
        self._targets = targets

    def run(self, ids: Ids, variation: Variation | None = None) -> TargetRun:
        """What came of serving it with a draft that names `ids`.

        Raises:
            NotRun: this release has no such class, or nothing runs it on this machine.
            ProbeFailed: the suite or the machine failed.

        """
        name = case_name(self.recipe, ids, variation)
        refusal = self._refusal(name)
        if refusal is not None:
            return TargetRun(refused=f"{refusal.error}: {refusal.message}".rstrip(": "))
        return TargetRun.read(self._targets.ran.folders[name] / "run.safetensors")

    def returned(self, name: str) -> tuple[str, ...]:
        """Which hidden states the engine returned without a draft, or what it raised; one per prompt.

        Raises:
            NotRun: this release returns none of the kind.

        """
        case = f"target/{self.recipe.name}/returned/{name}"
        refusal = self._refusal(case)
        if refusal is not None:
            if refusal.error == "SystemExit":  # of the command line, which does not know the option
                raise NotRun(f"the server says: {refusal.message}", cause=Cause.NOT_RETURNED)
            return (f"refused: {refusal.error}: {refusal.message}",)
        return read_returned(self._targets.ran.folders[case] / "run.safetensors")

    def _refusal(self, case: str) -> Refusal | None:
        """What the library raised in a case; None if nothing.

        Raises:
            NotRun: this release has no such class.

        """
        refused = observed(self._targets.ran.results[case], "serving").refusals
        if refused and refused[0].stage == NO_CLASS:
            raise NotRun(refused[0].message, cause=Cause.NO_SUCH_TARGET)
        return refused[0] if refused else None

    def trusted(self, ids: Ids) -> TargetRun:
        """The same, once the class is known to compute what transformers computes.

        Raises:
            NotRun: also if the library does not serve the class at all.
            ProbeFailed: also if it computes something else, in which case nothing that it delivers is judged.

        """
        usual = self.run(OUTPUTS)
        if usual.refused:
            raise NotRun(f"the engine does not serve this target: {usual.refused}")
        if not usual.computes_as_transformers:
            raise ProbeFailed(
                f"{self.recipe.architecture} computes something else here than {self.recipe.judged_by}: "
                f"logits are off by {usual.error:.1g} of the largest, and the text is "
                f"{'the same' if usual.same_text else 'another'}; so what it delivers cannot be judged"
            )
        return usual if ids == OUTPUTS else self.run(ids)

    def ids(self, states: tuple[int, ...]) -> Ids:
        """The ids with which this class delivers `states`, as export writes them.

        Raises:
            NotCaptured: there are none.

        """
        return layer_ids.to_serve(self._targets.release, (self.recipe.architecture,), states, LAYERS)

    def can_be_told(self, states: tuple[int, ...]) -> bool:
        """Whether export knows ids with which this class delivers `states`."""
        try:
            self.ids(states)
        except NotCaptured:
            return False
        return True

    def ever_delivered(self, states: tuple[int, ...]) -> Ids:
        """Ids with which the class was seen to deliver `states` all the same; empty if there are none."""
        for ids in self._targets.lists(self.recipe):
            found = self.run(ids)
            if not found.refused and found.states == states:
                return ids
        return ()


def case_name(recipe: TargetRecipe, ids: Ids, variation: Variation | None = None) -> str:
    """Name of the case in which a target is served with a draft that names `ids`."""
    return "/".join(["target", recipe.name, *([variation.name] if variation else []), spelled(ids)])
