"""What one side shows at the interface: frozen values that a probe fills in and a contract compares.

Both sides fill in the same types, so a contract reads `training.rope == serving.rope`. This module uses
the standard library only, because it is imported inside the interpreter of either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

PROTOCOL = 1
"""Number of the JSON format between a probe and its runner; raised when a field changes meaning."""

Device = Literal["cpu", "cuda"]
"""What depths forward and engine of the serving side run on."""
CASE_TIMEOUT = 60.0
"""Seconds that a probe may take for one case, unless the user says otherwise."""

SideName = Literal["training", "serving"]
LIBRARIES: Mapping[SideName, str] = {"training": "speculators", "serving": "sglang"}
"""Distribution name of each side's library."""

Owner = Literal["draft", "target"]


@dataclass(frozen=True, kw_only=True)
class WeightNames:
    """Facet: which checkpoint tensors a side has a use for."""

    names: tuple[str, ...]
    """Training: every tensor saved. Serving: every tensor whose values reached the model."""
    ignored: tuple[str, ...] = ()
    """Offered by the checkpoint and read by nothing."""
    unwritten: tuple[str, ...] = ()
    """Parameters that the forward pass reads and that neither the checkpoint nor the target filled."""


@dataclass(frozen=True, kw_only=True)
class TensorShapes:
    """Facet: the shape of each checkpoint tensor, by name."""

    shapes: Mapping[str, tuple[int, ...]]
    """Training: as saved. Serving: the part of a (possibly fused) parameter that the tensor filled."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Training: as saved (safetensors names). Serving: of the parameter filled (torch names)."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Serving: the parameter filled, and the element at which the part begins. Contracts do not compare
    these; the recorded surface does."""


@dataclass(frozen=True, kw_only=True)
class AuxLayers:
    """Facet: which target hidden states the draft is conditioned on."""

    states: tuple[int, ...]
    """Hidden-state indices in the order in which `fc` reads them. Index 0 is the embedding output and
    index i the output of decoder layer i-1, before the final norm (as transformers numbers
    `hidden_states`)."""
    layer_ids: tuple[int, ...] | None
    """The ids in the checkpoint, in the side's own convention; None where the side guesses."""
    num_layers: int
    """Decoder layers of the target."""
    final_norm: bool = False
    """Whether what is delivered has passed the target's final norm (an aux state never has)."""


@dataclass(frozen=True, kw_only=True)
class VocabMap:
    """Facet: draft token id -> target token id."""

    target_ids: tuple[int, ...]
    """Target token id of each draft token id, as the side uses it; the identity without a map."""
    mapped: bool
    """Whether the side has a map at all."""
    draft_vocab_size: int
    """Rows of the draft's output head."""
    target_vocab_size: int


@dataclass(frozen=True, kw_only=True)
class HiddenDims:
    """Facet: widths of the hidden states that cross the interface (in elements of the last dimension)."""

    target: int
    """One hidden state of the target."""
    delivered: int
    """What reaches the draft per token: the aux hidden states, concatenated."""
    fc_in: int
    """What the fusion projection was built for."""
    draft: int
    """The draft's own hidden size, and the width of its embeddings."""
    recurrent: int
    """The recurrent hidden state that the draft feeds back to itself."""
    fc_applied: bool
    """Whether the fusion projection takes part in the forward pass."""


@dataclass(frozen=True, kw_only=True)
class NormFlags:
    """Which of the optional norms are applied."""

    norm_before_fc: bool
    """One RMSNorm over the concatenated aux states, before `fc`."""
    fc_norm: bool
    """One RMSNorm per aux state, before `fc` (EAGLE 3.1)."""
    norm_output: bool
    """The recurrent hidden state has passed the draft's final norm (EAGLE 3.1)."""
    norm_before_residual: bool
    """The residual of the first layer is the normed fused state, not the raw one."""


@dataclass(frozen=True, kw_only=True)
class Rope:
    """Rotary position embedding of the draft."""

    inverse_frequencies: tuple[float, ...]
    """Angle per position, in radians, of each rotated pair of dimensions, scaling included."""
    amplitude: float
    """Factor on cosine and sine (attention scaling of yarn; 1.0 otherwise)."""
    interleaved: bool = False
    """Whether even and odd dimensions rotate together (GPT-J), or the two halves of a head (NeoX, Llama)."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Shape and extras of the draft's attention."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    """Factor on the attention scores."""
    biased: bool
    """Whether the q, k and v projections have a bias."""
    qk_norm: bool
    """Whether queries and keys are normed per head (qwen3)."""
    windows: tuple[int | None, ...]
    """Positions each layer attends to, its own included; None is all of them."""


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Whose embedding and output head the draft uses."""

    embedding: Owner
    """Training: "target" if the saved embedding is the target's, bit for bit. Serving: whose is used."""
    head: Owner


@dataclass(frozen=True, kw_only=True)
class ComputeDtypes:
    """What a side computes in when nobody says otherwise (torch names)."""

    draft: str
    target: str


@dataclass(frozen=True, kw_only=True)
class DraftFacts:
    """All that one side shows about one draft. A field is None where the side refused before it."""

    architecture: str | None = None
    """Class that saved the draft, or that will run it."""
    algorithm: str | None = None
    """Speculative algorithm, in small letters: that the draft was trained for, or that the server runs."""
    reads_target_state: bool | None = None
    """Whether the target's hidden state takes part in the draft's logits."""
    config_keys: tuple[str, ...] = ()
    """Training: keys written to config.json (nested ones dotted). Serving: keys that were asked for."""
    weight_names: WeightNames | None = None
    tensor_shapes: TensorShapes | None = None
    aux_layers: AuxLayers | None = None
    vocab_map: VocabMap | None = None
    hidden_dims: HiddenDims | None = None
    norms: NormFlags | None = None
    norm_eps: float | None = None
    """Epsilon of the draft's RMS norms; where they differ, the one furthest from the first layer's."""
    rope: Rope | None = None
    attention: Attention | None = None
    sharing: Sharing | None = None
    agrees_with_itself: bool | None = None
    """Training only: whether the library's own forward pass computes, in chained steps too, what its modules
    compute one token at a time, to 1e-5 of the largest value."""
    compute: ComputeDtypes | None = None
    """Serving only: training computes in whatever its trainer is told."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The library itself raised: at which stage, and what it said."""

    stage: str
    """resolve, load, share, capture, forward or replay; build, reload, replay or run for training."""
    error: str
    """Exception class."""
    message: str


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """What became of one case. Exactly one of `facts` and `error` is set."""

    case: str
    facts: DraftFacts | None = None
    refusals: tuple[Refusal, ...] = ()
    error: str | None = None
    """The suite or the machine failed here (never the interface): reason and last lines of the log."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SideIdentity:
    """Which library, at which release, in which interpreter."""

    library: str
    version: str | None
    """None: not installed there."""
    python: str
    executable: str
    platform: str
    packages: Mapping[str, str]
    """Installed version of each package whose version matters here."""
    pins: Mapping[str, str]
    """What the library's own metadata asks for, for the same packages."""
    fingerprint: str
    """Changes when a file of the library or a package version changes."""
    stand_ins: tuple[str, ...] = ()
    """Compiled parts that have no build for this machine and are stood in for."""


def to_json(value: Any) -> Any:
    """Plain JSON data of a facts value."""
    return asdict(value)
