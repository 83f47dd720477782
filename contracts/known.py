"""Recorded incompatibilities: data with a cause, a release range, a reason and a reference.

Strict both ways: a contract that breaks for another cause than recorded is broken, and one that holds
although an entry says it does not is `fixed`, which fails until the entry goes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, HttpUrl, ValidationError, model_validator

from contracts.recipes import RECIPES
from contracts.records import catalog
from contracts.targets.recipes import TARGETS
from contracts.verdict import Cause

Day = date
FILE = Path(__file__).parent / "known.toml"
HINTS = {
    "upstream": 'Field required: a URL, or "unreported" together with `reproduce`',
    "cause": f"no such cause; there are: {', '.join(Cause)}",
}
"""What to say of a field instead of what pydantic says."""
_RECIPES = {recipe.name for recipe in RECIPES} | {"*"}
_TARGETS = {recipe.name for recipe in TARGETS} | {"*"}
_ABOUT_TARGETS = "targets."
"""Beginning of the names of contracts that no trainer takes part in."""


class KnownError(Exception):
    """known.toml is not usable: one line that says which entry and why."""


def _specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"{text!r} is not a release range such as '>=0.5.12,<0.6'") from None
    return text


class Entry(BaseModel):
    """One recorded incompatibility."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    contract: str
    """`module.promise`; a list in the file stands for an entry each."""
    recipes: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of recipes or of targets, or `*` for all."""
    training: Annotated[str, AfterValidator(_specifier)] = ""
    """Release range of speculators; nothing for a contract about a target, which no trainer takes part in."""
    serving: Annotated[str, AfterValidator(_specifier)]
    """Release range of sglang."""
    cause: Cause
    reason: Annotated[str, Field(min_length=1)]
    upstream: HttpUrl | Literal["unreported"]
    """Where it is reported. `unreported` entries carry a reproduction of our own instead."""
    reproduce: str | None = None
    date: Day
    until: Day | None = None
    """Last day on which it is accepted; after that, what it records counts as broken. None: no end."""

    def is_over(self, today: Day) -> bool:
        """Whether it was accepted for a time, and that has passed."""
        return self.until is not None and today > self.until

    @model_validator(mode="after")
    def _has_evidence(self) -> Entry:
        if self.upstream == "unreported" and not self.reproduce:
            raise ValueError("an unreported entry needs `reproduce`: the command that shows it")
        return self

    @cached_property
    def _ranges(self) -> tuple[SpecifierSet, SpecifierSet]:
        return SpecifierSet(self.training), SpecifierSet(self.serving)

    def covers(self, contract: str, recipe: str, training: str | None, serving: str) -> bool:
        """Whether this entry speaks about this contract, recipe and pair of releases."""
        trained, served = self._ranges
        return (
            self.contract == contract
            and (recipe in self.recipes or "*" in self.recipes)
            and (training is None or trained.contains(training, prereleases=True))
            and served.contains(serving, prereleases=True)
        )


@dataclass(frozen=True)
class Known:
    """All entries."""

    entries: tuple[Entry, ...] = ()

    def find(self, contract: str, recipe: str, training: str | None, serving: str) -> Entry | None:
        """The entry about this contract, recipe and pair of releases."""
        for entry in self.entries:
            if entry.covers(contract, recipe, training, serving):
                return entry
        return None


def load(file: Path = FILE) -> Known:
    """Read known.toml.

    Raises:
        KnownError: malformed, incomplete, matching no release, or saying something twice.

    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise KnownError(f"{file}: not readable as TOML ({error})") from None
    listed = data.pop("known", [])
    if data or not isinstance(listed, list):
        odd = f"unknown key {next(iter(data))!r}" if data else "'known' is no list of tables"
        raise KnownError(f"{file}: {odd}; each entry is a table [[known]]")
    entries = [
        (number, _entry(file, number, single))
        for number, item in enumerate(listed, start=1)
        for single in _singly(item)
    ]
    _check_unique(file, entries)
    return Known(tuple(entry for _, entry in entries))


def _singly(item: Any) -> list[Any]:
    """An entry about several contracts, as one entry each."""
    if isinstance(item, dict) and isinstance(item.get("contract"), list) and item["contract"]:
        return [{**item, "contract": contract} for contract in item["contract"]]
    return [item]


def _entry(file: Path, number: int, item: Any) -> Entry:
    named = f" ({item['contract']})" if isinstance(item, dict) and "contract" in item else ""
    where = f"{file}: entry {number}{named}"
    try:
        entry = Entry.model_validate(_toml_types(item))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else "entry"
        raise KnownError(f"{where}: {field}: {HINTS.get(field, first['msg'])}") from None
    about_targets = entry.contract.startswith(_ABOUT_TARGETS)
    if not about_targets and not entry.training:
        raise KnownError(f"{where}: training: Field required: a range of speculators releases")
    names, what = (_TARGETS, "target") if about_targets else (_RECIPES, "recipe")
    for recipe in entry.recipes:
        if recipe not in names:
            raise KnownError(f"{where}: no {what} {recipe!r}; there are: {', '.join(sorted(names))}")
    if not _exists(entry.contract):
        raise KnownError(f"{where}: no contract {entry.contract!r}; write module.promise, as in reports")
    for library, specifier in (("speculators", entry.training), ("sglang", entry.serving)):
        known = catalog(library).known
        if not any(SpecifierSet(specifier).filter(known, prereleases=True)):
            raise KnownError(
                f"{where}: '{specifier}' matches no known release of {library} ({known[0]} ... {known[-1]})"
            )
    return entry


def _exists(contract: str) -> bool:
    """Whether this package has the contract; modules of others are not looked into."""
    module, _, promise = contract.partition(".")
    file = FILE.with_name(f"test_{module}.py")
    return bool(promise) and (not file.exists() or f"def test_{promise}(" in file.read_text(encoding="utf-8"))


def _toml_types(item: Any) -> Any:
    """What TOML has no type for: tuples, causes and URLs are checked as what they are."""
    if not isinstance(item, dict):
        return item
    typed = dict(item)
    if isinstance(typed.get("recipes"), list):
        typed["recipes"] = tuple(typed["recipes"])
    if isinstance(typed.get("cause"), str):
        codes = {str(cause): cause for cause in Cause}
        typed["cause"] = codes.get(typed["cause"], typed["cause"])
    return typed


def _check_unique(file: Path, entries: Sequence[tuple[int, Entry]]) -> None:
    for (first, one), (second, other) in combinations(entries, 2):
        common = (
            (_RECIPES | _TARGETS)
            if "*" in (*one.recipes, *other.recipes)
            else {*one.recipes} & {*other.recipes}
        )
        if one.contract == other.contract and common and _overlap(one, other):
            raise KnownError(
                f"{file}: entry {second}: says again what entry {first} says ({other.contract}, "
                f"{', '.join(sorted(common & {*other.recipes}) or other.recipes)}); keep one"
            )


def _overlap(one: Entry, other: Entry) -> bool:
    """Whether some pair of known releases is covered by both."""

    def common(library: str, first: str, second: str) -> bool:
        both = SpecifierSet(first) & SpecifierSet(second)
        return any(both.filter(catalog(library).known, prereleases=True))

    return common("speculators", one.training, other.training) and common(
        "sglang", one.serving, other.serving
    )
