"""What a serving release reads of a draft checkpoint, drawn from the surface recorded for it.

Which tensors its loader consumed, which config keys it asked for, which hidden state an id delivered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache

from contracts import records
from contracts.facts import DraftFacts

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What one serving release reads of an EAGLE-3 draft checkpoint."""

    release: str
    """The recorded release that this was drawn from."""
    architecture: str
    tensors: frozenset[str]
    """Names that the loader consumed, numbers as `*`."""
    config_keys: frozenset[str]
    id_shift: int
    """Hidden-state index minus layer id: 1 where an id names the output of a layer."""
    lowest_state: int
    """Lowest hidden-state index that was seen to be delivered."""
    norms: frozenset[str]
    """Optional norms that were seen to be applied, as `NormFlags` names them."""
    shares_embedding: bool
    """The target's embedding takes the place of the draft's."""

    @classmethod
    def for_release(cls, serving: str) -> Dialect:
        """The dialect of sglang `serving`: from its own record, or from the newest release before it.

        Raises:
            UnsupportedRelease: there is no such record, or it is no release.

        """
        records.check_supported("sglang", serving)
        release = records.baseline("sglang", serving)
        assert release is not None  # the oldest release that is supported is recorded
        return cls.of(records.surface("sglang", release), release)

    @classmethod
    def of(cls, surface: Mapping[str, DraftFacts], release: str) -> Dialect:
        """Draw the dialect from the recorded facts of a serving release, by recipe.

        Raises:
            ValueError: the facts say too little, or contradict each other.

        """
        facts = list(surface.values())
        taps = [item.aux_layers for item in facts if item.aux_layers and item.aux_layers.layer_ids]
        shifts = {
            state - layer_id
            for tap in taps
            for layer_id, state in zip(tap.layer_ids or (), tap.states, strict=True)
        }
        names = {name for item in facts if item.weight_names for name in item.weight_names.names}
        architectures = {item.architecture for item in facts if item.architecture}
        if len(shifts) != 1 or len(architectures) != 1 or not names:
            raise ValueError(f"the record of sglang {release} does not show one way to write a draft")
        return cls(
            release=release,
            architecture=architectures.pop(),
            tensors=frozenset(map(pattern, names)),
            config_keys=frozenset(key for item in facts for key in item.config_keys),
            id_shift=shifts.pop(),
            norms=frozenset(
                flag
                for item in facts
                if item.norms
                for flag, applied in asdict(item.norms).items()
                if applied
            ),
            lowest_state=min(state for tap in taps for state in tap.states),
            shares_embedding=all(
                item.sharing is None or item.sharing.embedding == "target" for item in facts
            ),
        )


@cache
def first_with_norm(flag: str) -> str | None:
    """The release since which every recorded one applies a norm; None if the newest does not."""
    first = None
    for release in reversed(records.recorded_releases("sglang")):
        if flag not in Dialect.for_release(release).norms:
            break
        first = release
    return first


def pattern(name: str) -> str:
    """The name of a tensor with numbers as `*`."""
    return _NUMBER.sub("*", name)
