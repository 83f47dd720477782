"""Drafts on disk, good and broken, and `contracts check` run over them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from contracts import blank, records
from contracts.cli import app
from tests.good_drafts import by_name
from tests.patient import Patient
from tests.seeded_faults import FAULTS, broken

RELEASES = records.recorded_releases("sglang")
NEWEST = f"sglang=={RELEASES[-1]}"


def written(root: Path, patient: Patient) -> tuple[str, str]:
    blank.write(root / "draft", patient.config, patient.tensors)
    blank.write(root / "target", patient.target, {})
    for name in patient.beside:
        (root / "draft" / name).write_bytes(b"\x80\x04")
    return str(root / "draft"), str(root / "target")


def good(root: Path, name: str = "specforge_ids") -> tuple[str, str]:
    return written(root, Patient.of(by_name(name)))


def faulty(root: Path, *names: str, draft: str = "specforge_ids") -> tuple[str, str]:
    patient = broken(by_name(draft), *(fault for fault in FAULTS if fault.name in names))
    assert patient is not None
    return written(root, patient)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])
