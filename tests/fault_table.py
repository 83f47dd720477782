"""Seeds every fault and every pair of faults, and writes docs/faults.md: `python -m tests.fault_table`."""

from __future__ import annotations

from pathlib import Path

from contracts.causes import Cause
from contracts.header.findings import Damage
from contracts.header.judge import judge
from contracts.header.report import Report
from contracts.header.sources import draft_in
from contracts.served_target import ServedTarget
from tests.good_drafts import GOOD
from tests.patient import Patient
from tests.seeded_faults import FAULTS, NEWEST, Fault, broken, combinations

DOCUMENT = Path(__file__).parent.parent / "docs" / "faults.md"
HEAD = """# Seeded faults, and what `contracts check` says of them

Good drafts of {goods} origins are broken in {faults} ways, each in every draft that it applies to, and
judged from their headers for sglang {newest} (or the release in brackets). *Named* means that the cause that
was seeded is among those that are reported; *nothing else* that every cause reported follows from the fault.

| what | number | named | nothing else |
|---|---|---|---|
| good drafts | {goods} | | {clean} |
| faults, each in all drafts that it applies to | {alone} | {alone_named} | {alone_only} |
| pairs of faults that change different things | {pairs} | {pairs_named} | |

Where a good draft's own format cannot be read by sglang (raw ones of speculators, the EAGLE reference and
AngelSlim), that one cause is reported, too, and does not count as a false alarm. What sglang itself makes of
these drafts is compared in `tests/test_header_agrees.py`. No header shows weights that were exchanged, or
layer ids that name another layer than was trained on, unless they are out of range or the numbers of another
convention: the lower depths do ([breaks.md](breaks.md)).

Written by `python -m tests.fault_table`, held by `tests/test_seeded_faults.py`.

## Good drafts

| draft | what it is | known in sglang |
|---|---|---|
"""
FAULT_HEAD = """
## Faults

| fault | what is broken | cause that is named | damage | drafts | named in |
|---|---|---|---|---|---|
"""


def judged(patient: Patient, release: str = NEWEST) -> Report:
    target = ServedTarget.of(patient.target, Path("target"))
    return judge(draft_in(patient.place()), target, [release], server_args=patient.server_args)


def causes(patient: Patient, release: str = NEWEST) -> dict[Cause, Damage]:
    return {it.finding.cause: it.finding.damage for it in reversed(judged(patient, release).findings)}


def row(fault: Fault) -> tuple[str, int, int, int]:
    """A line of the table, in how many drafts it was seeded, in how many it was named, and alone."""
    applied = named = alone = 0
    damage = ""
    for good in GOOD:
        patient = broken(good, fault)
        if patient is None:
            continue
        found, before = causes(patient, fault.release), causes(Patient.of(good), fault.release)
        applied += 1
        named += fault.causes[0] in found
        alone += found.keys() <= {*fault.causes, *before, *good.known}
        damage = damage or found.get(fault.causes[0], "")
    where = "" if fault.release == NEWEST else f" ({fault.release})"
    line = f"| {fault.name}{where} | {fault.about} | {fault.causes[0]} | {damage} | {applied} | {named} |"
    return line, applied, named, alone


def _pairs() -> tuple[int, int]:
    number = named = 0
    for good in GOOD:
        for pair in combinations(good, 2):
            patient = broken(good, *pair)
            if patient is not None:
                found = causes(patient)
                number += 1
                named += all(fault.causes[0] in found for fault in pair)
    return number, named


def table() -> str:
    """The page."""
    rows = [row(fault) for fault in FAULTS]
    pairs, pairs_named = _pairs()
    clean = sum(set(causes(Patient.of(good))) == good.known for good in GOOD)
    head = HEAD.format(
        goods=len(GOOD),
        faults=len(FAULTS),
        newest=NEWEST,
        clean=clean,
        alone=sum(applied for _, applied, _, _ in rows),
        alone_named=sum(named for _, _, named, _ in rows),
        alone_only=sum(only for _, _, _, only in rows),
        pairs=pairs,
        pairs_named=pairs_named,
    )
    goods = [f"| {good.name} | {good.about} | {', '.join(sorted(good.known))} |" for good in GOOD]
    return head + "\n".join(goods) + "\n" + FAULT_HEAD + "\n".join(line for line, *_ in rows) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(table(), encoding="utf-8")
    print(f"written: {DOCUMENT}")
