"""What every release captures from every target class: recorded by running it, and shown in docs/targets.md.

python -m tests.target_table                               # writes docs/targets.md from the records
python -m tests.target_table --record 0.5.22 0.5.23        # runs releases first, and records what they do
python -m tests.target_table --record 0.5.23 --targets llama,gpt_oss
python -m tests.target_table --record 0.5.23 --only 2,4,5  # completes a record by a list of ids
python -m tests.target_table --record 0.5.23 --needs       # records which keys of config.json classes miss
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contracts import known
from contracts.causes import Cause
from contracts.environments import interpreter
from contracts.facts import SideName
from contracts.group import Options
from contracts.handoff import NotRun, ProbeFailed
from contracts.kept import Case
from contracts.placing import write_whole
from contracts.sides import Side
from contracts.targets import recorded
from contracts.targets.bench import CLASSES, Target, Targets
from contracts.targets.capabilities import CAPABILITIES, Capability
from contracts.targets.recipes import TARGETS, TargetRecipe, selected
from contracts.targets.recorded import Seen
from contracts.targets.run import TargetRun
from contracts.targets.situations import BY_NAME, OUTPUTS, SITUATIONS, TRAINED, Ids
from contracts.terminal import cache_folder
from tests import extraction_table

OUTPUTS_SPELLED = recorded.spelled(OUTPUTS)
TEMPLATE = Path(__file__).with_suffix(".md.j2")
PAGE = Path(__file__).parent.parent / "docs" / "targets.md"


def seen(target: Target) -> Seen:
    """What a release does with one class, in every situation."""
    try:
        usual = target.run(OUTPUTS)
        if not usual.refused:
            target.trusted(OUTPUTS)
        runs = {recorded.spelled(item.ids): target.run(item.ids) for item in SITUATIONS}
        differs = tuple(
            varied.name
            for varied in target.recipe.variations
            if usual.refused or not _alike(target.run(OUTPUTS, varied))
        )
    except NotRun as reason:
        absent = reason.cause is Cause.NO_SUCH_TARGET
        return Seen(absent=str(reason)) if absent else Seen(unjudged=str(reason))
    except ProbeFailed as error:
        return Seen(unjudged=_PROBE.sub("", " ".join(str(error).partition("\n")[0].split()))[:300])
    return replace(_seen(runs), differs=() if usual.refused else differs)


def _seen(runs: Mapping[str, TargetRun]) -> Seen:
    return Seen(
        states={ids: _states(run) for ids, run in runs.items() if not run.refused},
        refused={ids: run.refused for ids, run in runs.items() if run.refused},
    )


def _alike(run: TargetRun) -> bool:
    return not run.refused and run.computes_as_transformers


def _states(run: TargetRun) -> tuple[int | str, ...]:
    if run.states is not None:
        return run.states
    prompts = run.by_step["prefill"]
    told = tuple(str(it) for it in prompts[0])
    everywhere = {tuple(str(it) for it in captured) for step in run.by_step.values() for captured in step}
    if len(everywhere) > 1:
        return (str(run),)
    return tuple(int(item) if item.isdigit() else item for item in told)


class Few(Targets):
    """Tiny targets with some lists of ids alone, by which records are completed."""

    def __init__(
        self,
        recipes: Sequence[TargetRecipe],
        side: Callable[[SideName], Side],
        options: Options,
        only: Sequence[Ids],
    ) -> None:
        super().__init__(recipes, side, options)
        self._only = only

    def _cases(self) -> Iterator[Case]:
        yield CLASSES
        for recipe in self.recipes:
            for ids in dict.fromkeys([OUTPUTS, *self._only]) if self._only else ():
                yield self._case(recipe, ids)


def _side(words: str, cache: Path) -> Side:
    """The serving side of a release, a requirement or an interpreter."""
    if words.startswith("/"):
        return Side.find("serving", words)
    release = words if words.startswith("sglang") else f"sglang=={words}"
    return Side.find("serving", interpreter("serving", release, cache))


def record(side: Side, targets: Sequence[TargetRecipe], options: Options, only: Sequence[Ids] | None) -> None:
    """Record what a release does: all of it, or what `only` asks beside what is recorded."""
    before = dict(recorded.read(side.version)) if side.version in recorded.releases() else {}
    if only is None:
        bench = Targets(targets, lambda _: side, options)
        found = {recipe.name: seen(bench.of(recipe)) for recipe in targets}
    else:
        bench = Few(targets, lambda _: side, options, only)
        found = {
            it.name: _with(before[it.name], bench.of(it), only) for it in targets if before[it.name].states
        }
    classes = bench.classes()
    told = {
        "setters": dict(classes.setters),
        "without": [name for name in recorded.WATCHED if name in classes.without],
        "quantizations": list(classes.quantizations),
    }
    for name, it in found.items():  # which --needs records
        found[name] = replace(it, needs=before.get(name, Seen()).needs if it.states else {})
    recorded.write(side.version, side.identity.packages, before | found, told)
    recorded.read.cache_clear()


def record_needs(side: Side, targets: Sequence[TargetRecipe], options: Options) -> None:
    """Serve each class once without each key that its recipe adds, and record which ones are missed.

    Classes that the release does not serve, or that could not be judged, are left out.
    """
    found = dict(recorded.read(side.version))
    lacking = {
        (recipe.name, key): replace(
            recipe,
            name=f"{recipe.name}-without-{key}",
            further={name: value for name, value in recipe.further.items() if name != key},
        )
        for recipe in targets
        for key in recipe.further
        if recipe.name in found and OUTPUTS_SPELLED in found[recipe.name].states
    }
    bench = Few(list(lacking.values()), lambda _: side, options, [OUTPUTS])
    for (name, key), recipe in lacking.items():
        try:
            run = bench.of(recipe).run(OUTPUTS)
        except ProbeFailed as error:  # of a stand-in, or of transformers: says nothing of the key
            print(f"{name}: {key}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            continue
        told = run.refused or ("" if run.computes_as_transformers else recorded.COMPUTES_OTHERWISE)
        if told:
            needs = {**found[name].needs, key: told.replace(f"-without-{key}", "")}
            found[name] = replace(found[name], needs=needs)
    recorded.write(side.version, side.identity.packages, found, recorded.said(side.version))
    recorded.read.cache_clear()


def _with(before: Seen, target: Target, only: Sequence[Ids]) -> Seen:
    """A record with some more lists of ids."""
    more = _seen({recorded.spelled(ids): target.run(ids) for ids in only})
    return replace(
        before,
        states={**before.states, **more.states},
        refused={**before.refused, **more.refused},
    )


_PROBE = re.compile(r"^the serving probe failed on \S+: (OutOfReach in \S+ )?")
RULES = {(1, 1, 1): "+1", (0, 1, 0): "first"}
"""Signs of what a class adds to ids: usually, where the first is 1, where a 1 is not the first."""


def sign(seen: Seen | None) -> str:
    """What a release captures from a class, in a few letters; the page has the legend."""
    if seen is None or seen.absent:
        return "-"
    if seen.unjudged:
        return "?"
    if not seen.states:
        return "no"
    usual = seen.states.get(OUTPUTS_SPELLED, ())
    shifts = recorded.shifts_of(seen)
    bare = any("without residual" in str(item) for item in usual)
    rule = RULES.get((shifts.usual, shifts.first_is_1, shifts.one_is_not_first))
    told = ["bare" if bare else rule or f"{shifts.usual}/{shifts.first_is_1}/{shifts.one_is_not_first}"]
    told += ["last"] if shifts.delivers_last else []
    if isinstance(shifts.without_ids, tuple) and shifts.without_ids != TRAINED["usual"]:
        told.append(f"d{shifts.without_ids[0] - TRAINED['usual'][0]:+d}")
    told += ["d!"] if recorded.spelled(None) in seen.refused else []
    told += ["first!"] if recorded.spelled(BY_NAME["first_layer"].ids) in seen.refused else []
    told += ["logits"] if seen.differs else []
    return " ".join(told)


def page() -> str:
    """The whole of docs/targets.md."""
    releases = list(reversed(recorded.releases()))
    newest = recorded.said(releases[0])
    known_classes = {recipe.architecture for recipe in TARGETS}
    others: dict[str, list[str]] = {}
    for name, setter in newest["setters"].items():
        if name not in known_classes:
            others.setdefault(setter, []).append(name)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(TEMPLATE.name).render(
        releases=releases,
        rows=[(it, [sign(recorded.read(name).get(it.name)) for name in releases]) for it in TARGETS],
        classes=[_class(recipe, releases[0]) for recipe in TARGETS],
        defects=[entry for entry in known.load().entries if entry.contract.startswith("targets.")],
        unjudged=[row for recipe in TARGETS for row in _unjudged(recipe, releases)],
        watched=[(name, [_capability(name, release) for release in releases]) for name in recorded.WATCHED],
        capabilities=[(it, [_takes(it, release) for release in releases]) for it in CAPABILITIES],
        others=sorted(others.items()),
        extraction=extraction_table.read(),
        quantizations=newest["quantizations"],
    )


def _class(recipe: TargetRecipe, newest: str) -> tuple[TargetRecipe, str, list[str]]:
    """A class, the keys that its config needs, and the states that were seen for some lists of ids."""
    seen = recorded.read(newest).get(recipe.name, Seen())
    keys = ", ".join(f"`{key}`" for key in seen.needs)
    shown = ("no_ids", "inputs", "outputs", "unordered", "last_layer")
    return recipe, keys, [_told(seen, BY_NAME[name].ids) for name in shown]


def _told(seen: Seen, ids: Ids) -> str:
    states = seen.states.get(recorded.spelled(ids))
    if states is not None:
        return ", ".join(map(str, states))
    return "refused" if recorded.spelled(ids) in seen.refused else "?"


def _unjudged(recipe: TargetRecipe, releases: Sequence[str]) -> Iterator[tuple[str, list[str], str]]:
    why: dict[str, list[str]] = {}
    for release in releases:
        seen = recorded.read(release).get(recipe.name)
        if seen is not None and seen.unjudged:
            why.setdefault(seen.unjudged, []).append(release)
    for reason, where in why.items():
        yield recipe.name, where, reason


def _capability(name: str, release: str) -> str:
    said = recorded.said(release)
    return "set" if name in said["setters"] else "no" if name in said["without"] else "-"


def _takes(capability: Capability, release: str) -> str:
    if capability.architecture is None and capability.quantization is None:
        return "?"
    said = recorded.said(release)
    return "-" if capability.said(said["setters"], said["quantizations"]) else "takes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", nargs="+", default=[], metavar="RELEASE")
    parser.add_argument("--targets", default="all")
    parser.add_argument(
        "--needs", action="store_true", help="record which keys of config.json each class misses instead"
    )
    parser.add_argument("--only", nargs="*", metavar="IDS", help="complete records by these lists, as 2,4,5")
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args()
    only = None if asked.only is None else [tuple(map(int, ids.split(","))) for ids in asked.only]
    failed = False
    for words in asked.record:
        try:
            side, targets = _side(words, cache_folder(asked.cache)), selected(asked.targets)
            options = Options(cache=cache_folder(asked.cache), session="", case_timeout=60.0, progress=None)
            begun = time.monotonic()
            if asked.needs:
                record_needs(side, targets, options)
            else:
                record(side, targets, options, only)
            took = time.monotonic() - begun
            print(f"sglang {side.version}: {len(targets)} targets in {took:.0f} s", flush=True)
        except Exception as error:  # the others are recorded all the same
            failed = True
            print(f"{words}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    write_whole(PAGE, page())
    sys.exit(failed)


if __name__ == "__main__":
    main()
