"""Outcomes, and the causes that a contract can name, each with its explanation and its fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pytest


class Outcome(StrEnum):
    """What became of one contract for one recipe. Ours, theirs and unknown are kept apart."""

    HOLDS = "holds"
    KNOWN = "known"
    """Does not hold, as known.toml records, for the recorded cause."""
    BROKEN = "broken"
    CHANGED = "changed"
    """The surface differs from what was recorded."""
    FIXED = "fixed"
    """Recorded in known.toml as not holding, and holds: the entry has to go."""
    ERROR = "error"
    """The suite or the machine failed; nothing is known about the interface."""
    NOT_RUN = "not-run"


class Cause(StrEnum):
    """Why a contract does not hold. The code is stable: known.toml and reports refer to it."""

    explanation: str
    fix: str

    def __new__(cls, code: str, explanation: str, fix: str) -> Cause:
        """A cause code with one sentence of explanation and one of remedy."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.explanation = explanation
        member.fix = fix
        return member

    CONFIG_NOT_RESOLVED = (
        "config-not-resolved",
        "The serving library cannot make a draft model out of this config.json.",
        "Export the draft for the release that serves it: contracts.export.export_draft.",
    )
    RECIPE_REFUSED = (
        "recipe-refused",
        "The training library raised while it built or saved the draft.",
        "Read the message: it is the library's own. If the release renamed or dropped an option, the recipe "
        "or the probe has to follow.",
    )
    DRAFT_REFUSED = (
        "draft-refused",
        "The serving library raised while it resolved, loaded or ran the draft.",
        "Read the message: it is the library's own. Compare the config keys with those of a release "
        "that accepts the draft.",
    )
    STATE_NOT_READ = (
        "state-not-read",
        "The class that the config resolves to never reads the target's hidden state: no EAGLE-3 draft.",
        'Set "architectures" in config.json to the EAGLE-3 draft class of this release.',
    )
    TENSOR_DROPPED = (
        "tensor-dropped",
        "The loader dropped trained tensors without a word; their layers run on whatever memory held.",
        "Rename the tensors to the names that this release reads (export does).",
    )
    PARAMETER_UNWRITTEN = (
        "parameter-unwritten",
        "The forward pass reads parameters that nothing wrote.",
        "Provide these tensors under the names that this release reads, or a config that asks for none.",
    )
    TENSOR_NOT_OFFERED = (
        "tensor-not-offered",
        "The checkpoint that is served lacks a trained tensor, or has it under a name of no meaning.",
        "Export the draft again; if that does not help, report it as a defect of contracts.export.",
    )
    SHAPE_MISMATCH = (
        "shape-mismatch",
        "A tensor does not fill exactly the part of the parameter that is meant for it.",
        "Make config.json state the dimensions that the tensors were trained with.",
    )
    HEAD_ROWS = (
        "head-rows-differ",
        "The output head has another number of rows than the draft vocabulary.",
        "Set draft_vocab_size to the rows of lm_head.weight.",
    )
    FC_WIDTH = (
        "fc-width-differs",
        "The fusion projection is not as wide as the aux hidden states together.",
        "Make the number of layer ids (and num_aux_hidden_states) that of training.",
    )
    WRONG_LAYERS = (
        "wrong-layers",
        "The target delivers other layers than the draft was trained on.",
        "Convert the layer ids to the serving convention (export does): in sglang's id i names the output of "
        "layer i, in speculators >= 0.5 the input.",
    )
    LAYER_ORDER = (
        "layer-order",
        "The right layers arrive in another order than trained on, so fc mixes up its inputs.",
        "Train with ascending layer ids: the serving side captures them ascending whatever the list says.",
    )
    STATE_NORMED = (
        "state-normed",
        "What the target delivers has passed its final norm; an aux state never has.",
        "Switch the target's capture on (eagle_config.use_aux_hidden_state: true).",
    )
    LAYER_OUT_OF_RANGE = (
        "layer-out-of-range",
        "A layer id names a layer that the target does not have.",
        "Use ids of the target that is served.",
    )
    MAP_DIFFERS = (
        "vocab-map-differs",
        "Draft token ids become other target token ids than trained; every affected draft token is rejected.",
        "Store d2t as offsets (target id minus draft id), which is what both libraries read.",
    )
    MAP_OUT_OF_RANGE = (
        "vocab-map-out-of-range",
        "A draft token id maps to a target token id that does not exist.",
        "Store d2t as offsets (target id minus draft id), not as absolute target ids.",
    )
    MAP_MISSING = (
        "vocab-map-missing",
        "The draft's vocabulary is smaller than the target's and there is no map between them.",
        "Save d2t with the checkpoint.",
    )
    MAP_NOT_INJECTIVE = (
        "vocab-map-repeats",
        "Two draft token ids map to the same target token id.",
        "Rebuild d2t from the training vocabulary map.",
    )
    WIDTH_DIFFERS = (
        "delivered-width-differs",
        "The target delivers another width than fc was trained for: too few or too many hidden states.",
        "Switch the target's capture on for the trained layers (eagle_config.use_aux_hidden_state and "
        "the ids), and use a target class that implements it.",
    )
    FC_SKIPPED = (
        "fc-skipped",
        "The fusion projection is skipped: what arrives is as wide as the embedding, so it counts as fused.",
        "Switch the target's capture on (eagle_config.use_aux_hidden_state: true).",
    )
    RECURRENT_WIDTH = (
        "recurrent-width",
        "What the draft feeds back is not as wide as its embedding, so the next step would fuse it again.",
        "Use a draft whose hidden size is that of its embedding.",
    )
    EMBEDDING_REPLACED = (
        "embedding-replaced",
        "The serving side replaces the draft's own trained embedding by the target's.",
        "Train with the embedding frozen (embed_requires_grad: false).",
    )
    HEAD_REPLACED = (
        "head-replaced",
        "The serving side scores with the target's output head, not with the draft's own.",
        "State draft_vocab_size in config.json, so that the draft keeps its own head.",
    )
    NORM_DIFFERS = (
        "norm-differs",
        "A norm is applied on one side and not on the other.",
        "Set the flag where this release reads it (export does), or retrain without the norm.",
    )
    NORM_EPSILON = (
        "norm-epsilon-differs",
        "The norms add another epsilon under the root.",
        "Set rms_norm_eps in config.json to that of training.",
    )
    NORM_NOT_SERVED = (
        "norm-not-served",
        "The draft was trained with a norm that this release does not have.",
        "Retrain without it (speculators train --no-norm-before-residual), or serve with a library that "
        "honours it.",
    )
    ROPE_FREQUENCIES = (
        "rope-frequencies-differ",
        "The rotary embedding turns at other frequencies: another base, scaling or head dimension.",
        "Write both spellings, rope_parameters and rope_theta with rope_scaling (export does).",
    )
    ROPE_PAIRS = (
        "rope-pairs-differ",
        "The rotary embedding turns other dimensions together: neighbours instead of halves, or the reverse.",
        "Remove rope_is_neox_style from config.json.",
    )
    ROPE_AMPLITUDE = (
        "rope-amplitude-differs",
        "The rotary embedding is scaled by another factor.",
        "Give the scaling's attention_factor explicitly.",
    )
    SCALE_DIFFERS = (
        "scale-differs",
        "Attention scores are multiplied by another factor.",
        "State head_dim in config.json, and no key that changes the scale.",
    )
    HEADS_DIFFER = (
        "heads-differ",
        "The attention has another number or width of heads.",
        "State num_attention_heads, num_key_value_heads and head_dim in config.json.",
    )
    BIAS_DROPPED = (
        "attention-bias-dropped",
        "The attention projections were trained with biases and are served without.",
        "Train with attention_bias: false.",
    )
    QK_NORM_MISSING = (
        "qk-norm-missing",
        "Queries and keys were normed in training and are not when serving.",
        "Train the draft with llama layers (--draft-arch llama).",
    )
    WINDOW_DIFFERS = (
        "window-differs",
        "A layer attends to another number of past positions than trained.",
        "Launch the server with --speculative-draft-window-size (export names the value).",
    )
    NOT_EXPRESSIBLE = (
        "not-expressible",
        "The trained draft has a part that no checkpoint of this serving release can carry.",
        "Retrain without it, or serve with a release that reads it.",
    )
    SURFACE_CHANGED = (
        "surface-changed",
        "The interface that this release shows differs from the recorded one.",
        "Read what each difference means; if it is meant, record it: pytest -m contracts --snapshot-update.",
    )


