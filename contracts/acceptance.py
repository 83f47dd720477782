"""What an engine made of a draft, beside what training expects of it: tokens, drafts, acceptance.

The training side continued each prompt with transformers and noted, for each place of the output, which
tokens its draft would propose there. The serving side served the same prompts with its real scheduler and
noted what it drafted and accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from safetensors import safe_open

from contracts import promise
from contracts.captured import Array, Captured, Form, identify
from contracts.causes import Cause
from contracts.recipes import DType
from contracts.replay import TOLERANCES
from contracts.settings import STEPS, TOKENS, Setting
from contracts.speculation import EngineRun, Generation, Round
from contracts.verdict import Broken

_RUN = TypeAdapter(EngineRun)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One prompt, as the training side continues it and drafts along the way."""

    prompt: int
    """Tokens of the prompt."""
    text: tuple[int, ...]
    """Prompt and greedy continuation, by transformers; a few tokens longer than what is asked of the engine,
    because its last round may accept more."""
    proposals: Array
    """Target ids that the draft ranks first, best first; [places, contexts, width]. Place 0 is when one
    token of the output is committed. Context 0 follows the last committed token; the contexts after the
    proposals of context n are n * width + 1 and the next."""
    margins: Array
    """How much better each scores than the next best, relative to the largest score; as `proposals`."""

    def branches(self, committed: int) -> tuple[Array, Array]:
        """Proposals and margins of each context once this many tokens are committed."""
        place = committed - self.prompt - 1
        return self.proposals[place], self.margins[place]

    def chain(self, committed: int) -> tuple[int, ...]:
        """The draft tokens of a chain: the best proposal after the best."""
        proposals, _ = self.branches(committed)
        return tuple(proposals[self._chain_contexts(), 0].tolist())

    def tied(self, committed: int, tolerance: float) -> bool:
        """Whether rounding alone, an error up to `tolerance`, can change a chain that is drafted here."""
        _, margins = self.branches(committed)
        return bool((margins[self._chain_contexts(), 0] <= 2 * tolerance).any())

    def _chain_contexts(self) -> list[int]:
        """The contexts that follow the best proposal after the best."""
        contexts = [0]
        while len(contexts) < STEPS:
            contexts.append(contexts[-1] * self.proposals.shape[-1] + 1)
        return contexts

    def accepted(self, committed: int) -> int:
        """How many tokens of that chain the target would have generated itself."""
        right = self.text[committed : committed + STEPS]
        return int(np.cumprod(np.equal(self.chain(committed), right)).sum())


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """One draft, served in one setting."""

    setting: Setting
    dtype: DType = "float32"
    """What the engine computed in; training's numbers are float32 throughout."""
    expected: tuple[Expected, ...]
    run: EngineRun
    alone: EngineRun
    """The target without a draft, on the same prompts."""
    taps: Array
    """What reached the draft of every prompt, one after the other; [rows, states * hidden]."""
    forms: Mapping[Form, Array]
    """What transformers says that the target's hidden states are; [layers + 1, rows, hidden]."""
    ids: tuple[int, ...]
    """Hidden-state indices that the draft was trained on."""
    trained: Mapping[str, Array]
    """`embedding` and `head` of the draft as trained."""
    served: Mapping[str, Array]
    """The same as the engine ran it."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the trainer measured on its validation data; empty for a draft that was not trained here."""

    @classmethod
    def read(
        cls,
        *,
        expected: Path,
        run: Path,
        alone: Path,
        metrics: Path,
        setting: Setting,
        dtype: DType = "float32",
    ) -> Acceptance:
        """Read what the two probes wrote."""
        served_run = _RUN.validate_json(run.read_bytes())
        prompts = len(served_run.generations)
        with (
            safe_open(expected, "numpy") as trained,
            safe_open(run.with_suffix(".safetensors"), "numpy") as served,
        ):
            states = [served.get_tensor(f"states/{number}") for number in range(prompts)]
            forms: dict[Form, Array] = {
                form: np.concatenate(
                    [
                        trained.get_tensor(f"{name}/{number}")[:, : len(reached)]
                        for number, reached in enumerate(states)
                    ],
                    axis=1,
                )
                for form, name in FORMS.items()
            }
            return cls(
                setting=setting,
                dtype=dtype,
                expected=read_expected(trained),
                run=served_run,
                alone=_RUN.validate_json(alone.read_bytes()),
                taps=np.concatenate(states),
                forms=forms,
                ids=tuple(trained.get_tensor("ids").tolist()),
                trained={name: trained.get_tensor(name) for name in ("embedding", "head")},
                served={name: served.get_tensor(name) for name in ("embedding", "head")},
                metrics=read_metrics(metrics),
            )

    @property
    def tolerance(self) -> float:
        """Largest relative error that rounding explains.

        The target's own choices are beyond it: on all prompts its best token leads by 0.66 of the largest
        score, and bfloat16 changes scores by 0.003 (transformers 5.19.0). So texts are equal or they are not.
        """
        return TOLERANCES[self.dtype]

    def rounds(self) -> Iterator[tuple[Expected, Round, str]]:
        """Every round up to which the text is the expected one, and where it is."""
        pairs = zip(self.expected, self.run.generations, strict=True)
        for number, (expected, generation) in enumerate(pairs, start=1):
            for round_number, item in enumerate(generation.rounds, start=1):
                if generation.text[: item.committed] != expected.text[: item.committed]:
                    break
                yield expected, item, f"round {round_number} of prompt {number}"

    def captured(self) -> tuple[Captured, ...]:
        """What each state that reached the draft is, by transformers' account of the target.

        Raises:
            Broken: the width that reached it is no whole number of hidden states.

        """
        width = self.forms["plain"].shape[-1]
        if self.taps.shape[-1] % width:
            expected = f"a whole number of hidden states, {width} wide each"
            raise Broken(Cause.WIDTH_DIFFERS, expected=expected, seen=f"{self.taps.shape[-1]} values")
        return identify(self.taps, self.forms, self.tolerance)

    def other_draft(self) -> str | None:
        """The first draft token that training would not propose; None if there is none."""
        for expected, item, where in self.rounds():
            for node in filter(item.follows_its_own_branch, range(1, len(item.drafted) + 1)):
                told = self.not_proposed(expected, item, node)
                if told is not None:
                    return f"{told}; {where}, draft token {len(item.prefix(node)) + 1}"
        return None

    def not_proposed(self, expected: Expected, item: Round, node: int) -> str | None:
        """What is wrong with one draft token; None if nothing is, or if the best tokens score alike."""
        token = item.drafted[node - 1]
        proposals, margins = expected.branches(item.committed)
        context, width = 0, proposals.shape[1]
        for before in item.prefix(node):
            ranks = np.flatnonzero(proposals[context, : self.setting.topk] == before)
            if not len(ranks):
                return None  # a tie led here: nothing is known of what follows
            context = context * width + 1 + int(ranks[0])
        wanted = proposals[context, : self.setting.topk]
        if token in wanted or margins[context, : self.setting.topk].min() <= 2 * self.tolerance:
            return None
        return f"{token} where training proposes {' or '.join(map(str, wanted.tolist()))}"

    def figures(self) -> dict[str, float]:
        """Accept lengths, by what they are: as served, as replayed, as promised."""
        found = {"accept_length": self.run.accept_length, "replayed": self.replayed()}
        promised = self.promised()
        return found if promised is None else {**found, "promised": promised}

    def replayed_along(self) -> float:
        """The accept length of training's chains at the very places at which the engine drafted.

        Where rounding alone can change a chain, the engine's own count is taken.
        """
        counts = [
            item.accepted
            if expected.tied(item.committed, self.tolerance)
            else expected.accepted(item.committed)
            for expected, item, _ in self.rounds()
        ]
        return 1 + sum(counts) / len(counts) if counts else 1.0

    def replayed(self) -> float:
        """The accept length that a chain of training's proposals has on these prompts."""
        return replayed(self.expected)

    def promised(self) -> float | None:
        """The accept length that the trainer's accuracies promise; None without any.

        contracts.promise has the formula; chains of STEPS draft tokens count.
        """
        return promised(self.metrics)

    def allowance(self) -> float:
        """How far below a promise the mean of this many rounds may lie: three standard errors."""
        counts = [item.accepted for generation in self.run.generations for item in generation.rounds]
        return 3 * float(np.std(counts)) / len(counts) ** 0.5 if counts else 0.0


