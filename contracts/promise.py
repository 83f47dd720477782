"""The accept length that a draft's training promises.

The trainer reports full_acc_k, its share of places at which draft tokens 0 to k are all right (speculators
0.9.0, speculators/train). A chain of n draft tokens is accepted up to its first wrong token, so the mean
number of accepted tokens is full_acc_0 + ... + full_acc_(n-1); the target adds one of its own. That is a mean
over places. An accept length is a mean over rounds, of which stretches that are hard to draft take more: it
is an upper estimate, exact where all text is equally hard.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

METRICS = "val_metrics.json"
"""What the trainer leaves beside a checkpoint."""
LARGEST_LOG = 256 * 1024 * 1024
"""Bytes of a log that are read at most."""
_KEY = re.compile(r"(?:val/)?full_acc_(\d{1,3})_epoch|val/full_acc_(\d{1,3})")
_LOGGED = re.compile(r"val/full_acc_(\d{1,3})(?:_epoch)?['\"]?\s*[=:]\s*([^\s,}]+)")


class TrainingLogError(Exception):
    """A file from which no accuracies can be read. One line."""


def accept_length(accuracies: Sequence[float]) -> float:
    """Tokens per verification that these promise to chains with as many draft tokens."""
    return 1 + sum(accuracies)


def accuracies(metrics: Mapping[str, object]) -> tuple[float, ...]:
    """full_acc_0, full_acc_1, ... of the trainer's metrics, up to the first that is missing."""
    found: dict[int, float] = {}
    for key, value in metrics.items():
        match = _KEY.fullmatch(key)
        if match and isinstance(value, (int, float)) and not isinstance(value, bool):
            found[int(match[1] or match[2])] = _number(value)
    return _in_order(found)


def read(path: Path) -> tuple[float, ...]:
    """The validation accuracies in a val_metrics.json, in the folder that holds one, or in a trainer's log.

    Of a log the last epoch counts.

    Raises:
        TrainingLogError: there is no such file, or none in it.

    """
    file = path / METRICS if path.is_dir() else path
    try:
        if file.exists() and not file.is_file():
            raise TrainingLogError(f"{file}: not a file")
        if file.stat().st_size > LARGEST_LOG:
            raise TrainingLogError(f"{file}: larger than {LARGEST_LOG >> 20} MiB; give its last part")
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise TrainingLogError(f"{file}: {error.strerror or error}") from None
    found = accuracies(_as_json(text)) or _last_epoch(text)
    if not found:
        raise TrainingLogError(
            f"{file}: no full_acc_0 of a validation in it; give the {METRICS} of a checkpoint, or the "
            "trainer's log"
        )
    if not all(0 <= share <= 1 for share in found) or list(found) != sorted(found, reverse=True):
        told = ", ".join(f"{share:g}" for share in found)
        raise TrainingLogError(f"{file}: full_acc of {told} are no shares that fall from step to step")
    return found


def _last_epoch(text: str) -> tuple[float, ...]:
    """The accuracies that a log tells last: from the last step 0 on."""
    last: dict[int, float] = {}
    for step, value in _LOGGED.findall(text):
        if int(step) == 0:
            last = {}
        last[int(step)] = _number(value)
    return _in_order(last)


def _as_json(text: str) -> dict[str, object]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _number(value: str | float) -> float:
    """NaN for what is none."""
    try:
        return float(value)
    except (ValueError, OverflowError):  # 0.5.1, or a number of 400 digits
        return math.nan


def _in_order(found: Mapping[int, float]) -> tuple[float, ...]:
    steps: list[float] = []
    while len(steps) in found:
        steps.append(found[len(steps)])
    return tuple(steps)
