"""Seeded faults: each breaks one thing of a good draft, and says which cause has to be named.

A fault that no header can show is not listed: weights that were exchanged, layer ids that are one too low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contracts import blank, records
from contracts.blank import Blank, weight
from contracts.causes import Cause
from contracts.conventions import STAMP
from contracts.header.draft import canonical
from contracts.spellings import DRAFT_VOCAB, HIDDEN, INTERMEDIATE, LAYERS, NEST, VOCAB, offsets
from tests.good_drafts import IDS, MAP, Good
from tests.patient import DoesNotApply, Patient


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is broken, and what has to be said of it."""

    name: str
    about: str
    causes: tuple[Cause, ...]
    """The first has to be named; others may follow from the same fault."""
    touches: frozenset[str]
    """What it changes; two faults that change the same are not combined."""
    release: str
    """Of sglang, in which it is one."""
    apply: Callable[[Patient], None]


FAULTS: list[Fault] = []


NEWEST = records.recorded_releases("sglang")[-1]


def fault(*causes: Cause, touches: str, release: str = NEWEST) -> Callable[[Callable[[Patient], None]], None]:
    def register(apply: Callable[[Patient], None]) -> None:
        about = (apply.__doc__ or "").rstrip(".")
        FAULTS.append(
            Fault(
                name=apply.__name__.strip("_"),
                about=about,
                causes=causes,
                touches=frozenset(touches.split()),
                release=release,
                apply=apply,
            )
        )

    return register


def broken(good: Good, *faults: Fault) -> Patient | None:
    """A good draft with faults; None if one of them does not apply."""
    patient = Patient.of(good)
    try:
        for item in faults:
            item.apply(patient)
    except DoesNotApply:
        return None
    return patient


def combinations(good: Good, number: int) -> Iterator[tuple[Fault, ...]]:
    """Faults of a good draft that change different things, `number` at a time.

    A draft of another kind is left out: nothing else can be said of it.
    """
    alone = [
        it
        for it in FAULTS
        if "kind" not in it.touches and it.release == NEWEST and broken(good, it) is not None
    ]

    def grow(chosen: tuple[Fault, ...], rest: list[Fault]) -> Iterator[tuple[Fault, ...]]:
        if len(chosen) == number:
            yield chosen
            return
        for at, item in enumerate(rest):
            if all(not item.touches & other.touches for other in chosen):
                yield from grow((*chosen, item), rest[at + 1 :])

    yield from grow((), alone)


# ------------------------------------------------------------------------ names


@fault(Cause.TENSOR_DROPPED, Cause.PARAMETER_UNWRITTEN, touches="q_proj")
def misnamed_tensor(it: Patient) -> None:
    """One projection has another name."""
    old = it.name("layers.0.self_attn.q_proj.weight")
    it.tensors[old.replace("self_attn", "attention")] = it.tensors.pop(old)


@fault(Cause.TENSOR_DROPPED, Cause.PARAMETER_UNWRITTEN, Cause.IDS_GUESSED, touches="names")
def foreign_prefix(it: Patient) -> None:
    """All names begin with draft_model., as a wrapper saves them."""
    for name in list(it.tensors):
        if name not in ("d2t", "t2d", "lm_head.weight"):
            it.tensors[f"draft_model.{name}"] = it.tensors.pop(name)


@fault(Cause.TENSOR_DROPPED, touches="extra")
def extra_tensor(it: Patient) -> None:
    """A trained part that nothing reads."""
    it.put("gate.weight", weight(HIDDEN, HIDDEN))


@fault(Cause.TENSOR_DROPPED, Cause.PARAMETER_UNWRITTEN, touches="mlp gate_proj")
def fused_projections(it: Patient) -> None:
    """gate and up are saved as one tensor, as engines hold them."""
    it.pop("layers.0.mlp.gate_proj.weight")
    it.pop("layers.0.mlp.up_proj.weight")
    it.put("layers.0.mlp.gate_up.weight", weight(2 * INTERMEDIATE, HIDDEN))


@fault(Cause.TENSOR_DROPPED, touches="layer1")
def layer_that_is_not_built(it: Patient) -> None:
    """A second layer's tensors, and num_hidden_layers: 1."""
    it.need(it.layer["num_hidden_layers"] == 1)
    it.put("layers.1.mlp.down_proj.weight", weight(HIDDEN, INTERMEDIATE))


def _missing(name: str, doc: str, touches: str) -> None:
    def apply(it: Patient) -> None:
        it.pop(name)

    apply.__name__, apply.__doc__ = f"no_{name.split('.')[-2]}", doc
    fault(Cause.PARAMETER_UNWRITTEN, touches=touches)(apply)


