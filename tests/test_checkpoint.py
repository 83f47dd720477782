from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from contracts import checkpoint
from contracts.checkpoint import CheckpointError


def header(entries: dict[str, Any] | bytes, payload: bytes = b"") -> bytes:
    raw = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(raw)) + raw + payload


def write(folder: Path, content: bytes, config: str = "{}", name: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config)
    (folder / name).write_bytes(content)
    return folder


GOOD = header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(8))


def test_reads_what_safetensors_wrote(tmp_path: Path) -> None:
    tensors = {"a": torch.zeros(2, 3, dtype=torch.bfloat16), "b": torch.zeros((), dtype=torch.int64)}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    found = checkpoint.read(tmp_path)
    assert found.config == {"model_type": "llama"}
    assert {name: (t.dtype, t.shape) for name, t in found.tensors.items()} == {
        "a": ("BF16", (2, 3)),
        "b": ("I64", ()),
    }


def test_reads_shards_by_their_index(tmp_path: Path) -> None:
    folder = write(tmp_path, GOOD, name="one.safetensors")
    (folder / "stray.safetensors").write_bytes(GOOD)
    (folder / checkpoint.INDEX).write_text('{"weight_map": {"a": "one.safetensors"}}')
    assert checkpoint.read(folder).tensors["a"].file == "one.safetensors"


def test_never_reads_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = header({"a": {"dtype": "F32", "shape": [1 << 30], "data_offsets": [0, 4 << 30]}})
    folder = write(tmp_path, huge)
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(len(huge) + (4 << 30))  # sparse: nothing is on disk
    assert checkpoint.read(folder).tensors["a"].shape == (1 << 30,)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

BAD_FILES = {
    "empty": b"",
    "shorter_than_its_length": b"\x01\x02",
    "header_longer_than_file": struct.pack("<Q", 1 << 40) + b"{}",
    "header_cut_off": GOOD[:20],
    "not_json": header(b"{not json"),
    "not_an_object": header(b"[]"),
    "not_text": header(b"\xff\xfe{}"),
    "deeply_nested": header(b"[" * 200_000),
    "payload_cut_off": GOOD[:-1],
    "unknown_dtype": header({"a": ENTRY | {"dtype": "F33"}}, bytes(8)),
    "entry_not_an_object": header({"a": 7}, bytes(8)),
    "no_shape": header({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8)),
    "negative_dimension": header({"a": ENTRY | {"shape": [-2]}}, bytes(8)),
    "fractional_dimension": header({"a": ENTRY | {"shape": [2.0]}}, bytes(8)),
    "offsets_backwards": header({"a": ENTRY | {"data_offsets": [8, 0]}}, bytes(8)),
    "offsets_outside": header({"a": ENTRY | {"data_offsets": [8, 16]}}, bytes(8)),
    "size_does_not_fit_shape": header({"a": ENTRY | {"shape": [3]}}, bytes(8)),
    "key_twice": header(
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},'
        b' "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        bytes(8),
    ),
    "overlapping": header({"a": ENTRY, "b": ENTRY}, bytes(8)),
    "gap": header({"a": ENTRY, "b": ENTRY | {"data_offsets": [16, 24]}}, bytes(24)),
    "pickle": b"\x80\x04\x95" + bytes(64),
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
def test_bad_file_is_one_line_that_names_it(tmp_path: Path, content: bytes) -> None:
    folder = write(tmp_path, content)
    with pytest.raises(CheckpointError) as error:
        checkpoint.read(folder)
    assert str(folder / "model.safetensors") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("config", ["", "{", "[]", "null", "\udcff", "[" * 100_000])
def test_bad_config_is_one_line_that_names_it(tmp_path: Path, config: str) -> None:
    folder = write(tmp_path, GOOD)
    (folder / "config.json").write_bytes(config.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError) as error:
        checkpoint.read(folder)
    assert str(folder / "config.json") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ('{"weight_map": {"a": "gone.safetensors"}}', "gone.safetensors"),
        ('{"weight_map": {"a": "../../etc/passwd"}}', "outside"),
        ('{"weight_map": {"a": 1}}', "weight_map"),
        ("{}", "weight_map"),
        ('{"weight_map": {"a": "model.safetensors", "b": "model.safetensors"}}', "'b' is in no shard"),
    ],
)
def test_bad_index(tmp_path: Path, index: str, says: str) -> None:
    folder = write(tmp_path, GOOD)
    (folder / checkpoint.INDEX).write_text(index)
    with pytest.raises(CheckpointError, match=says):
        checkpoint.read(folder)


def test_no_folder_no_config_no_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a folder"):
        checkpoint.read(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        checkpoint.read(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="only safetensors"):
        checkpoint.read(tmp_path)


def test_same_tensor_in_two_files(tmp_path: Path) -> None:
    folder = write(tmp_path, GOOD)
    (folder / "second.safetensors").write_bytes(GOOD)
    with pytest.raises(CheckpointError, match="keep one"):
        checkpoint.read(folder)
