"""What the installed serving library itself makes of a draft, at depths load and engine.

Depth load: its own resolver, class, loader, worker set-up, capture and one forward pass run on the meta
device, with the target that was named, or a stand-in that the draft fits; no weight is read. Depth engine:
its own scheduler serves two prompts with the draft, and with a stand-in of the target's shape and of random
weights: whether the first batches pass, not how much is accepted. Depth forward, where the interpreter has
the training library, too, and the draft is of it: whether both compute the same (contracts.header.numbers).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from contracts import blank, export
from contracts.causes import Cause
from contracts.checkpoint import read
from contracts.conversation import run_probe
from contracts.dialect import Dialect
from contracts.facts import CaseResult, DraftFacts
from contracts.header import numbers
from contracts.header.draft import Draft
from contracts.header.findings import Damage, Finding
from contracts.header.judge import NotDeep
from contracts.header.rules.norms import NORMS
from contracts.served_target import ServedTarget
from contracts.sides import BadInterpreter, Side, SideUnavailable

CONTRACT = "deep"
"""Begins the names of what the library itself shows."""
TIMEOUT = 120.0
"""Seconds for one draft; none is read, whatever its size."""
LAYERS = 8
"""Of a stand-in target, at the least."""
NARROW = 64
"""Width of a stand-in's MLP, which nobody looks at."""
MOST_LAYERS = 512
"""Of any target."""
MOST = 8e9
"""Bytes that draft and stand-in may take in memory."""
PROMPTS, TOKENS = ((1, 2, 3, 4), (5, 6, 7)), 8
"""What the engine is asked."""
LENGTH = 2048
"""Positions of a stand-in, at the most: caches are made for them."""
DUMMY = ("--load-format", "dummy", "--speculative-draft-load-format", "auto")
"""Arguments by which the target gets random weights, and the draft its own."""
HARMLESS = ("t2d", "rotary_emb.inv_freq")


