"""Which packages an overlay needs of its own: those of a release's pins that the shared packages do not meet.

Only pins that change what is shown at the interface count (`MATTER`); of the packages that are then
installed, every requirement does. torch and what is compiled against it are shared by all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

MATTER = frozenset({"transformers", "tokenizers", "huggingface-hub", "datasets", "hs-connectors"})
SHARED = frozenset({"torch", "torchvision", "torchaudio", "triton", "numpy", "pyarrow", "pandas"})
"""Never overlaid: large, and compiled for each other."""


def missing(library: str, overlay: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Requirements that are not met on the paths `overlay`, then `shared`; as an installer is told.

    Those of `library` that matter, and all of whatever else is in the overlay.
    """
    own = {canonicalize_name(item.name): item for item in metadata.distributions(path=list(overlay))}
    others = {canonicalize_name(item.name): item for item in metadata.distributions(path=list(shared))}
    wanted = []
    for name, distribution in own.items():
        for requirement in _requirements(distribution):
            needed = canonicalize_name(requirement.name)
            if needed in SHARED or (name == library and needed not in MATTER):
                continue
            found = own.get(needed) or others.get(needed)
            if found is None or not requirement.specifier.contains(found.version, prereleases=True):
                wanted.append(f"{requirement.name}{requirement.specifier}")
    return sorted(set(wanted))


def off_pin(library: str, paths: Iterable[str]) -> dict[str, tuple[str, str | None]]:
    """Requirements of `library` that are not met on `paths`: what was asked for, and what is there."""
    there = {
        canonicalize_name(item.name): item
        for item in reversed(list(metadata.distributions(path=list(paths))))
    }
    distribution = there.get(canonicalize_name(library))
    if distribution is None:
        return {}
    found: dict[str, tuple[str, str | None]] = {}
    for requirement in _requirements(distribution):
        installed = there.get(canonicalize_name(requirement.name))
        version = installed.version if installed else None
        if version is None or not requirement.specifier.contains(version.partition("+")[0], prereleases=True):
            found[requirement.name] = (str(requirement.specifier), version)
    return found


def _requirements(distribution: metadata.Distribution) -> Iterator[Requirement]:
    """What a distribution requires here, extras left out."""
    for line in distribution.requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement
