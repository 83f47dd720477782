"""A coverage-guided fuzz target for the header reader; `pip install atheris`, `python -m tests.fuzz_header`.

Options are libFuzzer's, as in `python -m tests.fuzz_header -max_total_time=60`. Whatever the bytes are,
the reader names the fault in one line, or its tensors lie within the file, side by side.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from contracts import checkpoint
from contracts.checkpoint import Tensor
from contracts.places import CheckpointError

EXTRA = 2**40
"""Bytes that a file claims to have beyond those that are there, if its first byte says so."""


@dataclass(frozen=True)
class Bytes:
    """A place with one file of these bytes, which may claim to be longer than it is."""

    content: bytes
    more: int = 0

    @property
    def where(self) -> str:
        return "fuzz"

    def label(self, name: str) -> str:
        return f"fuzz/{name}"

    def files(self) -> list[str]:
        return ["model.safetensors"]

    def size(self, name: str) -> int:
        return len(self.content) + self.more

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


def read(content: bytes, more: int = 0) -> dict[str, Tensor] | None:
    """What the reader makes of some bytes, which is checked; None if it refuses them.

    Raises:
        AssertionError: the reader let something pass that it must not.

    """
    try:
        found = checkpoint.header(Bytes(content, more), "model.safetensors")
    except CheckpointError as refused:
        told = str(refused)
        assert told.startswith("fuzz/model.safetensors: ")
        assert "\n" not in told
        assert len(told) < 1000
        return None
    at = 8 + int.from_bytes(content[:8], "little")
    for tensor in sorted(found.values(), key=lambda it: (it.offset, it.size)):
        assert tensor.offset == at
        assert all(isinstance(size, int) and size >= 0 for size in tensor.shape)
        at += tensor.size
    assert at == len(content) + more
    return found


def one(data: bytes) -> None:
    """One input of the fuzzer: a header, with a length that fits it or one of the fuzzer's own."""
    if not data:
        return
    kind, rest = data[0], data[1:]
    framed = len(rest).to_bytes(8, "little") + rest if kind & 1 else rest
    read(framed, EXTRA if kind & 2 else 0)


SEEDS = (
    b"\x01" + json.dumps({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode(),
    b"\x03" + json.dumps({"a": {"dtype": "U8", "shape": [EXTRA], "data_offsets": [0, EXTRA]}}).encode(),
    b"\x01" + json.dumps({"__metadata__": {"format": "pt"}}).encode(),
    b"\x00" + (2**63).to_bytes(8, "little"),
)


def main() -> None:
    """Fuzz until told to stop."""
    import atheris

    atheris.instrument_func(checkpoint.header)
    for name in ("_tensor", "_check_cover", "_without_repeats"):
        setattr(checkpoint, name, atheris.instrument_func(getattr(checkpoint, name)))
    for seed in SEEDS:
        one(seed)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
