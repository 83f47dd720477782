"""Differences of JSON data tell all that is to be known, and no more than that."""

from __future__ import annotations

import random
from typing import Any

import pytest

from contracts.deltas import apply, subtract

BASE: dict[str, Any] = {"a": {"b": 1, "c": [1, 2]}, "names": ["x", "y"], "gone": None}


@pytest.mark.parametrize(
    ("data", "delta"),
    [
        (BASE, {}),
        ({**BASE, "a": {"b": 2, "c": [1, 2]}}, {"a": {"b": 2}}),
        ({**BASE, "names": ["x", "z"]}, {"names": {"$add": ["z"], "$drop": ["y"]}}),
        ({**BASE, "a": {"b": 1}}, {"a": {"$drop": ["c"]}}),
        ({**BASE, "a": None}, {"a": None}),
        ({**BASE, "names": ["y", "x"]}, {"names": ["y", "x"]}),
        ({"a": BASE["a"], "names": []}, {"names": {"$add": [], "$drop": ["x", "y"]}, "$drop": ["gone"]}),
    ],
)
def test_what_differs_is_told_and_nothing_else(data: dict[str, Any], delta: dict[str, Any]) -> None:
    assert subtract(BASE, data) == delta
    assert apply(BASE, delta) == data


def _any(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(6 if depth else 4)
    if kind == 0:
        return chance.choice([None, True, 0, 1.5, "word"])
    if kind == 1:
        return [chance.randrange(3) for _ in range(chance.randrange(3))]
    if kind in (2, 3):
        words = [chance.choice("abcd") for _ in range(chance.randrange(4))]
        return sorted(set(words)) if chance.random() < 0.7 else words
    return {chance.choice("pqrs"): _any(chance, depth - 1) for _ in range(chance.randrange(4))}


def test_applied_to_its_base_a_difference_gives_the_data_back() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        base, data = ({key: _any(chance, 2) for key in "wxyz"[: chance.randrange(5)]} for _ in range(2))
        assert apply(base, subtract(base, data)) == data
