"""Replays a draft with the training library's own modules, in two independent ways.

One way is the library's forward pass, as training runs it, read with hooks. The other calls the library's
modules one after the other with a growing cache, as an engine does: prompt first, then one greedy token at
a time. Only the second can be asked what would come out under another convention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch

from contracts.probes import speculators_release

FLEX_BLOCK = 128
"""Flex attention wants sequences of a multiple of this length."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a draft is given for a prompt of P tokens."""

    tokens: torch.Tensor
    """The prompt from its second token on, and the token that the target chose after it; shape [P]."""
    states: torch.Tensor
    """The target's hidden states, side by side in the order of training; shape [P, taps * hidden]."""


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """How an engine runs a draft; the defaults are what speculative decoding means by it."""

    feed_normed: bool
    """The recurrent state is fed back after the final norm (`norm_output`)."""
    score_normed: bool = True
    """The output head reads the state after the final norm."""
    feed_latest: bool = True
    """Each step is fed the state of the step before it, not of the one before that."""
    windowed: bool = True
    """The attention window is applied."""
    window_moves: bool = True
    """In chained steps the window moves along with the token."""
    position_after: Callable[[int], int] = lambda position: position + 1
    """Position of the token after one at `position`, in the chained steps."""
    first_jump: int = 0
    """Positions skipped between the prompt and the first chained step."""
    target_id: Callable[[Any, int], int] | None = None
    """Target token id of a draft token id; None: `d2t` holds offsets."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a draft computed for a prompt of P tokens and S chained greedy steps."""

    fused: torch.Tensor
    """The target's hidden states after `fc`; shape [P, hidden]."""
    recurrent: torch.Tensor
    """The state that is fed back, of each position; shape [P + S, hidden]."""
    logits: torch.Tensor
    """Of the last position of the prompt, then of each chained step; shape [1 + S, draft vocabulary]."""
    draft_tokens: torch.Tensor
    """The greedy choice of each of these, as target token ids; shape [1 + S]."""
    positions: torch.Tensor
    """What the rotary embedding is given; shape [P + S]."""

    def tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """By name, for a safetensors file."""
        return {f"{prefix}{field.name}": getattr(self, field.name).contiguous() for field in fields(self)}


def conventions(draft: Any) -> Conventions:
    """Those that the draft was trained under."""
    return Conventions(
        feed_normed=bool(getattr(draft.config, "norm_output", False))
    )  # there is none before 0.7


def fuse(draft: Any, states: torch.Tensor) -> torch.Tensor:
    """The fusion projection and the norms before it, as the library's forward pass orders them."""
    if draft.input_norm is not None:
        states = draft.input_norm(states)
    if draft.fc_norm is not None:
        chunks = states.chunk(len(draft.fc_norm), -1)
        states = torch.cat([norm(chunk) for norm, chunk in zip(draft.fc_norm, chunks, strict=True)], -1)
    return draft.fc(states)


@torch.no_grad()
def chain(draft: Any, inputs: Inputs, steps: int, how: Conventions) -> Outcome:
    """The library's modules with a cache: the prompt at once, then `steps` greedy tokens one by one."""
    from transformers import DynamicCache

    cache = DynamicCache()
    fused = state = fuse(draft, inputs.states)[None]
    tokens = inputs.tokens[None]
    positions = torch.arange(1, tokens.shape[1] + 1)[None]
    previous = fused[:, -1:]
    prompt = tokens.shape[1]
    fed, scores, chosen, at = [], [], [], [positions[0]]
    seen = 0
    for step in range(steps + 1):
        rows = torch.arange(seen, seen + tokens.shape[1])
        seen += tokens.shape[1]
        hidden = run_layers(draft, tokens, state, positions, rows, prompt, cache, how)
        feedback, scored = feedback_and_scores(draft, hidden, how)
        logits = scored[0, -1]
        draft_token = int(logits.argmax())
        token = how.target_id(draft, draft_token) if how.target_id else target_id(draft, draft_token)
        fed.append(feedback[0])
        scores.append(logits)
        chosen.append(token)
        if step == steps:
            break
        state = feedback[:, -1:] if how.feed_latest else previous
        previous = feedback[:, -1:]
        tokens = torch.tensor([[token % draft.embed_tokens.num_embeddings]])
        jump = how.first_jump if step == 0 else 0
        positions = torch.tensor([[how.position_after(int(positions[0, -1])) + jump]])
        at.append(positions[0])
    return Outcome(
        fused=fused[0],
        recurrent=torch.cat(fed),
        logits=torch.stack(scores),
        draft_tokens=torch.tensor(chosen),
        positions=torch.cat(at),
    )


