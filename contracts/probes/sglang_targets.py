"""One target class in the real engine: which of its hidden states reach an EAGLE-3 draft that names some ids.

The target is made here, by transformers' own class, which is also the reference; the draft has no weights,
since only what it is given matters. Everything between them is sglang's: loading, the capture setter,
scheduler, prefill, drafting and verification.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts.facts import DraftFacts, Refusal
from contracts.probes import (
    sglang_captures,
    sglang_engine,
    sglang_release,
    sglang_scheduler,
    transformers_target,
    transformers_targets,
)
from contracts.probes import sglang_meta as meta
from contracts.probes.kernels import target_kernels
from contracts.probes.stream import ONLY_HERE, OutOfReach, Refusals
from contracts.targets import draft


def observe(case: dict[str, Any], refusals: Refusals) -> DraftFacts:
    """Serve `case["prompts"]` with the target of a recipe and a draft that names `case["ids"]`.

    Writes to `case["run"]` what transformers computes (see `transformers_targets.observe`) and, for prompt
    number i:
        served/i: the text as served, [P + tokens].
        delivered/i: what reached the draft, position by position, [rows, states * H].
        prefilled/i: rows of it that came from the prefill, [1].
        logits_served/i: the target's logits after the prompt, [vocabulary].

    Without `ids` the target is served alone, with what the case's arguments say that it is to return:
        returned/i: the hidden states that the engine returned, position by position, [rows, states * H].

    A release that has no such class, or none that can be told what to capture, is noted as stage `class`.

    Raises:
        OutOfReach: transformers has no such class, or sglang's cannot be imported here.

    """
    torch.manual_seed(0)
    recipe = case["target_recipe"]
    absent = _absent(recipe["architecture"])
    if absent:
        refusals.items.append(Refusal(stage="class", error="LookupError", message=absent))
        return DraftFacts()
    os.environ.update(recipe["environment"])
    if case["device"] == "cpu":
        target_kernels.install()
    folder = Path(tempfile.mkdtemp())  # goes with the case
    target, drafted = folder / "target", folder / "draft"
    transformers_targets.make(recipe, target)
    found = transformers_targets.observe(recipe, folder / "reference", case["prompts"], case["tokens"])
    with refusals.stage("engine"), torch.no_grad():
        if "ids" in case:
            draft.write(
                drafted,
                case["ids"],
                vocabulary=case["vocabulary"],
                hidden=case["hidden"],
                streams=recipe["streams"],
            )
            found |= _serve(case, target, drafted)
        else:
            found |= _extract(case, target, case["hidden"] * recipe["streams"])
    for refusal in refusals.items:
        if ONLY_HERE.search(refusal.message):
            raise OutOfReach(f"not to be told from a defect here: {refusal.error}: {refusal.message}")
    save_file(found, case["run"])
    return DraftFacts()


def classes(case: dict[str, Any]) -> DraftFacts:
    """Write to `case["classes"]` what the release says of target classes as a whole.

    setters: by class that can be told what to capture, where its setter stands; without: the other classes;
    quantizations: those that the server's command line takes.
    """
    setters = {name: rule["setter"] for name, rule in sglang_captures.shifts().items()}
    from sglang.srt.models.registry import ModelRegistry
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    options = (action for action in parser._actions if "--quantization" in action.option_strings)
    said = {
        "setters": setters,
        "without": sorted(set(ModelRegistry.models) - set(setters)),
        "quantizations": sorted(next(options).choices or ()),
    }
    Path(case["classes"]).write_text(json.dumps(said))
    return DraftFacts()


def _absent(architecture: str) -> str | None:
    """Why this release cannot capture from a class at all; None if it can."""
    from sglang.srt.models import registry

    release = f"sglang {importlib.metadata.version('sglang')}"
    found = registry.ModelRegistry.models.get(architecture)
    if found is not None:
        has = hasattr(found, sglang_captures.SETTER)
        return (
            None
            if has
            else f"{release} cannot capture from {architecture}: it has no {sglang_captures.SETTER}"
        )
    folder = Path(registry.__file__).parent
    pattern = re.compile(rf"^class {architecture}\b", re.MULTILINE)
    for file in sorted(folder.glob("*.py")):
        if pattern.search(file.read_text(encoding="utf-8")):
            try:
                importlib.import_module(f"{registry.__package__}.{file.stem}")
            except (ImportError, AttributeError, RuntimeError):
                raise OutOfReach(
                    f"{release} has {architecture} in models/{file.name}, which cannot be imported here"
                ) from None
            return f"{release} serves no {architecture}: models/{file.name} has the class for others alone"
    return f"{release} has no class {architecture}"


def _start(case: dict[str, Any], target: Path, drafted: Path | None) -> Any:
    further = ["--dtype", "float32", *sglang_scheduler.arguments(case["device"]), *sglang_engine.EIGHT]
    if not sglang_release.has("cpu-drafting"):
        further.append("--disable-hybrid-swa-memory")  # the stand-in for attention knows one cache alone
    told = [*further, *case["server_args"]]
    line = meta.command_line(str(target), str(drafted) if drafted else None, told)
    return sglang_scheduler.start(line, case["server_args"])


def _serve(case: dict[str, Any], target: Path, drafted: Path) -> dict[str, torch.Tensor]:
    scheduler = _start(case, target, drafted)
    requests = sglang_scheduler.submit(scheduler, case["prompts"], case["tokens"])
    watch = sglang_engine.Watch(scheduler)
    logits = _watch_logits(scheduler)
    found: dict[str, torch.Tensor] = {}
    for batch, result in sglang_scheduler.batches(scheduler, requests, watch.before):
        watch.note(batch, result)
    for number, row in enumerate(logits[0]):
        found[f"logits_served/{number}"] = row.clone()
    for name, states in watch.tensors([request.rid for request in requests]).items():
        if name.startswith("states/"):
            found[name.replace("states", "delivered")] = states
    for number, request in enumerate(requests):
        found[f"served/{number}"] = torch.tensor([*request.origin_input_ids, *request.output_ids])
        found[f"prefilled/{number}"] = torch.tensor([len(request.origin_input_ids)])
    return found


def _extract(case: dict[str, Any], target: Path, width: int) -> dict[str, torch.Tensor]:
    scheduler = _start(case, target, None)
    requests = sglang_scheduler.submit(scheduler, case["prompts"], case["tokens"], states=True)
    for _ in sglang_scheduler.batches(scheduler, requests):
        pass
    found = {}
    for number, request in enumerate(requests):
        prefill, *decoded = (torch.tensor(rows) for rows in request.hidden_states)
        returned = torch.cat([prefill, *(row.view(1, -1) for row in decoded)])
        found[f"returned/{number}"] = transformers_target.of_all_streams(returned, width)
        found[f"prefilled/{number}"] = torch.tensor([len(request.origin_input_ids)])
    return found


def _watch_logits(scheduler: Any) -> list[torch.Tensor]:
    """The target's logits of each forward pass from now on; the first is that of all prompts."""
    seen: list[torch.Tensor] = []
    model = scheduler.tp_worker.model_runner.model
    processor = next(module for module in model.modules() if type(module).__name__ == "LogitsProcessor")
    processor.register_forward_hook(
        lambda _module, _inputs, output: seen.append(output.next_token_logits.detach().float().clone())
    )
    return seen
