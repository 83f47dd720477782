"""Writes a draft that speculators saved the way a given sglang release reads it, or refuses with a cause.

What a release takes is drawn from what is recorded of it (contracts.dialect, contracts.captures). Typed in
are only the names and keys that every release since the first reads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contracts import layer_ids, placing, refusals, tensor_copy
from contracts.captures import NotCaptured
from contracts.causes import Cause
from contracts.checkpoint import Checkpoint, CheckpointError, read, read_json
from contracts.conventions import DTYPES, LAYER_KEYS, NORM_FLAGS, STAMP, exported_name
from contracts.dialect import Dialect
from contracts.refusals import Refusal, Refused
from contracts.saved_draft import LayerConfig, SavedConfig, check_map, check_whole
from contracts.served_target import ServedTarget

DERIVED = frozenset({"t2d"})
"""Tensors that say nothing d2t does not say; no engine reads them."""
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an export will write, and what it has to refuse."""

    source: Checkpoint
    saved: SavedConfig
    dialect: Dialect
    target: ServedTarget | None
    config: Mapping[str, Any]
    renames: Mapping[str, str]
    """Name of each tensor as saved -> name as written."""
    refusals: tuple[Refusal, ...]
    server_args: tuple[str, ...]
    """Command-line arguments that the server needs for this draft."""

    def spelling_rope(self, keys: Collection[str]) -> Plan:
        """The same plan with these of the RoPE keys alone: what another exporter writes."""
        others = _rope(self.saved.transformer_layer_config).keys() - set(keys)
        return replace(self, config={k: v for k, v in self.config.items() if k not in others})

    def without_eagle_config(self) -> Plan:
        """The same plan with a null eagle_config, and so without layer ids: what another exporter writes."""
        return replace(self, config={**self.config, "eagle_config": None})

    def keeping_names(self) -> Plan:
        """The same plan with tensors called as training calls them: what another exporter writes."""
        return replace(self, renames={name: name for name in self.renames})

    @property
    def target_classes(self) -> tuple[str, ...]:
        """Classes of the target: as it says itself, or as the draft says of the one it was trained for."""
        return self.target.architectures if self.target else self.saved.verifier_architectures

    @property
    def size(self) -> int:
        """Bytes of the tensors that will be written."""
        return sum(self.source.tensors[name].size for name in self.renames)


