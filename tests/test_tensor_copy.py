from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from contracts import checkpoint, tensor_copy
from contracts.checkpoint import CheckpointError

TENSORS = {
    "wide": torch.randn(7, 3),
    "map": torch.arange(5),
    "mask": torch.tensor([True, False, True]),
    "brief": torch.randn(3).to(torch.bfloat16),
    "half": torch.randn(4).to(torch.float16),
    "none": torch.zeros(0, 4),
    "single": torch.tensor(2.5),
}


def source(folder: Path, tensors: dict[str, torch.Tensor], *, shards: int = 1) -> checkpoint.Checkpoint:
    """A checkpoint of these tensors, spread over shards."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    index = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors" if shards > 1 else "model.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        save_file(part, folder / name)
        index |= dict.fromkeys(part, name)
    if shards > 1:
        (folder / checkpoint.INDEX).write_text(json.dumps({"weight_map": index}))
    return checkpoint.read(folder)


def copied(tmp_path: Path, tensors: dict[str, torch.Tensor], name: str = "copy", *, shards: int = 1) -> Path:
    file = tmp_path / f"{name}.safetensors"
    tensor_copy.copy(source(tmp_path / name, tensors, shards=shards), {key: key for key in tensors}, file)
    return file


@pytest.mark.parametrize("shards", [1, 3])
def test_every_value_is_copied_under_its_new_name(tmp_path: Path, shards: int) -> None:
    file, sizes = tmp_path / "out.safetensors", []
    renames = {name: f"new.{name}" for name in TENSORS if name != "mask"}
    tensor_copy.copy(source(tmp_path / "draft", TENSORS, shards=shards), renames, file, sizes.append)
    written = load_file(file)
    assert set(written) == set(renames.values())
    for old, new in renames.items():
        assert written[new].dtype == TENSORS[old].dtype
        assert torch.equal(written[new], TENSORS[old])
    assert sum(sizes) == sum(TENSORS[name].nbytes for name in renames)


def test_file_is_well_formed_for_everybody(tmp_path: Path) -> None:
    file = copied(tmp_path, TENSORS)
    (tmp_path / "copy" / "model.safetensors").unlink()
    file.rename(tmp_path / "copy" / "model.safetensors")
    assert set(checkpoint.read(tmp_path / "copy").tensors) == set(TENSORS)
    with safe_open(tmp_path / "copy" / "model.safetensors", framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}


def test_each_tensor_is_aligned_to_its_elements(tmp_path: Path) -> None:
    header = checkpoint.read_header(copied(tmp_path, TENSORS))
    assert all(tensor.offset % (tensor.bits // 8) == 0 for tensor in header.values())


def test_same_tensors_give_same_bytes_however_they_are_sharded(tmp_path: Path) -> None:
    one, three = (copied(tmp_path, TENSORS, str(shards), shards=shards) for shards in (1, 3))
    backwards = copied(tmp_path, dict(reversed(TENSORS.items())), "backwards")
    assert one.read_bytes() == three.read_bytes() == backwards.read_bytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_finite_number_is_found(
    tmp_path: Path, dtype: torch.dtype, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_copy, "PIECE", 16)
    tensor = torch.randn(50).to(dtype)
    tensor[41] = value
    with pytest.raises(CheckpointError, match=r"model.safetensors: tensor 'weight' holds NaN or infinity"):
        copied(tmp_path, {"weight": tensor, "sound": torch.ones(3)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_largest_numbers_are_numbers(tmp_path: Path, dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    tensor = torch.tensor([limits.max, limits.min, limits.tiny, 0.0], dtype=dtype)
    assert torch.equal(load_file(copied(tmp_path, {"weight": tensor}))["weight"], tensor)


def test_file_that_became_shorter_is_one_line(tmp_path: Path) -> None:
    draft = source(tmp_path / "draft", {"weight": torch.randn(100)})
    file = tmp_path / "draft" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(CheckpointError, match="ends too soon"):
        tensor_copy.copy(draft, {"weight": "weight"}, tmp_path / "out")


def test_small_tensors_are_read(tmp_path: Path) -> None:
    draft = source(tmp_path / "draft", TENSORS | {"brief_map": torch.arange(4, dtype=torch.int32)})
    assert tensor_copy.integers(draft, "map") == [0, 1, 2, 3, 4]
    assert tensor_copy.integers(draft, "brief_map") == [0, 1, 2, 3]
    assert tensor_copy.flags(draft, "mask") == [True, False, True]
    with pytest.raises(CheckpointError, match="offsets are integers"):
        tensor_copy.integers(draft, "wide")
