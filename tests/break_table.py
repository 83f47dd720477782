"""Runs every break at every depth and writes docs/breaks.md: `python -m tests.break_table`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from rich.console import Console

from contracts.acceptance import Acceptance
from contracts.causes import Cause
from contracts.facts import CaseResult, SideName
from contracts.promise import METRICS
from contracts.recipes import by_name
from contracts.replay import Replay
from contracts.settings import SETTINGS
from contracts.sides import SideRun
from contracts.workbench import Workbench
from tests.breaks import BREAKS, VARIANTS, Break
from tests.facts import HANDOFF
from tests.mutations import mutate
from tests.runner import Refusing, broken

DOCUMENT = Path(__file__).parent.parent / "docs" / "breaks.md"
DRAFT, CANARY = "trained", "canary"
LOAD, FORWARD, ENGINE = "load", "forward", "engine"
CHAIN = SETTINGS[0]
DEFAULTS = replace(
    by_name(DRAFT),
    name="trained_by_default",
    about="trained by the library's own command with its defaults",
    flags={},
)
"""Its first layer's residual is normed, which no setting of sglang expresses."""
ASIDE = {"forward.training_agrees_with_itself"}
"""About the training side alone."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the depths made of one break."""

    of: Break
    load: frozenset[Cause]
    forward: frozenset[Cause]
    engine: frozenset[Cause]
    accept_length: float | None
    """As served, of the draft that the causes are about; None if the library raised."""
    trained: float | None = None
    """The same of the draft that the library's own command trained."""

    @property
    def unwritten(self) -> bool:
        """Whether part of the draft is memory that nobody wrote: what it computes is no one's to say."""
        return Cause.PARAMETER_UNWRITTEN in self.load

    @property
    def causes(self) -> frozenset[Cause]:
        """All that any depth said."""
        return self.load | self.forward | self.engine


def rows(workbench: Workbench, breaks: Sequence[Break], root: Path, cache: Path) -> list[Row]:
    """Break both drafts in each way; one run of the real serving probe takes them at every depth.

    The causes are those of the canary, whose weights are the same on every machine.
    """
    group = workbench.group(CANARY)
    cases: list[dict[str, Any]] = []
    for number, item in enumerate(breaks):
        for draft in (CANARY, DRAFT):
            mutate(group.draft_folder(draft, "exported"), root / draft / str(number), item.apply)
            asked = [(ENGINE, group.engine_case(draft, CHAIN))]
            if draft == CANARY:
                forward = group.forward_case(draft)
                load = {key: value for key, value in forward.items() if key not in ("inputs", "replay")}
                asked += [(LOAD, load), (FORWARD, forward)]
            for depth, case in asked:
                changed = {
                    "case": f"{depth}/{draft}/{number}",
                    "folder": root / draft / str(number),
                    "server_args": [
                        *case["server_args"],
                        *(argument.format(target=case["target"]) for argument in item.server_args),
                    ],
                }
                cases.append(case | changed)
    run = workbench.side("serving").run(cases, cache)
    return [_row(workbench, item, run, number) for number, item in enumerate(breaks)]


def _row(workbench: Workbench, item: Break, run: SideRun, number: int) -> Row:
    good = workbench.handoff(CANARY)
    load, forward = (_observed(run.results[f"{depth}/{CANARY}/{number}"]) for depth in (LOAD, FORWARD))
    assert load.facts is not None
    renames = {trained: item.spelling(name) for trained, name in good.renames.items()}
    loaded = replace(good, serving=load.facts, serving_refusals=load.refusals, renames=renames)
    replayed = {}
    if not forward.refusals:
        golden = workbench.group(CANARY).golden(CANARY)
        served = run.folders[f"{FORWARD}/{CANARY}/{number}"] / "replay.safetensors"
        replayed = {"replay": Replay.read(golden, served, good.recipe.served_dtype)}
    engine, accepted = _engine(workbench, CANARY, run, number)
    _, trained = _engine(workbench, DRAFT, run, number)
    return Row(
        of=item,
        load=_causes(broken(loaded, raw=HANDOFF)),
        forward=_causes(broken(workbench=Refusing(replay=forward.refusals), **replayed)),
        engine=engine,
        accept_length=accepted,
        trained=trained,
    )


