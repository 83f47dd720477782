"""Which hidden states of a target were captured, told by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from contracts.causes import Cause
from contracts.verdict import Broken

Array = np.ndarray[Any, np.dtype[Any]]
Form = Literal["plain", "normed", "without residual"]


@dataclass(frozen=True, kw_only=True)
class Captured:
    """Which hidden state of transformers' a captured one is."""

    index: int
    form: Form
    error: float
    """Relative to the state's largest value."""
    near: bool = False
    """Whether rounding explains the error."""
    unsure: bool = False
    """Whether another state is as near as rounding."""

    def __str__(self) -> str:
        form = "" if self.form == "plain" else f" {self.form}"
        told = "" if self.near else f" (nearest; off by {self.error:.2g} of it)"
        return f"{self.index}{form}{told}"


def identify(taps: Array, forms: Mapping[Form, Array], tolerance: float) -> tuple[Captured, ...]:
    """What each of the states side by side in `taps` is.

    Args:
        taps: [rows, states * hidden].
        forms: every state of the target, in each form that a captured one can have;
            [layers + 1, rows, hidden].
        tolerance: largest relative error that rounding explains.

    """
    width = forms["plain"].shape[-1]
    return tuple(
        _identify(taps[:, start : start + width], forms, tolerance)
        for start in range(0, taps.shape[-1], width)
    )


def _identify(tap: Array, forms: Mapping[Form, Array], tolerance: float) -> Captured:
    """The state that a tap is, or is nearest to; of equally near ones the plain state."""
    found = [
        Captured(index=index, form=form, error=float(row_errors(state, tap).max()))
        for form, states in forms.items()
        for index, state in enumerate(states)
        if np.abs(state).max() > 0
    ]
    nearest, *others = sorted(found, key=lambda it: it.error)
    return replace(nearest, unsure=others[0].error <= tolerance, near=nearest.error <= tolerance)


def check_captured(captured: Sequence[Captured], trained: Sequence[int]) -> None:
    """Compare what was captured with the states that a draft was trained on.

    Raises:
        Broken: they are others, in another order or in another form.

    """
    states = [it.index if it.form == "plain" else None for it in captured]
    if states == list(trained) and all(it.near and not it.unsure for it in captured):
        return
    raise Broken(
        _why(captured, trained),
        expected=f"hidden states {', '.join(map(str, trained))}",
        seen=f"hidden states {', '.join(map(str, captured))}",
    )


def _why(captured: Sequence[Captured], trained: Sequence[int]) -> Cause:
    """What is wrong with states captured for those trained on."""
    forms, states = {it.form for it in captured}, [it.index for it in captured]
    if not all(it.near for it in captured):
        return Cause.NUMBERS_DIFFER
    if any(it.unsure for it in captured):
        return Cause.STATES_ALIKE
    if forms != {"plain"}:
        return Cause.STATE_NORMED if "normed" in forms else Cause.STATE_WITHOUT_RESIDUAL
    if sorted(states) == sorted(trained):
        return Cause.LAYER_ORDER
    if len(states) == len(trained):
        for cause, shift in ((Cause.TAPS_EARLY, -1), (Cause.TAPS_LATE, 1)):
            if states == [state + shift for state in trained]:
                return cause
    return Cause.WRONG_LAYERS


def row_errors(golden: Array, seen: Array) -> Array:
    """Largest error of each row, relative to the largest golden value of all; infinite if it is no number."""
    scale = float(np.abs(golden).max()) or 1.0
    errors: Array = np.abs(golden.astype(np.float64) - seen).reshape(len(golden), -1).max(axis=1) / scale
    return np.where(np.isfinite(errors), errors, np.inf)
