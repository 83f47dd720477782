"""What an export did, or why it did nothing, in words."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from contracts.captures import Captures
from contracts.causes import Cause
from contracts.export import DERIVED, Plan
from contracts.refusals import Refusal

SILENT = "the server starts and answers, and acceptance drops or collapses, silently"
CONSEQUENCES = {
    Cause.DRAFT_REFUSED: "the server fails when it loads the draft",
    Cause.TARGET_REFUSED: "the server does not start, or ends with the first batch",
    Cause.LAST_LAYER_NOT_CAPTURED: "the state is never captured, and the first batch fails for want of it",
    Cause.LAYER_OUT_OF_RANGE: "the state is never captured, and the first batch fails for want of it",
    Cause.CAPTURE_UNKNOWN: "it may be served right or get other layers than it was trained on; nobody looked",
    Cause.WINDOW_DIFFERS: "draft tokens are rejected more and more often beyond the length of the window",
}
"""What happens if the draft is served all the same; SILENT where nothing else is said."""

_NUMBER = re.compile(r"\.\d+\.")


def summary(planned: Plan) -> list[tuple[str, str]]:
    """What was renamed, converted, set and dropped: a word and a sentence each."""
    return [
        *_renamed(planned),
        *_converted(planned),
        *_set(planned),
        *(("dropped", f"{name}, which says nothing that d2t does not") for name in _dropped(planned)),
        *(("not expressed", f"{item.what} ({item.cause})") for item in planned.refusals),
    ]


def _dropped(planned: Plan) -> list[str]:
    return [name for name in planned.source.tensors if name in DERIVED]


def _renamed(planned: Plan) -> Iterator[tuple[str, str]]:
    kinds = Counter((_stem(old), _stem(new)) for old, new in planned.renames.items() if old != new)
    for (old, new), number in kinds.items():
        yield "renamed", f"{number} tensor{'s' if number > 1 else ''}: {old} -> {new}"


def _stem(name: str) -> str:
    """Which family of tensors a name belongs to."""
    if name.startswith(("layers.0.", "midlayer.")):
        return name.partition(".")[0] + (".0.*" if name.startswith("layers") else ".*")
    return _NUMBER.sub(".N.", name)


def _converted(planned: Plan) -> Iterator[tuple[str, str]]:
    states = planned.saved.eagle_aux_hidden_state_layer_ids
    ids = planned.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    if states and ids:
        classes = planned.target_classes
        for_whom = f"for {classes[0]}" if classes else "for a target that numbers its layers as Llama does"
        yield "converted", f"layer ids {states} -> {ids} ({for_whom})"
        if classes:
            captures = Captures.for_release(planned.dialect.release)
            yield ("known by" if captures.rule(classes) else "not known"), captures.evidence(classes)
            if kin := captures.refused_kin(classes):
                yield "note", f"{kin}, which has the same setter, is refused in this release; try a server"
            if ids != sorted(ids):
                yield "note", "keep the order of the ids: contracts explain layer-order-decides"
            if planned.target and (missed := captures.missed(classes, planned.target.keys)):
                lacking = ", ".join(missed)
                yield "note", f"the target's config.json lacks {lacking}; contracts check says what follows"


def _set(planned: Plan) -> Iterator[tuple[str, str]]:
    said, layer = planned.saved.dtype or planned.saved.torch_dtype, planned.saved.transformer_layer_config
    dtype, length = planned.config["dtype"], planned.config["max_position_embeddings"]
    if dtype != said:
        whose = "the target's" if planned.target else "that of the tensors"
        yield "set", f"dtype {dtype}, {whose} (config.json said {said})"
    if length != layer.max_position_embeddings:
        trained = layer.max_position_embeddings
        yield "set", f"max_position_embeddings {trained} -> {length}, the target's context"
    yield "set", "RoPE in both spellings: rope_parameters, and rope_theta with rope_scaling"
    trained_for = planned.saved.verifier_architectures
    if planned.target is None:
        told = f"without --target: dtype {dtype} and {length} positions, as the draft has them"
        yield "note", f"{told}; sglang starts with neither another dtype nor a longer target"
    if planned.target and trained_for and not set(trained_for) & set(planned.target.architectures):
        yield "note", f"trained for {trained_for[0]}, exported for {planned.target.architectures[0]}"
    if dtype == "float32":
        yield "note", "sglang serves a dtype of float32 in float16, unless told --dtype float32"


def serve_with(planned: Plan, folder: Path) -> str:
    """The arguments with which a server takes the exported draft."""
    usual = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(folder))
    return shlex.join((*usual, *planned.server_args))


def consequence(refusal: Refusal) -> str:
    """What happens if the draft is served all the same."""
    return refusal.own_consequence or CONSEQUENCES.get(refusal.cause, SILENT)
