"""Which key a target's config.json lacks, told from what the serving library raised."""

from __future__ import annotations

import re

_ASKED = (
    re.compile(r"AttributeError: '\w*Config' object has no attribute '(?P<key>\w+)'"),
    re.compile(r"KeyError: '(?P<key>\w+)'"),
)
"""How Python says that a config has no such key."""


def missing_key(refusal: str) -> str | None:
    """The key that a model class asked its config for in vain; None if that is not what happened."""
    for pattern in _ASKED:
        match = pattern.search(refusal)
        if match:
            return match["key"]
    return None
