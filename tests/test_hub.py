"""Drafts and targets of the hub, read by range from a server on this machine that answers as the hub does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts import blank, records
from contracts.blank import weight
from tests.fake_hub import FakeHub, serving
from tests.good_drafts import by_name
from tests.patient import Patient

NEWEST = f"sglang=={records.recorded_releases('sglang')[-1]}"
HUGE = 3_000_000_000
"""Elements of a tensor that a draft of 6 GB has, and that nobody must fetch."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    patient = Patient.of(by_name("specforge_ids"))
    patient.tensors["midlayer.mlp.huge.weight"] = weight(HUGE)
    blank.write(tmp_path / "draft", patient.config, patient.tensors)
    blank.write(tmp_path / "target", patient.target, {})
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04")
    names = {"org/draft": "draft", "org/target": "target", "org/gated": "draft", "org/pickled": "pickled"}
    found = FakeHub(
        {name: tmp_path / folder for name, folder in names.items()}, gated=frozenset({"org/gated"})
    )
    with serving(found):
        yield found


def check(hub: FakeHub, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    return subprocess.run(
        [sys.executable, "-m", "contracts", "check", "--for", NEWEST, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **settings, **environment},
    )


def test_draft_and_target_are_judged_from_a_few_kilobytes(hub: FakeHub) -> None:
    found = check(hub, "org/draft", "--target", "org/target")
    assert found.returncode == 1, found.stderr
    assert found.stdout.startswith("will lose acceptance silently  org/draft in sglang")
    assert "midlayer.mlp.huge.weight" in found.stdout
    assert "target        org/target (LlamaForCausalLM, 8 layers)" in found.stdout
    assert hub.sent < 100_000
    fetched = [line for line in hub.asked if "/resolve/" in line]
    assert len(fetched) == 5  # two configs, one header, two maps
    assert all("bytes=" in line for line in fetched)
    assert not any("org/target/resolve" in line and "safetensors" in line for line in hub.asked)


def test_a_revision(hub: FakeHub) -> None:
    assert "org/draft@v1 in sglang" in check(hub, "org/draft@v1").stdout
    assert any("/resolve/v1/" in line for line in hub.asked)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("org/draft@v9", "no such revision"),
        ("org/nothing", "no such repository, or a private one"),
        ("org/gated", "the repository is gated"),
        ("org/pickled", "pickled weights, which are never opened"),
        ("org/draft/extra", "no such folder or file"),
    ],
)
def test_what_cannot_be_read_is_one_line(hub: FakeHub, name: str, says: str) -> None:
    found = check(hub, name)
    assert (found.returncode, found.stdout) == (2, "")
    assert says in found.stderr
    assert found.stderr.count("\n") == 1
    assert not any("pytorch_model.bin" in line for line in hub.asked)


def test_a_hub_that_is_down_is_one_line(hub: FakeHub) -> None:
    hub.broken = True
    found = check(hub, "org/draft")
    assert found.returncode == 2
    assert f"the hub at {hub.url} answered with status 503" in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_hub_that_is_not_there_is_one_line(hub: FakeHub) -> None:
    found = check(hub, "org/draft", HF_ENDPOINT="http://127.0.0.1:9")
    assert found.returncode == 2
    assert "the hub at http://127.0.0.1:9 does not answer" in found.stderr
    assert found.stderr.count("\n") == 1


def test_offline_is_one_line(hub: FakeHub) -> None:
    found = check(hub, "org/draft", HF_HUB_OFFLINE="1")
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "HF_HUB_OFFLINE is set" in found.stderr
    assert hub.asked == []
