"""Writes a draft that speculators saved the way a given sglang release reads it, or refuses with a cause.

What a release takes is drawn from what is recorded of it (contracts.dialect, contracts.captures). Typed in
are only the names and keys that every release since the first reads.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contracts import tensor_copy
from contracts.captures import Captures, NotCaptured
from contracts.causes import Cause
from contracts.checkpoint import Checkpoint, CheckpointError, read, read_json
from contracts.dialect import Dialect, pattern
from contracts.saved_draft import LayerConfig, SavedConfig, check_map, check_whole
from contracts.served_target import ServedTarget

NORM_FLAGS = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
LAYER_KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "max_position_embeddings",
    "attention_bias", "mlp_bias", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip

DERIVED = frozenset({"t2d"})
"""Tensors that say nothing d2t does not say; no engine reads them."""
WINDOW_ARGUMENT = "--speculative-draft-window-size"
WEIGHTS = "model.safetensors"
STAMP = "exported_by_draft_contracts"
"""Key of config.json that says for which release, and what a forced export could not express; no engine reads
it, and what lacks it is never overwritten."""
ORIGINAL_LENGTH = "original_max_position_embeddings"
ROPE_KEYS = {
    "default": frozenset[str](),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", ORIGINAL_LENGTH}),
    "yarn": frozenset({"factor", ORIGINAL_LENGTH}),
}
"""Scalings, with their keys, of which the forward contracts show that both sides compute the same angles."""
ACTIVATIONS = frozenset({"silu"})
"""The only one that sglang's Llama MLP takes; it raises for others."""
ATTENTION_KINDS = frozenset({"full_attention", "sliding_attention"})
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}

