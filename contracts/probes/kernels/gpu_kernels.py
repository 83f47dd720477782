"""Lets sglang releases without a CPU path for EAGLE-3 take the path of a GPU, with the stand-ins behind it.

Their modules choose a kernel by platform when they are imported, and know none for a CPU. They are told that
this is CUDA; of the compiled kernels that they then call, the two that build and verify a tree are the plain
torch ones of `contracts.probes.kernels.verification`, and the Triton ones are interpreted.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from typing import Any

from contracts.probes.kernels import verification

KERNELS = {
    "build_tree_kernel_efficient": verification.build_tree_kernel_efficient_cpu,
    "verify_tree_greedy": verification.verify_tree_greedy_cpu,
}
PACKAGE = "sglang.srt.speculative"


def install() -> tuple[str, ...]:
    """Put the kernels in place and tell the modules; says what is stood in for."""
    from sglang.srt.model_executor import model_runner
    from sglang.srt.speculative import eagle_utils

    kernels: Any = sys.modules["sgl_kernel"]
    for name, kernel in KERNELS.items():
        setattr(kernels, name, kernel)
    eagle_utils.sgl_build_tree_kernel_efficient = KERNELS["build_tree_kernel_efficient"]
    for module in _modules():
        if hasattr(module, "_is_cuda"):
            module._is_cuda = True
    # Quantises by a package that is not needed here, also when there is nothing to quantise.
    model_runner.apply_torchao_config_to_model = lambda *_, **__: None
    return (f"sgl_kernel of a GPU, in plain torch: {', '.join(KERNELS)}", "Triton (interpreted)")


def _modules() -> list[Any]:
    """The modules of the package that are imported already, or that the engine imports for EAGLE-3."""
    package = import_module(PACKAGE)
    names = [
        f"{PACKAGE}.{item.name}" for item in pkgutil.walk_packages(package.__path__) if item.name[0] == "e"
    ]
    for name in [*names, f"{PACKAGE}.spec_utils", f"{PACKAGE}.triton_ops.cache_locs"]:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # something that the module needs
    return [module for name, module in sys.modules.items() if name.startswith(PACKAGE)]
