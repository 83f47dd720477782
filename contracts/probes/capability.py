"""What a range of releases offers to a probe, declared in one place per library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata

from packaging.version import Version


@dataclass(frozen=True, kw_only=True)
class Capability:
    """Something that a release offers from some time on."""

    since: str
    """First release of the range."""
    why: str
    """What is there, and what was before."""


class Release:
    """The installed release of a library."""

    def __init__(self, library: str, capabilities: Mapping[str, Capability]) -> None:
        self._library, self._capabilities = library, capabilities

    @cached_property
    def version(self) -> Version:
        """Its number."""
        return Version(metadata.version(self._library))

    def has(self, capability: str) -> bool:
        """Whether it offers a capability; pre-releases and development versions count as their release."""
        return Version(self.version.base_version) >= Version(self._capabilities[capability].since)
