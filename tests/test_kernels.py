"""The stand-ins: importable, loud when called, and never in the way of the real thing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernel_references import REFERENCES

if TYPE_CHECKING:
    from contracts.sides import Side

PROBES = Path(__file__).parent.parent / "contracts" / "probes"


def run(code: str, folder: Path) -> str:
    """Run `code` in an interpreter of its own, with `folder` to import from."""
    preamble = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_kernel_can_be_imported_and_raises_by_name_when_called(tmp_path: Path) -> None:
    broken = tmp_path / "sgl_kernel"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('no CUDA')")
    out = run(
        """
        from contracts.probes.kernels import sgl_kernel
        print(sgl_kernel.install()[0])
        from sgl_kernel import build_tree_kernel_efficient as kernel
        import sgl_kernel as module
        from sgl_kernel.kvcacheio import transfer_kv_all_layer
        try:
            import sgl_kernel.scalar_type
        except ImportError:
            print("none, so that sglang falls back on its own")
        try:
            kernel(1, 2)
        except sys.modules["contracts.probes.stream"].OutOfReach as error:
            print(error)
        """,
        tmp_path,
    )
    assert out.splitlines() == [
        "sgl_kernel (importable, every call raises)",
        "none, so that sglang falls back on its own",
        "sgl_kernel.build_tree_kernel_efficient was called, and only a GPU machine has it",
    ]


def test_real_kernels_are_preferred(tmp_path: Path) -> None:
    names = ["extend_attention_cpu", "decode_attention_cpu", "build_draft_decode_metadata_cpu"]
    (tmp_path / "sgl_kernel.py").write_text(
        "import torch\nreal = True\n"
        + "".join(f"def {name}(): pass\ntorch.ops.sgl_kernel.{name} = {name}\n" for name in names)
    )
    out = run(
        """
        from contracts.probes.kernels import sgl_kernel
        (told,) = sgl_kernel.install()
        print(told)
        import sgl_kernel
        print(sgl_kernel.real, sgl_kernel.extend_attention_cpu.__module__)
        """,
        tmp_path,
    )
    told, real = out.splitlines()
    assert not any(name in told for name in names)
    assert "copy_all_layer_kv_cache_cpu" in told  # what a build lacks is stood in for one by one
    assert real == "True sgl_kernel"


# Independent references: sglang's own torch_native backend for attention, and its own Triton kernels, which
# Triton's interpreter runs on a CPU, for the bookkeeping.


@pytest.mark.parametrize("code", REFERENCES.values(), ids=REFERENCES)
def test_kernels_do_as_independent_references(code: str, tmp_path: Path, sglang: Side) -> None:
    assert run(code, tmp_path).splitlines()[-1] == "alike"


@pytest.mark.parametrize(
    "unusual", ["k_scale=2.0", "logit_cap=30.0", "cross_attention=True", "encoder_lens=torch.ones(4)"]
)
def test_argument_that_a_kernel_does_not_know_is_loud(unusual: str, tmp_path: Path) -> None:
    name = unusual.partition("=")[0]
    out = run(
        f"""
        import inspect, torch
        from contracts.probes.kernels import reference
        from contracts.probes.stream import OutOfReach
        for kernel in (reference.extend_attention_cpu, reference.decode_attention_cpu):
            arguments = dict.fromkeys(inspect.signature(kernel).parameters)
            arguments |= reference.KNOWN_VALUES | {{{name!r}: {unusual.partition("=")[2]}}}
            try:
                kernel(**{{key: arguments[key] for key in inspect.signature(kernel).parameters}})
            except OutOfReach as error:
                print(error)
        """,
        tmp_path,
    )
    assert [f"given {name}=" in line for line in out.splitlines()] == [True, True]


STRICT = """
import torch
from contracts.probes.kernels import linear_attention as ours, target_kernels
from contracts.probes.stream import OutOfReach

x, weight, one = torch.ones(4, 2), torch.ones(4, 3), torch.zeros(1, dtype=torch.int32)
state, windows = torch.zeros(1, 2, 2, 2), torch.zeros(1, 4, 2)
prompt = (x, weight, None, windows, torch.tensor([0, 2]), [2], one, torch.tensor([False]))
step = {"conv_state_indices": one}
vectors = {name: torch.ones(1, 1, 2, 2) for name in "qkv"} | {name: torch.ones(1, 2) for name in "ab"}
rule = {"A_log": torch.ones(2), "dt_bias": torch.ones(2), **vectors, "initial_state_source": state,
        "initial_state_indices": one, "cu_seqlens": torch.tensor([0, 1])}
update = lambda **more: ours.causal_conv1d_update_cpu(torch.ones(1, 4), windows, weight, **{**step, **more})
delta = lambda **more: ours.fused_sigmoid_gating_delta_rule_update_cpu(**{**rule, **more})
for call in (
    lambda: ours.causal_conv1d_fn_cpu(*prompt, block_table=x),
    lambda: ours.causal_conv1d_fn_cpu(*prompt, activation="gelu"),
    lambda: update(retrieve_parent_token=x),
    lambda: update(conv_state_indices=one - 1),
    lambda: delta(softplus_threshold=0.5),
    lambda: delta(initial_state_indices=one - 1),
    lambda: delta(is_kda=True),
):
    try:
        call()
    except OutOfReach as error:
        print(error)
update(), delta(), ours.causal_conv1d_fn_cpu(*prompt)
print(target_kernels.Here().zeros(2, device="cuda:0").device, target_kernels.Here().ones(1).item())
"""


def test_linear_attention_is_loud_about_what_it_does_not_know(tmp_path: Path) -> None:
    *told, here = run(STRICT, tmp_path).splitlines()
    assert [line.rpartition(" which ")[2] for line in told] == ["has no stand-in"] * 7
    assert here == "cpu 1.0"  # what names a GPU as its place


TORCHVISION = """
import torch
@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold):
    return dets
"""


def test_operators_of_a_torchvision_that_does_not_fit_are_declared(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text(TORCHVISION)
    out = run(
        """
        import torch
        from contracts.probes.kernels import torchvision_ops
        print(torchvision_ops.install())
        import torchvision
        try:
            torch.ops.torchvision.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
        except NotImplementedError as error:
            print("not implemented" if "torchvision::nms" in str(error) else error)
        """,
        tmp_path,
    )
    assert out.splitlines() == ["True", "not implemented"]


def test_torchvision_that_fits_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("fits = True")
    out = run(
        "from contracts.probes.kernels import torchvision_ops; print(torchvision_ops.install())", tmp_path
    )
    assert out.strip() == "False"


def test_another_failure_of_torchvision_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('libc is missing')")
    out = run(
        """
        from contracts.probes.kernels import torchvision_ops
        try:
            torchvision_ops.install()
        except RuntimeError as error:
            print(error)
        """,
        tmp_path,
    )
    assert out.strip() == "libc is missing"


def test_probes_do_not_shadow_the_libraries_they_are_named_after(tmp_path: Path) -> None:
    (tmp_path / "sglang.py").write_text("real = True")
    out = run(
        f"""
        import runpy
        sys.path.insert(0, {str(PROBES)!r})
        main = runpy.run_path({str(PROBES / "__main__.py")!r})
        main["expose_package"]()
        import sglang, contracts.facts
        print(sglang.real)
        """,
        tmp_path,
    )
    assert out.strip() == "True"
