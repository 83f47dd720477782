"""The real HTTP server with a draft: how it is started, what it is asked, and what came of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter
from safetensors import safe_open

from contracts import acceptance
from contracts.acceptance import Expected
from contracts.conversation import PROBES
from contracts.facts import CaseResult, Device, Refusal
from contracts.launch import READY_TIMEOUT, LaunchFailed, Told, launched
from contracts.placing import write_whole
from contracts.probes.stream import NOT_HERE
from contracts.recipes import DType
from contracts.replay import TOLERANCES
from contracts.servers import Counts, ServerError, connect
from contracts.settings import HEAD_DIM
from contracts.speculation import EngineRun, Generation

ANSWER_TIMEOUT = 300.0
"""Seconds for one answer: the first on a GPU compiles kernels."""
GPU_READY_TIMEOUT = 900.0
"""Seconds until it answers on a GPU: kernels are compiled, graphs captured."""
WIDEN_TIMEOUT = 300.0
SMALL = ("--max-total-tokens", "2048", "--mem-fraction-static", "0.3", "--max-running-requests", "8")
"""Of a server on a GPU; one on a CPU is small by itself."""
EVERY_STEP = ("--decode-log-interval", "1")
"""sglang adds to its statistics when it logs (scheduler_components/metrics_reporter.py of 0.5.23)."""
_RAISED = re.compile(r"^(?:\[[^]]*\] )?(?:[\w.]+\.)?(\w*(?:Error|Exception|Exit))(?:: (.*))?$")
_TAKEN = re.compile("EADDRINUSE|[Aa]ddress already in use")
_USAGE = re.compile(r"^\S*: error: (.*)$")


@dataclass(frozen=True, kw_only=True)
class Serving:
    """One way of starting the server: what it is called, and its arguments."""

    name: str
    about: str
    ranks: int = 1
    """Processes that the weights are split among (tensor parallelism)."""
    arguments: tuple[str, ...] = ()
    of_gpus: bool = False
    """Whether only a GPU makes a difference."""

    @property
    def server_args(self) -> tuple[str, ...]:
        """Arguments of the server."""
        split = ("--tp-size", str(self.ranks)) if self.ranks > 1 else ()
        return (*self.arguments, *split)


SERVINGS = (
    Serving(name="server", about="scheduled as the release does by itself"),
    Serving(name="two_ranks", about="split among two ranks, the draft's vocabulary too", ranks=2),
    Serving(
        name="no_overlap",
        about="without overlapping the schedule of a batch and the work on the one before",
        arguments=("--disable-overlap-schedule",),
        of_gpus=True,
    ),
    Serving(
        name="no_graphs",
        about="without CUDA graphs of decoding",
        arguments=("--disable-cuda-graph",),
        of_gpus=True,
    ),
    Serving(
        name="fused_ranks",
        about="split among two ranks, whose sums are fused with the norms behind them",
        ranks=2,
        arguments=("--enable-flashinfer-allreduce-fusion",),
        of_gpus=True,
    ),
)
"""On a CPU sglang neither overlaps nor captures graphs, whatever it is told."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a server answered and counted."""

    generations: tuple[Generation, ...]
    """Its answers to all prompts at once, and its counts of each."""
    measured: Counts
    """Its counts of the same prompts one by one, as `contracts acceptance` asks them."""
    statistics: float | None
    """The accept length that it states of itself (avg_spec_accept_length); None if it states none."""
    seconds: float
    """From its start until it answered."""
    left: tuple[str, ...]
    """Processes that outlived it, and whoever listened on its port."""

    @property
    def accept_length(self) -> float:
        """By its counts of the answers that it gave at once."""
        return EngineRun(generations=self.generations).accept_length


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server's answers beside what training expects."""

    serving: Serving
    dtype: DType
    expected: tuple[Expected, ...]
    service: Service
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, *, expected: Path, service: Path, metrics: Path, serving: Serving, dtype: DType) -> Served:
        """Read what the training probe and the server's run have left."""
        with safe_open(expected, "numpy") as file:
            return cls(
                serving=serving,
                dtype=dtype,
                expected=acceptance.read_expected(file),
                service=read(service),
                metrics=acceptance.read_metrics(metrics),
            )

    def replayed(self) -> tuple[float, float]:
        """The accept length of training's own chains, and by how much rounding can change it."""
        slack = acceptance.tied(self.expected, TOLERANCES[self.dtype]) if self.dtype != "float32" else 0.0
        return acceptance.replayed(self.expected), slack

    def figures(self) -> dict[str, float]:
        """Accept lengths, by what they are."""
        found = {"accept_length": self.service.accept_length, "replayed": self.replayed()[0]}
        promised = acceptance.promised(self.metrics)
        return found if promised is None else {**found, "promised": promised}


_SERVICE = TypeAdapter(Service)


def read(file: Path) -> Service:
    """What a server's run has left."""
    return _SERVICE.validate_json(file.read_bytes())