def run_layers(
    draft: Any,
    tokens: torch.Tensor,
    state: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor,
    prompt: int,
    cache: Any,
    how: Conventions,
) -> torch.Tensor:
    """One pass through the draft's layers: tokens [batch, rows], state and result [batch, rows, hidden].

    `rows` [rows] are the places of the tokens in the cache, which is extended; `positions` [1, rows] what the
    rotary embedding is given.
    """
    hidden = torch.cat([draft.embed_tokens(tokens), state], -1)
    rotary = draft.rotary_emb(hidden, positions)
    for index, layer in enumerate(draft.layers):
        output = layer(
            hidden,
            attention_mask=_mask(draft, index, rows, prompt, how),
            position_ids=positions,
            past_key_values=cache,
            cache_position=rows,
            position_embeddings=rotary,
        )
        hidden = output[0] if isinstance(output, tuple) else output  # a tuple before transformers 4.54
    return hidden


def feedback_and_scores(
    draft: Any, hidden: torch.Tensor, how: Conventions
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is fed back of each row, and its scores, from what the layers left."""
    normed = draft.norm(hidden)
    scores = draft.lm_head(normed if how.score_normed else hidden)
    return (normed if how.feed_normed else hidden), scores


def target_id(draft: Any, token: int) -> int:
    """`d2t` holds offsets: target id minus draft id."""
    return token if draft.d2t is None else token + int(draft.d2t[token])


def _mask(draft: Any, index: int, rows: torch.Tensor, prompt: int, how: Conventions) -> torch.Tensor:
    """Additive attention mask of one layer for `rows`, shape [1, 1, rows, last row + 1]."""
    keys = torch.arange(int(rows[-1]) + 1)[None]
    visible = keys <= rows[:, None]
    if how.windowed and index in draft.sliding_window_indices:
        seen_from = rows[:, None] if how.window_moves else rows[:, None].clamp(max=prompt - 1)
        visible &= keys > seen_from - draft.sliding_window
    return torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))[None, None]


@torch.no_grad()
def library_forward(draft: Any, inputs: Inputs, steps: int) -> Outcome:
    """The library's own forward pass, read with hooks.

    It scores every position of the prompt in each of its steps; the chain is the one that begins at the
    last position. Since 0.7 the pass is fed the tokens that it found greedily; before, it feeds itself.
    """
    last = len(inputs.tokens) - 1
    feed_normed = conventions(draft).feed_normed
    recurrent, logits, positions, chosen = [], [], [], []
    fused, tokens = torch.empty(0), inputs.tokens
    teacher = speculators_release.has("document-ids")
    seen = _Seen()
    for step in range(steps + 1):
        if step == 0 or teacher:
            seen = _run(draft, inputs.states, tokens, step + 1 if teacher else steps + 1)
        if step == 0:
            fused = seen.fused[: last + 1]
        state = draft.norm(seen.fed[step]) if feed_normed else seen.fed[step]
        recurrent.append(state[: last + 1] if step == 0 else state[last : last + 1])
        at = seen.positions[step]
        positions.append(at[: last + 1] if step == 0 else at[last : last + 1])
        logits.append(seen.scores[step][last])
        chosen.append(target_id(draft, int(logits[-1].argmax())))
        tokens = torch.cat([tokens, torch.tensor(chosen[-1:])])
    return Outcome(
        fused=fused,
        recurrent=torch.cat(recurrent),
        logits=torch.stack(logits),
        draft_tokens=torch.tensor(chosen),
        positions=torch.cat(positions),
    )


@dataclass(frozen=True)
class _Seen:
    """What the hooks saw in one forward pass, by step; rows are positions."""

    fused: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    fed: list[torch.Tensor] = field(default_factory=list)
    scores: list[torch.Tensor] = field(default_factory=list)
    positions: list[torch.Tensor] = field(default_factory=list)


def _run(draft: Any, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> _Seen:
    """One forward pass; positions past the prompt take part in nothing that its last position sees."""
    fused: list[torch.Tensor] = []
    seen = _Seen()
    hooks = [
        draft.rotary_emb.register_forward_pre_hook(
            lambda _module, inputs: seen.positions.append(inputs[1][0])
        ),
        draft.fc.register_forward_hook(lambda _module, _inputs, output: fused.append(output[0])),
        draft.lm_head.register_forward_hook(lambda _module, _inputs, output: seen.scores.append(output[0])),
        draft.layers[-1].register_forward_hook(lambda _module, _inputs, output: seen.fed.append(output[0])),
    ]
    length = len(tokens)
    if not speculators_release.has("attention-chosen"):
        length += -length % FLEX_BLOCK
    pad = torch.nn.functional.pad
    try:
        draft(
            hidden_states=pad(states, (0, 0, 0, length - len(states)))[None],
            input_ids=pad(tokens, (0, length - len(tokens)))[None],
            ttt_steps=steps,
            **speculators_release.sequence(len(tokens)),
        )
    finally:
        for hook in hooks:
            hook.remove()
    return replace(seen, fused=fused[0])