def export_draft(
    draft: Path | str,
    folder: Path | str,
    *,
    serving: str,
    target: Path | str | None = None,
    force: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Write the draft that speculators saved in `draft` to `folder`, as sglang `serving` reads it.

    Args:
        draft: folder with config.json and safetensors files.
        folder: new folder to write.
        serving: release of sglang; one without a record is treated as the newest recorded one before it.
        target: folder with the config.json of the target that it will be served with; without it, the
            target is taken to be of the class that the draft says it was trained for, else to number its
            layers as Llama does, and to be no longer than the draft.
        force: write what can be expressed even if something cannot; config.json then says what.
        overwrite: replace `folder` if it is an earlier export.

    Returns:
        What was written, and in which release's dialect; `server_args` is what the server needs on its
        command line.

    Raises:
        CheckpointError: `draft` or `target` cannot be read, or `draft` is no whole and sound EAGLE-3 draft
            that speculators saved for a target like this.
        Refused: something trained cannot be expressed for this release; nothing was written.
        UnsupportedRelease: how `serving` reads drafts is not recorded.
        FileExistsError: `folder` is there already.
        OSError: the disk is full, say.

    """
    served = None if target is None else ServedTarget.read(Path(target))
    planned = plan(read(Path(draft)), Dialect.for_release(serving), served)
    write(planned, Path(folder), force=force, overwrite=overwrite)
    return planned


def plan(source: Checkpoint, dialect: Dialect, target: ServedTarget | None = None) -> Plan:
    """Decide how `source`, a draft that speculators saved, is written in `dialect` for `target`.

    Reads nothing but headers and configs.

    Raises:
        CheckpointError: it is no whole EAGLE-3 draft saved by speculators, or it is for another target.

    """
    saved = SavedConfig.of(source)
    check_whole(source, saved)
    if target is not None:
        _check_target(source, saved, target)
    renames = {name: exported_name(name) for name in source.tensors if name not in DERIVED}
    window, window_refusals = refusals.window(saved)
    ids, layer_refusals = _layer_ids(saved, dialect, target)
    refused = (
        *refusals.keys(saved, dialect),
        *refusals.values(saved),
        *refusals.tensors(renames, dialect),
        *layer_refusals,
        *window_refusals,
    )
    stamp = {
        "for": f"sglang {dialect.release}",
        "not_expressed": [f"{item.what} ({item.cause})" for item in refused],
    }
    return Plan(
        source=source,
        saved=saved,
        dialect=dialect,
        target=target,
        config=_flat_config(source, saved, dialect, target, ids) | {STAMP: stamp},
        renames=renames,
        refusals=refused,
        server_args=window,
    )


# -------------------------------------------------------------------------------- writing


def write(
    planned: Plan,
    folder: Path,
    *,
    force: bool = False,
    overwrite: bool = False,
    copied: tensor_copy.Copied = lambda _: None,
) -> None:
    """Write the planned checkpoint to `folder`; whole or not at all.

    Args:
        planned: what `plan` decided.
        folder: where to write; it must not exist, unless it may be overwritten.
        force: write what can be expressed even if something cannot; config.json then says what.
        overwrite: replace an earlier export that is there.
        copied: told the bytes of each piece of the tensors that was written.

    Raises:
        Refused: something cannot be expressed, and `force` is not set.
        FileExistsError: `folder` is there already, or is no earlier export, or holds draft or target.
        CheckpointError: the values of a tensor are unsound (NaN, or d2t that leads nowhere).
        OSError: the disk is full, say.

    """
    if planned.refusals and not force:
        raise Refused(planned.refusals)
    folder = folder.absolute()
    kept = {"draft": planned.source.path}
    if planned.target is not None:
        kept["target"] = planned.target.folder
    placing.check_place(folder, kept, is_export, overwrite=overwrite)
    check_map(planned.source, planned.saved)
    with placing.replacing(folder, is_export) as partial:
        text = json.dumps(planned.config, indent=2, sort_keys=True) + "\n"
        (partial / "config.json").write_text(text, encoding="utf-8")
        tensor_copy.copy(planned.source, planned.renames, partial / WEIGHTS, copied)


def is_export(folder: Path) -> bool:
    """Whether a folder holds what `write` put there, and no more."""
    if {entry.name for entry in folder.iterdir()} != {"config.json", WEIGHTS}:
        return False
    try:
        return STAMP in read_json(folder / "config.json")
    except CheckpointError:
        return False


# -------------------------------------------------------------------------------- the new checkpoint


def _flat_config(
    source: Checkpoint,
    saved: SavedConfig,
    dialect: Dialect,
    target: ServedTarget | None,
    ids: tuple[int, ...],
) -> dict[str, Any]:
    """A config.json with everything where a serving release looks for it."""
    layer = saved.transformer_layer_config
    flags = {flag: getattr(saved, flag) for flag in NORM_FLAGS}
    return {
        **{
            key: value for key, value in layer.model_dump().items() if key in LAYER_KEYS and value is not None
        },
        **_rope(layer),
        **flags,
        "architectures": [dialect.architecture],
        "model_type": "llama",
        "draft_vocab_size": saved.draft_vocab_size,
        "dtype": target.dtype if target else stored_dtype(source),
        "max_position_embeddings": _length(saved, target),
        **({"target_hidden_size": saved.target_hidden_size} if saved.target_hidden_size else {}),
        "tie_word_embeddings": False,  # speculators always saves a head of the draft's own
        "num_aux_hidden_states": len(ids) or None,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(ids) or None,
            "use_aux_hidden_state": True,
            "norm_before_fc": flags["norm_before_fc"],
        },
    }


def stored_dtype(source: Checkpoint) -> str:
    """What most weights are stored in, whatever config.json says.

    sglang computes in the dtype that the draft's config.json states, unless told otherwise; with another one
    than the target's, the first forward pass fails.
    """
    sizes = Counter[str]()
    for tensor in source.tensors.values():
        if tensor.dtype in DTYPES:
            sizes[DTYPES[tensor.dtype]] += tensor.size
    return sizes.most_common(1)[0][0]


def _length(saved: SavedConfig, target: ServedTarget | None) -> int:
    """A max_position_embeddings that the engine accepts: no less than the target's context.

    It only makes the table of angles longer, where the scaling does not depend on it.
    """
    length = saved.transformer_layer_config.max_position_embeddings
    return max(length, (target.context_length if target else None) or 0)


def _rope(layer: LayerConfig) -> dict[str, Any]:
    """Both spellings: `rope_parameters` of transformers 5, `rope_theta` and `rope_scaling` of 4."""
    rope = layer.rope
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    return {
        "rope_parameters": rope,
        "rope_theta": rope["rope_theta"],
        "rope_scaling": None if rope["rope_type"] == "default" else scaling,
    }


def _layer_ids(
    saved: SavedConfig, dialect: Dialect, target: ServedTarget | None
) -> tuple[tuple[int, ...], list[Refusal]]:
    """Ids in the convention of the target's class, and what keeps them from delivering the trained states."""
    states = tuple(saved.eagle_aux_hidden_state_layer_ids or ())
    ids = tuple(state - dialect.id_shift for state in states)

    def refuse(cause: Cause, what: str, fix: str | None = None) -> tuple[tuple[int, ...], list[Refusal]]:
        return ids, [Refusal(cause=cause, what=what, own_fix=fix)]

    if not saved.records_states:
        what = f"layer ids: speculators {saved.speculators_version} did not record them"
        fix = (
            "Write the hidden states that it was trained on to config.json (0 for the embeddings, i for the "
            'output of layer i-1) as "eagle_aux_hidden_state_layer_ids", with "speculators_version": "0.5.0".'
        )
        return refuse(Cause.WRONG_LAYERS, what, fix)
    if not states:
        fix = "Write the hidden states that it was trained on to config.json; the serving side would guess."
        return refuse(Cause.WRONG_LAYERS, "eagle_aux_hidden_state_layer_ids: not in config.json", fix)
    if list(states) != sorted(set(states)):
        return refuse(Cause.LAYER_ORDER, f"eagle_aux_hidden_state_layer_ids: {list(states)}")
    if min(states) < dialect.lowest_state:
        return refuse(Cause.LAYER_OUT_OF_RANGE, f"hidden state {min(states)}")
    classes = target.architectures if target else saved.verifier_architectures
    if target is None and not classes:
        return ids, []  # counted as Llama does
    layers = target.num_hidden_layers if target else None
    try:
        return layer_ids.to_serve(dialect.release, classes, states, layers), []
    except NotCaptured as error:
        return refuse(error.cause, error.what)


def _check_target(source: Checkpoint, saved: SavedConfig, target: ServedTarget) -> None:
    layer = saved.transformer_layer_config
    for what, value in (("vocab_size", target.vocab_size), ("context length", target.context_length)):
        if value is None:
            told = f"states no {what}, and its class's default is not known here; write it there"
            raise CheckpointError(f"{target.folder / 'config.json'}: {told}")
    for what, ours, theirs in (
        ("vocab_size", layer.vocab_size, target.vocab_size),
        ("hidden_size", saved.target_hidden_size or layer.hidden_size, target.state_width),
    ):
        if theirs is not None and ours != theirs:
            raise CheckpointError(
                f"{source.path / 'config.json'}: {what} is {ours}, and the target's is {theirs}; "
                "this draft was trained for another target"
            )