def _engine(
    workbench: Workbench, draft: str, run: SideRun, number: int
) -> tuple[frozenset[Cause], float | None]:
    """What depth engine says, and the accept length."""
    result = _observed(run.results[f"{ENGINE}/{draft}/{number}"])
    if result.refusals:
        return _causes(broken(workbench=Refusing(engine=result.refusals))), None
    group = workbench.group(draft)
    acceptance = Acceptance.read(
        expected=group.expected(draft),
        run=run.folders[f"{ENGINE}/{draft}/{number}"] / "run.json",
        alone=group.served.folders[group.alone(draft, "float32")] / "run.json",
        metrics=group.draft_folder(draft) / METRICS,
        setting=CHAIN,
    )
    verdicts = broken(acceptance=acceptance)
    if not acceptance.metrics:  # nothing was promised, and no contract asks for it
        del verdicts["acceptance.accept_length_is_what_training_promised"]
    return _causes(verdicts), acceptance.run.accept_length


def _observed(result: CaseResult) -> CaseResult:
    assert result.error is None, result.error
    return result


def _causes(verdicts: Mapping[str, Any]) -> frozenset[Cause]:
    return frozenset(verdict.cause for contract, verdict in verdicts.items() if contract not in ASIDE)


TRAINED_BY_DEFAULT = Break(
    name="normed residual",
    about="trained with the command's default, --norm-before-residual",
    cause=Cause.RESIDUAL_BEFORE_NORM,
    depth=FORWARD,
)


def row_of_defaults(workbench: Workbench) -> Row:
    """What the depths make of a draft that was trained otherwise, which no setting of the server mends."""
    acceptance = workbench.acceptance(DEFAULTS.name, CHAIN)
    return Row(
        of=TRAINED_BY_DEFAULT,
        load=_causes(broken(workbench.handoff(DEFAULTS.name), raw=HANDOFF)),
        forward=_causes(broken(replay=workbench.replay(DEFAULTS.name))),
        engine=_causes(broken(acceptance=acceptance)),
        accept_length=None,
        trained=acceptance.run.accept_length,
    )


@dataclass(frozen=True, kw_only=True)
class Table:
    """Every break, and every sound variant."""

    releases: str
    breaks: Sequence[Row]
    variants: Sequence[Row]


def run(pythons: Mapping[SideName, str], root: Path, cache: Path) -> Table:
    """Everything; `root` is for the broken drafts, `cache` for probe runs."""
    workbench = Workbench(pythons=pythons, cache=cache)
    found = rows(workbench, (*BREAKS, *VARIANTS), root, cache)
    defaults = Workbench(pythons=pythons, cache=cache, recipes=(DEFAULTS,))
    sides = [workbench.side(name) for name in ("training", "serving")]
    return Table(
        releases=" and ".join(f"{side.library} {side.version}" for side in sides),
        breaks=[*found[: len(BREAKS)], row_of_defaults(defaults)],
        variants=found[len(BREAKS) :],
    )


# ------------------------------------------------------------------------------ words

HEAD = """# What each depth finds

{count} ways of breaking the interface between training and serving, each applied to drafts that were trained. For
each depth the causes that it names, or **not seen**: *load* looks at names, shapes and flags, *forward* at numbers,
*engine* at what the real scheduler drafts and accepts ([how](../README.md#how-it-works)).

The last two columns are accept lengths, out of 4: of the `canary`, which was trained to be wrong wherever the
interface is and which the causes are about, and of a draft that the library's own command `trained`. Sound, they
reach {canary:.2f} and {trained:.2f}. Where part of a draft is memory that nobody wrote, what it computes is chance:
the causes of later depths are left out, and an accept length near 4 is luck. The last row is a draft of its own.

Of {releases}. Written by `python -m tests.break_table`, held by `tests/test_breaks.py` but for the accept lengths.
"""
# ruff: noqa: E501 (lines of a document)


