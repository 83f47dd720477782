"""What an engine generated, draft by draft: values that a serving probe fills in.

This module uses the standard library only, because it is imported inside the interpreter of a side.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Round:
    """One draft of one request, and its verification by the target."""

    committed: int
    """Tokens of prompt and output before it."""
    drafted: tuple[int, ...]
    """Proposed tokens, target ids. They are nodes 1, 2, ... of a tree whose root is the last committed token;
    with topk 1 the tree is a chain."""
    parents: tuple[int, ...]
    """The node that each of them follows; 0 is the root."""
    accepted: int
    """How many of them the target would have generated itself, by the library's verification."""

    batch: int = 1
    """Requests that were drafted for together."""
    branches: tuple[tuple[int, ...], ...] = ()
    """What each branch of the draft's cache was fed on the way, token by token. sglang keeps as many as topk
    and moves nothing between them (spec_utils.py, select_top_k_tokens): a token whose parent was fed to
    another branch follows on what its own one holds. Empty where nobody saw it: of trees in CUDA graphs."""

    def path(self, tokens: tuple[int, ...]) -> int:
        """Length of the longest path from the root that says `tokens`."""
        node, length = 0, 0
        for token in tokens:
            children = [place + 1 for place, parent in enumerate(self.parents) if parent == node]
            node = next((child for child in children if self.drafted[child - 1] == token), -1)
            if node == -1:
                break
            length += 1
        return length

    def prefix(self, node: int) -> tuple[int, ...]:
        """The proposed tokens from the root to a node, that of the node itself left out."""
        before: list[int] = []
        while parent := self.parents[node - 1]:
            before.append(self.drafted[parent - 1])
            node = parent
        return tuple(reversed(before))

    def follows_its_own_branch(self, node: int) -> bool:
        """Whether one branch of the cache holds all that leads to a node, so that it follows on that."""
        before = self.prefix(node)
        return not before or any(branch[: len(before)] == before for branch in self.branches)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One request, from its prompt to its last token."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    """What was generated after it."""
    prefills: int = 0
    """Batches in which its prompt was read."""
    rounds: tuple[Round, ...] = ()
    verifications: int = 0
    """The library's own count of rounds."""
    accepted: int = 0
    """The library's own count of accepted draft tokens."""

    @property
    def text(self) -> tuple[int, ...]:
        """Prompt and output."""
        return self.prompt + self.tokens


@dataclass(frozen=True, kw_only=True)
class EngineRun:
    """A batch of requests through one engine."""

    generations: tuple[Generation, ...]

    @property
    def accept_length(self) -> float:
        """Tokens per verification: one by the target itself and the accepted drafts, as sglang counts them.

        Of an engine without speculation it is 1.
        """
        rounds = sum(generation.verifications for generation in self.generations)
        accepted = sum(generation.accepted for generation in self.generations)
        return 1 + accepted / rounds if rounds else 1.0
