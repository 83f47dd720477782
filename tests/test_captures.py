"""How target classes number their layers: as recorded of sglang, and what export makes of it."""

from __future__ import annotations

import pytest

from contracts import records
from contracts.captures import Captures, NotCaptured
from contracts.causes import Cause

LLAMA, DEEPSEEK, GPT_OSS = ("LlamaForCausalLM",), ("DeepseekV3ForCausalLM",), ("GptOssForCausalLM",)


@pytest.mark.parametrize("release", records.recorded_releases("sglang"))
def test_every_class_of_every_release_is_recorded(release: str) -> None:
    rules = Captures.for_release(release).rules
    assert len(rules) >= 20
    assert {"LlamaForCausalLM", "Qwen3ForCausalLM", "GptOssForCausalLM", "DeepseekV3ForCausalLM"} <= set(
        rules
    )
    assert rules["LlamaForCausalLM"].without_ids == (2, 4, 5)
    assert rules["LlamaForCausalLM"].setter == "llama.LlamaForCausalLM"


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
        (("KimiK25ForConditionalGeneration",), (1, 4, 6), (4, 1, 6)),  # of a wrapper that was run itself
        (GPT_OSS, (1, 4, 8), (0, 3, 7)),
        (("Gemma4ForCausalLM",), (1, 4, 8), (0, 3, 7)),
    ],
)
def test_ids_deliver_the_states(
    target: tuple[str, ...], states: tuple[int, ...], ids: tuple[int, ...]
) -> None:
    assert Captures.for_release("0.5.23").ids(target, states, num_layers=8) == ids


@pytest.mark.parametrize(
    ("target", "states", "cause"),
    [
        (("NobodysForCausalLM",), (1, 4, 6), Cause.CAPTURE_UNKNOWN),
        ((), (1, 4, 6), Cause.CAPTURE_UNKNOWN),
        (("Qwen2MoeForCausalLM",), (1, 4, 6), Cause.TARGET_REFUSED),
        (("Gemma3ForCausalLM",), (1, 4, 6), Cause.STATE_WITHOUT_RESIDUAL),
        (LLAMA, (1, 4, 8), Cause.LAST_LAYER_NOT_CAPTURED),
        (("DeepseekV32ForCausalLM",), (1, 4, 8), Cause.CAPTURE_UNKNOWN),
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
