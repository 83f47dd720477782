"""sglang's real scheduler in this process: started, fed with requests, run batch by batch."""

from __future__ import annotations

import array
import inspect
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from contracts.facts import Device
from contracts.probes import sglang_release

CPU_BACKENDS = (
    *("--attention-backend", "torch_native"),
    *("--prefill-attention-backend", "intel_amx", "--decode-attention-backend", "intel_amx"),
)
"""What runs EAGLE-3 on any CPU; without AMX the first would be taken for all three."""
ONE_BACKEND = ("--attention-backend", "triton")
"""The one attention backend that knows float32 on a GPU; in releases that draft on none else, a CPU too."""
NO_GRAPHS = ("--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled")
NO_GRAPH = ("--disable-cuda-graph",)
SMALL = (
    *("--max-total-tokens", "2048", "--page-size", "1"),
    *("--disable-overlap-schedule", "--disable-radix-cache", "--chunked-prefill-size", "-1"),
    *("--sampling-backend", "pytorch", "--grammar-backend", "none"),
)
"""Small, and one step at a time."""


def arguments(device: Device, *, graphs: bool = False) -> tuple[str, ...]:
    """How the engine is told to run on a device: small, one step at a time, and without CUDA graphs.

    With `graphs` decoding is captured in them.
    """
    native = device == "cpu" and sglang_release.has("cpu-drafting")
    return (
        *_graphs(graphs, device),
        *SMALL,
        *("--device", device, "--mem-fraction-static", "0.1"),
        *(CPU_BACKENDS if native else ONE_BACKEND),
    )


def _graphs(on: bool, device: Device) -> tuple[str, ...]:
    apart = sglang_release.has("graph-backends")
    if on:
        return ("--cuda-graph-max-bs-decode" if apart else "--cuda-graph-max-bs", "8")
    piecewise = sglang_release.has("piecewise-graphs") and not sglang_release.has("graphs-together")
    if device == "cuda" and piecewise:
        return (*NO_GRAPH, "--disable-piecewise-cuda-graph")
    return NO_GRAPHS if apart else NO_GRAPH


IDLE = 20
"""Times in a row that a scheduler may find nothing to run; between two requests one is usual."""


def start(command_line: list[str], given: Sequence[str] = ()) -> Any:
    """The library's scheduler in this process, with the target loaded, and the draft if one is named.

    `given` are the arguments of the command line that are not the probe's own.
    """
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.server_args import PortArgs

    server_arguments = sglang_release.server_arguments(command_line, given)
    ports = PortArgs.init_new(server_arguments)
    ports.nccl_port = _free_port()
    sglang_release.publish(server_arguments)
    asked = inspect.signature(Scheduler).parameters
    ranks: dict[str, int | None] = {name: 0 for name in asked if name.endswith("_rank")}
    ranks |= {name: value for name, value in {"gpu_id": 0, "dp_rank": None}.items() if name in asked}
    return Scheduler(server_arguments, ports, **ranks)


def _free_port() -> int:
    """A port that nobody listens on, below those that systems give out to whoever connects.

    Of those that sglang tries, two cases at a time might take the same.
    """
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probing:
            if probing.connect_ex(("127.0.0.1", port)):
                return port


def submit(
    scheduler: Any, prompts: Sequence[Sequence[int]], tokens: int, *, states: bool = False
) -> list[Any]:
    """Queue one greedy request for `tokens` tokens per prompt; returns the library's request objects.

    With `states` each asks for the hidden states of its positions.
    """
    before = len(scheduler.waiting_queue)
    for number, prompt in enumerate(prompts):
        scheduler.handle_generate_request(_request(f"request-{number}", prompt, tokens, states))
    requests = list(scheduler.waiting_queue)[before:]
    if len(requests) != len(prompts):
        raise RuntimeError(f"of {len(prompts)} requests the scheduler took {len(requests)}")
    return requests


def batches(
    scheduler: Any, requests: Sequence[Any], before: Callable[[Any], None] = lambda _: None
) -> Iterator[tuple[Any, Any]]:
    """Let the scheduler run one batch after the other until all requests are done: each batch and its result.

    `before` is told each batch before it is run.

    Raises:
        RuntimeError: it stays idle before that.

    """
    idle = 0
    while not all(request.finished() for request in requests):
        batch = _next_batch(scheduler)
        if batch is None:
            scheduler.last_batch, idle = None, idle + 1
            if idle > IDLE:
                raise RuntimeError(f"the scheduler was idle {IDLE} times, and not all requests are done")
            continue
        idle = 0
        before(batch)
        result = scheduler.run_batch(batch)
        yield batch, result
        scheduler.process_batch_result(batch, result)
        scheduler.last_batch = batch


def _next_batch(scheduler: Any) -> Any:
    if not sglang_release.has("planned-batches"):
        scheduler.cur_batch = scheduler.get_next_batch_to_run()
        return scheduler.cur_batch
    plan = scheduler.get_next_batch_to_run(
        running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
    )
    scheduler.running_batch = plan.running_batch
    return plan.batch_to_run


def _request(name: str, prompt: Sequence[int], tokens: int, states: bool) -> Any:
    from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
    from sglang.srt.sampling.sampling_params import SamplingParams

    sampling = SamplingParams(max_new_tokens=tokens, temperature=0.0, ignore_eos=True)
    sampling.normalize(None)
    wanted = {
        "rid": name,
        "input_text": None,
        "input_ids": array.array("q", prompt) if sglang_release.has("tokens-as-array") else list(prompt),
        "input_embeds": None,
        "mm_inputs": None,
        "token_type_ids": None,
        "sampling_params": sampling,
        "return_logprob": False,
        "logprob_start_len": -1,
        "top_logprobs_num": 0,
        "token_ids_logprob": None,
        "stream": False,
        "return_hidden_states": states,
    }
    known = inspect.signature(TokenizedGenerateReqInput).parameters
    return TokenizedGenerateReqInput(**{key: value for key, value in wanted.items() if key in known})
