"""How releases of sglang differ in what the probe has to call: each difference declared, with its range.

Nothing here says how a draft is served; it says where the library keeps the steps that serve it. A release in
which nothing moved needs no entry.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch

from contracts.probes.capability import Capability, Release
from contracts.probes.stream import OutOfReach

CAPABILITIES: Mapping[str, Capability] = {
    "own-layers": Capability(
        since="0.5.8", why="a CPU without AMX runs sglang's own layers; before, they were imported from vllm"
    ),
    "algorithms-listed": Capability(
        since="0.5.8", why="speculative algorithms are an enumeration; before, a registry of their own"
    ),
    "quantization-without-mapping": Capability(
        since="0.5.9", why="model_loader.loader looks up the packed modules itself; before, it was given them"
    ),
    "piecewise-graphs": Capability(
        since="0.5.10", why="prefill is captured in CUDA graphs too, unless told otherwise; before, never"
    ),
    "retrieve-spelled-so": Capability(
        since="0.5.11", why="a draft tree's fields are called retrieve_*; before, retrive_*"
    ),
    "forward-context": Capability(
        since="0.5.13",
        why="layers find the attention backend in forward_context; before, in the ForwardBatch",
    ),
    "one-worker": Capability(
        since="0.5.13", why="a draft worker inside the worker; before, the default was one class that is both"
    ),
    "tokens-as-array": Capability(since="0.5.13", why="a request's tokens are an array; before, a list"),
    "graphs-together": Capability(
        since="0.5.14", why="--disable-cuda-graph is for prefill and decode; before, for decode"
    ),
    "planned-batches": Capability(
        since="0.5.16", why="the scheduler returns a plan with its next batch; before, the batch"
    ),
    "capture-apart": Capability(
        since="0.5.16",
        why="model_runner_components decide and set the capture; before, ModelRunner's constructor does",
    ),
    "waits-for-no-gpu": Capability(
        since="0.5.16", why="sharing the embedding no longer waits for a GPU, whatever the device"
    ),
    "context-length-given": Capability(
        since="0.5.16",
        why="the draft's configuration is given the target's context length; before, the arguments held it",
    ),
    "published-arguments": Capability(
        since="0.5.17",
        why="server arguments are published in runtime_context; before, they are a global of server_args",
    ),
    "cpu-drafting": Capability(
        since="0.5.20", why="an attention backend and kernels that draft on a CPU; before, for GPUs only"
    ),
    "graph-backends": Capability(
        since="0.5.20", why="CUDA graphs of prefill and decode are turned off apart; before, together"
    ),
    "load-weights-only": Capability(
        since="0.5.20",
        why="a step of the loader hands over weights; before, the same one processed them",
    ),
    "spawn-ranks": Capability(
        since="0.5.21", why="publishing takes the ranks of this process; before, it knew them"
    ),
}


release = Release("sglang", CAPABILITIES)
has = release.has


def publish(arguments: Any) -> None:
    """Make the server's arguments known to the library, as its scheduler process does."""
    if not has("published-arguments"):
        from sglang.srt.server_args import set_global_server_args_for_scheduler

        set_global_server_args_for_scheduler(arguments)
        return
    from sglang.srt import runtime_context

    ranks: dict[str, Any] = {}
    if has("spawn-ranks"):
        ranks["ranks"] = runtime_context.SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0)
    runtime_context.publish(arguments, role="scheduler", **ranks)


def speculation(arguments: Any) -> Any:
    """Where the published arguments for speculation are, with defaults filled in."""
    if not has("published-arguments"):
        return arguments
    from sglang.srt import runtime_context

    return runtime_context.get_spec()


def draft_config(arguments: Any, path: str, context_length: int) -> Any:
    """The draft's configuration as its worker makes it: with the context length of the target."""
    from sglang.srt.configs.model_config import ModelConfig

    given: dict[str, Any] = {}
    if has("context-length-given"):
        given["context_length"] = context_length
    else:
        arguments.context_length = context_length
    return ModelConfig.from_server_args(arguments, model_path=path, is_draft_model=True, **given)


def quantization(config: Any, configuration: Any) -> dict[str, Any]:
    """The quantisation that a model is built with, as keyword arguments of `_initialize_model`."""
    if not has("quantization-without-mapping"):
        return {}  # `_initialize_model` finds it out for itself
    from sglang.srt.model_loader.loader import _get_quantization_config

    return {"quant_config": _get_quantization_config(config, configuration)}


def load_weights(loader: Any, model: Any, weights: Any, device: torch.device) -> None:
    """Hand the weights of a checkpoint to a model, and do not process them further if that can be avoided."""
    if has("load-weights-only"):
        loader.load_weights_only(model, weights, device)
    else:
        model.load_weights(weights)  # the first thing that the one step of these releases does


@contextlib.contextmanager
def attending(backend: Any, batch: Any) -> Iterator[None]:
    """Let the layers of a model find the attention backend."""
    if not has("forward-context"):
        batch.attn_backend = backend
        yield
        return
    from sglang.srt.model_executor.forward_context import ForwardContext, forward_context

    with forward_context(ForwardContext(attn_backend=backend)):
        yield


def server_arguments(command_line: list[str], given: Sequence[str] = ()) -> Any:
    """The arguments that the library makes of its command line.

    Args:
        command_line: whole.
        given: the part of it that is not the probe's own.

    Raises:
        SystemExit: the library does not take an option that was given; the message says which.
        OutOfReach: it does not take one of the probe's own.

    """
    from sglang.srt.server_args import prepare_server_args

    try:
        with _saying_why():
            return prepare_server_args(command_line)
    except SystemExit as refused:
        if any(word in str(refused) for word in given if word.startswith("--")):
            raise
        raise OutOfReach(f"the server's command line: {refused}") from None


@contextlib.contextmanager
def _saying_why() -> Iterator[None]:
    """Let argparse end the process with its message, which it prints otherwise."""
    ending = argparse.ArgumentParser.error

    def error(self: argparse.ArgumentParser, message: str) -> NoReturn:
        raise SystemExit(message)

    argparse.ArgumentParser.error = error  # type: ignore[method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.error = ending  # type: ignore[method-assign]


def wait_for_nothing() -> tuple[str, ...]:
    """Let a CPU not be waited for as if it were a GPU; says what is stood in for."""
    if has("waits-for-no-gpu"):
        return ()
    for name in ("synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    return ("waiting for a GPU (there is none)",)
