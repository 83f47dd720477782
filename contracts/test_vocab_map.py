"""Vocabulary map: a draft token id means the same target token id on both sides."""

import pytest

from contracts.facts import VocabMap
from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_draft_ids_map_to_trained_target_ids(handoff: Handoff) -> None:
    """Every draft token id becomes the target token id that it was trained as."""
    trained, served = handoff.both(lambda facts: facts.vocab_map)
    pairs = list(zip(trained.target_ids, served.target_ids, strict=False))
    wrong = [(draft, t, s) for draft, (t, s) in enumerate(pairs) if t != s]
    if wrong or len(trained.target_ids) != len(served.target_ids):
        examples = wrong[:3]
        raise Broken(
            Cause.MAP_DIFFERS,
            expected=f"{len(trained.target_ids)} ids" + "".join(f", {d} -> {t}" for d, t, _ in examples),
            seen=f"{len(served.target_ids)} ids, {len(wrong)} other"
            + "".join(f", {d} -> {s}" for d, _, s in examples),
        )


def test_target_ids_exist(vocab_map: VocabMap) -> None:
    """Every draft token id maps to a token id that the target has."""
    outside = [
        (draft, target)
        for draft, target in enumerate(vocab_map.target_ids)
        if not 0 <= target < vocab_map.target_vocab_size
    ]
    if outside:
        raise Broken(
            Cause.MAP_OUT_OF_RANGE,
            expected=f"target ids 0 to {vocab_map.target_vocab_size - 1}",
            seen=f"{len(outside)} outside, first: {outside[0][0]} -> {outside[0][1]}",
        )


def test_target_ids_are_distinct(vocab_map: VocabMap) -> None:
    """No two draft token ids map to the same target token id."""
    repeated = len(vocab_map.target_ids) - len(set(vocab_map.target_ids))
    if repeated:
        raise Broken(Cause.MAP_NOT_INJECTIVE, expected="distinct target ids", seen=f"{repeated} repeated")


def test_reduced_vocabulary_has_a_map(vocab_map: VocabMap) -> None:
    """A draft vocabulary smaller than the target's comes with a map."""
    if vocab_map.draft_vocab_size < vocab_map.target_vocab_size and not vocab_map.mapped:
        raise Broken(
            Cause.MAP_MISSING,
            expected=f"d2t for {vocab_map.draft_vocab_size} of {vocab_map.target_vocab_size} tokens",
            seen="no map: draft ids are used as target ids",
        )
