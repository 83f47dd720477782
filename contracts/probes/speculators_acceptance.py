"""What the training side expects of an engine that serves its draft: which tokens are drafted, and accepted.

The target is continued greedily by transformers. At each place of its output the draft's modules propose what
an engine could ask them for: the best tokens after the last committed one, after each of those, and so on.
Nothing here knows how an engine drafts or verifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts.probes import transformers_target
from contracts.probes.speculators_replay import (
    Conventions,
    Inputs,
    conventions,
    feedback_and_scores,
    fuse,
    run_layers,
    target_id,
)

STEPS, WIDTH = 3, 2
"""Draft tokens to a chain, and branches to a node, up to which proposals are known."""


def save_expected(
    draft: Any, taps: tuple[int, ...], target: Path, prompts: Sequence[Sequence[int]], tokens: int, file: Path
) -> None:
    """Write what is expected of `draft` for each prompt of P tokens that is continued by `tokens`.

    `taps` are the target's hidden states that the draft was trained on, by index.

    A last round may accept STEPS tokens more than were asked for, so T = P + `tokens` + STEPS.

    `text/i` [T]: prompt and greedy continuation. `states/i`, `normed_states/i` and `bare_states/i`
    [layers + 1, T, hidden]: the target's hidden states in the forms of `TargetStates`. `ids`: trained on.
    `proposals/i` [tokens - 1, contexts, WIDTH]: target ids proposed once P + 1, P + 2, ... tokens are
    committed, best first; the contexts of STEPS levels are numbered as in a full tree, the root 0 and the
    children of context n from n * WIDTH + 1. `margins/i`: how much better the score of each is than that of
    the next best, relative to the largest. `embedding` [vocabulary, hidden] and `head` [draft vocabulary,
    hidden]: the draft's.
    """
    how = conventions(draft)
    found = {"ids": torch.tensor(taps)}
    found |= {"embedding": draft.embed_tokens.weight.detach(), "head": draft.lm_head.weight.detach()}
    for number, prompt in enumerate(prompts):
        text = continuation(target, prompt, tokens + STEPS)
        target_states = transformers_target.observe(target, text)
        given = torch.cat([target_states.states[index] for index in taps], -1)
        asked = [
            propose(draft, Inputs(tokens=text[1:committed], states=given[: committed - 1]), how)
            for committed in range(len(prompt) + 1, len(prompt) + tokens)
        ]
        found[f"text/{number}"] = text
        found[f"states/{number}"] = target_states.states
        found[f"normed_states/{number}"] = target_states.normed
        found[f"bare_states/{number}"] = target_states.bare
        found[f"proposals/{number}"] = torch.stack([ids for ids, _ in asked])
        found[f"margins/{number}"] = torch.stack([margins for _, margins in asked])
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, file)


def continuation(target: Path, prompt: Sequence[int], tokens: int) -> torch.Tensor:
    """The prompt and what transformers' own `generate` puts after it, greedily and without an end."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    with torch.no_grad():
        output = model.generate(
            torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    assert isinstance(output, torch.Tensor)
    return output[0]


@torch.no_grad()
def propose(draft: Any, inputs: Inputs, how: Conventions) -> tuple[torch.Tensor, torch.Tensor]:
    """Target ids [contexts, WIDTH] that the draft ranks first in each context, and their margins."""
    from transformers import DynamicCache

    cache, prompt = DynamicCache(), len(inputs.tokens)
    tokens, state = inputs.tokens[None], fuse(draft, inputs.states)[None]
    rows = torch.arange(prompt)
    to_target = torch.tensor([target_id(draft, token) for token in range(draft.lm_head.out_features)])
    proposed, margins = [], []
    for _ in range(STEPS):
        hidden = run_layers(draft, tokens, state, rows[None] + 1, rows, prompt, cache, how)
        fed_back, scores = feedback_and_scores(draft, hidden, how)
        best = scores[:, -1].topk(WIDTH + 1)
        ids = to_target[best.indices[:, :WIDTH]]
        proposed.append(ids)
        margins.append((best.values[:, :-1] - best.values[:, 1:]) / scores[:, -1].abs().max())
        cache.batch_repeat_interleave(WIDTH)
        state = fed_back[:, -1:].repeat_interleave(WIDTH, 0)
        tokens, rows = ids.reshape(-1, 1), rows[-1:] + 1
    return torch.cat(proposed), torch.cat(margins)
