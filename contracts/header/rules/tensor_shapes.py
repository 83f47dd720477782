"""Whether tensors are as large as config.json says."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.causes import Cause
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.rule import Offer, rule


@rule(Cause.HEADS_DIFFER)
def attention_is_as_said(offer: Offer) -> Iterator[Finding]:
    """The attention projections have the heads that config.json states."""
    draft = offer.draft
    heads, hidden = draft.config.integer("num_attention_heads"), draft.config.integer("hidden_size")
    if heads is None or hidden is None:
        return  # config.sizes_are_said
    groups = draft.config.integer("num_key_value_heads") or heads
    said = draft.config.integer("head_dim")
    width = said or hidden // heads
    wrong = []
    for name, rows in (("q", heads * width), ("k", groups * width), ("v", groups * width)):
        shape = draft.shape(f"layers.0.self_attn.{name}_proj.weight")
        if shape is not None and shape[:1] != (rows,):
            wrong.append(f"{name}_proj has {_rows(shape)} rows, not {rows}")
    shape = draft.shape("layers.0.self_attn.o_proj.weight")
    if shape is not None and shape != (hidden, heads * width):
        wrong.append(f"o_proj is {list(shape)}, not {[hidden, heads * width]}")
    if not wrong:
        return
    yield Finding(
        cause=Cause.HEADS_DIFFER,
        damage=Damage.FAILS,
        where="head_dim" if said is None else "num_attention_heads, num_key_value_heads, head_dim",
        expected=f"{heads} heads of {width}"
        + ("" if said else " (hidden_size / heads, as head_dim is unsaid)"),
        seen="; ".join(wrong),
        consequence="the loader refuses the projections; on a CPU it pads them",
        fix=_heads_fix(draft, heads, width, hidden),
    )


def _heads_fix(draft: Draft, heads: int, width: int, hidden: int) -> str:
    """Which key to change so that the projections fit, if one key does."""
    queries, keys, out = (draft.shape(f"layers.0.self_attn.{it}_proj.weight") or () for it in "qko")
    if _rows(out) not in (0, hidden):
        return f'Write "hidden_size": {_rows(out)} to config.json, if that was trained.'
    if _rows(queries) == heads * width and _rows(keys) and _rows(keys) % width == 0:
        return f'Write "num_key_value_heads": {_rows(keys) // width} to config.json.'
    if _rows(queries) and _rows(queries) % heads == 0:
        return f'Write "head_dim": {_rows(queries) // heads} to config.json, or the heads of training.'
    return "Make config.json state the heads that were trained."


def _rows(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 0


@rule(Cause.SHAPE_MISMATCH)
def every_shape_is_as_said(offer: Offer) -> Iterator[Finding]:
    """Every other tensor is as large as config.json says."""
    wrong = []
    for name, shape in _expected(offer.draft):
        seen = offer.draft.shape(name)
        if seen is not None and seen != shape:
            wrong.append((offer.draft.named(name) or name, seen, shape))
    if wrong:
        name, seen, shape = wrong[0]
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        yield Finding(
            cause=Cause.SHAPE_MISMATCH,
            damage=Damage.FAILS,
            where=f"{name}{more}",
            expected=f"{list(shape)}, by config.json",
            seen=str(list(seen)),
            consequence="the loader refuses the tensor",
        )


def _expected(draft: Draft) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Canonical names with the shapes that follow from config.json; attention heads, fc and head left out."""
    config = draft.config
    hidden, middle, vocab = (config.integer(k) for k in ("hidden_size", "intermediate_size", "vocab_size"))
    if (
        config.get("model_type") == "llama4_text"
    ):  # models/llama_eagle3.py: the MLP of this type has its own key
        middle = config.integer("intermediate_size_mlp")
    if hidden is None:
        return
    yield "norm.weight", (hidden,)
    if vocab is not None:
        yield "embed_tokens.weight", (vocab, hidden)
    for layer in range(draft.num_layers):
        at = f"layers.{layer}"
        for norm in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{norm}.weight", (hidden,)
        for part in "qkv":
            seen = draft.shape(f"{at}.self_attn.{part}_proj.weight")
            if seen:  # the first layer reads embedding and state side by side
                yield f"{at}.self_attn.{part}_proj.weight", (seen[0], 2 * hidden if layer == 0 else hidden)
        if middle is not None:
            yield f"{at}.mlp.gate_proj.weight", (middle, hidden)
            yield f"{at}.mlp.up_proj.weight", (middle, hidden)
            yield f"{at}.mlp.down_proj.weight", (hidden, middle)


