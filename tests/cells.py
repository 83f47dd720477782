"""Cells of a matrix, made up, and their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contracts.causes import Cause
from contracts.matrix.cells import Cell, Pair
from contracts.outcome import Kind, Outcome, Verdict, record

HOSTILE = "</script><script>document.title = 'taken'</script><b>bold</b> \u2028 & \"quoted\" `x`"
"""What a library might say, and no page may take for markup."""


def verdict(
    outcome: Outcome = Outcome.HOLDS,
    *,
    contract: str = "norms.norm_output_is_honoured",
    case: str = "plain",
    draft: Kind = "exported",
    cause: Cause | None = None,
    **parts: str,
) -> Verdict:
    module, _, function = contract.partition(".")
    return Verdict(
        contract=contract,
        promise=f"The promise of {contract}.",
        case=case,
        outcome=outcome,
        draft=draft,
        cause=cause and str(cause),
        reproduce=f"pytest --pyargs 'contracts.test_{module}::test_{function}[{case}]' --serving-python=x",
        **parts,  # type: ignore[arg-type]
    )


def broken(cause: Cause = Cause.NORM_DIFFERS, **parts: str) -> Verdict:
    told = {"expected": "one thing", "seen": "another", "fix": "mend it"}
    return verdict(Outcome.BROKEN, cause=cause, **told | parts)  # type: ignore[arg-type]


def cell(training: str, serving: str, *verdicts: Verdict, expected: int | None = None) -> Cell:
    return Cell(
        pair=Pair(training, serving),
        verdicts=verdicts,
        sides=(f"speculators {training}", f"sglang {serving}"),
        expected=len(verdicts) if expected is None else expected,
    )


def save(folder: Path, cells: Sequence[Cell]) -> Path:
    """Files as the contracts write them."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in cells:
        header = {"expected": item.expected, "sides": {"both": list(item.sides)}}
        (folder / item.pair.file_name).write_text(record(header, item.verdicts), encoding="utf-8")
    return folder