_missing("layers.0.self_attn.o_proj.weight", "The attention has no output projection.", "o_proj")
_missing("layers.0.hidden_norm.weight", "The norm of the target's state is missing.", "hidden_norm")
_missing("layers.0.input_layernorm.weight", "The norm of the embedding is missing.", "input_layernorm")
_missing("layers.0.mlp.down_proj.weight", "The MLP has no way down.", "mlp")
_missing("norm.weight", "The final norm is missing.", "norm")
_missing("fc.weight", "The fusion projection is missing.", "fc")


@fault(Cause.TENSOR_TWICE, touches="k_proj")
def tensor_twice(it: Patient) -> None:
    """One projection is there under both names."""
    name = it.name("layers.0.self_attn.k_proj.weight")
    other = "layers.0." if "midlayer." in name else "midlayer."
    it.need(not it.is_nested)
    it.tensors[other + "self_attn.k_proj.weight"] = it.tensors[name]


@fault(Cause.TENSOR_DROPPED, touches="fc_bias")
def bias_of_fc_unsaid(it: Patient) -> None:
    """fc has a bias, and config.json says nothing of it."""
    it.put("fc.bias", weight(HIDDEN))


@fault(Cause.PARAMETER_UNWRITTEN, touches="fc_bias o_bias")
def bias_of_fc_missing(it: Patient) -> None:
    """config.json asks for biases that are not there."""
    it.need(not it.is_nested)
    it.config["bias"] = True


@fault(Cause.BIAS_DROPPED, touches="q_bias")
def attention_biases(it: Patient) -> None:
    """The attention was trained with biases."""
    it.put(
        "layers.0.self_attn.q_proj.bias",
        weight(it.tensors[it.name("layers.0.self_attn.q_proj.weight")].shape[0]),
    )


@fault(Cause.PARAMETER_UNWRITTEN, touches="o_bias")
def attention_bias_inherited(it: Patient) -> None:
    """attention_bias: true is copied from the target, and the draft has no bias."""
    it.layer["attention_bias"] = True


@fault(Cause.TENSOR_DROPPED, touches="mlp_bias")
def mlp_biases(it: Patient) -> None:
    """The MLP was trained with biases."""
    it.put("layers.0.mlp.down_proj.bias", weight(HIDDEN))


@fault(Cause.QK_NORM_MISSING, touches="qk_norm")
def query_norm(it: Patient) -> None:
    """Queries and keys were normed in training, as in Qwen3."""
    it.put("layers.0.self_attn.q_norm.weight", weight(16))
    it.put("layers.0.self_attn.k_norm.weight", weight(16))


# ----------------------------------------------------------------------- shapes


@fault(Cause.HEADS_DIFFER, touches="heads")
def other_head_dim(it: Patient) -> None:
    """head_dim is half of what was trained."""
    it.layer["head_dim"] = it.layer["head_dim"] // 2


@fault(Cause.HEADS_DIFFER, touches="heads")
def head_dim_unsaid(it: Patient) -> None:
    """Heads are wider than hidden_size / heads, and head_dim is not said."""
    it.need(it.layer["head_dim"] * it.layer["num_attention_heads"] != it.layer["hidden_size"])
    del it.layer["head_dim"]


@fault(Cause.HEADS_DIFFER, touches="heads")
def other_number_of_heads(it: Patient) -> None:
    """num_attention_heads is the target's, not the draft's."""
    it.layer["num_attention_heads"] *= 2


@fault(Cause.HEADS_DIFFER, touches="heads")
def other_number_of_kv_heads(it: Patient) -> None:
    """num_key_value_heads is the target's, not the draft's."""
    it.layer["num_key_value_heads"] *= 2


@fault(Cause.SHAPE_MISMATCH, touches="mlp")
def other_intermediate_size(it: Patient) -> None:
    """intermediate_size is the target's, not the draft's."""
    it.layer["intermediate_size"] = 2 * INTERMEDIATE


@fault(Cause.SHAPE_MISMATCH, touches="v_proj")
def attention_reads_the_state_alone(it: Patient) -> None:
    """The first layer's attention is as narrow as a usual layer's."""
    name = it.name("layers.0.self_attn.v_proj.weight")
    rows, _ = it.tensors[name].shape
    it.tensors[name] = weight(rows, HIDDEN)


@fault(Cause.SHAPE_MISMATCH, touches="norm")
def other_width_of_a_norm(it: Patient) -> None:
    """The final norm is of another width."""
    it.tensors[it.name("norm.weight")] = weight(2 * HIDDEN)


@fault(Cause.HEAD_ROWS, Cause.MAP_LENGTH, touches="head draft_vocab_size d2t_length")
def other_draft_vocab_size(it: Patient) -> None:
    """draft_vocab_size is another than lm_head has rows."""
    it.need(it.config.get("draft_vocab_size") == DRAFT_VOCAB)
    it.config["draft_vocab_size"] = 2 * DRAFT_VOCAB


