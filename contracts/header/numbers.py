"""What both libraries compute with one draft of speculators: depth forward, for a checkpoint of anybody's.

The training library runs the draft on a stand-in target's hidden states, the serving library the export of it
on the same; where the numbers differ, the hypothesis that explains them is the cause (contracts.replay).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contracts import export
from contracts.causes import Cause
from contracts.checkpoint import read
from contracts.conversation import run_probe
from contracts.dialect import Dialect
from contracts.facts import CaseResult
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.rules.rope import base_of
from contracts.recipes import Recipe
from contracts.replay import Replay
from contracts.served_target import ServedTarget
from contracts.sides import Side
from contracts.verdict import Broken

TIMEOUT = 600.0
"""Seconds for each library."""
DTYPE = "float32"
"""What both compute in."""
COMPARISONS: dict[str, Callable[[Replay], None]] = {
    "fused_state_is_equal": lambda it: it.compare("fused"),
    "prefill_state_is_equal": lambda it: it.compare("recurrent", it.prefill("recurrent")),
    "prefill_logits_are_equal": lambda it: it.compare("logits", it.prefill("logits")),
    "chained_state_is_equal": lambda it: it.compare("recurrent", it.chained("recurrent")),
    "chained_logits_are_equal": lambda it: it.compare("logits", it.chained("logits")),
}
"""As contracts/test_forward.py has them."""


def compare(
    draft: Draft, stand_in: Path, training: Side, serving: Side, server_args: tuple[str, ...], scratch: Path
) -> list[Finding]:
    """Run one draft in both libraries, and say what they compute otherwise.

    Args:
        draft: of speculators, in a folder of this machine.
        stand_in: config.json of a target that it fits.
        training: the side that has speculators.
        serving: the side that has sglang.
        server_args: of the user's own server.
        scratch: a folder for all that is written.

    """
    folder = scratch / "forward"
    files = {name: str(folder / name) for name in ("draft", "target")}
    case = {
        "case": "draft",
        "recipe": _recipe(draft, json.loads((stand_in / "config.json").read_text())),
        "folder": files["draft"],
        "target": files["target"],
        "inputs": str(folder / "inputs.safetensors"),
        "golden": str(folder / "golden.safetensors"),
    }
    folder.mkdir()
    (trained,), _ = run_probe(training.python, training.library, [case], scratch, TIMEOUT)
    if trained.error or trained.refusals:
        return [_not_compared(training, trained)]
    target = ServedTarget.read(folder / "target")
    planned = export.plan(read(folder / "draft"), Dialect.for_release(serving.version), target)
    export.write(planned, folder / "exported", force=True)
    case = {
        "case": "forward",
        "folder": str(folder / "exported"),
        "target": files["target"],
        "server_args": [*planned.server_args, *server_args],
        "device": "cpu",
        "dtype": DTYPE,
        "inputs": case["inputs"],
        "replay": str(folder / "replay.safetensors"),
    }
    (served,), _ = run_probe(serving.python, serving.library, [case], scratch, TIMEOUT)
    if served.error or served.refusals:
        return [_not_compared(serving, served)]
    golden, replayed = folder / "golden.safetensors", folder / "replay.safetensors"
    return list(_differences(Replay.read(golden, replayed, DTYPE)))


def _recipe(draft: Draft, target: dict[str, Any]) -> dict[str, Any]:
    """The draft as a recipe: a checkpoint that is there, for a seeded target of these sizes."""
    recipe = asdict(Recipe(name="checkpoint", about="", layer={}, flags={}))
    sizes = {key: target[key] for key in recipe["target"] if key in target}
    sizes |= {"rope_theta": base_of(draft) or 10_000.0, "tie_word_embeddings": False, "dtype": DTYPE}
    return {
        **recipe,
        "target": {**recipe["target"], **sizes},
        "built_by": "checkpoint",
        "checkpoint": str(Path(draft.name).absolute()),
    }


def _differences(replay: Replay) -> Iterator[Finding]:
    told: set[Cause] = set()
    for name, check in COMPARISONS.items():
        try:
            check(replay)
        except Broken as broken:
            if broken.cause not in told:
                yield Finding(
                    cause=broken.cause,
                    damage=Damage.LOSES,
                    where="numbers",
                    expected=broken.expected,
                    seen=" ".join(broken.seen.split()),
                    contract=f"deep.{name}",
                )
            told.add(broken.cause)


def _not_compared(side: Side, result: CaseResult) -> Finding:
    first = result.error or f"{result.refusals[0].error}: {result.refusals[0].message}"
    return Finding(
        cause=Cause.NOT_LOOKED_INTO,
        damage=Damage.NOTE,
        where="numbers",
        expected="the draft, run by both libraries",
        seen=f"{side.library} {side.version}: {first.splitlines()[0][:200]}",
        consequence="what the two compute was not compared",
        contract="deep.numbers_are_compared",
    )
