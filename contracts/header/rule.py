"""A rule: one promise about a draft and a release, as a function that yields what speaks against it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from contracts.causes import Cause
from contracts.header.draft import Draft
from contracts.header.findings import Finding
from contracts.header.reading import Reading
from contracts.served_target import ServedTarget


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One draft offered to one release of the serving library."""

    draft: Draft
    reading: Reading
    target: ServedTarget | None = None
    """What it is to be served with; None if nobody said."""
    server_args: tuple[str, ...] = ()
    """Of the user's own server."""


About = Literal["llama", "eagle3", "any"]
"""EAGLE-3 drafts with the layers of Llama, all EAGLE-3 drafts, or whatever a checkpoint holds."""


def given(arguments: Sequence[str], option: str) -> str | None:
    """What an option of a server's command line is given; empty without a value, None if it is not there."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(option, dest="value")
    try:
        known, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        return ""
    found: str | None = known.value
    return found


Judge = Callable[[Offer], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A contract of depth header."""

    name: str
    """`term.promise`."""
    promise: str
    judge: Judge
    causes: tuple[Cause, ...]
    """What it can name."""
    needs_target: bool = False
    about: About = "llama"
    """Which drafts it can be asked about."""

    def findings(self, offer: Offer) -> list[Finding]:
        """What speaks against the promise.

        Raises:
            CheckpointError: config.json holds something that cannot be meant.

        """
        return [replace(item, contract=self.name) for item in self.judge(offer)]


RULES: dict[str, Rule] = {}
"""All rules by name, in the order in which their modules are listed."""


def rule(*causes: Cause, needs_target: bool = False, about: About = "llama") -> Callable[[Judge], Judge]:
    """Make a function a rule, named by its module and its own name; its docstring is the promise."""

    def register(judge: Judge) -> Judge:
        name = f"{judge.__module__.rpartition('.')[2]}.{judge.__name__}"
        promise = (judge.__doc__ or "").strip().partition("\n")[0]
        RULES[name] = Rule(
            name=name,
            promise=promise,
            judge=judge,
            causes=causes,
            needs_target=needs_target,
            about=about,
        )
        return judge

    return register
