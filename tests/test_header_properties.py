"""Whatever is in a checkpoint, reader and rules refuse it in one line, or judge it: nothing else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from contracts import records
from contracts.blank import Blank
from contracts.header.judge import judge
from contracts.header.sources import draft_in
from contracts.places import CheckpointError
from contracts.served_target import ServedTarget
from tests import fuzz_header
from tests.good_drafts import GOOD, Good
from tests.memory import Memory

NEWEST = records.recorded_releases("sglang")[-1]
QUICK = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "BOOL", "F4", "F33", ""]) | JSON,
        "shape": st.lists(st.integers(-2, 2**66), max_size=20) | JSON,
        "data_offsets": st.lists(st.integers(-2, 2**66), min_size=1, max_size=3) | JSON,
    },
)


@QUICK
@given(st.binary(max_size=64), st.sampled_from([0, 1, 2**40]))
def test_any_bytes(content: bytes, more: int) -> None:
    fuzz_header.read(content, more)


@QUICK
@given(st.dictionaries(st.text(max_size=6), ENTRY | JSON, max_size=4), st.sampled_from([0, 8, 2**40]))
@example({"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]}}, 8)
@example({"a": {"dtype": "F32", "shape": [0] * 16, "data_offsets": [0, 0]}}, 0)
@example({"a": {"dtype": "F32", "shape": [1] * 17, "data_offsets": [0, 4]}}, 4)
@example({"../../etc/passwd": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 8)
def test_any_header(header: dict[str, Any], more: int) -> None:
    text = json.dumps(header).encode()
    fuzz_header.read(len(text).to_bytes(8, "little") + text, more)


SOUND = st.lists(
    st.tuples(st.sampled_from(["F32", "BF16", "I64", "BOOL"]), st.lists(st.integers(0, 9), max_size=4))
)


@QUICK
@given(SOUND)
def test_a_sound_header_is_read(tensors: list[tuple[str, list[int]]]) -> None:
    place = Memory(
        {}, {f"t{at}": Blank(dtype=dtype, shape=tuple(shape)) for at, (dtype, shape) in enumerate(tensors)}
    )
    head = place.read("model.safetensors", 0, 2**20) if tensors else (2).to_bytes(8, "little") + b"{}"
    found = fuzz_header.read(head, sum(tensor.size for tensor in place.tensors.values()))
    assert found is not None
    assert [(it.dtype, list(it.shape)) for it in found.values()] == tensors


def test_seeds_of_the_fuzzer_pass() -> None:
    for seed in fuzz_header.SEEDS:
        fuzz_header.one(seed)


def _paths(config: Any, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(config, dict):
        return [way]
    return [path for key, value in config.items() for path in [(*way, key), *_paths(value, (*way, key))]]


@QUICK
@given(st.sampled_from(GOOD), st.data(), JSON)
def test_any_value_of_any_key(good: Good, data: st.DataObject, value: object) -> None:
    config = copy.deepcopy(dict(good.config))
    *way, key = data.draw(st.sampled_from(_paths(config)))
    place: Any = config
    for step in way:
        place = place[step]
    if isinstance(place, dict):
        place[key] = value
    _judge(config, good)


@QUICK
@given(st.sampled_from(GOOD), st.dictionaries(st.text(max_size=8), JSON, max_size=3))
def test_any_config(good: Good, config: dict[str, Any]) -> None:
    _judge(config, good)


@QUICK
@given(st.sampled_from(GOOD), st.data())
def test_any_shape_of_any_tensor(good: Good, data: st.DataObject) -> None:
    tensors = dict(good.tensors)
    name = data.draw(st.sampled_from(sorted(tensors)))
    shape = tuple(data.draw(st.lists(st.integers(0, 300), max_size=3)))
    tensors[name] = Blank(dtype=data.draw(st.sampled_from(["BF16", "F32", "F8_E4M3"])), shape=shape)
    if name in ("d2t", "t2d"):
        tensors[name] = Blank(dtype="I64" if name == "d2t" else "BOOL", shape=(0,), values=())
    _judge(dict(good.config), good, tensors)


@QUICK
@given(st.sampled_from(GOOD), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=24))
def test_any_map(good: Good, values: list[int]) -> None:
    d2t = Blank(dtype="I64", shape=(len(values),), values=tuple(values))
    _judge(dict(good.config), good, {**good.tensors, "d2t": d2t})


def _judge(config: dict[str, Any], good: Good, tensors: dict[str, Blank] | None = None) -> None:
    place = Memory(json.loads(json.dumps(config)), tensors or good.tensors)
    told = ""
    try:
        judge(draft_in(place), ServedTarget.of(good.target, Path("target")), [NEWEST, "0.5.9"])
    except CheckpointError as refused:
        told = str(refused)
    assert "\n" not in told
    assert len(told) < 1000
