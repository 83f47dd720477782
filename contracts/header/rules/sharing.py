"""Whose output head and embedding the draft will use."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.causes import Cause
from contracts.header.findings import Damage, Finding
from contracts.header.rule import Offer, rule


@rule(Cause.HEAD_MISSING)
def head_is_there(offer: Offer) -> Iterator[Finding]:
    """The draft has an output head, or one that the release takes from the target."""
    draft = offer.draft
    if "lm_head.weight" in draft.by_canonical or draft.config.flag("tie_word_embeddings"):
        return
    if draft.is_reduced:
        spelling = "lm_head.absent"
    else:
        said = draft.config.get("draft_vocab_size") is not None
        spelling = "lm_head.absent_full" if said else "lm_head.absent_null"
    spelled = offer.reading[spelling]
    if not spelled.refused and not spelled.unwritten:
        return
    yield Finding(
        cause=Cause.HEAD_MISSING,
        damage=Damage.FAILS if spelled.refused else Damage.COLLAPSES,
        where="lm_head.weight",
        expected="a head of the draft's own, as draft_vocab_size is stated",
        seen="none",
        consequence="" if spelled.refused else "the draft scores its tokens with whatever memory held",
        fix="Save lm_head.weight."
        if draft.is_reduced
        else 'Write "draft_vocab_size": null, so that the target\'s head is taken.',
    )


@rule(Cause.HEAD_REPLACED)
def head_is_its_own(offer: Offer) -> Iterator[Finding]:
    """A head that was trained is not replaced by the target's."""
    draft = offer.draft
    if not draft.config.flag("tie_word_embeddings"):
        return
    replaced = offer.reading["tie_word_embeddings.true"].facts.get("sharing", {}).get("head") == "target"
    if not replaced and not offer.reading["tie_word_embeddings.true"].refused:
        return
    trained = "lm_head.weight" in draft.by_canonical
    if not trained and not draft.is_reduced:
        return
    yield Finding(
        cause=Cause.HEAD_REPLACED,
        damage=Damage.COLLAPSES if draft.is_reduced else Damage.LOSES,
        where="tie_word_embeddings",
        expected="false, as the draft has a head of its own",
        seen="true",
        consequence="the target's head scores in the place of the draft's: draft token ids mean other tokens"
        if draft.is_reduced
        else "",
        fix='Write "tie_word_embeddings": false to config.json.',
    )


@rule(Cause.HEAD_REPLACED)
def head_is_not_left_to_the_target(offer: Offer) -> Iterator[Finding]:
    """A draft that has a head says how large its vocabulary is, so that the head is used."""
    config = offer.draft.config
    if "draft_vocab_size" not in config or config.get("draft_vocab_size") is not None:
        return
    spelled = offer.reading["draft_vocab_size.null_full"]
    replaced = (spelled.facts.get("sharing") or {}).get("head") == "target"
    head = offer.draft.shape("lm_head.weight")
    if head and (replaced or spelled.refused):
        yield Finding(
            cause=Cause.HEAD_REPLACED,
            damage=Damage.FAILS if spelled.refused or offer.draft.is_reduced else Damage.LOSES,
            where="draft_vocab_size",
            expected=f"{head[0]}, as lm_head.weight has rows",
            seen="null",
            consequence="the target's head scores in the place of the draft's",
            fix=f'Write "draft_vocab_size": {head[0]} to config.json.',
        )
    elif config.flag("tie_word_embeddings"):
        yield Finding(
            cause=Cause.HEAD_REPLACED,
            damage=Damage.FAILS,
            where="tie_word_embeddings",
            expected="false, with draft_vocab_size null",
            seen="true",
            fix='Write "tie_word_embeddings": false to config.json.',
        )


@rule(Cause.EMBEDDING_REPLACED)
def embedding_is_as_trained(offer: Offer) -> Iterator[Finding]:
    """An embedding that was trained is not replaced by the target's."""
    if not offer.draft.raw.get("embed_requires_grad"):
        return
    plain = offer.reading.plain.facts.get("sharing", {}).get("embedding")
    if plain == "target":
        yield Finding(
            cause=Cause.EMBEDDING_REPLACED,
            damage=Damage.LOSES,
            where="embed_requires_grad",
            expected="false: the target's embedding is used",
            seen="true",
        )


@rule(Cause.PARAMETER_UNWRITTEN)
def embedding_is_there(offer: Offer) -> Iterator[Finding]:
    """A draft of another width than its target has an embedding of its own."""
    draft = offer.draft
    state, hidden = draft.config.integer("target_hidden_size"), draft.config.integer("hidden_size")
    if "embed_tokens.weight" in draft.by_canonical or state is None or state == hidden:
        return
    spelled = offer.reading["target_hidden_size.no_embedding"]
    if spelled.refused or spelled.unwritten:
        yield Finding(
            cause=Cause.PARAMETER_UNWRITTEN,
            damage=Damage.FAILS if spelled.refused else Damage.COLLAPSES,
            where="embed_tokens.weight",
            expected=f"an embedding of width {hidden}: the target's has {state}",
            seen="none",
            consequence="the draft embeds tokens with whatever memory held",
            fix="Save embed_tokens.weight with the draft.",
        )
