"""Which packages an overlay needs of its own: those of a release's pins that the shared packages do not meet.

Only pins that change what is shown at the interface count (`MATTER`); of the packages that are then
installed, every requirement does. torch and what is compiled against it are shared by all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

MATTER = frozenset({"transformers", "tokenizers", "huggingface-hub", "datasets", "hs-connectors"})
SHARED = frozenset({"torch", "torchvision", "torchaudio", "triton", "numpy", "pyarrow", "pandas"})
"""Never overlaid: large, and compiled for each other."""


def missing(
    library: str,
    overlay: Sequence[str],
    shared: Sequence[str],
    markers: Mapping[str, str],
    unstated: Sequence[str] = (),
) -> list[str]:
    """Requirements that are not met on the paths `overlay`, then `shared`; as an installer is told.

    Those of `library` that matter, the `unstated` ones, and all of whatever else is in the overlay. `markers`
    are of the interpreter that the packages are for.
    """
    own, others = _installed(overlay), _installed(shared)
    wanted = []
    asked = [(name, item) for name, found in own.items() for item in _requirements(found, markers)]
    asked += [("", Requirement(item)) for item in unstated]
    for name, requirement in asked:
        needed = canonicalize_name(requirement.name)
        if needed in SHARED or (name == library and needed not in MATTER):
            continue
        found = own.get(needed) or others.get(needed)
        if requirement.url:
            if needed not in own:
                wanted.append(f"{requirement.name} @ {requirement.url}")
        elif found is None or not requirement.specifier.contains(found.version, prereleases=True):
            wanted.append(f"{requirement.name}{requirement.specifier}")
    return sorted(set(wanted))


def off_pin(library: str, paths: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    """Requirements of `library` that are not met on `paths`: what was asked for, and what is there."""
    there = _installed(paths)
    distribution = there.get(canonicalize_name(library))
    found: dict[str, tuple[str, str | None]] = {}
    for requirement in _requirements(distribution, {}) if distribution else ():
        name = canonicalize_name(requirement.name)
        version = there[name].version if name in there else None
        met = version is not None and not requirement.url
        if not met or not requirement.specifier.contains(str(version).partition("+")[0], prereleases=True):
            found[name] = (requirement.url or str(requirement.specifier), version)
    return found


def _installed(paths: Sequence[str]) -> dict[str, metadata.Distribution]:
    """Distributions by name; of one that is on several paths the first. Nameless remains are left out."""
    found: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions(path=list(paths)):
        if name := distribution.metadata["Name"]:
            found.setdefault(canonicalize_name(name), distribution)
    return found


def _requirements(distribution: metadata.Distribution, markers: Mapping[str, str]) -> Iterator[Requirement]:
    """What a distribution requires for an interpreter of these markers, extras left out."""
    for line in distribution.requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({**markers, "extra": ""}):
            yield requirement
