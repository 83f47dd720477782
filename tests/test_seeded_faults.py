"""Every seeded fault is found and named right, alone and with others; in good drafts nothing is found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from contracts.causes import Cause
from contracts.header import rules
from contracts.header.findings import Damage, Verdict
from contracts.header.judge import judge
from contracts.header.report import Report
from contracts.header.sources import draft_in
from contracts.served_target import ServedTarget
from tests import fault_table
from tests.good_drafts import GOOD, Good, by_name
from tests.patient import Patient
from tests.seeded_faults import FAULTS, NEWEST, Fault, broken, combinations

PAIRS, TRIPLES = 400, 200
"""Combinations that are drawn for each draft; `python -m tests.fault_table` goes through all pairs."""


def judged(patient: Patient, *releases: str) -> Report:
    target = ServedTarget.of(patient.target, Path("target"))
    draft = draft_in(patient.place())
    return judge(draft, target, releases or (NEWEST,), server_args=patient.server_args)


def found(patient: Patient, release: str = NEWEST) -> set[Cause]:
    return {it.finding.cause for it in judged(patient, release).findings}


def test_the_catalogue_is_large_enough() -> None:
    assert len(FAULTS) >= 60
    assert len(GOOD) >= 8
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.name)
def test_nothing_is_found_in_a_good_draft(good: Good) -> None:
    report = judged(Patient.of(good))
    assert {it.finding.cause for it in report.findings} == good.known
    assert report.verdict is (Verdict.FAILS if good.known else Verdict.ACCEPTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_named_and_nothing_else(fault: Fault) -> None:
    patients = {good.name: patient for good in GOOD if (patient := broken(good, fault))}
    assert patients, "applies to no good draft"
    for name, patient in patients.items():
        known = by_name(name).known
        causes = found(patient, fault.release)
        before = known | found(Patient.of(by_name(name)), fault.release)
        assert fault.causes[0] in causes, name
        assert causes <= before | set(fault.causes), name


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.name)
def test_no_fault_hides_another(good: Good) -> None:
    drawn = random.Random(good.name)
    pairs, triples = list(combinations(good, 2)), list(combinations(good, 3))
    for faults in [*drawn.sample(pairs, PAIRS), *drawn.sample(triples, TRIPLES)]:
        patient = broken(good, *faults)
        if patient is None:
            continue  # one fault took away what the other is about
        causes = found(patient)
        missed = [fault.name for fault in faults if fault.causes[0] not in causes]
        assert not missed, [fault.name for fault in faults]


def test_every_rule_has_a_liar() -> None:
    """Each rule is broken by some fault, and each cause that it can name is named."""
    told: dict[str, set[Cause]] = {name: set() for name in rules.RULES}
    for good in GOOD:
        patients = [Patient.of(good), *(it for fault in FAULTS if (it := broken(good, fault)))]
        for patient in patients:
            alone = judge(draft_in(patient.place()), None, [NEWEST])  # some rules speak where no target does
            for spread in [*judged(patient, NEWEST, "0.5.12.post1", "0.5.9").findings, *alone.findings]:
                told[spread.finding.contract].add(spread.finding.cause)
    unheard = {
        name: sorted(set(rule.causes) - told[name])
        for name, rule in rules.RULES.items()
        if set(rule.causes) - told[name]
    }
    assert unheard == {}


def test_findings_stand_in_order_of_damage() -> None:
    order = list(Damage)
    good = GOOD[1]
    for faults in combinations(good, 2):
        patient = broken(good, *faults)
        if patient:
            damages = [order.index(it.finding.damage) for it in judged(patient).findings]
            assert damages == sorted(damages)


def test_the_page_has_a_line_for_each_fault() -> None:
    """Pairs are counted anew by `python -m tests.fault_table` alone: that takes a minute."""
    page = fault_table.DOCUMENT.read_text().splitlines()
    assert [line for line in page if line.startswith(tuple(f"| {fault.name}" for fault in FAULTS))] == [
        fault_table.row(fault)[0] for fault in FAULTS
    ]
