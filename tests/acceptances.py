"""An engine run on which every contract holds, to break in one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from contracts.acceptance import FORMS, Acceptance, Expected
from contracts.captured import Array, Form
from contracts.facts import to_json
from contracts.settings import SETTINGS, STEPS, TOKENS
from contracts.speculation import EngineRun, Generation, Round

IDS, HIDDEN, LAYERS, VOCAB = (1, 2), 8, 4, 64
CONTEXTS, WIDTH = 7, 2
_random = np.random.default_rng(5)


def _array(*shape: int) -> Array:
    return _random.standard_normal(shape).astype(np.float32)


def _expected(prompt: int) -> Expected:
    """A draft that is right, but for the second token of its chain at every third place."""
    text = tuple(_random.integers(0, VOCAB, prompt + TOKENS + STEPS).tolist())
    proposals = np.full((TOKENS - 1, CONTEXTS, WIDTH), VOCAB + 1)
    for place in range(TOKENS - 1):
        for step, context in enumerate((0, 1, 3)):
            proposals[place, context, 0] = text[prompt + 1 + place + step]
    proposals[::3, 1, 0] = VOCAB + 2
    return Expected(
        prompt=prompt, text=text, proposals=proposals, margins=np.full(proposals.shape, 0.5, np.float32)
    )


def _generation(expected: Expected) -> Generation:
    """What an engine makes of it in chains."""
    rounds: list[Round] = []
    committed = expected.prompt + 1
    while committed < expected.prompt + TOKENS:
        accepted = expected.accepted(committed)
        drafted = expected.chain(committed)
        parents = tuple(range(STEPS))
        rounds.append(
            Round(
                committed=committed,
                drafted=drafted,
                parents=parents,
                accepted=accepted,
                batch=2,
                branches=(drafted[:-1],),
            )
        )
        committed += accepted + 1
    return Generation(
        prompt=expected.text[: expected.prompt],
        tokens=expected.text[expected.prompt :][:TOKENS],
        prefills=1,
        rounds=tuple(rounds),
        verifications=len(rounds),
        accepted=sum(item.accepted for item in rounds),
    )


EXPECTED = (_expected(3), _expected(5))
RUN = EngineRun(generations=tuple(map(_generation, EXPECTED)))
ALONE = EngineRun(
    generations=tuple(Generation(prompt=item.prompt, tokens=item.tokens) for item in RUN.generations)
)
OTHER = VOCAB + 1
"""What the draft ranks second everywhere."""


def _as_tree(item: Round) -> Round:
    """The same with a second branch to each node, which is never right."""
    first, second, third = item.drafted
    return replace(
        item,
        drafted=(first, OTHER, second, OTHER, OTHER, third, OTHER),
        parents=(0, 0, 1, 1, 2, 3, 3),
        branches=((first, second), (OTHER, OTHER)),
    )


TREES = EngineRun(
    generations=tuple(replace(made, rounds=tuple(map(_as_tree, made.rounds))) for made in RUN.generations)
)
"""The same run in trees."""
ROWS = [len(expected.text) - STEPS for expected in EXPECTED]
STATES: dict[Form, list[Array]] = {
    form: [_array(LAYERS + 1, rows, HIDDEN) for rows in ROWS] for form in FORMS
}
PARTS = {"embedding": _array(VOCAB, HIDDEN), "head": _array(12, HIDDEN)}
METRICS = {"full_acc_0_epoch": 0.9, "full_acc_1_epoch": 0.5, "full_acc_2_epoch": 0.4}


def taps(*states: int, form: Form = "plain") -> Array:
    """What reaches the draft of a target that captures these hidden states."""
    everything = np.concatenate(STATES[form], axis=1)
    return np.concatenate([everything[state] for state in states], axis=1)


ACCEPTANCE = Acceptance(
    setting=SETTINGS[0],
    expected=EXPECTED,
    run=RUN,
    alone=ALONE,
    taps=taps(*IDS),
    forms={form: np.concatenate(states, axis=1) for form, states in STATES.items()},
    ids=IDS,
    trained=PARTS,
    served=PARTS,
    metrics=METRICS,
)


def first(run: EngineRun, **changes: Any) -> EngineRun:
    """A run whose first request went otherwise."""
    changed, *others = run.generations
    return EngineRun(generations=(replace(changed, **changes), *others))


def last_token(run: EngineRun) -> EngineRun:
    """A run that ends on another token."""
    tokens = run.generations[0].tokens
    return first(run, tokens=(*tokens[:-1], tokens[-1] + 1))


def a_round(run: EngineRun, chosen: Callable[[Round], bool], **changes: Any) -> EngineRun:
    """A run of which one round, the first chosen, went otherwise."""
    rounds = list(run.generations[0].rounds)
    place = next(place for place, item in enumerate(rounds) if chosen(item))
    rounds[place] = replace(rounds[place], **changes)
    return first(run, rounds=tuple(rounds))


def save(folder: Path) -> tuple[Path, Path, Path]:
    """The files of this run, as the probes write them: expected, served (and its tensors), alone."""
    expected: dict[str, Array] = {"ids": np.array(IDS), **PARTS}
    for number, item in enumerate(EXPECTED):
        expected[f"text/{number}"] = np.array(item.text)
        expected[f"proposals/{number}"], expected[f"margins/{number}"] = item.proposals, item.margins
        for form, name in FORMS.items():
            expected[f"{name}/{number}"] = STATES[form][number]
    files = folder / "expected.safetensors", folder / "run.json", folder / "alone.json"
    save_file(expected, files[0])
    files[1].write_text(json.dumps(to_json(RUN)))
    files[2].write_text(json.dumps(to_json(ALONE)))
    given = taps(*IDS)
    served = {f"states/{n}": part for n, part in enumerate(np.split(given, np.cumsum(ROWS)[:-1]))}
    save_file({**served, **PARTS}, folder / "run.safetensors")
    return files