def serve(python: str, case: Mapping[str, Any], folder: Path, told: Told) -> CaseResult:
    """Start a server in the interpreter `python`, ask it, and end it.

    `case` names `target` and `draft` (folders), `dtype`, `server_args`, `device`, `prompts`, `tokens`, and
    where the `Service` is written: `service`.
    """
    name, device = case["case"], case["device"]
    try:
        models = _as_served(python, case, folder)
        limit = GPU_READY_TIMEOUT if device == "cuda" else READY_TIMEOUT
        command = _command(python, models, case)
        with launched(command, folder, ready_timeout=limit, told=told) as server:
            _forget(server.url)
            generations = _at_once(server.url, case)
            with connect(server.url, timeout=ANSWER_TIMEOUT) as talk:
                measured = talk.measure(case["prompts"], case["tokens"], lambda: None)
            statistics = _statistics(server.url)
        found = Service(
            generations=generations,
            measured=measured,
            statistics=statistics,
            seconds=server.seconds,
            left=server.left,
        )
        write_whole(Path(case["service"]), _SERVICE.dump_json(found).decode())
        return CaseResult(case=name)
    except LaunchFailed as error:
        return _failed(name, str(error), folder / "server.log", device)
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        why = (said or [str(error)])[-1]
        return CaseResult(case=name, error=f"the model could not be given wider heads: {why}")
    except (ServerError, httpx.HTTPError, OSError, ValueError, LookupError, TypeError) as error:
        return CaseResult(case=name, error=f"{type(error).__name__}: {error}")
    finally:
        for made in ("tmp", "models"):
            shutil.rmtree(folder / made, ignore_errors=True)


def _command(python: str, models: tuple[str, str], case: Mapping[str, Any]) -> list[str]:
    """The library's own server; on a CPU with what stands in there, on a GPU with nothing of ours."""
    target, draft = models
    program = [str(PROBES / "__main__.py"), "serve", "sglang"]
    if case["device"] == "cuda":
        program = ["-m", "sglang.launch_server", *SMALL]
    return [
        *(python, *program, "--model-path", target, "--speculative-draft-model-path", draft),
        *("--skip-tokenizer-init", "--dtype", case["dtype"], *EVERY_STEP, *case["server_args"]),
    ]


def _as_served(python: str, case: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    """Folders of target and draft; with heads as GPU kernels want them, where it is one."""
    sources = case["target"], case["draft"]
    if case["device"] == "cpu":
        return sources
    made = folder / "models"
    made.mkdir()
    target, draft = (str(made / name) for name in ("target", "draft"))
    for source, place in zip(sources, (target, draft), strict=True):
        command = [python, str(PROBES / "__main__.py"), "widen", source, place, str(HEAD_DIM)]
        subprocess.run(command, check=True, capture_output=True, timeout=WIDEN_TIMEOUT)
    return target, draft


def _at_once(url: str, case: Mapping[str, Any]) -> tuple[Generation, ...]:
    sampling = {"temperature": 0, "max_new_tokens": case["tokens"], "ignore_eos": True}
    question = {"input_ids": case["prompts"], "sampling_params": sampling}
    with httpx.Client(trust_env=False, timeout=ANSWER_TIMEOUT) as client:
        answer = client.post(f"{url}/generate", json=question)
        answer.raise_for_status()
    return tuple(_generation(*both) for both in zip(case["prompts"], answer.json(), strict=True))


def _generation(prompt: list[int], answer: Mapping[str, Any]) -> Generation:
    meta = answer["meta_info"]
    rounds = int(meta["spec_verify_ct"])
    named = ("spec_num_correct_drafts", "spec_accept_token_num")
    accepted = next((meta[name] for name in named if meta.get(name) is not None), None)
    if accepted is None:  # the prefill makes one token, and each round one besides those accepted
        accepted = meta["completion_tokens"] - 1 - rounds
    tokens = tuple(answer["output_ids"])
    return Generation(prompt=tuple(prompt), tokens=tokens, verifications=rounds, accepted=int(accepted))


def _forget(url: str) -> None:
    """Let the server count from here on: it has warmed up, on a prompt that no draft was trained for.

    sglang's statistics begin anew when its cache is flushed (managers/scheduler.py of 0.5.23).
    """
    with httpx.Client(trust_env=False, timeout=ANSWER_TIMEOUT) as client:
        client.post(f"{url}/flush_cache").raise_for_status()


def _statistics(url: str) -> float | None:
    with httpx.Client(trust_env=False, timeout=ANSWER_TIMEOUT) as client:
        for path in ("/server_info", "/get_server_info"):
            answer = client.get(f"{url}{path}")
            if answer.is_success:
                states = answer.json().get("internal_states") or [{}]
                stated = states[0].get("avg_spec_accept_length")
                return None if stated is None else float(stated)
    return None


def _failed(name: str, why: str, log: Path, device: Device) -> CaseResult:
    """A server that never answered: refused by the library, or failed by the machine."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    frames = [line for line in lines if line.startswith('File "')]
    ours = bool(frames) and str(PROBES) in frames[-1]
    for line in reversed(lines):
        match = _RAISED.match(line) or _USAGE.match(line)
        here = NOT_HERE.search(line) if match else _TAKEN.search(line)
        if here:
            return CaseResult(case=name, error=f"the server cannot run here: {line[:300]}")
        if match and not ours and "did not answer" not in why.splitlines()[0]:
            *kind, message = match.groups()
            refusal = Refusal(
                stage="serve", error=(kind or ["SystemExit"])[0], message=(message or "")[:1000]
            )
            return CaseResult(case=name, refusals=(refusal,))
    return CaseResult(case=name, error=why)


def case(serving: Serving, recipe: str, device: Device, **asked: Any) -> dict[str, Any]:
    """What `serve` is asked; equal cases have equal answers."""
    return {
        "case": f"{serving.name}/{recipe}",
        "device": device,
        "code": PROBES.parent / "launch.py",
        "asking": Path(__file__),
        "service": "{folder}/service.json",
        **asked,
    }
