"""A replay on which every contract holds, to break in one place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from contracts.replay import Array, Numbers, Replay

PROMPT, STEPS, HIDDEN, VOCAB, LAYERS = 6, 4, 8, 12, 4
IDS = (1, 2)
TARGET_IDS = np.arange(VOCAB) + 100
"""d2t adds a hundred."""
# Contracts by what they look at; each fault breaks those at and after its place.
PREFILL = {"forward.prefill_state_is_equal", "forward.prefill_logits_are_equal"}
CHAIN = {"forward.chained_state_is_equal", "forward.chained_logits_are_equal"}
FED_BACK = CHAIN | {"forward.prefill_state_is_equal"}
LAYER = PREFILL | CHAIN
FUSION = LAYER | {"forward.fused_state_is_equal"}
_random = np.random.default_rng(7)


def _array(*shape: int) -> Array:
    return _random.standard_normal(shape).astype(np.float32)


def numbers(*, first_position: int = 1) -> Numbers:
    """Some outcome of a replay, unlike every other; each choice is the token with the best score."""
    logits = _array(1 + STEPS, VOCAB)
    return {
        "fused": _array(PROMPT, HIDDEN),
        "recurrent": _array(PROMPT + STEPS, HIDDEN),
        "logits": logits,
        "draft_tokens": TARGET_IDS[logits.argmax(axis=1)],
        "positions": np.arange(first_position, first_position + PROMPT + STEPS),
    }


STATES = _array(LAYERS + 1, PROMPT, HIDDEN)
GOLDEN = numbers()
SUPPOSED = numbers()
"""What every hypothesis of this replay gives, from the place on at which it starts to matter."""


def _from(*, recurrent: int = 0, logits: int = 0, fused: int = PROMPT) -> Numbers:
    """As golden up to these rows, as supposed after them."""
    starts = {"fused": fused, "recurrent": recurrent, "logits": logits}
    changed = {name: np.concatenate([GOLDEN[name][:n], SUPPOSED[name][n:]]) for name, n in starts.items()}
    return {**SUPPOSED, **changed}


HYPOTHESES: dict[str, Numbers] = {
    "rope-unscaled": numbers(),
    "fc-norm-missing": SUPPOSED,
    "window-standing": _from(),
    "final-norm-missing": _from(recurrent=PROMPT),
    "positions-standing": _from(recurrent=PROMPT, logits=1),
}


def taps(*states: int) -> Array:
    """What a target delivers that captures these hidden states."""
    return np.concatenate([STATES[state] for state in states], axis=1)


REPLAY = Replay(
    dtype="float32",
    golden=GOLDEN,
    library=GOLDEN,
    served={
        **GOLDEN,
        "positions": GOLDEN["positions"] - 1,
        "taps": taps(*IDS),
        "next_token": np.array([7]),
    },
    tokens=np.arange(PROMPT + 1) + 1,
    target_ids=TARGET_IDS,
    hypotheses=HYPOTHESES,
    ids=IDS,
    states=STATES,
    normed_states=_array(LAYERS + 1, PROMPT, HIDDEN),
    bare_states=_array(LAYERS + 1, PROMPT, HIDDEN),
)


def save(folder: Path) -> tuple[Path, Path]:
    """The two files of this replay, as the probes write them: golden and served."""
    golden = {
        "ids": np.array(REPLAY.ids),
        "tokens": REPLAY.tokens,
        "target_ids": REPLAY.target_ids,
        "states": REPLAY.states,
        "normed_states": REPLAY.normed_states,
        "bare_states": REPLAY.bare_states,
    }
    outcomes = {"golden": REPLAY.golden, "library": REPLAY.library}
    outcomes |= {f"hypothesis/{name}": supposed for name, supposed in REPLAY.hypotheses.items()}
    for prefix, outcome in outcomes.items():
        golden |= {f"{prefix}/{field}": value for field, value in outcome.items()}
    files = folder / "golden.safetensors", folder / "served.safetensors"
    save_file(golden, files[0])
    save_file(dict(REPLAY.served), files[1])
    return files


def served(**parts: slice) -> Replay:
    """The serving side computed rows of some fields as the hypothesis says."""
    return replace(REPLAY, served=_supposed(REPLAY.served, parts))


def library(**parts: slice) -> Replay:
    """So did the training library's own forward pass."""
    return replace(REPLAY, library=_supposed(REPLAY.library, parts))


def _supposed(honest: Numbers, parts: dict[str, slice]) -> Numbers:
    changed = {name: value.copy() for name, value in honest.items()}
    for name, rows in parts.items():
        supposed = SUPPOSED[name] * 2 if name == "positions" else SUPPOSED[name]
        changed[name][rows] = supposed[rows]
    return changed