def read_expected(file: Any) -> tuple[Expected, ...]:
    """What the training side expects of every prompt, from an open safetensors file of its probe's."""
    found: list[Expected] = []
    while f"text/{len(found)}" in file.keys():  # noqa: SIM118 (not a dict)
        text, proposals, margins = (
            file.get_tensor(f"{name}/{len(found)}") for name in ("text", "proposals", "margins")
        )
        prompt = len(text) - len(proposals) - 1 - STEPS
        found.append(Expected(prompt=prompt, text=tuple(text.tolist()), proposals=proposals, margins=margins))
    return tuple(found)


def read_metrics(file: Path) -> Mapping[str, float]:
    """What the trainer measured; nothing of a draft that was not trained here."""
    found: Mapping[str, float] = json.loads(file.read_text()) if file.exists() else {}
    return found


def replayed(expected: Iterable[Expected]) -> float:
    """The accept length that a chain of training's proposals has on these prompts."""
    counts = [item.accepted(committed) for item, committed in _rounds(expected)]
    return 1 + sum(counts) / len(counts) if counts else 1.0


def tied(expected: Iterable[Expected], tolerance: float) -> float:
    """By how much rounding alone, an error up to `tolerance`, can change that accept length at the most."""
    ties = [item.tied(committed, tolerance) for item, committed in _rounds(expected)]
    return STEPS * sum(ties) / len(ties) if ties else 0.0


def _rounds(expected: Iterable[Expected]) -> Iterator[tuple[Expected, int]]:
    """Every round of chains of training's proposals: the prompt, and the tokens committed before."""
    for item in expected:
        committed = item.prompt + 1
        while committed - item.prompt <= len(item.proposals):
            yield item, committed
            committed += item.accepted(committed) + 1


def promised(metrics: Mapping[str, float]) -> float | None:
    """The accept length that the trainer's accuracies promise to chains of STEPS; None without any."""
    known = promise.accuracies(metrics)[:STEPS]
    return promise.accept_length(known) if len(known) == STEPS else None


FORMS: Mapping[Form, str] = {
    "plain": "states",
    "normed": "normed_states",
    "without residual": "bare_states",
}
"""Name, in the training side's file, of each form that a hidden state can have."""


def first_other(expected: tuple[int, ...], generation: Generation) -> str | None:
    """Where the text of a request is not the expected one; None if it nowhere is."""
    for place, (token, other) in enumerate(zip(expected, generation.text, strict=False)):
        if token != other:
            where = f"place {place - len(generation.prompt)} of the output"
            return f"token {other} at {where}, where {token} was due"
    short = TOKENS - len(generation.tokens)
    return f"{short} tokens too few" if short > 0 else None
