"""Where the new columns of several requests lie in the engine's table of cache slots."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def columns(
    req_pool_indices: torch.Tensor, start: torch.Tensor, end: torch.Tensor
) -> Iterator[tuple[int, slice, slice]]:
    """Per request its row, its columns `start` to `end`, and their place when all stand in one line."""
    taken = 0
    for row, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        yield row, slice(first, last), slice(taken, taken + last - first)
        taken += last - first
