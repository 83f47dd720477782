"""What a serving release makes of every spelling: asked of its probe, and kept among its recorded traits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contracts import deltas, records
from contracts.facts import CaseResult, to_json
from contracts.spellings import SPELLINGS

if TYPE_CHECKING:
    from contracts.kept import Case

BASE = "plain"
REFUSED = "refused"
"""Key that holds what the library raised: stage, exception and message."""
LEFT_OUT = ("config_keys", "tensor_shapes", "agrees_with_itself")
"""Facts that say nothing about how a spelling is understood."""
MESSAGE = 160
"""Characters of what the library said that are kept."""

CASES: tuple[Case, ...] = tuple(
    {
        "case": f"spelling/{item.name}",
        "spelling": item.name,
        "folder": "{folder}/draft",
        "target": "{folder}/target",
        "server_args": list(item.server_args),
    }
    for item in SPELLINGS
)
"""What the serving probe is asked; it writes the drafts itself."""


def as_trait(results: Mapping[str, CaseResult], folders: Mapping[str, str]) -> dict[str, Any]:
    """What is recorded of a release: per spelling what it raised, or what it shows otherwise than of `plain`.

    Args:
        results: by case.
        folders: where each case's draft lay, which no record names.

    """
    shown = {}
    for item in SPELLINGS:
        case = f"spelling/{item.name}"
        shown[item.name] = _shown(results[case], folders[case])
    plain = shown[BASE]
    return {
        name: data if name == BASE or REFUSED in data else deltas.subtract(plain, data)
        for name, data in shown.items()
    }


def _shown(result: CaseResult, folder: str) -> dict[str, Any]:
    if result.refusals:
        first = result.refusals[0]
        message = first.message.replace(folder, "").strip()
        return {REFUSED: f"{first.stage}: {first.error}: {message}"[:MESSAGE]}
    facts = records.rounded(json.loads(json.dumps(to_json(result.facts))))  # lists, which can be compared
    return {key: value for key, value in facts.items() if key not in LEFT_OUT}


def from_trait(trait: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The facts of every spelling, whole, or what was raised under `refused`."""
    plain = trait[BASE]
    return {
        name: data if name == BASE or REFUSED in data else deltas.apply(plain, data)
        for name, data in trait.items()
    }
