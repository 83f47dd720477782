"""`contracts check` as its user meets it: words, formats, exit statuses, and bad input in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import contracts
from contracts import blank
from contracts.header.findings import Verdict
from contracts.places import CheckpointError
from contracts.records import UnsupportedRelease
from tests.checking import NEWEST, RELEASES, faulty, good, run, written
from tests.good_drafts import Good, by_name
from tests.patient import Patient


def test_a_good_draft_is_accepted(tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    found = run(draft, "--target", target, "--for", NEWEST)
    assert found.exit_code == 0
    assert found.stdout.startswith(f"accepts  {draft} in sglang {RELEASES[-1]}\n")
    assert "written by    SpecForge (midlayer.* for the class LlamaForCausalLMEagle3)" in found.stdout
    assert (
        f"serve with  --speculative-algorithm EAGLE3 --speculative-draft-model-path {draft}" in found.stdout
    )


def test_what_needs_the_target_is_said_to_be_left_out(tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    found = run(draft, "--for", NEWEST)
    assert found.exit_code == 0
    assert "contracts: they need the target's config.json (--target)" in found.stdout


def test_causes_stand_in_order_of_damage_with_all_that_helps(tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "map_of_ids", "normed_residual", "fc_of_two_states")
    found = run(draft, "--target", target, "--for", NEWEST)
    assert found.exit_code == 1
    assert found.stdout.startswith("will not start  ")
    places = [
        found.stdout.index(word) for word in ("FAILS  fc.weight", "COLLAPSES  d2t", "LOSES  norm_before_")
    ]
    assert places == sorted(places)
    for part in (
        "cause         d2t-holds-ids: d2t in the checkpoint holds target token ids",
        "expected      offsets: target id minus draft id",
        "seen          target ids: 0, 1, 2, 3, ..., 90",
        "consequence   each draft token becomes another token",
        "fix           Subtract its index from each entry",
        "contract      header.vocab_map.map_holds_offsets",
        "More on a cause: contracts explain fc-width-differs",
    ):
        assert part in found.stdout


def test_a_silent_loss_is_status_1_and_doubt_is_status_2(tmp_path: Path) -> None:
    draft, target = faulty(tmp_path / "one", "normed_residual")
    found = run(draft, "--target", target, "--for", NEWEST)
    assert (found.exit_code, found.stdout.split("  ")[0]) == (1, "will lose acceptance silently")
    draft, target = faulty(tmp_path / "two", "ids_of_the_other_convention")
    found = run(draft, "--target", target, "--for", NEWEST)
    assert (found.exit_code, found.stdout.split("  ")[0]) == (2, "cannot tell")


def test_all_releases_are_one_row_per_verdict(tmp_path: Path) -> None:
    draft, target = good(tmp_path, "prefixed")
    found = run(draft, "--target", target, "--for", "all")
    assert found.exit_code == 1
    rows = [line.split("  ")[1] for line in found.stdout.splitlines() if line.startswith("  0.")]
    assert rows == ["0.5.6.post2 to 0.5.11", "0.5.12.post1 to 0.5.16", "0.5.17 to 0.5.23"]
    assert "releases      sglang 0.5.6.post2 to 0.5.16" in found.stdout  # of input-norm-missing


@pytest.mark.parametrize(
    ("wanted", "releases"),
    [
        ("all", RELEASES),
        ("sglang==0.5.20", ["0.5.20"]),
        ("sglang>=0.5.22", ["0.5.22", "0.5.23"]),
        ("sglang>=0.5.12,<0.5.14", ["0.5.12.post1", "0.5.13.post1"]),
        ("0.5.20", ["0.5.20"]),
        ("SGLang==0.5.20", ["0.5.20"]),
        ("sglang==0.5.99", ["0.5.23"]),
        ("sglang==0.5.24rc1", ["0.5.23"]),
    ],
)
def test_releases_that_are_judged(tmp_path: Path, wanted: str, releases: list[str]) -> None:
    draft, _ = good(tmp_path)
    data = json.loads(run(draft, "--for", wanted, "--format", "json").stdout)
    assert [item["release"] for item in data["releases"]] == releases
    assert bool(data["asked_for"]) == (releases == ["0.5.23"])


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("sglang==0.4.10", "is older than"),
        ("sglang==latest", "write sglang==0.5.23"),
        ("vllm==0.20", "write sglang==0.5.23"),
        ("sglang>99", "no recorded one is meant"),
        ("newest", "write sglang==0.5.23"),
    ],
)
def test_a_release_that_cannot_be_meant_is_one_line(tmp_path: Path, wanted: str, says: str) -> None:
    draft, _ = good(tmp_path)
    found = run(draft, "--for", wanted)
    assert found.exit_code == 2
    assert says in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(("asked", "judged"), [("0.5.12", "0.5.12.post1"), ("0.5.6", "0.5.6.post2")])
def test_a_release_is_taken_for_a_patch_of_it(tmp_path: Path, asked: str, judged: str) -> None:
    draft, _ = good(tmp_path)
    assert f"in sglang {asked}, taken for {judged}\n" in run(draft, "--for", f"sglang=={asked}").stdout


def test_a_release_without_a_record_is_said(tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    told = run(draft, "--for", "sglang==0.5.99").stdout
    assert "in sglang 0.5.99, taken for 0.5.23" in told
    assert "nothing is recorded of sglang 0.5.99" in told


def test_json_holds_everything(tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "map_of_ids")
    found = run(draft, "--target", target, "--for", NEWEST, "--format", "json")
    data = json.loads(found.stdout)
    assert found.exit_code == 1
    assert (data["format"], data["draft"], data["verdict"]) == (1, draft, "will lose acceptance silently")
    assert data["written_by"]["writer"] == "SpecForge"
    ((finding,),) = [item["findings"] for item in data["releases"]]
    assert finding.keys() == {
        "contract", "cause", "damage", "where", "expected", "seen", "consequence", "fix"
    }  # fmt: skip
    assert (finding["contract"], finding["cause"]) == ("header.vocab_map.map_holds_offsets", "d2t-holds-ids")


def test_markdown_and_annotations(tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "map_of_ids", "other_base_than_the_target")
    told = run(draft, "--target", target, "--for", NEWEST, "--format", "markdown").stdout
    assert told.startswith(f"**will lose acceptance silently**: `{draft}` in sglang")
    assert "| collapses | d2t | d2t-holds-ids | offsets: target id minus draft id |" in told
    lines = run(draft, "--target", target, "--for", NEWEST, "--format", "github").stdout.splitlines()
    assert lines[0].startswith(f"::error file={draft}/config.json,title=d2t-holds-ids::d2t: expected offsets")
    assert lines[1].startswith("::notice ")
    assert lines[-1] == f"::error::will lose acceptance silently  {draft} in sglang {RELEASES[-1]}"


def test_control_characters_do_not_reach_the_terminal_or_the_job(tmp_path: Path) -> None:
    patient = Patient.of(by_name("specforge_ids"))
    patient.tensors["evil\x1b[31m\n::error::x"] = blank.weight(4)
    draft, _ = written(tmp_path, patient)
    for fmt in ("text", "markdown", "github"):
        told = run(draft, "--for", NEWEST, "--format", fmt).stdout
        assert "\x1b" not in told
        assert "\n::error::x" not in told


def test_half_a_character_is_no_traceback(tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    config = Path(draft) / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLMEagle3", "Llama\\ud800"))
    for fmt in ("text", "json", "markdown", "github"):
        found = run(draft, "--for", NEWEST, "--format", fmt)
        assert (found.exit_code, type(found.exception)) == (1, SystemExit)


def test_numbers_of_a_target_that_overflow_are_left_out(tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    file = Path(target) / "config.json"
    odd = {"rope_theta": 10**400, "rope_scaling": {"rope_type": "linear", "factor": 1e308}}
    file.write_text(json.dumps(json.loads(file.read_text()) | odd))
    assert run(draft, "--target", target, "--for", NEWEST).exit_code == 0


def test_the_servers_arguments_count(tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    told = ("--speculative-algorithm EAGLE", "--speculative-algorithm=NEXTN", "--speculative-algorithm")
    for arguments in told:
        found = run(draft, "--target", target, "--for", NEWEST, f"--server-args={arguments}")
        assert found.exit_code == 1, arguments
        assert "algorithm-differs" in found.stdout
    assert run(draft, "--server-args=--tp 2 --speculative-algorithm EAGLE3").exit_code == 0
    unclosed = run(draft, "--server-args='")
    assert (unclosed.exit_code, unclosed.stderr.count("\n")) == (2, 1)


def test_a_window_is_served_by_an_argument(tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "sliding_window")
    found = run(draft, "--target", target, "--for", NEWEST)
    assert "Start the server with --speculative-draft-window-size 31." in found.stdout
    again = run(
        draft, "--target", target, "--for", NEWEST, "--server-args=--speculative-draft-window-size 31"
    )
    assert again.exit_code == 0
    assert "--speculative-draft-window-size 31" in again.stdout


def test_a_draft_of_speculators_needs_export(tmp_path: Path) -> None:
    draft, target = good(tmp_path, "speculators_0_9")
    found = run(draft, "--target", target, "--for", NEWEST)
    assert found.exit_code == 1
    assert f"contracts export {draft} --for {NEWEST} --target {target} -o OUT" in found.stdout
    assert (
        "speculators (config.json has speculators_model_type; speculators_version is 0.9.0)" in found.stdout
    )


# ------------------------------------------------------------------------- from Python


def test_from_python(tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    assert contracts.check(draft, target=target, serving=NEWEST).verdict is Verdict.ACCEPTS
    report = contracts.check(Path(draft), serving="all")
    assert len(report.judged) == len(RELEASES)
    with pytest.raises(CheckpointError, match="no such folder"):
        contracts.check(tmp_path / "nothing")
    with pytest.raises(UnsupportedRelease):
        contracts.check(draft, serving="vllm==0.20")
    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        contracts.chek  # noqa: B018


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    code = f"""
import sys
from contracts.cli import app
try:
    app(["check", {draft!r}, "--target", {target!r}, "--for", "all"])
except SystemExit:
    pass
heavy = {{"torch", "numpy", "sglang", "speculators", "transformers", "huggingface_hub", "pytest", "httpx"}}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_good_drafts_of_the_catalogue_can_be_written(tmp_path: Path) -> None:
    """What tests judge in memory is the same on disk."""
    for name in ("specforge", "modelopt", "shared_head"):
        good_draft: Good = by_name(name)
        draft, target = written(tmp_path / name, Patient.of(good_draft))
        assert run(draft, "--target", target, "--for", NEWEST).exit_code == 0
