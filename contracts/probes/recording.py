"""Records which keys of a config the library asks for, whether they are there or not."""

from __future__ import annotations

import copy
from typing import Any


class RecordingDict(dict[str, Any]):
    """A dict that notes the keys asked for, dotted under `prefix`."""

    def __init__(self, data: dict[str, Any], prefix: str, seen: set[str]) -> None:
        super().__init__(data)
        self._prefix, self._seen = prefix, seen

    def get(self, key: str, default: Any = None) -> Any:
        """As for a dict, noted."""
        self._seen.add(f"{self._prefix}.{key}")
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._seen.add(f"{self._prefix}.{key}")
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._seen.add(f"{self._prefix}.{key}")
        return super().__contains__(key)

    def pop(self, key: str, *default: Any) -> Any:
        """As for a dict, noted."""
        self._seen.add(f"{self._prefix}.{key}")
        return super().pop(key, *default)

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordingDict:
        return RecordingDict(copy.deepcopy(dict(self), memo), self._prefix, self._seen)


def record_reads(config: Any, seen: set[str]) -> None:
    """From here on, attribute reads on `config` (a transformers config) are noted in `seen`.

    The config keeps its identity and its values; its class is replaced by a subclass that notes.
    """
    original: Any = type(config)

    def __getattribute__(self: Any, name: str) -> Any:
        if not name.startswith("_"):
            seen.add(name)
        return original.__getattribute__(self, name)

    def __getattr__(self: Any, name: str) -> Any:
        if not name.startswith("_"):
            seen.add(name)
        fallback = getattr(original, "__getattr__", None)
        if fallback is None:
            raise AttributeError(name)
        return fallback(self, name)

    body = {
        "__getattribute__": __getattribute__,
        "__getattr__": __getattr__,
        "__module__": original.__module__,
    }
    for key, value in list(vars(config).items()):
        if isinstance(value, dict):
            vars(config)[key] = RecordingDict(value, key, seen)
    config.__class__ = type(original.__name__, (original,), body)
