"""The draft that targets are served with: it has no weights, since only what it is given matters.

Standard library only, because it is written by the probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contracts import blank, spellings
from contracts.blank import weight

USUAL = 3
"""States that a draft takes that names none."""


def write(folder: Path, ids: Sequence[int] | None, *, vocabulary: int, hidden: int, streams: int = 1) -> None:
    """Write a draft that names `ids`, or none, and takes as many states, `streams` of width `hidden` each."""
    states = USUAL if ids is None else len(ids)
    named = {} if ids is None else {"eagle_aux_hidden_state_layer_ids": list(ids)}
    config = {
        **spellings.CONFIG,
        "vocab_size": vocabulary,
        "num_aux_hidden_states": states,
        spellings.NEST: {"use_aux_hidden_state": True, **named},
    }
    if streams > 1:
        config["target_hidden_size"] = streams * hidden
    tensors = {
        **spellings.TENSORS,
        "embed_tokens.weight": weight(vocabulary, hidden),
        "fc.weight": weight(spellings.HIDDEN, states * streams * hidden),
        "t2d": blank.flags(spellings.TARGET_IDS, vocabulary),
    }
    blank.write(folder, config, tensors)