_FIRST_LAYER = re.compile(r"^layers\.0\.")
_LATER_INPUT_NORM = re.compile(r"^(layers\.[1-9]\d*)\.input_layernorm\.")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Something trained that this serving release cannot be given."""

    cause: Cause
    what: str
    """The tensor or config key, and its value."""
    own_fix: str | None = None

    @property
    def fix(self) -> str:
        """What helps: usually what helps against the cause."""
        return self.own_fix or self.cause.fix


class Refused(Exception):
    """The draft cannot be expressed for this serving release; nothing was written."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        told = (f"{item.what} ({item.cause}). {item.fix}" for item in self.refusals)
        super().__init__("cannot be exported: " + " ".join(told))


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
            target is taken to number its layers as Llama does and to be no longer than the draft.
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
    """Decide how `source`, a draft in the format of speculators >= 0.5, is written in `dialect` for `target`.

    Reads nothing but headers and configs.

    Raises:
        CheckpointError: it is no whole EAGLE-3 draft saved by speculators, or it is for another target.

    """
    saved = SavedConfig.of(source)
    check_whole(source, saved)
    if target is not None:
        _check_target(source, saved, target)
    renames = {name: exported_name(name) for name in source.tensors if name not in DERIVED}
    window, window_refusals = _window(saved)
    ids, layer_refusals = _layer_ids(saved, dialect, target)
    refusals = (
        *_refused_keys(saved, dialect),
        *_refused_values(saved),
        *_refused_tensors(renames, dialect),
        *layer_refusals,
        *_refused_length(saved, target),
        *window_refusals,
    )
    stamp = {
        "for": f"sglang {dialect.release}",
        "not_expressed": [f"{item.what} ({item.cause})" for item in refusals],
    }
    return Plan(
        source=source,
        saved=saved,
        dialect=dialect,
        target=target,
        config=_flat_config(source, saved, dialect, target, ids) | {STAMP: stamp},
        renames=renames,
        refusals=refusals,
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
    _check_place(planned, folder, overwrite=overwrite)
    check_map(planned.source, planned.saved)
    with _replacing(folder, overwrite=overwrite) as partial:
        text = json.dumps(planned.config, indent=2, sort_keys=True) + "\n"
        (partial / "config.json").write_text(text, encoding="utf-8")
        tensor_copy.copy(planned.source, planned.renames, partial / WEIGHTS, copied)


def _check_place(planned: Plan, folder: Path, *, overwrite: bool) -> None:
    """Refuse a place that holds anything but an earlier export.

    Raises:
        FileExistsError: it does; nothing was touched.

    """
    kept = {"draft": planned.source.path}
    if planned.target is not None:
        kept["target"] = planned.target.folder
    for what, place in kept.items():
        if folder.resolve() in (place.resolve(), *place.resolve().parents):
            raise FileExistsError(f"{folder}: is or holds the folder of the {what}; give another one")
    parent = next(parent for parent in folder.parents if parent.exists())
    if not parent.is_dir():
        raise FileExistsError(f"{parent}: is no folder; give another place")
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise FileExistsError(f"{folder}: is no folder; it is left alone, give another one")
    if not overwrite:
        raise FileExistsError(f"{folder}: already there; give a new folder, or --overwrite an earlier export")
    if not _is_export(folder):
        raise FileExistsError(f"{folder}: is no earlier export, so it is left alone; give another folder")


def _is_export(folder: Path) -> bool:
    """Whether a folder holds what `write` put there, and no more."""
    if {entry.name for entry in folder.iterdir()} != {"config.json", WEIGHTS}:
        return False
    try:
        return STAMP in read_json(folder / "config.json")
    except CheckpointError:
        return False


@contextmanager
def _replacing(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder beside `folder` to write to, which takes its place once all is well; else nothing is left."""
    made = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex[:12]
    partial, old = (folder.with_name(f".{folder.name}.{mark}.{kind}") for kind in ("partial", "old"))
    partial.mkdir()
    try:
        yield partial
        if overwrite and folder.exists():
            folder.rename(old)
            try:
                partial.rename(folder)
            except BaseException:
                old.rename(folder)
                raise
            shutil.rmtree(old)
        else:
            partial.rename(folder)  # fails if something has come there meanwhile
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:  # innermost first; one that holds something stays
            with suppress(OSError):
                parent.rmdir()


# -------------------------------------------------------------------------------- the new checkpoint


def exported_name(name: str) -> str:
    """Name under which the serving side reads a tensor that speculators saved as `name`.

    The first layer is `midlayer` in the EAGLE-3 reference and in every sglang release. In sglang >= 0.5.12
    the norm before the attention of later layers is called `hidden_norm` (models/llama_eagle3.py);
    speculators calls it `input_layernorm`, as Llama does.
    """
    name = _FIRST_LAYER.sub("midlayer.", name)
    return _LATER_INPUT_NORM.sub(r"\1.hidden_norm.", name)


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
    return max(length, target.context_length if target else 0)


def _rope(layer: LayerConfig) -> dict[str, Any]:
    """Both spellings: `rope_parameters` of transformers 5, `rope_theta` and `rope_scaling` of 4."""
    rope = dict(layer.rope_parameters or layer.rope_scaling or {})
    rope["rope_type"] = rope.pop("type", None) or rope.get("rope_type") or "default"
    rope.setdefault("rope_theta", layer.rope_theta)
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    return {
        "rope_parameters": rope,
        "rope_theta": rope["rope_theta"],
        "rope_scaling": None if rope["rope_type"] == "default" else scaling,
    }


def _window(saved: SavedConfig) -> tuple[tuple[str, ...], list[Refusal]]:
    """Server arguments for the trained attention window.

    sglang gives one window to all draft layers, on the command line, and counts the positions before a
    token's own; training counts its own too.
    """
    if saved.window is None:
        return (), []
    kinds = set(saved.transformer_layer_config.layer_types or ())
    if len(kinds) > 1:
        what, fix = f"layer_types: {sorted(kinds)} in one draft", "Train all layers with the same attention."
        return (), [Refusal(cause=Cause.WINDOW_DIFFERS, what=what, own_fix=fix)]
    if saved.window < 2:
        what, fix = f"sliding_window: {saved.window}", "Train with a window of two positions or more."
        return (), [Refusal(cause=Cause.WINDOW_DIFFERS, what=what, own_fix=fix)]
    return (WINDOW_ARGUMENT, str(saved.window - 1)), []


def _layer_ids(
    saved: SavedConfig, dialect: Dialect, target: ServedTarget | None
) -> tuple[tuple[int, ...], list[Refusal]]:
    """Ids in the convention of the target's class, and what keeps them from delivering the trained states."""
    states = tuple(saved.eagle_aux_hidden_state_layer_ids or ())
    ids = tuple(state - dialect.id_shift for state in states)

    def refuse(cause: Cause, what: str, fix: str | None = None) -> tuple[tuple[int, ...], list[Refusal]]:
        return ids, [Refusal(cause=cause, what=what, own_fix=fix)]

    if not states:
        fix = "Write the hidden states that it was trained on to config.json; the serving side would guess."
        return refuse(Cause.WRONG_LAYERS, "eagle_aux_hidden_state_layer_ids: not in config.json", fix)
    if list(states) != sorted(set(states)):
        return refuse(Cause.LAYER_ORDER, f"eagle_aux_hidden_state_layer_ids: {list(states)}")
    if min(states) < dialect.lowest_state:
        return refuse(Cause.LAYER_OUT_OF_RANGE, f"hidden state {min(states)}")
    if target is None:
        return ids, []
    captures = Captures.for_release(dialect.release)
    try:
        return captures.ids(target.architectures, states, target.num_hidden_layers), []
    except NotCaptured as error:
        return refuse(error.cause, error.what)


# -------------------------------------------------------------------------------- refusals


def _check_target(source: Checkpoint, saved: SavedConfig, target: ServedTarget) -> None:
    layer = saved.transformer_layer_config
    for what, ours, theirs in (
        ("vocab_size", layer.vocab_size, target.vocab_size),
        ("hidden_size", saved.target_hidden_size or layer.hidden_size, target.hidden_size),
    ):
        if ours != theirs:
            raise CheckpointError(
                f"{source.path / 'config.json'}: {what} is {ours}, and the target's is {theirs}; "
                "this draft was trained for another target"
            )


def _refused_keys(saved: SavedConfig, dialect: Dialect) -> list[Refusal]:
    flags = [flag for flag in NORM_FLAGS if getattr(saved, flag) and flag not in dialect.config_keys]
    refusals = [Refusal(cause=Cause.NORM_NOT_SERVED, what=f"{flag}: true") for flag in flags]
    if saved.embed_requires_grad and dialect.shares_embedding:
        refusals.append(Refusal(cause=Cause.EMBEDDING_REPLACED, what="embed_requires_grad: true"))
    refusals += [
        Refusal(cause=Cause.NOT_EXPRESSIBLE, what=f"{key}: {value!r:.80}")
        for key, value in sorted(saved.not_understood.items())
    ]
    return refusals


def _refused_values(saved: SavedConfig) -> list[Refusal]:
    """Values that no forward contract has shown to cross."""
    layer = saved.transformer_layer_config
    rope = _rope(layer)["rope_parameters"]
    kind = rope["rope_type"]
    odd = [f"rope_type: {kind}"] if kind not in ROPE_KEYS else []
    known = ROPE_KEYS.get(kind, rope.keys()) | {"rope_type", "rope_theta"}
    needed = {"rope_theta", *ROPE_KEYS.get(kind, ())} - ({ORIGINAL_LENGTH} if kind == "yarn" else set())
    odd += [
        f"rope_parameters.{key}: {rope.get(key)!r:.80}, which has to be a number"
        for key in sorted(needed)
        if not isinstance(rope.get(key), (int, float))
    ]
    odd += [
        f"rope_parameters.{key}: {value!r:.80}"
        for key, value in sorted(rope.items())
        if key not in known and value is not None
    ]
    odd += [f"hidden_act: {layer.hidden_act}"] if layer.hidden_act not in ACTIVATIONS else []
    odd += [f"layer_types: {item}" for item in sorted({*(layer.layer_types or ())} - ATTENTION_KINDS)]
    return [Refusal(cause=Cause.NOT_EXPRESSIBLE, what=item) for item in odd]


def _refused_tensors(renames: Mapping[str, str], dialect: Dialect) -> list[Refusal]:
    taken = Counter(renames.values())
    return [
        Refusal(cause=_why_no_place(name), what=name)
        for name, exported in sorted(renames.items())
        if pattern(exported) not in dialect.tensors or taken[exported] > 1
    ]


def _why_no_place(name: str) -> Cause:
    if name.endswith((".q_norm.weight", ".k_norm.weight")):
        return Cause.QK_NORM_MISSING
    return Cause.BIAS_DROPPED if name.endswith(".bias") else Cause.NOT_EXPRESSIBLE


def _refused_length(saved: SavedConfig, target: ServedTarget | None) -> list[Refusal]:
    """A longer table of angles is no other table, unless the scaling follows the length."""
    trained, length = saved.transformer_layer_config.max_position_embeddings, _length(saved, target)
    rope = _rope(saved.transformer_layer_config)["rope_parameters"]
    follows = rope["rope_type"] == "yarn" and rope.get(ORIGINAL_LENGTH) is None
    if not follows or length == trained:
        return []
    what = f"max_position_embeddings: {trained} of {length}, with yarn from no original length"
    return [Refusal(cause=Cause.CONTEXT_TOO_SHORT, what=what)]
