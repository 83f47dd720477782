"""What both sides computed from the same inputs, and what explains a difference.

The training probe writes golden tensors: inputs, outputs, and the outputs that each hypothesis would give (a
norm left out, taps one layer late, ...). The serving probe writes what the engine computed. A mismatch is
scored against every hypothesis again; one that makes the error vanish explains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors import safe_open

from contracts.captured import Array, Captured, Form, identify, row_errors
from contracts.causes import Cause, by_code
from contracts.verdict import Broken

Numbers = Mapping[str, Array]
"""fused [P, hidden], recurrent [P + S, hidden], logits [1 + S, draft vocabulary], draft_tokens [1 + S] and
positions [P + S], for a prompt of P tokens and S chained steps after its last position; serving also taps
[P, what the target delivered] and next_token [1], which the target chose after the prompt."""

TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}
"""Largest error, relative to the largest golden value, that rounding explains; what was measured is over all
recipes, speculators 0.9.0 and sglang 0.5.23. float32: sums of a hundred terms in another order differ by some
1e-7 of the largest (measured: 6e-7), and the smallest error of a hypothesis, another epsilon, is 2e-3.
bfloat16: 8 bits of precision make one rounding 4e-3 of a value, and the draft rounds after each of some ten
operations (measured: 1e-2); an epsilon is below that and seen in float32 only."""

AGREEMENT = 1e-5
"""Largest error between the two ways of the training library itself (measured: 5e-7)."""

COMPUTED = ("fused", "recurrent", "logits")


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One draft on the same inputs on both sides."""

    dtype: str
    """Of weights and computation when serving; the golden numbers are float32 throughout."""
    golden: Numbers
    """The training library's modules, run as an engine does."""
    library: Numbers
    """The training library's own forward pass."""
    served: Numbers
    hypotheses: Mapping[str, Numbers]
    """What a broken term would give: by cause code, with a detail after a colon."""
    tokens: Array
    """The prompt, and the token that the target ranks first after it by transformers; [P + 1]."""
    target_ids: Array
    """Target token id of each draft token id, as trained; [draft vocabulary]."""
    ids: tuple[int, ...]
    """Hidden-state indices that the draft was trained on."""
    states: Array
    """Every hidden state of the target by transformers, before the final norm; [layers + 1, P, hidden]."""
    normed_states: Array
    """The same after the final norm."""
    bare_states: Array
    """The same without the residual."""

    @property
    def tolerance(self) -> float:
        """Largest relative error that rounding explains."""
        return TOLERANCES[self.dtype]

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.golden["fused"])

    @classmethod
    def read(cls, golden: Path, served: Path, dtype: str) -> Replay:
        """Read what the two probes wrote."""
        data = _read(golden)
        hypotheses: dict[str, dict[str, Array]] = {}
        for name, value in data.items():
            if name.startswith("hypothesis/"):
                _, hypothesis, field = name.split("/")
                hypotheses.setdefault(hypothesis, {})[field] = value
        return cls(
            dtype=dtype,
            golden=_part(data, "golden/"),
            library=_part(data, "library/"),
            served=_read(served),
            hypotheses=hypotheses,
            tokens=data["tokens"],
            target_ids=data["target_ids"],
            ids=tuple(data["ids"].tolist()),
            states=data["states"],
            normed_states=data["normed_states"],
            bare_states=data["bare_states"],
        )

    def compare(
        self, field: str, rows: slice = slice(None), *, side: Literal["served", "library"] = "served"
    ) -> None:
        """Compare one field of a side with the golden one.

        Args:
            field: fused, recurrent or logits.
            rows: which rows of it; none at all are equal.
            side: the serving library, or the training library's own forward pass.

        Raises:
            Broken: it differs by more than rounding; the cause is the hypothesis that explains it.

        """
        numbers: Numbers = getattr(self, side)
        tolerance = AGREEMENT if side == "library" else self.tolerance
        golden, seen = self.golden[field][rows], numbers.get(field, np.empty(0))[rows]
        if golden.shape != seen.shape:
            told = f"{field} of shape {list(golden.shape)}"
            raise Broken(Cause.NUMBERS_DIFFER, expected=told, seen=f"shape {list(seen.shape)}")
        if not len(golden):
            return
        errors = row_errors(golden, seen)
        if not (errors > tolerance).any():
            return
        first, most = (
            self._row(field, int(row), rows) for row in ((errors > tolerance).argmax(), errors.argmax())
        )
        cause, explanation = self._explain(field, rows, numbers, tolerance)
        if side == "library" and cause is Cause.NUMBERS_DIFFER:
            cause = Cause.TRAINING_DISAGREES
        raise Broken(
            cause,
            expected=f"{field} within {tolerance:g} of its largest value, {np.abs(golden).max():.3g}",
            seen=f"off by {errors.max():.2g} of it at {most}, first at {first}\n{explanation}",
        )

    def _explain(self, field: str, rows: slice, numbers: Numbers, tolerance: float) -> tuple[Cause, str]:
        """The hypothesis that makes the error vanish, or the one that comes nearest."""
        seen = numbers[field][rows]
        errors = {
            name: float(row_errors(supposed[field][rows], seen).max())
            for name, supposed in self.hypotheses.items()
            if supposed[field][rows].shape == seen.shape
        }
        if not errors:
            return Cause.NUMBERS_DIFFER, "no hypothesis gives numbers of this shape"
        vanishing = [
            name
            for name, error in errors.items()
            if error <= tolerance and self._fits_before(name, field, rows, numbers, tolerance)
        ]
        if vanishing:
            best = min(vanishing, key=lambda name: (self._total(name, numbers), errors[name]))
            return cause_of(best), f"supposing {best}, the error is {errors[best]:.2g}"
        nearest = min(errors, key=errors.__getitem__)
        told = f"{nearest} ({cause_of(nearest).explanation}) leaves {errors[nearest]:.2g}"
        return Cause.NUMBERS_DIFFER, f"nearest of {len(errors)} hypotheses: {told}"

    def _fits_before(
        self, hypothesis: str, field: str, rows: slice, numbers: Numbers, tolerance: float
    ) -> bool:
        """Whether a hypothesis also gives what was computed before these rows; if not, it fits by chance."""
        prefill = (("fused", slice(None)), ("recurrent", slice(self.prompt)), ("logits", slice(1)))
        before = prefill if rows.start else prefill[: COMPUTED.index(field)]
        supposed = self.hypotheses[hypothesis]
        return all(
            row_errors(supposed[name][part], numbers[name][part]).max() <= tolerance
            for name, part in before
            if name in numbers and supposed[name][part].shape == numbers[name][part].shape
        )

    def _total(self, hypothesis: str, numbers: Numbers) -> float:
        """Largest error over everything that was computed, supposing a hypothesis."""
        supposed = self.hypotheses[hypothesis]
        return max(
            float(row_errors(supposed[field], numbers[field]).max())
            if field in numbers and supposed[field].shape == numbers[field].shape
            else np.inf
            for field in COMPUTED
        )

    def captured(self) -> tuple[Captured, ...]:
        """What each state that the target delivered is, by transformers' account of the target.

        Raises:
            Broken: the delivered width is no whole number of hidden states.

        """
        taps, width = self.served["taps"], self.states.shape[-1]
        if taps.shape[-1] % width or len(taps) != self.prompt:
            expected = f"{self.prompt} positions of a whole number of hidden states, {width} wide each"
            raise Broken(Cause.WIDTH_DIFFERS, expected=expected, seen=f"shape {list(taps.shape)}")
        return identify(taps, self._forms(), self.tolerance)

    def _forms(self) -> dict[Form, Array]:
        """Each form that a captured state can have; [layers + 1, P, hidden]."""
        return {"plain": self.states, "normed": self.normed_states, "without residual": self.bare_states}

    def why_other_tokens(self) -> Cause:
        """The hypothesis that gives the tokens that serving chose, and its numbers too.

        Without one, the scores are to blame where they differ, and what is made of them where they do not.
        """
        tokens = self.served["draft_tokens"]
        fitting = [name for name, it in self.hypotheses.items() if np.array_equal(it["draft_tokens"], tokens)]
        best = min(fitting, key=lambda name: self._total(name, self.served), default=None)
        if best is None or self._total(best, self.served) > self.tolerance:
            until = (self.parting() or 0) + 1
            scores = row_errors(self.golden["logits"][:until], self.served["logits"][:until])
            return Cause.TOKENS_DIFFER if scores.max() <= self.tolerance else Cause.NUMBERS_DIFFER
        return cause_of(best)

    def _row(self, field: str, row: int, rows: slice) -> str:
        """Which position of the prompt, or step of the chain, a row is about."""
        row += rows.start or 0
        step = row if field == "logits" else row - self.prompt + 1
        if step > 0:
            return f"chained step {step}"
        return f"position {self.prompt - 1 if field == 'logits' else row} of the prompt"

    def ties(self, step: int) -> bool:
        """Whether rounding alone can explain the token that serving chose: it scores as well as the best."""
        scores = self.golden["logits"][step]
        chosen = scores[self.target_ids == self.served["draft_tokens"][step]]
        margin = 2 * self.tolerance * np.abs(scores).max()
        return bool(len(chosen) and scores.max() - chosen.max() <= margin)

    def parting(self) -> int | None:
        """First step in which the two sides chose different tokens; None if they never did.

        Raises:
            Broken: serving did not choose one token per step.

        """
        golden, served = self.golden["draft_tokens"], self.served.get("draft_tokens", np.empty(0))
        if golden.shape != served.shape:
            expected = f"{len(golden)} draft tokens"
            raise Broken(Cause.TOKENS_DIFFER, expected=expected, seen=f"shape {list(served.shape)}")
        differ = np.flatnonzero(golden != served)
        return int(differ[0]) if len(differ) else None

    def prefill(self, field: str) -> slice:
        """Rows of a field that the prompt leaves: every position's state, the last position's logits."""
        return slice(0, 1 if field == "logits" else self.prompt)

    def chained(self, field: str) -> slice:
        """Rows of a field that the chained steps leave, as far as they are comparable."""
        first = self.prefill(field).stop
        return slice(first, first + self.comparable() - 1)

    def comparable(self) -> int:
        """Steps up to which both sides were fed the same tokens, a tie of the scores ending them."""
        parting = self.parting()
        if parting is not None and self.ties(parting):
            return parting + 1
        return len(self.golden["draft_tokens"])


def cause_of(hypothesis: str) -> Cause:
    """The cause that a hypothesis stands for."""
    return by_code(hypothesis.partition(":")[0])


def _part(data: Numbers, prefix: str) -> Numbers:
    return {name.removeprefix(prefix): value for name, value in data.items() if name.startswith(prefix)}


def _read(file: Path) -> dict[str, Array]:
    with safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