@fault(Cause.HEAD_ROWS, touches="head draft_vocab_size")
def head_of_the_whole_vocabulary(it: Patient) -> None:
    """lm_head has the target's rows, and draft_vocab_size is smaller."""
    it.need(it.config.get("draft_vocab_size") == DRAFT_VOCAB)
    it.tensors[it.name("lm_head.weight")] = weight(VOCAB, HIDDEN)


def _fc(chunks: float) -> Blank:
    return weight(HIDDEN, int(chunks * HIDDEN))


@fault(Cause.FC_WIDTH, touches="fc")
def fc_of_two_states(it: Patient) -> None:
    """fc is as wide as two states."""
    it.tensors[it.name("fc.weight")] = _fc(2)


@fault(Cause.FC_WIDTH, Cause.PARAMETER_UNWRITTEN, touches="fc")
def fc_of_five_states(it: Patient) -> None:
    """fc is as wide as five states."""
    it.tensors[it.name("fc.weight")] = _fc(5)


@fault(Cause.FC_WIDTH, touches="fc")
def fc_of_no_whole_number(it: Patient) -> None:
    """fc is wider than states by a half."""
    it.tensors[it.name("fc.weight")] = _fc(3.5)


@fault(Cause.FC_WIDTH, touches="fc")
def other_number_of_states(it: Patient) -> None:
    """num_aux_hidden_states is another than fc takes."""
    it.need(not it.is_nested)
    it.config["num_aux_hidden_states"] = 5


@fault(Cause.FC_WIDTH, touches="ids fc")
def one_id_too_many(it: Patient) -> None:
    """The list has one id more than fc takes states."""
    ids = it.ids
    it.set_ids([*ids, ids[-1] + 1])


# ------------------------------------------------------------------- vocabulary


@fault(Cause.MAP_HOLDS_IDS, touches="d2t")
def map_of_ids(it: Patient) -> None:
    """d2t holds target ids."""
    it.map  # noqa: B018 (whether there is one)
    it.set_map(list(MAP))


@fault(Cause.MAP_HOLDS_IDS, touches="d2t t2d")
def map_of_ids_alone(it: Patient) -> None:
    """d2t holds target ids, and there is no t2d to tell."""
    it.set_map(list(MAP))
    it.tensors.pop("t2d", None)


@fault(Cause.MAP_MISSING, touches="d2t t2d d2t_length")
def no_map(it: Patient) -> None:
    """The vocabulary is reduced, and there is no map."""
    it.pop("d2t")
    it.tensors.pop("t2d", None)


@fault(Cause.MAP_MISSING, Cause.MAP_ELSEWHERE, touches="d2t t2d d2t_length")
def map_in_a_file_of_its_own(it: Patient) -> None:
    """The map lies in a pickled file beside the checkpoint."""
    it.pop("d2t")
    it.tensors.pop("t2d", None)
    it.beside.append("d2t.pt")


@fault(Cause.MAP_EMPTY, Cause.MAP_DISAGREES, touches="d2t")
def map_of_zeros(it: Patient) -> None:
    """d2t was saved before it was filled."""
    it.set_map([0] * len(it.map))


@fault(Cause.MAP_OUT_OF_RANGE, Cause.MAP_DISAGREES, touches="d2t")
def map_beyond_the_vocabulary(it: Patient) -> None:
    """One entry leads beyond the target's vocabulary."""
    it.set_map([*it.map[:-1], VOCAB])


@fault(Cause.MAP_OUT_OF_RANGE, Cause.MAP_DISAGREES, Cause.MAP_UNSORTED, touches="d2t")
def map_below_zero(it: Patient) -> None:
    """One entry leads below zero."""
    values = it.map
    it.set_map([*values[:5], -6, *values[6:]])


@fault(Cause.MAP_NOT_INJECTIVE, Cause.MAP_DISAGREES, touches="d2t")
def map_that_repeats(it: Patient) -> None:
    """Two draft tokens lead to one."""
    values = it.map
    values[5] = values[4] - 1
    it.set_map(values)


@fault(Cause.MAP_UNSORTED, touches="d2t")
def map_out_of_order(it: Patient) -> None:
    """The map is in order of frequency; its head is not."""
    it.map  # noqa: B018
    it.set_map(list(offsets(tuple(reversed(MAP)))))


@fault(Cause.MAP_DISAGREES, touches="t2d")
def mask_of_another_vocabulary(it: Patient) -> None:
    """t2d is of another training run."""
    it.need("t2d" in it.tensors and "d2t" in it.tensors)
    it.tensors["t2d"] = blank.flags([token + 3 for token in MAP], VOCAB)


