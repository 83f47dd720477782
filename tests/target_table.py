"""What every release captures from every target class: recorded by running it, and shown in docs/targets.md.

python -m tests.target_table                                   # writes docs/targets.md from the records
python -m tests.target_table --record sglang==0.5.23           # runs a release first, and records what it
does python -m tests.target_table --record 0.5.22 0.5.23 --targets core
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from contracts.environments import interpreter
from contracts.group import Options
from contracts.handoff import NotRun, ProbeFailed
from contracts.sides import Side
from contracts.targets import recorded
from contracts.targets.bench import Target, Targets
from contracts.targets.recipes import TargetRecipe, selected
from contracts.targets.recorded import Seen
from contracts.targets.run import TargetRun
from contracts.targets.situations import OUTPUTS, SITUATIONS
from contracts.terminal import cache_folder

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
        return Seen(absent=str(reason)) if "no class" in str(reason) else Seen(unjudged=str(reason))
    except ProbeFailed as error:
        return Seen(unjudged=" ".join(str(error).partition("\n")[0].split())[:300])
    return Seen(
        states={ids: _states(run) for ids, run in runs.items() if not run.refused},
        refused={ids: run.refused for ids, run in runs.items() if run.refused},
        differs=() if usual.refused else differs,
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


def record(words: str, targets: Sequence[TargetRecipe], cache: Path) -> None:
    release = words if words.startswith(("sglang", "/")) else f"sglang=={words}"
    side = Side.find(
        "serving", release if release.startswith("/") else interpreter("serving", release, cache)
    )
    begun = time.monotonic()
    options = Options(cache=cache, session="", case_timeout=60.0, progress=None)
    bench = Targets(targets, lambda _: side, options)
    found = {recipe.name: seen(bench.of(recipe)) for recipe in targets}
    before = dict(recorded.read(side.version)) if side.version in recorded.releases() else {}
    recorded.write(side.version, side.identity.packages, before | found)
    recorded.read.cache_clear()
    print(f"sglang {side.version}: {len(found)} targets in {time.monotonic() - begun:.0f} s", flush=True)


def page() -> Iterator[str]:
    yield "# not written yet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", nargs="+", default=[], metavar="RELEASE")
    parser.add_argument("--targets", default="all")
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args()
    for words in asked.record:
        try:
            record(words, selected(asked.targets), cache_folder(asked.cache))
        except Exception as error:  # the others are recorded all the same
            print(f"{words}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    PAGE.write_text("\n".join(page()) + "\n")


if __name__ == "__main__":
    main()
