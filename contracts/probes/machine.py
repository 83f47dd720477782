"""What this interpreter finds of GPUs, and what its sglang offers for them; holds no expectation."""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from typing import Any


def look() -> dict[str, Any]:
    """GPUs, or why there are none; attention backends of the command line."""
    import torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        there = torch.cuda.is_available()
    told: dict[str, Any] = {"torch": torch.__version__, "gpus": [], "backends": []}
    if not there:
        words = [" ".join(str(item.message).split()) for item in said if "CUDA" in str(item.message)]
        build = "" if torch.version.cuda else ", a build without CUDA,"
        why = f" ({words[0][:300]})" if words else ""
        return {**told, "reason": f"torch {torch.__version__}{build} finds no GPU here{why}"}
    try:
        for number in range(torch.cuda.device_count()):
            found = torch.cuda.get_device_properties(number)
            told["gpus"].append(
                {"name": found.name, "capability": [found.major, found.minor], "memory": found.total_memory}
            )
    except RuntimeError as error:  # of a driver that does not fit, or a GPU in exclusive mode
        return {**told, "gpus": [], "reason": f"a GPU is there and cannot be used: {_line(error)}"}
    try:
        return {**told, "backends": attention_backends()}
    except Exception as error:  # a library of CUDA's that is missing, say
        return {**told, "gpus": [], "reason": f"sglang cannot be imported: {_line(error)}"}


def attention_backends() -> list[str]:
    """What --attention-backend takes, by the library's own parser."""
    with contextlib.redirect_stdout(io.StringIO()):
        from sglang.srt.server_args import ServerArgs

        parser = argparse.ArgumentParser()
        ServerArgs.add_cli_args(parser)
        for action in parser._actions:
            if "--attention-backend" in action.option_strings:
                return sorted(map(str, action.choices or ()))
    return []


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
