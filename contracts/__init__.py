"""Contract tests for the interface between draft-model training (speculators) and serving (sglang).

Run them with `pytest --pyargs contracts -m contracts`; judge one checkpoint with `contracts.check(folder)`.
See README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contracts.header.api import check as check

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`check` is imported when it is used: probes import this package inside a library's own interpreter."""
    if name == "check":
        from contracts.header.api import check

        return check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