def ask(
    draft: Draft,
    target: ServedTarget | None,
    *,
    server_args: Sequence[str] = (),
    python: str = sys.executable,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[str, list[Finding]]:
    """Give a draft to the serving library of an interpreter.

    Args:
        draft: of a folder on this machine.
        target: a folder on this machine, too; None for a stand-in.
        server_args: of the user's own server.
        python: the interpreter.
        progress: told what takes a while.

    Returns:
        The library's release, and what it shows.

    Raises:
        NotDeep: draft or target lie elsewhere, or there is no library.
        CheckpointError: a draft of speculators cannot be exported.

    """
    folder = Path(draft.name)
    if not folder.is_dir():
        raise NotDeep(f"--deep: {draft.name}: the library reads folders; download the draft first")
    if target is not None and not target.folder.is_dir():
        raise NotDeep(f"--deep: {target.folder}: the library reads folders; download config.json first")
    try:
        side = Side.find("serving", python)
    except (SideUnavailable, BadInterpreter) as missing:
        raise NotDeep(f"--deep: {missing}") from None
    with tempfile.TemporaryDirectory() as scratch:
        served, arguments = _served(draft, folder, target, side.version, Path(scratch))
        small = stand_in(draft, target, Path(scratch) / "target")
        loading: dict[str, Any] = {
            "case": "load",
            "folder": str(served),
            "target": str(target.folder if target else small),
            "server_args": [*arguments, *server_args],
        }
        running: dict[str, Any] = {
            "case": "engine",
            "folder": str(served),
            "target": str(small),
            "server_args": [*DUMMY, *arguments, *server_args],
            "device": "cpu",
            "dtype": "auto",
            "run": str(Path(scratch) / "run.json"),
            "prompts": PROMPTS,
            "tokens": TOKENS,
        }
        bytes_taken = size(draft, small)
        fits = bytes_taken <= MOST
        progress(f"{side.library} {side.version} is given the draft itself; its import takes a while")
        cases = [loading, running] if fits else [loading]
        results, _ = run_probe(python, side.library, cases, Path(scratch), TIMEOUT)
        found = [finding for result in results for finding in _findings(draft, result)]
        training = _training(python)
        loud = any(finding.damage is Damage.FAILS for finding in found)
        if draft.states and training and not loud and 4 * bytes_taken <= MOST:
            progress(
                f"{training.library} {training.version} runs the draft, too, and the numbers are compared"
            )
            found += numbers.compare(draft, small, training, side, tuple(server_args), Path(scratch))
    return side.version, found if fits else [*found, _too_large(draft)]


def _training(python: str) -> Side | None:
    """The training library, if the interpreter has it, too."""
    try:
        return Side.find("training", python)
    except (SideUnavailable, BadInterpreter):
        return None


def _served(
    draft: Draft, folder: Path, target: ServedTarget | None, release: str, scratch: Path
) -> tuple[Path, tuple[str, ...]]:
    """The folder that the library is given: a draft of speculators is exported, as far as that goes."""
    if not draft.needs_export:
        return folder, ()
    planned = export.plan(read(folder), Dialect.for_release(release), target)
    blank.write(
        scratch / "draft",
        planned.config,
        {
            new: blank.Blank(
                dtype=planned.source.tensors[old].dtype,
                shape=planned.source.tensors[old].shape,
                values=tuple(draft.d2t or ()) if old == "d2t" else None,
            )
            for old, new in planned.renames.items()
        },
    )
    return scratch / "draft", planned.server_args


def _too_large(draft: Draft) -> Finding:
    return _finding(
        "prompts_are_served",
        Cause.NOT_LOOKED_INTO,
        Damage.NOTE,
        where="the engine",
        expected=f"at most {MOST / 1e9:g} GB of memory",
        seen="more, with a stand-in for the target",
        consequence="it was not started: what fails with the first batch only was not seen",
    )


def size(draft: Draft, target: Path) -> int:
    """Bytes that a draft and a stand-in of a target take in memory, in 16 bits."""
    config = json.loads((target / "config.json").read_text())
    hidden, heads = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
    layer = 4 * hidden * heads + 3 * hidden * NARROW
    parameters = 2 * config["vocab_size"] * hidden + config["num_hidden_layers"] * layer
    return 2 * int(parameters) + sum(tensor.size for tensor in draft.tensors.values())


def stand_in(draft: Draft, target: ServedTarget | None, folder: Path) -> Path:
    """Write the config.json of a Llama target that the draft would fit, of the named one's sizes if any."""
    config = draft.config
    deepest = max(draft.states or draft.ids or (0,))
    width = draft.state_width or 0
    missing = [key for key in ("vocab_size", "hidden_size") if config.integer(key) is None]
    if missing:
        raise NotDeep(f"--deep: {config.where}: {missing[0]} is not stated; write it there first")
    if deepest > MOST_LAYERS:
        raise NotDeep(f"--deep: {config.where}: layer id {deepest}, and no target is as deep; correct it")
    heads = config.integer("num_attention_heads") or 1
    written: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": (target.vocab_size if target else None) or config.integer("vocab_size"),
        "hidden_size": target.hidden_size if target else width,
        "intermediate_size": NARROW,
        "num_hidden_layers": target.num_hidden_layers if target else max(LAYERS, deepest + 3),
        "num_attention_heads": heads,
        "num_key_value_heads": config.integer("num_key_value_heads") or heads,
        "head_dim": config.integer("head_dim") or width // heads,
        "rms_norm_eps": config.number("rms_norm_eps") or 1e-6,
        "max_position_embeddings": min(
            (target.context_length if target else None) or LENGTH,
            config.integer("max_position_embeddings") or LENGTH,
        ),
        "torch_dtype": target.dtype
        if target
        else config.text("dtype") or config.text("torch_dtype") or "float16",
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(written))
    return folder


