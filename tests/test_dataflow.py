"""The watcher, on models small enough to know every answer."""

from __future__ import annotations

import torch
from torch import nn

from contracts.probes.dataflow import Dataflow, Write
from contracts.probes.recording import record_reads


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta")


def test_names_flow_through_a_model() -> None:
    with torch.device("meta"):
        used, unused = nn.Linear(4, 3), nn.Linear(4, 3)
    flow, source = Dataflow(), meta(2, 4)
    for name, tensor in [("used", used.weight), ("unused", unused.weight), ("input", source)]:
        flow.name(tensor, name)
    with torch.no_grad(), flow:
        out = torch.relu(nn.functional.linear(source, used.weight)) * 2
    assert flow.origins(out) == {"used", "input"}


def test_in_place_operations_and_views_share_their_names() -> None:
    flow, base, other = Dataflow(), meta(4, 4), meta(4)
    flow.name(other, "other")
    with flow:
        base[0].add_(other)
    assert flow.origins(base) == {"other"}
    assert flow.origins(base[3]) == {"other"}


def test_parts_of_a_concatenation_are_kept_apart() -> None:
    flow, one, two = Dataflow(), meta(2, 3), meta(2, 5)
    flow.name(one, "one")
    flow.name(two, "two")
    with flow:
        out = torch.cat([one, two], dim=-1)
        rows = torch.cat([one, one], dim=0)
    assert flow.parts(out) == ((3, frozenset({"one"})), (5, frozenset({"two"})))
    assert flow.parts(rows) == ((3, frozenset({"one"})),)


def test_fills_take_a_shape_and_no_value_from_their_input() -> None:
    flow, source = Dataflow(), meta(2, 3)
    flow.name(source, "source")
    with flow:
        fills = [torch.zeros_like(source), torch.empty_like(source), source.new_zeros(3)]
    assert all(flow.origins(fill) == frozenset() for fill in fills)


def test_writes_say_which_part_of_a_parameter_was_filled() -> None:
    fused, q, k = nn.Parameter(meta(6, 4)), torch.zeros(4, 4), torch.zeros(2, 4)
    flow = Dataflow(destinations=[("fused", fused)])
    flow.name(q, "q")
    flow.name(k, "k")
    with flow:
        fused.data.narrow(0, 0, 4).copy_(q)
        fused.data.narrow(0, 4, 2).copy_(k)
    assert flow.writes["fused"] == [
        Write("q", 0, (4, 4), "float32"),
        Write("k", 16, (2, 4), "float32"),
    ]
    assert sum(write.size for write in flow.writes["fused"]) == fused.numel()


def test_what_was_written_before_is_no_source_of_what_is_written_after() -> None:
    parameter, one, two = nn.Parameter(meta(4)), torch.zeros(2), torch.zeros(2)
    flow = Dataflow(destinations=[("p", parameter)])
    flow.name(one, "one")
    flow.name(two, "two")
    with flow:
        parameter.data[:2].copy_(one)
        parameter.data[2:].copy_(two)
    assert [write.source for write in flow.writes["p"]] == ["one", "two"]


def test_storage_of_a_freed_tensor_lends_its_name_to_no_other() -> None:
    flow = Dataflow()
    with flow:
        for number in range(200):
            tensor = torch.zeros(3)
            assert flow.origins(tensor) == frozenset()
            flow.name(tensor, str(number))


class Config:
    model_type = "llama"

    def __init__(self) -> None:
        self.hidden_size = 64
        self.eagle_config = {"ids": [1]}

    def method(self) -> int:
        return self.hidden_size


def test_reads_of_a_config_are_recorded_present_or_not() -> None:
    config, seen = Config(), set[str]()
    record_reads(config, seen)
    assert isinstance(config, Config)
    assert config.hidden_size == 64
    assert getattr(config, "absent", "default") == "default"
    assert config.eagle_config.get("ids") == [1]
    assert config.eagle_config["ids"] == [1]
    assert {"hidden_size", "absent", "eagle_config", "eagle_config.ids"} <= seen
