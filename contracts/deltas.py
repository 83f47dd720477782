"""JSON data as differences from other JSON data, so that records of many recipes stay small.

A mapping is told by the keys that differ; keys that went are listed under `$drop`. A sorted list of strings
is told by what came (`$add`) and what went (`$drop`). Everything else is told whole.
"""

from __future__ import annotations

from typing import Any

ADD, DROP = "$add", "$drop"


def subtract(base: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """What has to be told about `data` to somebody who knows `base`."""
    delta = {
        key: _difference(base[key], value) if key in base else value
        for key, value in data.items()
        if key not in base or base[key] != value
    }
    gone = sorted(base.keys() - data.keys())
    return delta | ({DROP: gone} if gone else {})


def _difference(base: Any, value: Any) -> Any:
    if isinstance(base, dict) and isinstance(value, dict):
        return subtract(base, value)
    if _is_set(base) and _is_set(value):
        return {ADD: sorted(set(value) - set(base)), DROP: sorted(set(base) - set(value))}
    return value


def apply(base: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """The data that `subtract` told about; keys of the delta that are none of the data's stay."""
    data = {key: value for key, value in base.items() if key not in delta.get(DROP, ())}
    for key, change in delta.items():
        if key != DROP:
            data[key] = _applied(base[key], change) if key in base else change
    return data


def _applied(base: Any, change: Any) -> Any:
    if isinstance(base, dict) and isinstance(change, dict):
        return apply(base, change)
    if isinstance(base, list) and isinstance(change, dict) and change.keys() == {ADD, DROP}:
        return sorted((set(base) | set(change[ADD])) - set(change[DROP]))
    return change


def _is_set(value: Any) -> bool:
    """Whether a list is a sorted one of distinct strings, which its members tell."""
    strings = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return strings and value == sorted(set(value))
