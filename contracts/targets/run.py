"""What one target class delivered to a draft, beside what transformers computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from safetensors.numpy import load_file

from contracts.captured import Array, Captured, Form, identify, row_errors
from contracts.replay import TOLERANCES

Step = Literal["prefill", "verification"]
STEPS: tuple[Step, ...] = get_args(Step)
TOLERANCE = TOLERANCES["float32"]
"""Relative to the largest value; measured over all classes: 2e-5, and the next-best state is 0.05 away."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt of a batch: what transformers computes over it and its continuation, and what was served.

    T positions, of which the first P are the prompt's; n layers of width H; S states.
    """

    text: Array
    """Prompt and continuation by transformers, [T + 1]."""
    forms: Mapping[Form, Array]
    """Every hidden state in each form that a captured one can have, [n + 1, T, H]."""
    states_of_transformers: Array
    """The hidden states that transformers itself returns, [n + 1, T, H]."""
    logits: Array
    """[T, vocabulary]."""
    served: Array
    """Prompt and continuation as served, [T + 1]."""
    delivered: Array
    """What reached the draft, [rows, S * H]; a row per position, the last of which need not all come."""
    logits_served: Array
    """The target's logits after the prompt, [vocabulary]."""
    length: int
    """P."""

    def captured(self, step: Step) -> tuple[Captured, ...]:
        """Which hidden states were delivered in a step of serving."""
        rows = slice(0, self.length) if step == "prefill" else slice(self.length, len(self.delivered))
        forms = {form: states[:, rows] for form, states in self.forms.items()}
        return identify(self.delivered[rows], forms, TOLERANCE)


@dataclass(frozen=True, kw_only=True)
class TargetRun:
    """A batch of prompts through one target with a draft that names some ids."""

    prompts: tuple[Prompt, ...] = ()
    """Nothing where the library refused."""
    refused: str | None = None
    """What the library raised instead."""

    @classmethod
    def read(cls, file: Path) -> TargetRun:
        """Read what the probe wrote."""
        data = load_file(file)
        numbers = range(sum(name.startswith("text/") for name in data))
        return cls(prompts=tuple(_prompt(data, number) for number in numbers))

    @property
    def error(self) -> float:
        """Largest error of the target's logits after a prompt, relative to the largest logit."""
        return max(
            float(row_errors(item.logits[item.length - 1][None], item.logits_served[None])[0])
            for item in self.prompts
        )

    @property
    def computes_as_transformers(self) -> bool:
        """Whether the target's logits after each prompt, and the text it generates, are transformers'."""
        return self.same_text and self.error <= TOLERANCE

    @property
    def same_text(self) -> bool:
        """Whether it generates what transformers generates."""
        return all(np.array_equal(item.text, item.served) for item in self.prompts)

    @cached_property
    def by_step(self) -> dict[Step, tuple[tuple[Captured, ...], ...]]:
        """Which hidden states were delivered, by step and prompt."""
        return {step: tuple(item.captured(step) for item in self.prompts) for step in STEPS}

    @property
    def states(self) -> tuple[int, ...] | None:
        """The hidden states that were delivered, to all prompts and in all steps; None if that is not so."""
        found = {
            tuple(it.index for it in captured)
            if all(it.near and not it.unsure and it.form == "plain" for it in captured)
            else None
            for prompts in self.by_step.values()
            for captured in prompts
        }
        return found.pop() if len(found) == 1 else None

    def __str__(self) -> str:
        """What was delivered, for people and for the record."""
        if self.refused:
            return f"refused: {self.refused}"
        told = {
            step: [", ".join(map(str, captured)) for captured in prompts]
            for step, prompts in self.by_step.items()
        }
        every = {item for items in told.values() for item in items}
        if len(every) == 1:
            return f"hidden states {every.pop()}"
        return "; ".join(f"{step}: {' | '.join(items)}" for step, items in told.items())


def read_returned(file: Path) -> tuple[str, ...]:
    """Which hidden states an engine returned, per prompt, from what the probe wrote."""
    return returned(load_file(file))


def returned(data: Mapping[str, Array]) -> tuple[str, ...]:
    """Which of transformers' hidden states `returned/i` are, by prompt i."""
    told = []
    for number in range(sum(name.startswith("returned/") for name in data)):
        seen = data[f"returned/{number}"]
        forms = {form: states[:, : len(seen)] for form, states in _forms(data, number).items()}
        told.append(", ".join(map(str, identify(seen, forms, TOLERANCE))))
    return tuple(told)


def _forms(data: Mapping[str, Array], number: int) -> dict[Form, Array]:
    return {
        "plain": data[f"plain/{number}"],
        "normed": data[f"normed/{number}"],
        "without residual": data[f"bare/{number}"],
    }


def _prompt(data: Mapping[str, Array], number: int) -> Prompt:
    return Prompt(
        text=data[f"text/{number}"],
        forms=_forms(data, number),
        states_of_transformers=data[f"tuple/{number}"],
        logits=data[f"logits/{number}"],
        served=data[f"served/{number}"],
        delivered=data[f"delivered/{number}"],
        logits_served=data[f"logits_served/{number}"],
        length=int(data[f"prefilled/{number}"][0]),
    )
