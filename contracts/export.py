"""Writes a draft that speculators saved the way a given sglang release reads it, or refuses with a cause.

What a release takes is drawn from the surface recorded for it (`Dialect`): which tensors its loader consumed,
which config keys it asked for, which hidden state an id delivered. Typed in are only the names and keys that
every release since the first reads.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import records
from contracts.checkpoint import Checkpoint, read
from contracts.facts import DraftFacts
from contracts.saved_draft import LayerConfig, SavedConfig, check_whole
from contracts.verdict import Cause

NORM_FLAGS = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
LAYER_KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "max_position_embeddings",
    "attention_bias", "mlp_bias", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip


DERIVED = frozenset({"t2d"})
"""Tensors that say nothing d2t does not say; no engine reads them."""
WINDOW_ARGUMENT = "--speculative-draft-window-size"

_FIRST_LAYER = re.compile(r"^layers\.0\.")
_LATER_INPUT_NORM = re.compile(r"^(layers\.[1-9]\d*)\.input_layernorm\.")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Something trained that this serving release cannot be given."""

    cause: Cause
    what: str
    """The tensor or config key, and its value."""


class Refused(Exception):
    """The draft cannot be expressed for this serving release; nothing was written."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        told = (f"{item.what} ({item.cause}). {item.cause.fix}" for item in self.refusals)
        super().__init__("cannot be exported: " + " ".join(told))


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What one serving release reads of an EAGLE-3 draft checkpoint."""

    release: str
    """The recorded release that this was drawn from."""
    architecture: str
    tensors: frozenset[str]
    """Names that the loader consumed, numbers as `*`."""
    config_keys: frozenset[str]
    id_shift: int
    """Hidden-state index minus layer id: 1 where an id names the output of a layer."""
    lowest_state: int
    """Lowest hidden-state index that was seen to be delivered."""
    shares_embedding: bool
    """The target's embedding takes the place of the draft's."""

    @classmethod
    def for_release(cls, serving: str) -> Dialect:
        """The dialect of sglang `serving`: from its own record, or from the newest release before it.

        Raises:
            UnsupportedRelease: there is no such record, or it is no release.

        """
        records.check_supported("sglang", serving)
        release = records.baseline("sglang", serving)
        assert release is not None  # the oldest release that is supported is recorded
        return cls.of(records.surface("sglang", release), release)

    @classmethod
    def of(cls, surface: Mapping[str, DraftFacts], release: str) -> Dialect:
        """Draw the dialect from the recorded facts of a serving release, by recipe.

        Raises:
            ValueError: the facts say too little, or contradict each other.

        """
        facts = list(surface.values())
        taps = [item.aux_layers for item in facts if item.aux_layers and item.aux_layers.layer_ids]
        shifts = {
            state - layer_id
            for tap in taps
            for layer_id, state in zip(tap.layer_ids or (), tap.states, strict=True)
        }
        names = {name for item in facts if item.weight_names for name in item.weight_names.names}
        architectures = {item.architecture for item in facts if item.architecture}
        if len(shifts) != 1 or len(architectures) != 1 or not names:
            raise ValueError(f"the record of sglang {release} does not show one way to write a draft")
        return cls(
            release=release,
            architecture=architectures.pop(),
            tensors=frozenset(map(_pattern, names)),
            config_keys=frozenset(key for item in facts for key in item.config_keys),
            id_shift=shifts.pop(),
            lowest_state=min(state for tap in taps for state in tap.states),
            shares_embedding=all(
                item.sharing is None or item.sharing.embedding == "target" for item in facts
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an export will write, and what it has to refuse."""

    source: Checkpoint
    dialect: Dialect
    config: Mapping[str, Any]
    renames: Mapping[str, str]
    """Name of each tensor as saved -> name as written."""
    refusals: tuple[Refusal, ...]
    server_args: tuple[str, ...]
    """Command-line arguments that the server needs for this draft."""


def export_draft(draft: Path | str, folder: Path | str, *, serving: str) -> Plan:
    """Write the draft that speculators saved in `draft` to `folder`, as sglang `serving` reads it.

    Args:
        draft: folder with config.json and safetensors files.
        folder: new folder to write.
        serving: release of sglang; one without a record is treated as the newest recorded one before it.

    Returns:
        What was written, and in which release's dialect; `server_args` is what the server needs on its
        command line.

    Raises:
        CheckpointError: `draft` cannot be read, or is no whole EAGLE-3 draft saved by speculators.
        Refused: something trained cannot be expressed for this release; nothing was written.
        UnsupportedRelease: how `serving` reads drafts is not recorded.
        FileExistsError: `folder` is there already.

    """
    planned = plan(read(Path(draft)), Dialect.for_release(serving))
    write(planned, Path(folder))
    return planned


def plan(source: Checkpoint, dialect: Dialect) -> Plan:
    """Decide how `source`, a draft in the format of speculators >= 0.5, is written in `dialect`.

    Raises:
        CheckpointError: it is no whole EAGLE-3 draft saved by speculators.

    """
    saved = SavedConfig.of(source)
    check_whole(source, saved)
    renames = {name: exported_name(name) for name in source.tensors if name not in DERIVED}
    window, window_refusals = _window(saved)
    return Plan(
        source=source,
        dialect=dialect,
        config=_flat_config(saved, dialect),
        renames=renames,
        refusals=(
            *_refused_keys(saved, dialect),
            *_refused_tensors(renames, dialect),
            *_refused_layers(saved, dialect),
            *window_refusals,
        ),
        server_args=window,
    )


def write(planned: Plan, folder: Path, *, force: bool = False) -> None:
    """Write the planned checkpoint to `folder`, which must not exist; whole or not at all.

    Args:
        planned: what `plan` decided.
        folder: where to write.
        force: write what can be expressed even if something cannot.

    Raises:
        Refused: something cannot be expressed, and `force` is not set.
        FileExistsError: `folder` is there already.

    """
    from safetensors import (
        torch as safetensors,
    )  # torch takes a second to import; most runs find a cached export

    if planned.refusals and not force:
        raise Refused(planned.refusals)
    if folder.exists():
        raise FileExistsError(f"{folder}: already there; give a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")
    partial.mkdir()
    try:
        tensors = {}
        for file in sorted({tensor.file for tensor in planned.source.tensors.values()}):
            for name, tensor in safetensors.load_file(planned.source.path / file).items():
                if name in planned.renames:
                    tensors[planned.renames[name]] = tensor
        weights = partial / "model.safetensors"
        safetensors.save_file(tensors, weights, metadata={"format": "pt"})
        text = json.dumps(planned.config, indent=2, sort_keys=True) + "\n"
        (partial / "config.json").write_text(text, encoding="utf-8")
        weights.chmod((partial / "config.json").stat().st_mode)  # as readable as any new file here
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def exported_name(name: str) -> str:
    """Name under which the serving side reads a tensor that speculators saved as `name`.

    The first layer is `midlayer` in the EAGLE-3 reference and in every sglang release. In sglang >= 0.5.12
    the norm before the attention of later layers is called `hidden_norm` (models/llama_eagle3.py);
    speculators calls it `input_layernorm`, as Llama does.
    """
    name = _FIRST_LAYER.sub("midlayer.", name)
    return _LATER_INPUT_NORM.sub(r"\1.hidden_norm.", name)


def _flat_config(saved: SavedConfig, dialect: Dialect) -> dict[str, Any]:
    """A config.json with everything where a serving release looks for it."""
    layer = saved.transformer_layer_config
    flags = {flag: getattr(saved, flag) for flag in NORM_FLAGS}
    ids = [index - dialect.id_shift for index in saved.eagle_aux_hidden_state_layer_ids or ()]
    return {
        **{
            key: value for key, value in layer.model_dump().items() if key in LAYER_KEYS and value is not None
        },
        **_rope(layer),
        **flags,
        "architectures": [dialect.architecture],
        "model_type": "llama",
        "draft_vocab_size": saved.draft_vocab_size,
        "dtype": saved.dtype or saved.torch_dtype,
        **({"target_hidden_size": saved.target_hidden_size} if saved.target_hidden_size else {}),
        "tie_word_embeddings": False,  # speculators always saves a head of the draft's own
        "num_aux_hidden_states": len(ids) or None,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": ids or None,
            "use_aux_hidden_state": True,
            "norm_before_fc": flags["norm_before_fc"],
        },
    }


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
        return (), [Refusal(cause=Cause.WINDOW_DIFFERS, what=f"layer_types: {sorted(kinds)} in one draft")]
    if saved.window < 2:
        return (), [Refusal(cause=Cause.WINDOW_DIFFERS, what=f"sliding_window: {saved.window}")]
    return (WINDOW_ARGUMENT, str(saved.window - 1)), []


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


def _refused_tensors(renames: Mapping[str, str], dialect: Dialect) -> list[Refusal]:
    taken = Counter(renames.values())
    return [
        Refusal(cause=Cause.NOT_EXPRESSIBLE, what=name)
        for name, exported in sorted(renames.items())
        if _pattern(exported) not in dialect.tensors or taken[exported] > 1
    ]


def _refused_layers(saved: SavedConfig, dialect: Dialect) -> list[Refusal]:
    states = saved.eagle_aux_hidden_state_layer_ids
    if not states:
        what = "eagle_aux_hidden_state_layer_ids: not in config.json"
        return [Refusal(cause=Cause.WRONG_LAYERS, what=what)]
    if states != sorted(set(states)):
        return [Refusal(cause=Cause.LAYER_ORDER, what=f"eagle_aux_hidden_state_layer_ids: {states}")]
    if min(states) < dialect.lowest_state:
        return [Refusal(cause=Cause.LAYER_OUT_OF_RANGE, what=f"hidden state {min(states)}")]
    return []


def _pattern(name: str) -> str:
    return _NUMBER.sub("*", name)
