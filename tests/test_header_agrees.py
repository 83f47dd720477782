"""What depth header says of a draft is what the installed sglang makes of it: good drafts and seeded faults.

Rules go by what is recorded of each release; here the library itself is given every draft, and has the last
word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts import blank
from contracts.blank import weight
from contracts.causes import Cause
from contracts.facts import CaseResult, DraftFacts
from contracts.header.findings import Damage, Verdict
from contracts.header.judge import exactly, judge
from contracts.header.report import Report
from contracts.header.sources import read_draft, read_target
from tests.good_drafts import GOOD, MAP, by_name
from tests.patient import Patient
from tests.seeded_faults import FAULTS, NEWEST, broken

if TYPE_CHECKING:
    from contracts.sides import Side, SideRun

FIRST = ("specforge_ids", "modelopt", "torchspec", "specforge", "prefixed", "shared_head")
"""Good drafts in which a fault is seeded: the first to which it applies."""
AT_THE_FIRST_BATCH = {Cause.DTYPE_DIFFERS, Cause.MAP_OUT_OF_RANGE, Cause.MAP_LENGTH}
"""Loud, and later than depth load goes."""
PADDED_ON_A_CPU = {Cause.HEADS_DIFFER, Cause.SHAPE_MISMATCH}
"""Loud on a GPU; on a CPU the loader pads projections that are too small."""
NOT_HERE = {
    "quantization_inherited": "no CPU build of the library gets as far",
    "quantized": "no CPU build of the library gets as far",
    "target_with_other_defaults": "the class needs a config of its own, which this target has not",
    "target_that_delivers_no_residual": "the class needs a config of its own, which this target has not",
}
"""Faults that the library cannot be shown so, and why."""
DROPS = {
    Cause.TENSOR_DROPPED, Cause.BIAS_DROPPED, Cause.QK_NORM_MISSING, Cause.INPUT_NORM_MISSING,
    Cause.FC_NORM_MISSING, Cause.OTHER_KIND,
}  # fmt: skip
LACKS = {Cause.PARAMETER_UNWRITTEN, Cause.HEAD_MISSING, Cause.TENSOR_DROPPED, *PADDED_ON_A_CPU}
SILENT: Mapping[Cause, Callable[[DraftFacts], bool]] = {
    Cause.FC_SKIPPED: lambda it: not it.hidden_dims.fc_applied,  # type: ignore[union-attr]
    Cause.ALGORITHM_DIFFERS: lambda it: it.algorithm == "eagle" and not it.hidden_dims.fc_applied,  # type: ignore[union-attr]
    Cause.RESIDUAL_BEFORE_NORM: lambda it: not it.norms.norm_before_residual,  # type: ignore[union-attr]
    Cause.RECURRENT_NOT_NORMED: lambda it: not it.norms.norm_output,  # type: ignore[union-attr]
    Cause.INPUT_NORM_MISSING: lambda it: not it.norms.norm_before_fc,  # type: ignore[union-attr]
    Cause.FC_NORM_MISSING: lambda it: not it.norms.fc_norm,  # type: ignore[union-attr]
    Cause.ROPE_PAIRS: lambda it: it.rope.interleaved,  # type: ignore[union-attr]
    Cause.IDS_NOT_READ: lambda it: it.aux_layers.layer_ids is None,  # type: ignore[union-attr]
    Cause.LAYER_ORDER: lambda it: list(it.aux_layers.states) == sorted(it.aux_layers.states),  # type: ignore[union-attr]
    Cause.HEAD_REPLACED: lambda it: it.sharing.head == "target",  # type: ignore[union-attr]
    Cause.MAP_HOLDS_IDS: lambda it: it.vocab_map.target_ids != MAP,  # type: ignore[union-attr]
    Cause.MAP_MISSING: lambda it: not it.vocab_map.mapped,  # type: ignore[union-attr]
    Cause.MAP_NOT_INJECTIVE: lambda it: len(set(it.vocab_map.target_ids)) < len(it.vocab_map.target_ids),  # type: ignore[union-attr]
    Cause.WINDOW_DIFFERS: lambda it: it.attention.windows == (None,),  # type: ignore[union-attr]
    Cause.DTYPE_DIFFERS: lambda it: it.compute.draft != it.compute.target,  # type: ignore[union-attr]
}
"""What has to be seen in the library where a finding that is more than a note says so."""


@dataclass(frozen=True)
class Both:
    """One draft, judged from its headers and by the library."""

    report: Report
    result: CaseResult

    @property
    def causes(self) -> dict[Cause, Damage]:
        return {it.finding.cause: it.finding.damage for it in reversed(self.report.faults)}


def patients() -> dict[str, Patient]:
    found = {f"good-{good.name}": Patient.of(good) for good in GOOD}
    for fault in FAULTS:
        drafts = (broken(by_name(name), fault) for name in FIRST)
        patient = next((draft for draft in drafts if draft is not None), None)
        if patient is not None and fault.release == NEWEST and fault.name not in NOT_HERE:
            found[fault.name] = patient
    return found


PATIENTS = patients()


@pytest.fixture(scope="module")
def served(sglang: Side, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SideRun]:
    root = tmp_path_factory.mktemp("drafts")
    cases = []
    for name, patient in PATIENTS.items():
        blank.write(root / name / "draft", patient.config, patient.tensors)
        blank.write(root / name / "target", patient.target, {"norm.weight": weight(64)})
        folders = {"folder": root / name / "draft", "target": root / name / "target"}
        cases.append({"case": name, **folders, "server_args": patient.server_args})
    return root, sglang.run(cases, tmp_path_factory.mktemp("answers"), session="", case_timeout=60.0)


@pytest.fixture(params=PATIENTS)
def both(request: pytest.FixtureRequest, served: tuple[Path, SideRun], sglang: Side) -> Both:
    (root, run), name = served, request.param
    draft, target = read_draft(str(root / name / "draft")), read_target(str(root / name / "target"))
    releases, _ = exactly(sglang.version)
    report = judge(draft, target, releases, server_args=PATIENTS[name].server_args)
    assert run.results[name].error is None
    return Both(report, run.results[name])


def test_both_say_the_same(both: Both) -> None:
    refused, facts, causes = bool(both.result.refusals), both.result.facts, both.causes
    loud = {cause for cause, damage in causes.items() if damage is Damage.FAILS}
    if refused:
        assert loud or Damage.UNKNOWN in causes.values()
        assert both.report.verdict is not Verdict.ACCEPTS
        return
    assert loud <= AT_THE_FIRST_BATCH | PADDED_ON_A_CPU
    assert facts is not None
    assert facts.weight_names is not None
    ignored = {name for name in facts.weight_names.ignored if not name.endswith("t2d")}
    assert ignored or not DROPS & causes.keys()
    assert not ignored or {*DROPS, Cause.HEAD_REPLACED} & causes.keys()
    assert not facts.weight_names.unwritten or LACKS & causes.keys()
    assert facts.weight_names.unwritten or not {Cause.PARAMETER_UNWRITTEN, Cause.HEAD_MISSING} & causes.keys()
    for cause in causes.keys() & SILENT.keys():
        assert SILENT[cause](facts), cause
    if both.report.verdict is Verdict.ACCEPTS:
        _check_read_whole(facts)


def _check_read_whole(facts: DraftFacts) -> None:
    assert facts.hidden_dims is not None
    assert facts.aux_layers is not None
    assert facts.vocab_map is not None
    assert facts.hidden_dims.fc_applied
    assert not facts.aux_layers.final_norm
    assert facts.vocab_map.target_ids in (MAP, tuple(range(facts.vocab_map.target_vocab_size)))