def _findings(draft: Draft, result: CaseResult) -> Iterator[Finding]:
    if result.error:
        yield _finding(
            "library_was_asked",
            Cause.NOT_LOOKED_INTO,
            Damage.UNKNOWN,
            where="the library",
            expected="an answer",
            seen=result.error.splitlines()[0],
            consequence="the probe or this machine failed, not the draft: nothing is known",
        )
        return
    for refusal in result.refusals:
        yield _finding(
            "draft_is_accepted",
            Cause.DRAFT_REFUSED,
            Damage.FAILS,
            where=f"stage {refusal.stage}",
            expected="a draft that is loaded and runs",
            seen=f"{refusal.error}: {refusal.message[:300]}",
        )
    if result.facts is not None and not result.refusals:
        yield from _of_facts(draft, result.facts)


def _of_facts(draft: Draft, facts: DraftFacts) -> Iterator[Finding]:
    names, dims, states, ids = facts.weight_names, facts.hidden_dims, facts.aux_layers, facts.vocab_map
    dropped = [name for name in (names.ignored if names else ()) if not name.endswith(HARMLESS)]
    if dropped:
        yield _finding(
            "every_tensor_is_read", Cause.TENSOR_DROPPED, Damage.LOSES,
            where=", ".join(dropped[:3]), expected="to reach the model", seen=f"{len(dropped)} reach nothing",
        )  # fmt: skip
    if names and names.unwritten:
        yield _finding(
            "every_parameter_is_written", Cause.PARAMETER_UNWRITTEN, Damage.COLLAPSES,
            where=", ".join(names.unwritten[:3]), expected="values", seen="whatever memory held",
        )  # fmt: skip
    if dims and not dims.fc_applied and "fc.weight" in draft.by_canonical:
        yield _finding(
            "fc_is_applied", Cause.FC_SKIPPED, Damage.COLLAPSES,
            where="fc.weight", expected="part of the forward pass", seen="skipped",
        )  # fmt: skip
    if states and states.final_norm:
        yield _finding(
            "states_are_not_normed", Cause.STATE_NORMED, Damage.COLLAPSES,
            where="what the target delivers", expected="states, not normed", seen="the normed last one",
        )  # fmt: skip
    if states and draft.states and tuple(states.states) != tuple(draft.states):
        yield _finding(
            "trained_states_are_delivered", Cause.WRONG_LAYERS, Damage.LOSES,
            where="hidden states", expected=str(list(draft.states)), seen=str(list(states.states)),
        )  # fmt: skip
    if facts.norms:
        for norm in NORMS:
            said = draft.config.flag(norm.flag) or draft.nested.flag(norm.flag)
            if said and not getattr(facts.norms, norm.flag):
                yield _finding(
                    "norms_are_applied", norm.cause, Damage.LOSES,
                    where=norm.flag, expected="the norm, applied", seen="not applied",
                )  # fmt: skip
    if facts.compute and facts.compute.draft != facts.compute.target:
        yield _finding(
            "dtypes_are_equal", Cause.DTYPE_DIFFERS, Damage.FAILS,
            where="dtype", expected=facts.compute.target, seen=facts.compute.draft,
        )  # fmt: skip
    if ids and not all(0 <= token < ids.target_vocab_size for token in ids.target_ids):
        yield _finding(
            "map_leads_to_tokens", Cause.MAP_OUT_OF_RANGE, Damage.FAILS,
            where="d2t", expected=f"tokens of {ids.target_vocab_size}", seen=f"token {max(ids.target_ids)}",
        )  # fmt: skip


def _finding(
    name: str, cause: Cause, damage: Damage, *, where: str, expected: str, seen: str, consequence: str = ""
) -> Finding:
    return Finding(
        cause=cause,
        damage=damage,
        where=where,
        expected=expected,
        seen=seen,
        consequence=consequence,
        contract=f"{CONTRACT}.{name}",
    )
