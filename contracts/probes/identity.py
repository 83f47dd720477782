"""What is installed in this interpreter, without importing any of it."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from contracts.facts import SideIdentity, to_json

RELATED = (
    *("torch", "torchvision", "transformers", "tokenizers", "huggingface-hub", "safetensors", "datasets"),
    *("sglang-kernel", "sgl-kernel", "hs-connectors"),
)
"""Packages whose version can change what a side shows."""

_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)")


def identify(library: str) -> dict[str, object]:
    """JSON of the `SideIdentity` of `library` in this interpreter."""
    distribution = _distribution(library)
    packages = {name: found.version for name in RELATED if (found := _distribution(name)) is not None}
    return dict(
        to_json(
            SideIdentity(
                library=library,
                version=distribution.version if distribution else None,
                python=platform.python_version(),
                executable=sys.executable,
                platform=platform.platform(),
                packages=packages,
                pins=_pins(distribution) if distribution else {},
                fingerprint=_fingerprint(library, distribution, packages),
            )
        )
    )


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _pins(distribution: metadata.Distribution) -> dict[str, str]:
    """What the library's metadata asks for of the related packages (extras left out)."""
    pins = {}
    for requirement in distribution.requires or []:
        match = _REQUIREMENT.match(requirement)
        name = match[1].lower().replace("_", "-").replace(".", "-") if match else ""
        if match and "extra ==" not in requirement and name in RELATED:
            pins[name] = match[2].strip()
    return pins


def _fingerprint(library: str, distribution: metadata.Distribution | None, packages: dict[str, str]) -> str:
    """Digest of the library's files (path, size, time of change) and of the related versions.

    An edited or editable installation thus never meets facts that were cached before the edit.
    """
    digest = hashlib.sha256(repr((sys.executable, sys.version, sorted(packages.items()))).encode())
    for root in _package_folders(library, distribution):
        for file in sorted(root.rglob("*.py")):
            status = file.stat()
            digest.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _package_folders(library: str, distribution: metadata.Distribution | None) -> Iterator[Path]:
    if distribution is None:
        return
    spec = importlib.util.find_spec(library)
    for location in (spec.submodule_search_locations if spec else None) or ():
        yield Path(location)