def explanation(code: str) -> str:
    """The sentence that explains a cause, by its code."""
    return {str(cause): cause for cause in Cause}[code].explanation


class Broken(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A contract does not hold: cause, evidence and fix. A test of anybody's that raises it fails."""

    def __init__(self, cause: Cause, *, expected: object, seen: object, fix: str | None = None) -> None:
        self.cause = cause
        self.expected = str(expected)
        self.seen = str(seen)
        self.fix = fix or cause.fix
        evidence = f"expected: {self.expected}\nseen: {self.seen}\nfix: {self.fix}"
        super().__init__(f"{cause}: {cause.explanation}\n{evidence}", pytrace=False)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place where a surface differs from its record."""

    path: str
    recorded: str
    seen: str
    meaning: str


class Changed(Broken):
    """A surface differs from its record; every difference says what it means."""

    def __init__(self, differences: Sequence[Difference], *, record: str) -> None:
        self.differences = tuple(differences)
        super().__init__(
            Cause.SURFACE_CHANGED,
            expected=f"as recorded in {record}",
            seen="\n".join(f"{d.path}: {d.recorded} -> {d.seen} ({d.meaning})" for d in differences),
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the record that every view is made from."""

    contract: str
    """`module.promise`, as in `weight_names.every_trained_tensor_is_consumed`."""
    promise: str
    """The sentence that the contract's docstring states."""
    case: str
    """What it was judged on: a recipe, with the side in front where a contract looks at one side."""
    outcome: Outcome
    cause: str | None = None
    expected: str | None = None
    seen: str | None = None
    fix: str | None = None
    reason: str | None = None
    """Why it was not run, what failed, or why it is known."""
    upstream: str | None = None
    reproduce: str | None = None

    @property
    def recipe(self) -> str:
        """The recipe that it was judged on; empty for a test of a user's own that has none."""
        return "" if self.case == "-" else self.case.rpartition("/")[2]
