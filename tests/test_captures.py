"""How target classes number their layers: recorded of the real sglang, and what export makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from contracts import captures, records
from contracts.captures import Captures, NotCaptured
from contracts.causes import Cause

if TYPE_CHECKING:
    from contracts.sides import Side

LLAMA, DEEPSEEK, GPT_OSS = ("LlamaForCausalLM",), ("DeepseekV3ForCausalLM",), ("GptOssForCausalLM",)


def text(recorded: dict[str, dict[str, Any]]) -> str:
    """A line per class."""
    releases = []
    for release in sorted(recorded, key=Version):
        rules = (f'"{name}": {json.dumps(rule)}' for name, rule in sorted(recorded[release].items()))
        releases.append(f"{json.dumps(release)}: {{\n  " + ",\n  ".join(rules) + "\n}")
    return "{\n" + ",\n".join(releases) + "\n}\n"


def test_record_is_what_the_installed_release_does(
    sglang: Side, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Each class's own setter runs; with --snapshot-update, what it does is recorded."""
    file = tmp_path / "captures.json"
    run = sglang.run([{"case": "captures", "captures": str(file)}], tmp_path / "cache")
    assert run.results["captures"].error is None
    seen = json.loads(file.read_text())
    assert len(seen) > 50
    recorded = json.loads(captures.FILE.read_text()) if captures.FILE.exists() else {}
    if pytestconfig.option.update_snapshots:
        recorded[sglang.version] = seen
        captures.FILE.write_text(text(recorded))
    assert seen == recorded[Captures.for_release(sglang.version).release]


def test_every_recorded_release_has_its_captures() -> None:
    assert set(json.loads(captures.FILE.read_text())) == set(records.recorded_releases("sglang"))


@pytest.mark.parametrize(
    ("target", "states", "ids"),
    [
        (LLAMA, (1, 4, 6), (0, 3, 5)),
        (LLAMA, (0, 4, 6), (-1, 3, 5)),
        (LLAMA, (2, 4, 5), (1, 3, 4)),
        (DEEPSEEK, (2, 4, 6), (1, 3, 5)),  # a 1 in front: outputs, as Llama
        (DEEPSEEK, (3, 4, 6), (3, 4, 6)),  # none: inputs
        (DEEPSEEK, (1, 4, 6), (4, 1, 6)),  # a 1 that must not stand in front
        (GPT_OSS, (2, 4, 6), (1, 3, 5)),
        (("KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM"), (3, 4, 6), (3, 4, 6)),
    ],
)
def test_ids_deliver_the_states(
    target: tuple[str, ...], states: tuple[int, ...], ids: tuple[int, ...]
) -> None:
    assert Captures.for_release("0.5.23").ids(target, states, num_layers=8) == ids


@pytest.mark.parametrize(
    ("target", "states", "cause"),
    [
        (("KimiK25ForConditionalGeneration",), (1, 4, 6), Cause.CAPTURE_UNKNOWN),
        (("NobodysForCausalLM",), (1, 4, 6), Cause.CAPTURE_UNKNOWN),
        ((), (1, 4, 6), Cause.CAPTURE_UNKNOWN),
        (("Qwen2MoeForCausalLM",), (1, 4, 6), Cause.DRAFT_REFUSED),
        (("Gemma3ForCausalLM",), (1, 4, 6), Cause.STATE_WITHOUT_RESIDUAL),
        (LLAMA, (1, 4, 8), Cause.CAPTURE_UNKNOWN),
        (GPT_OSS, (1, 4, 8), Cause.CAPTURE_UNKNOWN),
        (LLAMA, (1, 4, 9), Cause.LAYER_OUT_OF_RANGE),
        (("MindSporeForCausalLM",), (1, 4, 6), Cause.CAPTURE_UNKNOWN),
        (DEEPSEEK, (0, 1, 6), None),
    ],
)
def test_states_that_a_target_cannot_deliver(
    target: tuple[str, ...], states: tuple[int, ...], cause: Cause | None
) -> None:
    if cause is None:
        ids = Captures.for_release("0.5.23").ids(target, states, num_layers=8)
        assert ids == (0, 1, 6)  # the 1 is not in front already
        return
    with pytest.raises(NotCaptured) as raised:
        Captures.for_release("0.5.23").ids(target, states, num_layers=8)
    assert raised.value.cause is cause


def test_release_without_record_is_treated_as_the_newest_before_it() -> None:
    assert Captures.for_release("0.6.0").release == "0.5.23"
    assert Captures.for_release("0.5.22.post1").release == "0.5.22"