@rule(Cause.HEAD_ROWS)
def head_has_the_draft_vocabulary(offer: Offer) -> Iterator[Finding]:
    """lm_head has one row per token of the draft vocabulary."""
    config = offer.draft.config
    shape = offer.draft.shape("lm_head.weight")
    said = config.integer("draft_vocab_size") or (
        config.integer("vocab_size") if "draft_vocab_size" in config else None
    )
    if shape is None or said is None or _rows(shape) == said:
        return
    yield Finding(
        cause=Cause.HEAD_ROWS,
        damage=Damage.FAILS,
        where="lm_head.weight",
        expected=f"{said} rows, as draft_vocab_size says",
        seen=f"{_rows(shape)} rows",
        consequence="the loader refuses the head",
        fix=f'Write "draft_vocab_size": {_rows(shape)} to config.json.',
    )


@rule(Cause.FC_WIDTH, Cause.FC_SKIPPED)
def fc_takes_the_states(offer: Offer) -> Iterator[Finding]:
    """Fc is as wide as the hidden states that the release delivers, together."""
    draft, reading = offer.draft, offer.reading
    shape, width, hidden = draft.shape("fc.weight"), draft.state_width, draft.config.integer("hidden_size")
    if shape is None or width is None or len(shape) != 2:
        return
    count = _count(draft)
    if count * width == hidden and draft.is_fused:
        yield Finding(
            cause=Cause.FC_SKIPPED,
            damage=Damage.COLLAPSES,
            where="fc.weight",
            expected="states that are wider together than the draft",
            seen=f"{count} of {width}, and the draft is as wide: {hidden}",
            consequence="what arrives counts as fused already, and fc is skipped",
            fix="Train a draft of another width, or on another number of states.",
        )
    ids = draft.ids
    if ids and draft.config.integer("num_aux_hidden_states") not in (None, len(ids)):
        yield Finding(
            cause=Cause.FC_WIDTH,
            damage=Damage.FAILS,
            where="num_aux_hidden_states",
            expected=f"{len(ids)}, as there are ids",
            seen=str(draft.config.integer("num_aux_hidden_states")),
            consequence="fc is built for another number of states than arrives",
            fix=f'Write "num_aux_hidden_states": {len(ids)} to config.json, if fc takes as many.',
        )
        return
    spelling = _counted_by(draft)
    refused = spelling != "plain" and count != 3 and reading[spelling].refused
    if shape == (hidden, count * width) and not refused:
        return
    built = 3 if refused else count
    yield Finding(
        cause=Cause.FC_WIDTH,
        damage=Damage.FAILS,
        where="fc.weight",
        expected=f"[{hidden}, {built * width}], for {built} states of {width}",
        seen=str(list(shape)),
        consequence="the loader refuses fc, or the first batch fails",
        fix=_fix(draft, shape, width, bool(refused)),
    )


def _count(draft: Draft) -> int:
    """How many states config.json asks for."""
    said = draft.config.integer("num_aux_hidden_states")
    ids = draft.ids
    return said or (len(ids) if ids else 3)


def _counted_by(draft: Draft) -> str:
    if draft.config.integer("num_aux_hidden_states"):
        return "ids.four_counted"
    if draft.nested.ids("eagle_aux_hidden_state_layer_ids"):
        return "ids.four"
    return "ids.top_four" if draft.ids else "plain"


def _fix(draft: Draft, shape: tuple[int, ...], width: int, refused: bool) -> str:
    rows, chunks = shape[0], shape[1] / width
    if rows != draft.config.integer("hidden_size"):
        return "fc is not of this hidden size, or transposed; save it again, as torch.nn.Linear keeps it."
    if not chunks.is_integer():
        return "fc and the target's hidden size are not of one draft; state target_hidden_size if it differs."
    if refused:
        return f"Serve it with sglang >= 0.5.12, with the {int(chunks)} ids in eagle_config."
    return f"Write as many ids as fc takes, {int(chunks)}, to eagle_config.eagle_aux_hidden_state_layer_ids."