@fault(Cause.MAP_LENGTH, Cause.MAP_DISAGREES, touches="d2t d2t_length")
def map_too_short(it: Patient) -> None:
    """d2t has fewer entries than the head has rows."""
    it.set_map(it.map[:-4])


@fault(Cause.MAP_TYPE, touches="d2t t2d")
def map_of_floats(it: Patient) -> None:
    """d2t was cast with the weights."""
    name = it.name("d2t")
    it.tensors[name] = weight(DRAFT_VOCAB, dtype="F32")


@fault(Cause.MAP_LENGTH, touches="t2d")
def mask_too_long(it: Patient) -> None:
    """t2d is as long as a padded vocabulary."""
    it.need("t2d" in it.tensors)
    it.tensors["t2d"] = blank.flags(MAP, VOCAB + 32)


# ------------------------------------------------------------ head and embedding


@fault(Cause.HEAD_MISSING, touches="head draft_vocab_size")
def no_head(it: Patient) -> None:
    """The draft has a vocabulary of its own, and no head."""
    it.pop("lm_head.weight")


@fault(Cause.HEAD_REPLACED, touches="tie")
def tied_embeddings(it: Patient) -> None:
    """tie_word_embeddings is copied from a small target."""
    it.need(not it.is_nested and any(canonical(name) == "lm_head.weight" for name in it.tensors))
    it.config["tie_word_embeddings"] = True


@fault(Cause.CONFIG_NOT_RESOLVED, touches="draft_vocab_size d2t_length")
def draft_vocab_size_unsaid(it: Patient) -> None:
    """draft_vocab_size is not said."""
    it.need("draft_vocab_size" in it.config)
    del it.config["draft_vocab_size"]


@fault(Cause.EMBEDDING_REPLACED, touches="embedding")
def embedding_of_its_own(it: Patient) -> None:
    """The embedding was trained on."""
    it.need(it.is_nested)
    it.config["embed_requires_grad"] = True


# ------------------------------------------------------------------ hidden states


@fault(Cause.IDS_NOT_READ, touches="ids")
def ids_at_the_top(it: Patient) -> None:
    """Layer ids stand at the top level alone."""
    it.need(not it.is_nested and len(it.ids) == 3)
    it.nest.pop(IDS)
    it.config[IDS] = [0, 3, 6]


@fault(Cause.IDS_GUESSED, touches="ids")
def ids_lost(it: Patient) -> None:
    """A trainer that has no defaults wrote ids, and they are lost."""
    modelopt = "use_mtp_layernorm" in it.config.get(NEST, {})
    it.need(modelopt or (it.is_nested and it.ids))
    it.set_ids(None)  # type: ignore[arg-type]


@fault(Cause.DRAFT_REFUSED, touches="ids")
def ids_empty(it: Patient) -> None:
    """The list of ids is empty."""
    it.need(not it.is_nested and len(it.ids) == 3)
    it.set_ids([])


@fault(Cause.LAYER_ORDER, touches="ids")
def ids_descending(it: Patient) -> None:
    """fc was trained on descending layers."""
    it.set_ids(it.ids[::-1])


@fault(Cause.IDS_REPEATED, touches="ids")
def ids_repeated(it: Patient) -> None:
    """One layer is named twice."""
    ids = it.ids
    it.set_ids([ids[0], *ids[:-1]])


@fault(Cause.LAYER_OUT_OF_RANGE, touches="ids")
def ids_beyond_the_target(it: Patient) -> None:
    """The ids are those of a deeper target."""
    ids = it.ids
    it.set_ids([*ids[:-1], LAYERS + 4])


@fault(Cause.LAYER_OUT_OF_RANGE, touches="ids")
def ids_below_the_embedding(it: Patient) -> None:
    """One id is negative."""
    it.set_ids([-2, *it.ids[1:]])


@fault(Cause.IDS_CONVENTION, touches="ids")
def ids_of_the_other_convention(it: Patient) -> None:
    """The ids count hidden states, as EAGLE and speculators do."""
    it.need(not it.is_nested and it.ids == [1, 3, 4] and STAMP not in it.config)
    it.set_ids([2, 4, 5])


@fault(Cause.FC_SKIPPED, touches="use_aux fc ids")
def capture_switched_off(it: Patient) -> None:
    """use_aux_hidden_state is false."""
    it.nest["use_aux_hidden_state"] = False


@fault(Cause.CONTRADICTION, touches="top_ids")
def ids_in_two_places(it: Patient) -> None:
    """The ids at the top level are others than those in eagle_config."""
    it.need(not it.is_nested and len(it.ids) == 3)
    it.config[IDS] = [0, 2, 6]


# -------------------------------------------------------------------------- norms


