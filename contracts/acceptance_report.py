"""What the accept length of a server says: the verdict, the figures behind it, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from contracts import promise
from contracts.servers import Counts, Served

ERRORS = 3
"""Standard errors by which a mean of so few rounds may lie beside the true one."""
REJECTED = 0.1
"""Share of first draft tokens accepted below which all of them count as rejected."""
FIRST_LOW, LATER_LOW = 0.95, 0.85
"""Part of its promise below which an accuracy counts as low: of the first draft token, and of later ones."""


TREES = (
    "training measures chains, and trees accept more: with --speculative-eagle-topk 1 the answer is stricter"
)


class Finding(StrEnum):
    """What a measurement amounts to."""

    AS_PROMISED = "as promised"
    BELOW = "below"
    TOO_FEW = "too few rounds"
    MEASURED = "measured"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a server's accept length is held against."""

    length: float
    """Accept length that training promises."""
    accuracies: tuple[float, ...] = ()
    """full_acc_0, full_acc_1, ... behind it; empty if only the length is known."""
    tolerance: float = 0.2
    """Part of the promised draft tokens that prompts other than those of training may cost."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of_training(cls, accuracies: tuple[float, ...], served: Served, tolerance: float) -> Promise:
        """What the accuracies of training promise to chains as long as the server's."""
        steps = served.steps or len(accuracies)
        notes: list[str] = []
        if steps > len(accuracies):
            notes.append(
                f"the server drafts {steps} tokens in a row, of which training measured the first "
                f"{len(accuracies)}: those are compared"
            )
        known = accuracies[:steps]
        return cls(
            length=promise.accept_length(known), accuracies=known, tolerance=tolerance, notes=tuple(notes)
        )

    @property
    def due(self) -> float:
        """The least accept length that keeps it."""
        return 1 + (1 - self.tolerance) * (self.length - 1)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measurement of a server, ready to be told."""

    served: Served
    counts: Counts
    prompts: int
    promise: Promise | None = None
    notes: tuple[str, ...] = ()

    @property
    def compared(self) -> Counts:
        """What is held against the promise: no more draft tokens than training measured."""
        measured = len(self.promise.accuracies) if self.promise else 0
        return self.counts.of_first(measured) if 0 < measured < len(self.counts.reached) else self.counts

    @property
    def finding(self) -> Finding:
        """Whether the promise is kept, as far as so many rounds can tell."""
        if self.promise is None:
            return Finding.MEASURED
        seen, due = self.compared.accept_length, self.promise.due
        if seen >= due:
            return Finding.AS_PROMISED
        by_chance = seen + ERRORS * self.compared.standard_error >= due
        return Finding.TOO_FEW if by_chance else Finding.BELOW

    def headline(self) -> str:
        """The figures in one line."""
        seen = f"accept length {self.counts.accept_length:.2f}"
        if self.promise is None:
            return f"{seen}; give --expect or --training-log to have it judged"
        if self.compared != self.counts:
            length, places = self.compared.accept_length, len(self.compared.reached)
            seen += f", {length:.2f} by the first {places} draft tokens"
        told = f"{seen}, promised {self.promise.length:.2f}, at least {self.promise.due:.2f} due"
        if self.finding is Finding.TOO_FEW:
            return f"{told}; chance alone may explain it: ask for more with --tokens or --prompts"
        return told

    def facts(self) -> list[tuple[str, str]]:
        """What was measured, where and how: label and words."""
        served, counts = self.served, self.counts
        kind = [
            served.algorithm,
            f"{served.steps} steps" if served.steps else None,
            f"topk {served.topk}" if served.topk else None,
            f"{served.draft_tokens} draft tokens" if served.draft_tokens else None,
        ]
        told = [("server", ", ".join([f"{served.engine} at {served.url}", *filter(None, kind)]))]
        told.append(("target", served.target))
        if served.draft:
            told.append(("draft", served.draft))
        own = "by the server's own counts"
        asked = "1 prompt" if self.prompts == 1 else f"{self.prompts} prompts"
        told.append(("measured", f"{asked}, {counts.rounds} rounds, {own}"))
        if counts.shares:
            told.append(("draft token", _row(f"{k}" for k in range(1, len(counts.shares) + 1))))
            told.append(("accepted", _row(f"{share:.3f}" for share in counts.shares)))
        if self.promise is not None and self.promise.accuracies:
            told.append(("trained", _row(f"{share:.3f}" for share in self.promise.accuracies)))
        notes = [*self.notes, *(self.promise.notes if self.promise else ())]
        if self.promise and (served.topk or 1) > 1:
            notes.append(TREES)
        return [*told, *(("note", note) for note in notes)]

    def next_checks(self) -> list[str]:
        """What to look at, the likeliest first."""
        found = []
        algorithm = (self.served.algorithm or "EAGLE3").upper()
        if algorithm != "EAGLE3":
            found.append(
                f"The server speculates by {algorithm}. A draft trained as EAGLE-3 needs "
                "--speculative-algorithm EAGLE3: with another it starts, answers and rejects."
            )
        if any(threshold < 1 for threshold in self.served.accept_thresholds):
            found.append(
                "The server accepts tokens that its target would not choose: compare without "
                "--speculative-accept-threshold-single and -acc."
            )
        trained = self.promise.accuracies if self.promise else ()
        if self.counts.shares:
            found += _by_shape(self.counts.shares, trained)
        elif self.counts.accept_length <= 1 + REJECTED:
            found.append(NEARLY_ALL)
        found.append(
            "Ask the suite about the two releases: pytest --pyargs contracts -m contracts. It names, on a "
            "CPU, what they do not agree on."
        )
        return found


NEARLY_ALL = (
    "Even the first draft token is rejected nearly always: weights under a name that the server drops "
    "without a word, d2t in the other encoding, or capture that is off. Write the draft anew: contracts "
    "export CKPT --target TARGET -o OUT."
)


def _row(cells: Iterable[str]) -> str:
    return "  ".join(f"{cell:>5}" for cell in cells)


def _by_shape(shares: Sequence[float], trained: Sequence[float]) -> list[str]:
    """What the share of accepted draft tokens, place by place, speaks for."""
    first_due = trained[0] if trained else 0.5
    if shares[0] <= REJECTED:
        return [NEARLY_ALL]
    if shares[0] < FIRST_LOW * first_due:
        return [
            "The first draft token already is right too seldom, so the draft may be fed otherwise than "
            "trained: aux layers, the order of fc's chunks, norms before fc, the norm of the residual "
            "(speculators train --no-norm-before-residual).",
            "Are these prompts like the training data? Measure with some of it: --prompts FILE.",
        ]
    later = _conditional(shares)[1:]
    later_due = _conditional(trained)[1:] or [first_due] * len(later)
    if any(share < LATER_LOW * due for share, due in zip(later, later_due, strict=False)):
        return [
            "The first draft token is about as right as it should be and the later ones are not: what is fed "
            "back (norm_output), positions, RoPE, the attention window."
        ]
    return [
        "Draft tokens are too seldom right at every place: prompts unlike the training data, a quantised "
        "target, another dtype or chat template than in training. Measure with training data: --prompts FILE."
    ]


def _conditional(shares: Sequence[float]) -> list[float]:
    """Share of the k-th token among rounds in which all before it were accepted."""
    pairs = zip(shares, [1.0, *shares], strict=False)
    return [share / before if before else 0.0 for share, before in pairs]
