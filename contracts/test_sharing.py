"""Embedding and head sharing: the draft is served with the embedding and head that it was trained with."""

import pytest

from contracts.handoff import Handoff
from contracts.verdict import Broken, Cause

pytestmark = pytest.mark.contracts


def test_embedding_is_the_trained_one(handoff: Handoff) -> None:
    """The draft embeds tokens with the embedding that it was trained with."""
    trained, served = handoff.both(lambda facts: facts.sharing)
    if served.embedding == "target" and trained.embedding == "draft":
        raise Broken(Cause.EMBEDDING_REPLACED, expected="the draft's own embedding", seen="the target's")


def test_head_is_the_trained_one(handoff: Handoff) -> None:
    """The draft scores tokens with the output head that it was trained with."""
    trained, served = handoff.both(lambda facts: facts.sharing)
    if served.head == "target" and trained.head == "draft":
        raise Broken(Cause.HEAD_REPLACED, expected="the draft's own head", seen="the target's")