@fault(Cause.RESIDUAL_BEFORE_NORM, touches="residual")
def normed_residual(it: Patient) -> None:
    """The first layer's residual was normed in training."""
    it.config["norm_before_residual"] = True


@fault(Cause.INPUT_NORM_MISSING, touches="input_norm")
def input_norm_unsaid(it: Patient) -> None:
    """There is a norm before fc, and config.json says nothing of it."""
    it.need(not it.config.get("norm_before_fc") and "input_norm.weight" not in map(canonical, it.tensors))
    it.put("input_norm.weight", weight(3 * HIDDEN))


@fault(Cause.PARAMETER_UNWRITTEN, touches="input_norm")
def input_norm_without_weights(it: Patient) -> None:
    """norm_before_fc is true, and its weights are not there."""
    it.need("input_norm.weight" not in map(canonical, it.tensors))
    it.config["norm_before_fc"] = True


@fault(Cause.FC_NORM_MISSING, touches="fc_norm")
def fc_norm_unsaid(it: Patient) -> None:
    """Each state is normed in training, and config.json says nothing of it."""
    it.need(not it.config.get("fc_norm"))
    for index in range(3):
        it.put(f"fc_norm.{index}.weight", weight(HIDDEN))


@fault(Cause.FC_NORM_MISSING, touches="fc_norm")
def fc_norm_in_the_wrong_place(it: Patient) -> None:
    """fc_norm is switched on in eagle_config alone."""
    it.need(not it.config.get("fc_norm"))
    it.nest["fc_norm"] = True
    for index in range(3):
        it.put(f"fc_norm.{index}.weight", weight(HIDDEN))


@fault(Cause.RECURRENT_NOT_NORMED, touches="norm_output")
def norm_output_in_the_wrong_place(it: Patient) -> None:
    """norm_output is switched on in eagle_config alone."""
    it.need(not it.config.get("norm_output"))
    it.nest["norm_output"] = True


@fault(Cause.NORM_EPSILON, touches="eps")
def epsilon_unsaid(it: Patient) -> None:
    """rms_norm_eps is not said."""
    del it.layer["rms_norm_eps"]


# --------------------------------------------------------------- rotary embedding


@fault(Cause.ROPE_BASE_DEFAULT, touches="rope_theta")
def base_lost(it: Patient) -> None:
    """rope_theta is lost on the way."""
    del it.layer["rope_theta"]


@fault(Cause.CONTRADICTION, touches="rope_theta rope_parameters")
def two_bases(it: Patient) -> None:
    """rope_theta and rope_parameters state different bases."""
    it.need(not it.is_nested and "rope_scaling" not in it.config)
    it.config["rope_parameters"] = {"rope_type": "default", "rope_theta": 20_000.0}


@fault(Cause.ROPE_FREQUENCIES, touches="rope_theta")
def other_base_than_the_target(it: Patient) -> None:
    """rope_theta is another than the target's."""
    it.layer["rope_theta"] = 20_000.0


@fault(Cause.ROPE_PAIRS, touches="rope_pairs")
def neighbours_rotated(it: Patient) -> None:
    """rope_is_neox_style is copied from another kind of target."""
    it.need(not it.is_nested)
    it.config["rope_is_neox_style"] = False


@fault(Cause.DRAFT_REFUSED, touches="rope_theta rope_parameters")
def rope_by_layer_type(it: Patient) -> None:
    """rope_parameters is copied from a target with two rotary embeddings."""
    it.need("rope_scaling" not in it.layer)
    it.layer.pop("rope_theta")
    it.layer["rope_parameters"] = {
        kind: {"rope_type": "default", "rope_theta": 50_000.0}
        for kind in ("full_attention", "sliding_attention")
    }


@fault(Cause.NOT_EXPRESSIBLE, touches="rope_scaling rope_parameters")
def scaling_of_an_unknown_type(it: Patient) -> None:
    """The scaling is of a type that nobody knows."""
    it.layer["rope_scaling"] = {"rope_type": "llama5", "factor": 8.0}


@fault(Cause.LENGTH_SHORT, touches="length")
def too_few_positions(it: Patient) -> None:
    """max_position_embeddings is below the target's context."""
    it.need(not it.is_nested)  # export states the target's
    it.layer["max_position_embeddings"] = 256


# ----------------------------------------------------------- class, types, target


@fault(Cause.CLASS_UNKNOWN, Cause.IDS_GUESSED, touches="class")
def class_of_the_target(it: Patient) -> None:
    """architectures names the target's class."""
    it.need(not it.is_nested and it.config["architectures"] == ["LlamaForCausalLMEagle3"])
    it.config["architectures"] = ["Qwen3ForCausalLM"]


