"""The serving side at depth "engine": the real scheduler serves prompts to the end, drafting and verifying.

What runs is the library's own: scheduler, target, draft worker, tree, verification, vocabulary map, caches.
Written down are the tokens of each request, each draft and what became of it, the target's hidden states as
they were handed to the draft, and the embedding and head that the draft ran with.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts.facts import DraftFacts, to_json
from contracts.probes import sglang_drafter, sglang_release, sglang_scheduler, wide_heads
from contracts.probes import sglang_meta as meta
from contracts.probes.stream import Refusals
from contracts.speculation import EngineRun, Generation, Round

COUNTED = (
    "spec_num_correct_drafts",
    "spec_accepted_drafts",  # 0.5.11
    "spec_accepted_tokens",  # before
)
"""Where a request says how many draft tokens of it were accepted."""
EIGHT = ("--max-running-requests", "8")


def observe(case: dict[str, Any], refusals: Refusals) -> DraftFacts:
    """Serve `case["prompts"]`, `case["tokens"]` tokens each, with the draft in `case["folder"]` if any.

    Writes an `EngineRun` to `case["run"]` (JSON), and tensors beside it.
    """
    torch.manual_seed(0)
    with refusals.stage("engine"):
        target, draft = _as_served(case)
        engine = sglang_scheduler.arguments(case["device"], graphs=case.get("graphs", False))
        further = ["--dtype", case["dtype"], *engine, *EIGHT, *case["server_args"]]
        line = meta.command_line(target, draft, further)
        scheduler = sglang_scheduler.start(line, case["server_args"])
        requests = sglang_scheduler.submit(scheduler, case["prompts"], case["tokens"])
        watch = Watch(scheduler) if draft else None
        before = watch.before if watch else lambda _: None
        for batch, result in sglang_scheduler.batches(scheduler, requests, before):
            if watch:
                watch.note(batch, result)
        run = EngineRun(generations=tuple(_generation(request, watch) for request in requests))
        file = Path(case["run"])
        file.write_text(json.dumps(to_json(run)))
        if watch:
            save_file(watch.tensors([request.rid for request in requests]), file.with_suffix(".safetensors"))
    return DraftFacts()


def _as_served(case: dict[str, Any]) -> tuple[str, str | None]:
    """Folders of target and draft, with heads as wide as the case asks for."""
    found = [case["target"], case.get("folder")]
    if not case.get("head_dim"):
        return found[0], found[1]
    made = Path(tempfile.mkdtemp())
    target, draft = (
        folder and str(wide_heads.widen(Path(folder), made / str(number), case["head_dim"]))
        for number, folder in enumerate(found)
    )
    return target, draft


def _generation(request: Any, watch: Watch | None) -> Generation:
    return Generation(
        prompt=tuple(request.origin_input_ids),
        tokens=tuple(request.output_ids),
        prefills=watch.prefills[request.rid] if watch else 0,
        rounds=tuple(watch.rounds[request.rid]) if watch else (),
        verifications=request.spec_verify_ct,
        accepted=_first(request, COUNTED),
    )


class Watch:
    """Notes what the draft worker is given, what it proposes, and what is accepted of it."""

    def __init__(self, scheduler: Any) -> None:
        self.rounds: dict[str, list[Round]] = defaultdict(list)
        self.prefills: Counter[str] = Counter()
        self._states: dict[str, list[torch.Tensor]] = defaultdict(list)
        self._committed: dict[str, int] = {}
        drafter = sglang_drafter.Drafter.of(scheduler)
        drafter.handing(self._note_handed)
        self._worker, self._draft = drafter.worker, drafter.model
        self._proposal: Any = None
        self._verified: list[int] = []
        self._entered: torch.Tensor | None = None
        self._handed: torch.Tensor | None = None
        self._fed: list[torch.Tensor] = []
        self._watch_worker()
        self._watch_model()

    def _watch_worker(self) -> None:
        draft = self._worker.draft

        def drafting(batch: Any, *rest: Any, **more: Any) -> Any:
            self._proposal = draft(batch, *rest, **more)
            return self._proposal

        self._worker.draft = drafting
        if sglang_release.has("one-worker"):
            return
        from sglang.srt.speculative import eagle_info

        verify = eagle_info.verify_tree_greedy_func

        def verifying(*arguments: Any, **more: Any) -> Any:
            output = verify(*arguments, **more)
            self._verified = output[2].tolist()
            return output

        eagle_info.verify_tree_greedy_func = verifying

    def _note_handed(self, states: torch.Tensor) -> None:
        self._handed = states.clone()

    def _watch_model(self) -> None:
        """Keep what the target hands to the draft, and which tokens its chained steps are fed.

        What is replayed from a CUDA graph calls none of these: then what the worker handed over counts, and
        of a tree nobody knows what its branches were fed.
        """

        def entering(_module: Any, inputs: Any) -> None:
            batch = inputs[2]
            if batch.forward_mode.is_decode():
                self._fed.append(inputs[0].clone())
            if batch.forward_mode.is_extend(include_draft_extend_v2=True):
                self._entered = batch.spec_info.hidden_states.clone()

        self._draft.model.register_forward_pre_hook(entering)

    def before(self, batch: Any) -> None:
        """Take down what is committed before a batch is run: some releases commit while running it."""
        self._committed = {
            request.rid: len(request.origin_input_ids) + len(request.output_ids) for request in batch.reqs
        }

    def note(self, batch: Any, result: Any) -> None:
        """Take down one batch that was run and not yet processed."""
        if self._entered is None:
            self._entered = self._handed
        if self._proposal is None and self._entered is None:
            return
        names = [request.rid for request in batch.reqs]
        if self._proposal is None:
            rows = kept = list(batch.extend_lens)
            self.prefills.update(names)
        else:
            rounds = self._read_rounds(batch, result)
            for name, item in zip(names, rounds, strict=True):
                self.rounds[name].append(item)
            kept = [item.accepted + 1 for item in rounds]
            if sglang_release.has("one-worker"):
                rows = [self._proposal.draft_token_num] * len(names)
            else:  # what was accepted is drafted on, of requests that are not done
                going_on = [place for place, request in enumerate(batch.reqs) if not request.finished()]
                names = [names[place] for place in going_on]
                rows = kept = [kept[place] for place in going_on]
        if self._entered is not None:
            for name, states, count in zip(names, self._entered.split(rows), kept, strict=True):
                self._states[name].append(states[:count])
        self._proposal = self._entered = self._handed = None
        self._fed.clear()

    def _read_rounds(self, batch: Any, result: Any) -> list[Round]:
        proposal, size = self._proposal, self._proposal.draft_token_num
        fed = torch.stack(self._fed, -1).view(len(batch.reqs), -1, len(self._fed)) if self._fed else None
        accepted = self._accepted(result)
        children, siblings = _tree(proposal)
        rounds = []
        for place, request in enumerate(batch.reqs):
            nodes = proposal.draft_token.view(-1, size)[place].tolist()
            parents = _parents(children[place], siblings[place])
            branches = [] if fed is None else fed[place].tolist()
            if fed is None and parents == list(range(-1, size - 1)):
                branches = [nodes[1:]]  # of a chain there is one
            rounds.append(
                Round(
                    committed=self._committed[request.rid],
                    drafted=tuple(nodes[1:]),
                    parents=tuple(parents[1:]),
                    accepted=accepted[place],
                    batch=len(batch.reqs),
                    branches=tuple(map(tuple, branches)),
                )
            )
        return rounds

    def _accepted(self, result: Any) -> list[int]:
        """Draft tokens that were accepted, by request."""
        if sglang_release.has("one-worker"):
            return [int(length) - 1 for length in result.accept_lens]
        return self._verified  # what the worker returns is cut where a request ends

    def tensors(self, names: list[str]) -> dict[str, torch.Tensor]:
        """The states that reached the draft, by request and in order of position, and what it ran with."""
        found = {
            f"states/{number}": torch.cat(self._states[name]).float() for number, name in enumerate(names)
        }
        found["embedding"] = self._draft.model.embed_tokens.weight.detach().float().clone()
        head = self._draft.lm_head
        found["head"] = head.weight[: meta.used_rows(head, head.weight)].detach().float().clone()
        return found


def _first(holder: Any, names: Sequence[str]) -> Any:
    """What releases keep under one of these names.

    Raises:
        AttributeError: this release has none of them.

    """
    for name in names:
        if hasattr(holder, name):
            return getattr(holder, name)
    raise AttributeError(f"{type(holder).__name__} has none of {', '.join(names)}")


def _tree(proposal: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """First children and next siblings of a tree's nodes, by request."""
    name = "retrieve" if sglang_release.has("retrieve-spelled-so") else "retrive"
    return getattr(proposal, f"{name}_next_token"), getattr(proposal, f"{name}_next_sibling")


def _parents(first_child: torch.Tensor, sibling: torch.Tensor) -> list[int]:
    """The parent of each node of a tree given by first children and next siblings; -1 for none."""
    parents = [-1] * len(first_child)
    for node, child in enumerate(first_child.tolist()):
        while child != -1:
            parents[child] = node
            child = int(sibling[child])
    return parents
