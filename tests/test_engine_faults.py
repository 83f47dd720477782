"""The real sglang engine, made to break one term itself, is found out by its numbers.

What a checkpoint cannot be made to show: positions, feedback, pairing of tokens and states. For one, sglang
0.5.6.post2 to 0.5.9 counted one position too many.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import contracts
from contracts import kept
from contracts.replay import Replay
from contracts.verdict import Cause
from tests.replays import CHAIN, LAYER, PREFILL
from tests.runner import broken

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench

ENGINE = """
import json, os, sys
from contracts.probes import sglang as probe, sglang_replay
from contracts.probes.stream import Refusals

case = json.load(open(sys.argv[1]))
probe.setup()
import torch
from sglang.srt.models.llama_eagle3 import LlamaModel
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker

forward, draft_forward = LlamaModel.forward, EagleDraftWorker.draft_forward
late = {}


def positions_late(worker, batch):
    batch.positions.add_(1)
    return draft_forward(worker, batch)


def tokens_not_shifted(model, tokens, positions, batch, *rest, **more):
    if batch.forward_mode.is_extend():
        tokens = torch.cat([late["prompt"], tokens[:-1]])
    return forward(model, tokens, positions, batch, *rest, **more)


def feedback_late(model, tokens, positions, batch, *rest, **more):
    given = batch.spec_info.hidden_states
    if batch.forward_mode.is_extend():
        late["state"] = torch.nn.functional.linear(given, model.fc.weight)[-1:]
    else:
        batch.spec_info.hidden_states, late["state"] = late["state"], given
    return forward(model, tokens, positions, batch, *rest, **more)


def no_final_norm(model, *arguments, **more):
    model.norm.forward = lambda hidden, residual: (hidden + residual, hidden + residual)
    return forward(model, *arguments, **more)


faults = {
    "none": None,
    "positions_late": (EagleDraftWorker, "draft_forward", positions_late),
    "tokens_not_shifted": (LlamaModel, "forward", tokens_not_shifted),
    "feedback_late": (LlamaModel, "forward", feedback_late),
    "no_final_norm": (LlamaModel, "forward", no_final_norm),
}
from safetensors.torch import load_file
late["prompt"] = load_file(case["inputs"])["tokens"][:1]
for name, fault in faults.items():
    if os.fork():
        assert os.wait()[1] == 0, name
        continue
    try:
        if fault:
            setattr(*fault)
        refusals = Refusals()
        sglang_replay.observe(case | {"replay": f"{sys.argv[2]}/{name}/replay.safetensors"}, refusals)
        assert not refusals.items, refusals.items
    except BaseException as error:
        print(f"{name}: {error!r}", flush=True)
        os._exit(1)
    os._exit(0)
"""

EXPECTED: dict[str, tuple[Cause | None, set[str]]] = {
    "none": (None, set()),
    "positions_late": (Cause.POSITIONS_LATE, CHAIN),
    "tokens_not_shifted": (Cause.TOKENS_NOT_SHIFTED, LAYER),
    "feedback_late": (Cause.FEEDBACK_LATE, CHAIN),
    "no_final_norm": (Cause.FINAL_NORM_MISSING, CHAIN | PREFILL - {"forward.prefill_state_is_equal"}),
}
ASIDE = {
    "forward.training_agrees_with_itself",
    "forward.draft_tokens_are_equal",
    "forward.positions_advance_by_one",
}
"""Judged apart."""


@pytest.fixture(scope="module")
def replays(real_workbench: Workbench, sglang: Side, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each engine computed, by one process of the serving interpreter."""
    root = tmp_path_factory.mktemp("engines")
    case = real_workbench.group("plain").forward_case("plain")
    (root / "case.json").write_text(json.dumps(kept.request(case, root)))
    for name in EXPECTED:
        (root / name).mkdir()
    done = subprocess.run(
        [sglang.python, "-c", ENGINE, str(root / "case.json"), str(root)],
        env={**os.environ, "PYTHONPATH": str(Path(contracts.__file__).parent.parent), "TMPDIR": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return root


@pytest.mark.parametrize("fault", EXPECTED)
def test_engine_that_breaks_a_term_is_named(replays: Path, real_workbench: Workbench, fault: str) -> None:
    group = real_workbench.group("plain")
    case = group.forward_case("plain")
    replay = Replay.read(group.golden("plain"), replays / fault / "replay.safetensors", case["dtype"])
    cause, breaks = EXPECTED[fault]
    verdicts = broken(replay=replay)
    found = {contract: verdict.cause for contract, verdict in verdicts.items() if contract not in ASIDE}
    assert found == dict.fromkeys(breaks, cause)
    skipped = "forward.positions_advance_by_one" in verdicts
    assert skipped == (fault == "positions_late")
