"""What the layer ids of a draft name: to the trainer that wrote them, and to the release that serves them.

Everybody counts in hidden states here: 0 is the embeddings, i the output of decoder layer i - 1, before the
final norm (as transformers numbers `hidden_states`). Export, contracts and `contracts check` all ask it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from contracts.captures import Captures, default_states
from contracts.header.origin import Writer

OUTPUTS = {
    Writer.SPECFORGE: "SpecForge: takes the outputs of layers 1, n//2 - 1 and n - 4 of n, and calls them so",
    Writer.ANGELSLIM: "AngelSlim: writes ids for sglang, which takes outputs of layers",
}
"""Trainers whose ids name the outputs of layers, and where that is said."""
INPUTS = {
    Writer.EAGLE: "EAGLE reference, modeling_llama_kv.py: what goes into layers 2, n//2 and n - 3 of n",
    Writer.TORCHSPEC: "TorchSpec: its published head for Kimi-K2.5 names inputs of layers "
    "(github.com/sgl-project/sglang/pull/25454)",
}
"""Trainers whose ids name the inputs of layers, which are hidden states, likewise."""
COUNTS_STATES = (0, 5)
"""Release of speculators since which ids are hidden-state indices (and are written at all)."""


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What a list of ids means to somebody."""

    states: tuple[int, ...] | None
    """Hidden states; None where nobody knows."""
    evidence: str
    """Where that comes from."""


@dataclass(frozen=True, kw_only=True)
class Meanings:
    """What one list of ids means in training and in serving."""

    trained: Meaning
    served: Meaning

    @property
    def agree(self) -> bool | None:
        """Whether a draft is served the states that it was trained on; None where one is not known."""
        if self.trained.states is None or self.served.states is None:
            return None
        return self.trained.states == self.served.states


def meanings(
    trainer: Writer,
    trainer_release: str | None,
    ids: Sequence[int] | None,
    *,
    serving: str,
    classes: Sequence[str],
    num_layers: int,
) -> Meanings:
    """What `ids` name to who trained with them, and to sglang `serving` with a target of these classes.

    Args:
        trainer: that wrote the draft.
        trainer_release: of speculators; None elsewhere.
        ids: as config.json has them; None or empty: the defaults of either side.
        serving: release of sglang.
        classes: class of the target, then that of its language model if it wraps one.
        num_layers: decoder layers of the target.

    """
    return Meanings(
        trained=as_trained(trainer, trainer_release, ids, num_layers),
        served=as_served(serving, classes, ids, num_layers),
    )


def as_trained(
    trainer: Writer, release: str | None, ids: Sequence[int] | None, num_layers: int | None = None
) -> Meaning:
    """What ids name to the trainer that wrote them."""
    if trainer is Writer.SPECULATORS:
        if not counts_states(release):
            return Meaning(
                states=None, evidence=f"speculators {release} recorded no layers (contracts/releases)"
            )
        told = f"speculators {release}: indices of hidden states, as its record shows (contracts/releases)"
        return Meaning(states=tuple(ids) if ids else None, evidence=told)
    if not ids:
        if trainer in (Writer.SPECFORGE, Writer.EAGLE) and num_layers is not None:
            return Meaning(states=default_states(num_layers), evidence={**OUTPUTS, **INPUTS}[trainer])
        return Meaning(states=None, evidence=f"{trainer}: writes no ids that are known to mean anything")
    if trainer in OUTPUTS:
        return Meaning(states=tuple(item + 1 for item in ids), evidence=OUTPUTS[trainer])
    if trainer in INPUTS:
        return Meaning(states=tuple(ids), evidence=INPUTS[trainer])
    return Meaning(states=None, evidence=f"{trainer}: how it counts is not known")


def as_served(serving: str, classes: Sequence[str], ids: Sequence[int] | None, num_layers: int) -> Meaning:
    """What ids name to sglang `serving` with a target of these classes."""
    captures = Captures.for_release(serving)
    return Meaning(states=captures.states(classes, ids, num_layers), evidence=captures.evidence(classes))


def to_serve(
    serving: str, classes: Sequence[str], states: Sequence[int], num_layers: int | None
) -> tuple[int, ...]:
    """Ids with which sglang `serving` delivers `states`, in ascending order, of a target of these classes.

    Raises:
        NotCaptured: no ids do, or nothing is known about the classes.

    """
    return Captures.for_release(serving).ids(classes, states, num_layers)


def counts_states(release: str | None) -> bool:
    """Whether a release of speculators writes hidden-state indices."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", release or "")
    return bool(found) and (int(found[1]), int(found[2])) >= COUNTS_STATES  # type: ignore[index]
