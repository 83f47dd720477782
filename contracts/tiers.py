"""Contracts that not every session judges: what runs on a GPU, and what starts a server."""

from __future__ import annotations

import pytest
from _pytest.mark.expression import Expression

GPU, SERVER = "gpu", "server"
MARKS = {
    GPU: "runs a draft, so that a GPU can judge it, with the release's own kernels",
    SERVER: "starts the real HTTP server (left out unless asked for, and on a GPU)",
}
"""What each mark of a contract says."""
EVERY = frozenset({"contracts", GPU, SERVER})


def asks_for(expression: str, mark: str) -> bool:
    """Whether a mark expression selects contracts because they have this mark."""
    if mark not in expression:
        return False
    try:
        chosen = Expression.compile(expression)
    except Exception:  # SyntaxError; before pytest 9 a class of its own. pytest says so itself
        return False

    def selects(marks: set[str]) -> bool:
        return chosen.evaluate(lambda name, /, **_: name in marks)

    sets = ({"contracts"}, EVERY)
    return any(selects({*marks, mark}) and not selects({*marks} - {mark}) for marks in sets)


def is_another(item: pytest.Item) -> bool:
    """Whether a contract needs a GPU, or starts a server, in a session that is not about that."""
    if item.config.option.device != "cpu":
        return False
    expression = getattr(item.config.option, "markexpr", "") or ""
    setting = getattr(getattr(item, "callspec", None), "params", {}).get("setting")
    needs_gpu = bool(getattr(setting, "of_gpus", False))
    return (needs_gpu and not asks_for(expression, GPU)) or (
        item.get_closest_marker(SERVER) is not None and not asks_for(expression, SERVER)
    )
