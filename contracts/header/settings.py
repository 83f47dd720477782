"""What a config.json says, asked for by type: one place for what a wrong type leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contracts.checkpoint import CheckpointError

NEST = "eagle_config"
MAX_NUMBER = 2**31
"""No size of a draft is as large; a greater one is a slip, or meant to overflow something."""
MAX_REAL = 1e15
"""Nor any other number."""


@dataclass(frozen=True)
class Settings:
    """A config.json, flat as a serving side reads it."""

    where: str
    """The file, for messages."""
    values: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        """Whether a key is there, null included."""
        return key in self.values

    def get(self, key: str) -> Any:
        """Whatever stands under a key; None also if nothing does."""
        return self.values.get(key)

    def integer(self, key: str) -> int | None:
        """A size; None if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < MAX_NUMBER:
            raise self._odd(key, value, "a positive whole number")
        return value

    def number(self, key: str) -> float | None:
        """A positive number; None if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < MAX_REAL:
            raise self._odd(key, value, "a positive number")
        return value

    def flag(self, key: str) -> bool | None:
        """A truth value; None if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._odd(key, value, "true or false")
        return value

    def text(self, key: str) -> str | None:
        """Some words; None if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._odd(key, value, "a text")
        return value

    def section(self, key: str) -> Mapping[str, Any]:
        """An object; empty if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._odd(key, value, "an object")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._odd(key, value, "a list of texts")
        return tuple(value)

    def inner(self, key: str) -> Settings:
        """An object of its own; its keys are named with their way in messages."""
        return _Inner(self.where, self.section(key), f"{key}.")

    def ids(self, key: str) -> tuple[int, ...] | None:
        """A list of layer ids; None if the key is not there or null.

        Raises:
            CheckpointError: it is something else.

        """
        value = self.values.get(key)
        if value is None:
            return None
        whole = isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) for item in value
        )
        if not whole or any(abs(item) >= MAX_NUMBER for item in value):
            raise self._odd(key, value, "a list of whole numbers")
        return tuple(value)

    def _odd(self, key: str, value: object, expected: str) -> CheckpointError:
        return CheckpointError(
            f"{self.where}: {self._way(key)} is {value!r:.80}, expected {expected}; correct it"
        )

    def _way(self, key: str) -> str:
        return key


@dataclass(frozen=True)
class _Inner(Settings):
    way: str = ""

    def _way(self, key: str) -> str:
        return self.way + key
