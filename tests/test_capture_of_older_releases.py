"""The constructor of ModelRunner, cut down to what it decides about capture, on made-up libraries."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

RUNNER = """
class Mixin:
    def init_memory_pool(self, size):
        raise MemoryError("this is left out, in whatever class it is")

class ModelRunner(Mixin):
    def __init__(self, model_config, mem_fraction_static, gpu_id, tp_rank, tp_size, nccl_port, server_args,
                 dp_rank=None, req_to_token_pool=None):
        self.ids = server_args
        self.initialize(self.measure() * 2)

    def measure(self):
        raise MemoryError("left out")

{body}
"""
INLINE = """
    def initialize(self, size):
        self.init_memory_pool(size)
        self.model.set_eagle3_layers_to_capture(self.ids)
"""
APART = """
    def initialize(self, size):
        self.init_aux_hidden_state_capture()

    def init_aux_hidden_state_capture(self):
        if self.ids != "off":
            self.model.set_eagle3_layers_to_capture(self.ids)
"""
LATER = """
    def initialize(self, size):
        pass

    def init_aux_hidden_state_capture(self):
        self.model.set_eagle3_layers_to_capture(self.ids)
"""
ELSEWHERE = """
    def initialize(self, size):
        self.tell()

    def tell(self):
        self.model.set_eagle3_layers_to_capture(self.ids)
"""
PROGRAM = """
import json, sys
sys.path.insert(0, {folder!r})
from types import SimpleNamespace
from contracts.probes.sglang_capture import Capture
from contracts.probes.stream import OutOfReach

class Target:
    told = "nothing"
    def set_eagle3_layers_to_capture(self, ids=None):
        self.told = ids

target = Target()
capture = Capture({ids!r}, SimpleNamespace(dtype=None), None)
try:
    capture.tell(target)
    print(json.dumps([target.told, capture.layer_ids]))
except OutOfReach as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    ("body", "ids", "found"),
    [
        (INLINE, [1, 3], [[1, 3], [1, 3]]),
        (INLINE, None, [None, None]),
        (APART, [1, 3], [[1, 3], [1, 3]]),
        (APART, "off", ["nothing", None]),
        (LATER, [1, 3], [[1, 3], [1, 3]]),
        (ELSEWHERE, [1, 3], "ModelRunner.tell tells the target what to capture, and is left out"),
    ],
    ids=["inline", "inline, no ids", "apart", "apart, off", "later", "elsewhere"],
)
def test_target_is_told_what_the_library_decides(
    tmp_path: Path, body: str, ids: object, found: object
) -> None:
    package = tmp_path / "sglang" / "srt" / "model_executor"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "model_runner.py").write_text(RUNNER.format(body=body))
    metadata = tmp_path / "sglang-0.5.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.9\n")
    code = textwrap.dedent(PROGRAM.format(folder=str(tmp_path), ids=ids))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found