def document(table: Table) -> str:
    """docs/breaks.md."""
    sound = table.variants[0]
    head = HEAD.format(
        count=len(table.breaks),
        trained=sound.trained,
        canary=sound.accept_length,
        releases=table.releases,
    )
    lines = [
        head,
        "| what is broken | load | forward | engine | canary | trained |",
        "|---|---|---|---|---|---|",
        *map(_line, table.breaks),
        "",
        "## Blind spots",
        "",
        *_blind_spots(table),
        "",
        "## Reported, and not here",
        "",
        "Drafts of other kinds (DFlash, DSpark), target classes that do not capture or that capture otherwise, tensor",
        "parallelism and quantised targets: nothing of these can be wrong with an EAGLE-3 draft of a Llama target in",
        "one process. The [README](../README.md#how-it-works) says what a CPU does not offer.",
        "",
        "## No false alarm",
        "",
        "Odd, and right: no contract breaks at any depth.",
        "",
        "| what is odd | canary | trained |",
        "|---|---|---|",
        *(f"| {_named(row.of)} | {_lengths(row)} |" for row in table.variants),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    depths = [_cell(row.load)]
    for causes in (row.forward, row.engine):
        depths.append("(memory nobody wrote)" if row.unwritten else _cell(causes))
    return f"| {_named(row.of)} | {' | '.join(depths)} | {_lengths(row)} |"


def _named(item: Break) -> str:
    links = [f"[{report}](https://github.com/{report.replace('#', '/issues/')})" for report in item.reports]
    return "; ".join([f"**{item.name}**: {item.about}", *links])


def _cell(causes: frozenset[Cause]) -> str:
    return ", ".join(f"`{cause}`" for cause in sorted(causes, key=str)) or "**not seen**"


def _lengths(row: Row) -> str:
    canary, trained = (
        "raises" if value is None else f"{value:.2f}" for value in (row.accept_length, row.trained)
    )
    return f"{'-' if row.of is TRAINED_BY_DEFAULT else canary} | {trained}"


LOST = 0.1
"""Of an accept length; less than this goes unnoticed."""


def _blind_spots(table: Table) -> list[str]:
    sound = table.variants[0]
    assert sound.trained is not None
    blind = [row.of.name for row in table.breaks if (row.trained or 0) >= sound.trained - LOST]
    found = [f"- The accept length of `trained` loses no more than {LOST}: {', '.join(blind) or 'none'}."]
    for depth in (LOAD, FORWARD, ENGINE):
        judged = [row for row in table.breaks if depth == LOAD or not row.unwritten]
        blind = [row.of.name for row in judged if not getattr(row, depth)]
        found.append(f"- Not seen at depth {depth}: {', '.join(blind) or 'none'}.")
    chance = [row.of.name for row in table.breaks if row.unwritten]
    found.append(f"- Not judged at depths forward and engine, where chance decides: {', '.join(chance)}.")
    return found


def as_held(text: str) -> list[str]:
    """The lines of the document, without accept lengths: they differ a little between processors."""
    kept = []
    for line in text.splitlines():
        if not line.startswith(("- The accept length of", "reach ")):
            kept.append(line.rsplit("|", 3)[0] if line.startswith("|") else line)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training-python", default=sys.executable, help="interpreter that has speculators")
    parser.add_argument("--serving-python", default=sys.executable, help="interpreter that has sglang")
    parser.add_argument("--out", type=Path, default=DOCUMENT, help="file to write (default: docs/breaks.md)")
    options = parser.parse_args()
    pythons: dict[SideName, str] = {
        "training": options.training_python,
        "serving": options.serving_python,
    }
    status = Console(stderr=True).status("breaking two drafts in every way (about two minutes)")
    with status, tempfile.TemporaryDirectory() as root:
        table = run(pythons, Path(root), user_cache_path("draft-contracts"))
    options.out.write_text(document(table))
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
