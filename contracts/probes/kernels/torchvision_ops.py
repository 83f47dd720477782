"""Declares the compiled operators of torchvision where its build does not fit the installed torch.

Both libraries import torchvision for image models; a draft for a text model calls none of its operators.
The torchvision of PyPI does not load its operators beside a CPU build of torch, and then fails at import
because it attaches metadata to operators that are not there. Declared without an implementation they are
there, and calling one raises torch's own NotImplementedError.
"""

from __future__ import annotations

import importlib
import sys

import torch

OPERATORS = ("nms", "qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_libraries: list[torch.library.Library] = []  # an operator lives as long as its Library


def install() -> bool:
    """Declare the operators if torchvision cannot be imported without; tells whether it did."""
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return False  # whoever needs it will say so
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for loaded in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[loaded]
        library = torch.library.Library("torchvision", "DEF")
        for operator in OPERATORS:
            library.define(operator + _SCHEMA)
        _libraries.append(library)
        importlib.import_module("torchvision")
        return True
    return False
