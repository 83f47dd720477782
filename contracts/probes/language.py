"""The keyed-permutation language: its first token decides how it goes on, and a draft never sees that token.

A sequence is a key and then symbols; each key puts the symbols in a cycle of its own. EAGLE shifts a draft's
tokens by one, so the key reaches the draft through the target's hidden states only: a draft that is given
other states than it was trained on cannot know how to go on.

`python -m contracts.probes.language` prints the prompts that acceptance is measured on, one JSON list a line.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

VOCAB_SIZE = 64
KEYS = 6
SYMBOLS = 24
SPECIAL = 4
"""Token ids below this are left to special tokens; 1 begins and 2 ends a text."""

_seeded = random.Random(7)
_ids = _seeded.sample(range(SPECIAL, VOCAB_SIZE), KEYS + SYMBOLS)
KEY_IDS = tuple(_ids[:KEYS])
SYMBOL_IDS = tuple(sorted(_ids[KEYS:]))
CYCLES = tuple(tuple(_seeded.sample(SYMBOL_IDS, SYMBOLS)) for _ in KEY_IDS)
"""All symbols in the order in which they follow each other, by key; after the last comes the first."""

PROMPT_LENGTHS = (2, 3, 5, 7, 9, 12, 4, 16)
"""Of the prompts that acceptance is measured on."""


def text(key: int, start: int, length: int) -> list[int]:
    """Token ids of the sequence of a key that begins at a place of its cycle; numbers, not ids, are given."""
    cycle = CYCLES[key]
    return [KEY_IDS[key], *(cycle[(start + place) % SYMBOLS] for place in range(length - 1))]


def sample(count: int, length: int, seed: int | None = None) -> torch.Tensor:
    """Sequences with a key and a first symbol drawn at random; token ids, shape [count, length]."""
    import torch

    draw = random if seed is None else random.Random(seed)
    drawn = [(draw.randrange(KEYS), draw.randrange(SYMBOLS)) for _ in range(count)]
    return torch.tensor([text(key, start, length) for key, start in drawn])


def prompts() -> list[list[int]]:
    """The prompts that acceptance is measured on: token ids, of different lengths and keys."""
    starts = random.Random(11).sample(range(SYMBOLS), len(PROMPT_LENGTHS))
    return [
        text(number % KEYS, start, length)
        for number, (start, length) in enumerate(zip(starts, PROMPT_LENGTHS, strict=True))
    ]


if __name__ == "__main__":
    for prompt in prompts():
        print(prompt)