@fault(Cause.CLASS_UNKNOWN, Cause.IDS_GUESSED, touches="class")
def no_class(it: Patient) -> None:
    """architectures is not said."""
    it.need(not it.is_nested and it.config["architectures"] == ["LlamaForCausalLMEagle3"])
    del it.config["architectures"]


@fault(Cause.CONFIG_NOT_RESOLVED, touches="model_type")
def no_model_type(it: Patient) -> None:
    """model_type is not said."""
    it.need(not it.is_nested)
    del it.config["model_type"]


@fault(Cause.CONFIG_NOT_RESOLVED, touches="model_type")
def unknown_model_type(it: Patient) -> None:
    """model_type is the trainer's own."""
    it.need(not it.is_nested)
    it.config["model_type"] = "eagle3_draft"


@fault(Cause.NOT_EXPRESSIBLE, touches="hidden_act")
def another_activation(it: Patient) -> None:
    """The MLP was trained with gelu."""
    it.layer["hidden_act"] = "gelu"


@fault(Cause.DTYPE_DIFFERS, touches="dtype")
def another_dtype(it: Patient) -> None:
    """config.json states float16, and the target is bfloat16."""
    it.need(not it.is_nested)  # export states the target's
    it.config["torch_dtype"] = "float16"


@fault(Cause.DTYPE_DIFFERS, touches="dtype")
def dtype_unsaid(it: Patient) -> None:
    """config.json states no dtype."""
    it.need(not it.is_nested)  # export states the target's
    del it.config["torch_dtype"]


@fault(Cause.QUANTIZATION, touches="quantization")
def quantization_inherited(it: Patient) -> None:
    """quantization_config is copied from a quantised target."""
    it.config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic"}


@fault(Cause.QUANTIZATION, touches="quantization down_proj mlp")
def quantized_and_unsaid(it: Patient) -> None:
    """A projection is in eight bits, and there is no quantization_config."""
    name = it.name("layers.0.mlp.down_proj.weight")
    it.tensors[name] = weight(*it.tensors[name].shape, dtype="F8_E4M3")


@fault(Cause.WINDOW_DIFFERS, touches="window")
def sliding_window(it: Patient) -> None:
    """The layer was trained with a window."""
    it.layer.update(sliding_window=32, layer_types=["sliding_attention"])


@fault(Cause.OTHER_TARGET, touches="target_vocab")
def target_of_another_vocabulary(it: Patient) -> None:
    """The target has another vocabulary."""
    it.target["vocab_size"] = VOCAB + 2048


@fault(Cause.OTHER_TARGET, touches="target_width")
def target_of_another_width(it: Patient) -> None:
    """The target is wider."""
    it.target["hidden_size"] = HIDDEN + 32


@fault(Cause.OTHER_TARGET, Cause.CAPTURE_UNKNOWN, touches="target_class")
def draft_as_its_target(it: Patient) -> None:
    """The draft itself is named as the target."""
    it.target["architectures"] = ["LlamaForCausalLMEagle3"]


@fault(Cause.OTHER_TARGET, touches="target_vocab")
def target_that_may_be_padded(it: Patient) -> None:
    """The target's vocabulary is a little larger."""
    it.target["vocab_size"] = VOCAB + 32


@fault(Cause.NOT_EXPRESSIBLE, touches="rope_scaling rope_parameters")
def scaling_without_a_type(it: Patient) -> None:
    """The scaling does not say of which type it is."""
    it.need(not it.is_nested and "rope_scaling" not in it.config)
    it.config["rope_scaling"] = {"factor": 2.0}


@fault(Cause.DRAFT_REFUSED, touches="options")
def option_that_no_server_has(it: Patient) -> None:
    """An option of the server is misspelt."""
    it.server_args += ["--speculative-num-stepps", "3"]


@fault(Cause.CAPTURE_UNKNOWN, touches="target_class")
def target_without_capture(it: Patient) -> None:
    """The target's class delivers no hidden states."""
    it.target["architectures"] = ["NobodysForCausalLM"]


@fault(Cause.TARGET_REFUSED, touches="target_class")
def target_without_shared_embedding(it: Patient) -> None:
    """The target's class cannot share its embedding."""
    it.target["architectures"] = ["Qwen2MoeForCausalLM"]


@fault(Cause.WRONG_LAYERS, touches="target_class ids")
def target_with_other_defaults(it: Patient) -> None:
    """There are no ids, and the target's class captures others than usual."""
    it.need(not it.is_nested and not it.config.get(NEST, {}).get(IDS))
    it.target_of("MiniMaxM3SparseForConditionalGeneration")


@fault(Cause.TARGET_CONFIG_INCOMPLETE, touches="target_class")
def target_that_lacks_what_its_class_asks_for(it: Patient) -> None:
    """The target's config.json is as transformers saves it, and its class asks for more."""
    it.target_of("MiniMaxM2ForCausalLM")
    del it.target["scoring_func"]


@fault(Cause.TARGET_CONFIG_INCOMPLETE, touches="target_class")
def target_that_lacks_what_its_class_goes_by(it: Patient) -> None:
    """The target's config.json lacks a key without which its class computes something else."""
    it.target_of("MiniMaxM2ForCausalLM")
    del it.target["rotary_dim"]


@fault(Cause.NO_RECIPE, touches="target_class")
def target_of_a_class_that_nobody_ran(it: Patient) -> None:
    """The target's class inherits its capture from one that was run."""
    it.target["architectures"] = ["TeleFLMForCausalLM"]


@fault(Cause.STATE_WITHOUT_RESIDUAL, touches="target_class")
def target_that_delivers_no_residual(it: Patient) -> None:
    """The target's class captures states without their residual."""
    it.target["architectures"] = ["Gemma3ForCausalLM"]


@fault(Cause.PARAMETER_UNWRITTEN, touches="target_width fc embedding")
def narrow_draft_without_embedding(it: Patient) -> None:
    """The draft is narrower than its target, and has no embedding of its own."""
    it.need(not it.is_nested and not any("_norm." in name and "fc" in name for name in it.tensors))
    it.need("input_norm.weight" not in map(canonical, it.tensors))
    width = HIDDEN + 32
    it.config["target_hidden_size"] = it.target["hidden_size"] = width
    fc = it.name("fc.weight")
    it.tensors[fc] = weight(HIDDEN, it.tensors[fc].shape[1] // HIDDEN * width)
    for name in [name for name in it.tensors if canonical(name) == "embed_tokens.weight"]:
        del it.tensors[name]


@fault(Cause.LAYER_OUT_OF_RANGE, Cause.IDS_GUESSED, touches="target_depth ids")
def shallow_target(it: Patient) -> None:
    """There are no ids, and the target is too shallow for defaults."""
    it.need(not it.is_nested and not it.config.get(NEST, {}).get(IDS))
    it.target["num_hidden_layers"] = 4


@fault(Cause.RESIDUAL_BEFORE_NORM, touches="residual")
def residual_unsaid(it: Patient) -> None:
    """speculators' config.json does not say whether the residual is normed."""
    it.need(it.is_nested)
    del it.config["norm_before_residual"]


@fault(Cause.QUANTIZATION, touches="quantization down_proj mlp")
def quantized(it: Patient) -> None:
    """The draft is quantised, which nobody judges from headers."""
    it.put("layers.0.mlp.down_proj.weight_scale", weight(1))
    it.config["quantization_config"] = {"quant_method": "fp8"}
    name = it.name("layers.0.mlp.down_proj.weight")
    it.tensors[name] = weight(*it.tensors[name].shape, dtype="F8_E4M3")


@fault(Cause.ALGORITHM_DIFFERS, touches="algorithm")
def algorithm_of_the_predecessor(it: Patient) -> None:
    """The server is told EAGLE."""
    it.server_args += ["--speculative-algorithm", "EAGLE"]


# ------------------------------------------------------------- what is not said, or null


def _unsaid(key: str, touches: str) -> None:
    def apply(it: Patient) -> None:
        it.need(key in it.layer)
        del it.layer[key]

    apply.__name__, apply.__doc__ = f"{key}_unsaid", f"{key} is not said."
    fault(Cause.SHAPE_MISMATCH, Cause.TENSOR_DROPPED, Cause.HEADS_DIFFER, touches=touches)(apply)


_unsaid("num_hidden_layers", "depth")
_unsaid("intermediate_size", "mlp")
_unsaid("max_position_embeddings", "length")


@fault(Cause.SHAPE_MISMATCH, touches="model_type heads")
def head_dim_of_qwen3_unsaid(it: Patient) -> None:
    """model_type is qwen3, whose heads are wide unless config.json says otherwise."""
    it.need(not it.is_nested and it.config["head_dim"] == 16)
    it.config["model_type"] = "qwen3"
    del it.config["head_dim"]


@fault(Cause.CONFIG_NOT_RESOLVED, touches="tie")
def null_that_must_not_be(it: Patient) -> None:
    """tie_word_embeddings is null."""
    it.need(not it.is_nested)
    it.config["tie_word_embeddings"] = None


@fault(Cause.HEAD_REPLACED, touches="draft_vocab_size head d2t_length tie")
def head_left_to_the_target(it: Patient) -> None:
    """draft_vocab_size is null, and the draft has a head."""
    it.need(not it.is_nested and it.config.get("draft_vocab_size") == VOCAB)
    it.config["draft_vocab_size"] = None


@fault(Cause.FC_WIDTH, touches="fc ids")
def fewer_states_counted_than_named(it: Patient) -> None:
    """num_aux_hidden_states is three beside four ids."""
    it.need(not it.is_nested and len(it.ids) == 4)
    it.config["num_aux_hidden_states"] = 3


@fault(Cause.FC_SKIPPED, touches="fc ids use_aux")
def as_wide_as_its_states(it: Patient) -> None:
    """One hidden state, as wide as the draft: fc counts as applied already."""
    it.need(not it.is_nested and len(it.ids) == 3 and "fc_norm" not in it.config)
    it.need("input_norm.weight" not in map(canonical, it.tensors))
    it.set_ids([3])
    it.tensors[it.name("fc.weight")] = _fc(1)


@fault(Cause.FC_SKIPPED, touches="use_aux fc ids")
def capture_null(it: Patient) -> None:
    """use_aux_hidden_state is null."""
    it.nest["use_aux_hidden_state"] = None


@fault(Cause.IDS_CONVENTION, touches="ids target_class class k_proj")
def ids_of_outputs_for_a_class_that_counts_states(it: Patient) -> None:
    """The ids name outputs of layers, and the target's class counts hidden states."""
    it.need(
        not it.is_nested and it.ids == [1, 3, 4] and STAMP not in it.config and "fc_norm" not in it.config
    )
    it.set_ids([2, 3, 4])
    it.target_of("DeepseekV3ForCausalLM")


@fault(Cause.NOT_EXPRESSIBLE, touches="rope_scaling rope_parameters")
def scaling_without_its_numbers(it: Patient) -> None:
    """A yarn scaling without the length that it stretches."""
    it.need(not it.is_nested and "rope_scaling" not in it.config)
    it.config["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0}


@fault(Cause.QUANTIZATION, touches="quantization")
def quantization_in_a_file_of_its_own(it: Patient) -> None:
    """hf_quant_config.json is copied from a quantised target."""
    it.beside.append("hf_quant_config.json")


# ------------------------------------------------------------------ other releases


@fault(Cause.DRAFT_REFUSED, Cause.IDS_GUESSED, touches="eagle_config ids", release="0.5.12.post1")
def eagle_config_null(it: Patient) -> None:
    """eagle_config is null, where a release looks into it."""
    it.need(not it.is_nested and len(it.config.get(NEST, {}).get(IDS, [])) == 3)
    it.config[NEST] = None


@fault(Cause.ROPE_BASE_DEFAULT, touches="rope_theta", release="0.5.9")
def base_in_the_new_place(it: Patient) -> None:
    """The base stands in rope_parameters alone, as transformers 5 writes it."""
    it.need(not it.is_nested and "rope_scaling" not in it.config)
    it.config["rope_parameters"] = {"rope_type": "default", "rope_theta": it.config.pop("rope_theta")}


@fault(Cause.ROPE_UNSCALED, Cause.ROPE_BASE_DEFAULT, touches="rope_theta", release="0.5.9")
def scaling_in_the_new_place(it: Patient) -> None:
    """The scaling stands in rope_parameters alone, as transformers 5 writes it."""
    it.need(not it.is_nested and "rope_scaling" not in it.config)
    it.config["rope_parameters"] = {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128,
        "rope_theta": it.config.pop("rope_theta"),
    }  # fmt: skip


# ------------------------------------------------------------------- other drafts


def _other_kind(name: str, doc: str, change: Callable[[Patient], object]) -> None:
    def apply(it: Patient) -> None:
        it.need(not it.is_nested)
        change(it)

    apply.__name__, apply.__doc__ = name, doc
    fault(Cause.OTHER_KIND, touches="kind class")(apply)


_other_kind(
    "dflash_draft",
    "A DFlash draft.",
    lambda it: it.config.update(architectures=["DFlashDraftModel"], dflash_config={"target_layer_ids": [1]}),
)


@fault(Cause.NOT_LOOKED_INTO, Cause.IDS_GUESSED, touches="kind class")
def latent_attention(it: Patient) -> None:
    """A draft with latent attention, of which nobody recorded how it is read."""
    it.need(not it.is_nested)
    it.config["architectures"] = ["Eagle3DeepseekV2ForCausalLM"]
    it.put("layers.0.self_attn.kv_a_proj_with_mqa.weight", weight(24, 2 * HIDDEN))


_other_kind(
    "dspark_draft", "A DSpark draft.", lambda it: it.put("markov_head.weight", weight(HIDDEN, HIDDEN))
)
_other_kind("p_eagle_draft", "A P-EAGLE draft.", lambda it: it.put("mask_hidden", weight(1, HIDDEN)))
_other_kind(
    "mtp_draft", "An MTP layer.", lambda it: it.put("mtp_layers.0.eh_proj.weight", weight(HIDDEN, 2 * HIDDEN))
)
