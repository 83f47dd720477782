"""The causes that a contract can name, each with its explanation and its fix."""

from __future__ import annotations

from enum import StrEnum


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
        "Export the draft for the release that serves it: contracts export.",
    )
    DRAFT_NOT_WHOLE = (
        "draft-not-whole",
        "What the training library saved is no whole draft: its tensors and its config are not of one.",
        "Train with another release, or without the option that leads to it.",
    )
    OTHER_DRAFT = (
        "other-draft",
        "This training release makes another draft of the recipe than the one that the record is about.",
        "Compare the serving release with its record on the drafts of the newest training release.",
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
    OTHER_KIND = (
        "other-kind-of-draft",
        "This checkpoint is no EAGLE-3 draft.",
        "Serve it by the algorithm that it was made for.",
    )
    NOT_LOOKED_INTO = (
        "not-looked-into",
        "How a draft with such layers is read is not recorded, so its headers tell little.",
        "Serve it and measure: contracts acceptance.",
    )
    CLASS_UNKNOWN = (
        "draft-class-unknown",
        "config.json names a class that runs no EAGLE-3 draft in this release.",
        'Write "architectures": ["LlamaForCausalLMEagle3"] to config.json.',
    )
    CONTRADICTION = (
        "config-contradicts-itself",
        "config.json says one thing in two places, and not the same.",
        "Keep the one that the draft was trained with, in both places.",
    )
    TENSOR_TWICE = (
        "tensor-twice",
        "The checkpoint has one tensor under two names; the one that is loaded later counts.",
        "Keep the one that was trained.",
    )
    HEAD_MISSING = (
        "head-missing",
        "The draft has no output head, and this release does not take the target's in its place.",
        "Save lm_head.weight; a draft over the whole vocabulary may instead state draft_vocab_size: null.",
    )
    MAP_DISAGREES = (
        "vocab-maps-disagree",
        "d2t and t2d are not of one vocabulary map.",
        "Save the draft again, with both maps from the same training run.",
    )
    MAP_TYPE = (
        "vocab-map-type",
        "A vocabulary map is of a type or shape that token ids do not come in.",
        "Save d2t as a list of 64-bit integers: target id minus draft id.",
    )
    MAP_LENGTH = (
        "vocab-map-length",
        "A vocabulary map has another number of entries than there are tokens.",
        "Save d2t and lm_head.weight from the same training run.",
    )
    MAP_EMPTY = (
        "vocab-map-empty",
        "d2t is all zeros: the draft's tokens would be the first of the target's vocabulary.",
        "Save d2t after the vocabulary map was built; a buffer that was never filled looks like this.",
    )
    MAP_UNSORTED = (
        "vocab-map-unsorted",
        "The target ids of d2t do not ascend, as those of every trainer do.",
        "Make sure that the rows of lm_head.weight stand in the same order; else save both again.",
    )
    MAP_ELSEWHERE = (
        "vocab-map-in-other-file",
        "A file beside the checkpoint seems to hold a token map; servers read d2t from the checkpoint.",
        "Save the map as the tensor d2t: target id minus draft id.",
    )
    IDS_NOT_READ = (
        "layer-ids-not-read",
        "The layer ids stand where this release does not look, so its defaults are captured.",
        "Write them to eagle_config.eagle_aux_hidden_state_layer_ids.",
    )
    IDS_GUESSED = (
        "layer-ids-guessed",
        "config.json has no layer ids, so the serving side captures its defaults.",
        "Write the ids that the draft was trained with to eagle_config.eagle_aux_hidden_state_layer_ids.",
    )
    IDS_REPEATED = (
        "layer-ids-repeat",
        "A layer is named twice; it is captured once, and fc is too wide for what arrives.",
        "Name each layer once, as in training.",
    )
    IDS_CONVENTION = (
        "layer-ids-of-other-convention",
        "The layer ids look like hidden-state indices, and this release takes ids for outputs of layers.",
        "Ask whoever trained the draft; if they count states, subtract one from each id.",
    )
    OTHER_TARGET = (
        "other-target",
        "The draft was trained for another target than this.",
        "Serve it with the target that it was trained for.",
    )
    LENGTH_SHORT = (
        "positions-too-few",
        "The draft states fewer positions than its target's context has.",
        "Write max_position_embeddings of the target's context length to the draft's config.json "
        "(contracts export --target does).",
    )
    QUANTIZATION = (
        "quantization-differs",
        "config.json and the tensors do not agree about quantisation.",
        "Remove quantization_config from the draft's config.json, if its weights are not quantised.",
    )
    DTYPE_DIFFERS = (
        "dtype-differs",
        "The draft is computed in another dtype than its target, so the first batch fails.",
        "State the target's dtype in config.json (export --target does), or start the server with --dtype.",
    )
    STATE_NOT_READ = (
        "state-not-read",
        "The class that the config resolves to never reads the target's hidden state: no EAGLE-3 draft.",
        'Set "architectures" in config.json to the EAGLE-3 draft class of this release.',
    )
    TENSOR_DROPPED = (
        "tensor-dropped",
        "The loader dropped trained tensors without a word: the draft runs without, or on what memory held.",
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
    CAPTURE_UNKNOWN = (
        "capture-unknown",
        "Which ids make this target class deliver these states, in this release, is not recorded.",
        "If the class counts its layers as Llama's does, --force writes it so; then see that the server "
        "accepts as many draft tokens as trained (contracts acceptance).",
    )
    STATES_ALIKE = (
        "states-alike",
        "Two hidden states of the target are alike to rounding, so nobody can tell which one is delivered.",
        "Judge on a target whose layers do something; this says nothing about the library.",
    )
    TARGET_DIFFERS = (
        "target-differs",
        "The target itself computes otherwise when served than by transformers.",
        "Serve the target alone and compare its output with transformers' before looking at the draft.",
    )
    STATE_NORMED = (
        "state-normed",
        "What the target delivers has passed its final norm; an aux state never has.",
        "Switch the target's capture on (eagle_config.use_aux_hidden_state: true).",
    )
    TARGET_REFUSED = (
        "target-refused",
        "The serving library does not serve this class of target with an EAGLE-3 draft.",
        "Serve another target, or with a release that docs/targets.md shows to serve this one.",
    )
    TARGET_CONFIG_INCOMPLETE = (
        "target-config-lacks-key",
        "The target's config.json lacks a key that the serving library's class asks for.",
        "Add the key to the target's config.json, with the value that the target was trained with.",
    )
    NO_SUCH_TARGET = (
        "target-class-absent",
        "This release has no such class of target, or none that can be told what to capture.",
        "Serve it with a release that docs/targets.md shows to capture from it.",
    )
    NO_RECIPE = (
        "target-without-recipe",
        "The release can capture from this class of target, and nobody has looked at how it does.",
        "Add a tiny target of the class to contracts/targets/recipes.py, and judge it.",
    )
    NO_KERNELS = (
        "kernels-missing-here",
        "Nothing here makes such a target, which needs kernels or devices of its own.",
        "Ask a server that runs it: contracts acceptance --url URL.",
    )
    LAST_LAYER_NOT_CAPTURED = (
        "last-layer-not-captured",
        "This class of target never delivers the output of its last layer.",
        "Train on earlier layers: most classes capture an output as the input of the layer behind it.",
    )
    DEFAULT_LAYERS_DIFFER = (
        "default-layers-differ",
        "Without layer ids this class of target delivers other hidden states than trainers use by default.",
        "Write the ids of training to eagle_config.eagle_aux_hidden_state_layer_ids; export does.",
    )
    ORDER_DECIDES = (
        "layer-order-decides",
        "This class of target takes ids for other layers when they come in another order.",
        "Let export write the ids for the target (contracts export --target), and keep the order it wrote.",
    )
    IDS_REFUSED = (
        "ids-refused",
        "This class of target refuses such ids, so there is nothing to compare.",
        "Nothing is amiss: a draft that needs them cannot be exported for it.",
    )
    NOTHING_REFUSED = (
        "nothing-refused",
        "Export knows ids for all hidden states that are asked for, so there is no refusal to look at.",
        "Nothing is amiss.",
    )
    EXPORT_REFUSES_NEEDLESSLY = (
        "export-refuses-needlessly",
        "There are ids with which this class of target delivers these states, and export does not know them.",
        "Record what this release was seen to capture (CONTRIBUTING.md), so that export learns of it.",
    )
    SENSELESS_IDS_SERVED = (
        "senseless-ids-served",
        "Layer ids that repeat, or that no layer has, are served as if they were others.",
        "Use ids of the target that is served, each once.",
    )
    VERIFICATION_CAPTURES_OTHERS = (
        "verification-captures-others",
        "While it verifies draft tokens, the target delivers other hidden states than in its prefill.",
        "A defect of the target class or of the worker; report it upstream with `contracts reproduce`.",
    )
    WRAPPER_CAPTURES_OTHERS = (
        "wrapper-captures-others",
        "A multimodal wrapper delivers other hidden states than its text model does for the same ids.",
        "Write the ids as export does for the wrapper, not for its text model.",
    )
    TARGET_WINDOW_DIFFERS = (
        "target-window-differs",
        "Windowed layers of the served target attend to another number of positions than transformers'.",
        "A defect of the target class, of which every long prompt is affected; report it upstream with "
        "`contracts reproduce`.",
    )
    TARGET_ROPE_DIFFERS = (
        "target-rope-not-read",
        "The served target rotates by another base than its config.json states.",
        "A defect of the target class; report it upstream with `contracts reproduce`.",
    )
    NOT_RETURNED = (
        "states-not-returned",
        "This release does not return these hidden states to a client.",
        "Extract them with transformers, or with a release that returns them.",
    )
    EXTRACTION_DIFFERS = (
        "extraction-differs",
        "The hidden states that the library returns are not those that it captures for a draft.",
        "Train on states of the kind that the draft is served with, or extract them by another path.",
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
        "Train with the embedding frozen (speculators train --no-embed-requires-grad, its default).",
    )
    HEAD_REPLACED = (
        "head-replaced",
        "The serving side scores with another output head than the draft's own: the target's, as a rule.",
        "State draft_vocab_size and tie_word_embeddings: false in config.json; then the draft keeps its own.",
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
        "Retrain without it, or serve with a release that applies it.",
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
        "Write both spellings, rope_parameters and rope_scaling (export does).",
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
        "Train with attention_bias: false in the draft's layer config.",
    )
    QK_NORM_MISSING = (
        "qk-norm-missing",
        "Queries and keys were normed in training and are not when serving.",
        "Train the draft without query and key norms (speculators train --draft-arch llama).",
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
    NUMBERS_DIFFER = (
        "numbers-differ",
        "The numbers differ, and no single explanation that was tested makes the error vanish.",
        "Mend what the other contracts name first. If they all hold, report it with the file of --verdicts.",
    )
    TAPS_EARLY = (
        "taps-one-layer-early",
        "Every tap is one layer earlier than trained on.",
        "Convert the layer ids to the serving convention (export does): add one to each.",
    )
    TAPS_LATE = (
        "taps-one-layer-late",
        "Every tap is one layer later than trained on.",
        "Convert the layer ids to the serving convention (export does): subtract one from each.",
    )
    CHUNKS_PERMUTED = (
        "fc-chunks-permuted",
        "fc reads the target's hidden states in another order than trained.",
        "Train with ascending layer ids, or permute the column blocks of fc.weight.",
    )
    STATE_WITHOUT_RESIDUAL = (
        "state-without-residual",
        "What is captured lacks the residual: it is the last MLP's output alone.",
        "A defect of the target class; docs/targets.md shows the releases in which its capture is right.",
    )
    TOKENS_NOT_SHIFTED = (
        "tokens-not-shifted",
        "Each hidden state is paired with the token at its own position instead of the one after it.",
        "A defect of the worker; report it upstream.",
    )
    INPUT_NORM_MISSING = (
        "input-norm-missing",
        "The norm over the concatenated states before fc (norm_before_fc) is not applied.",
        "Set norm_before_fc where this release reads it (export does), or retrain without it.",
    )
    INPUT_NORM_ADDED = (
        "input-norm-added",
        "The states are normed together before fc, and were not in training.",
        "Set norm_before_fc to false in config.json.",
    )
    FC_NORM_MISSING = (
        "fc-norm-missing",
        "The norms on each state before fc (fc_norm) are not applied.",
        "Set fc_norm where this release reads it (export does), or retrain without it.",
    )
    FC_NORM_ADDED = (
        "fc-norm-added",
        "Each state is normed before fc, and was not in training.",
        "Set fc_norm and use_aux_norm to false in config.json.",
    )
    RESIDUAL_BEFORE_NORM = (
        "residual-before-norm",
        "The first layer's residual is taken before hidden_norm; training took it after.",
        "Retrain without it (speculators train --no-norm-before-residual), or serve with a library that "
        "honours norm_before_residual.",
    )
    RESIDUAL_AFTER_NORM = (
        "residual-after-norm",
        "The first layer's residual is taken after hidden_norm; training took it before.",
        "Set norm_before_residual to false where this release reads it, or serve with one that does.",
    )
    NORMS_SWAPPED = (
        "norms-swapped",
        "input_layernorm and hidden_norm of the first layer have changed places.",
        "input_layernorm norms the embedding, hidden_norm the target's state: rename the two tensors.",
    )
    HALVES_SWAPPED = (
        "halves-swapped",
        "The first attention reads the target's state and the embedding in the other order.",
        "The embedding comes first: exchange the column halves of q, k and v of the first layer.",
    )
    K_AND_V_SWAPPED = (
        "k-and-v-swapped",
        "Keys and values have changed places.",
        "Exchange k_proj and v_proj in the checkpoint.",
    )
    GATE_AND_UP_SWAPPED = (
        "gate-and-up-swapped",
        "The two projections into the MLP have changed places.",
        "Exchange gate_proj and up_proj in the checkpoint.",
    )
    LATER_LAYERS_SKIPPED = (
        "later-layers-skipped",
        "Only the first decoder layer runs.",
        "Set num_hidden_layers to that of training, or serve with a release that runs several layers.",
    )
    ROPE_BASE_DEFAULT = (
        "rope-base-default",
        "The rotary embedding turns at base 10000, a library's default, and not at the trained base.",
        "Write both spellings, rope_parameters and rope_theta (export does).",
    )
    ROPE_UNSCALED = (
        "rope-unscaled",
        "The rotary embedding ignores the trained scaling.",
        "Write both spellings, rope_parameters and rope_scaling (export does).",
    )
    RECURRENT_NORMED = (
        "recurrent-normed",
        "The state that is fed back has passed the final norm; in training it had not.",
        "Set norm_output to false in config.json.",
    )
    RECURRENT_NOT_NORMED = (
        "recurrent-not-normed",
        "The state that is fed back has not passed the final norm; in training it had (norm_output).",
        "Set norm_output where this release reads it (export does), or serve with sglang >= 0.5.12.",
    )
    FINAL_NORM_MISSING = (
        "final-norm-missing",
        "The output head reads the state before the final norm.",
        "A defect of the draft's class; report it upstream.",
    )
    FEEDBACK_LATE = (
        "feedback-one-step-late",
        "Each chained step is fed the state of the step before the last.",
        "A defect of the worker; report it upstream.",
    )
    POSITIONS_LATE = (
        "positions-one-late",
        "The first chained step is one position too far from the prompt.",
        "Serve with sglang >= 0.5.12; 0.5.6.post2 to 0.5.11 count one too many.",
    )
    POSITIONS_STANDING = (
        "positions-standing",
        "Every chained step runs at the same position.",
        "A defect of the worker; report it upstream.",
    )
    POSITIONS_DIFFER = (
        "positions-differ",
        "Positions do not advance as in training.",
        "A defect of the worker; report it upstream.",
    )
    WINDOW_IGNORED = (
        "window-ignored",
        "The attention window of training is not applied.",
        "Launch the server with --speculative-draft-window-size (export names the value).",
    )
    WINDOW_STANDING = (
        "window-standing",
        "In chained steps the attention window stays where the prompt ended instead of moving along.",
        "Train with full attention (speculators train --full-attention-indices 0), or take it as it is: a "
        "chain of s steps sees up to s positions more in training, of a window of thousands.",
    )
    MAP_ABSOLUTE = (
        "d2t-read-as-absolute",
        "d2t holds offsets and is read as target token ids.",
        "A defect of whatever reads it: sglang reads offsets. Report it upstream.",
    )
    MAP_HOLDS_IDS = (
        "d2t-holds-ids",
        "d2t in the checkpoint holds target token ids and is read as offsets.",
        "Store d2t as offsets (target id minus draft id), which is what both libraries read.",
    )
    MAP_IGNORED = (
        "d2t-ignored",
        "Draft token ids are used as target token ids, as if there were no d2t.",
        "Save d2t with the checkpoint.",
    )
    TOKENS_DIFFER = (
        "draft-tokens-differ",
        "From the same scores the two sides choose other tokens.",
        "Compare the vocabulary maps: the contracts of vocab_map say where they differ.",
    )
    OUTPUT_CHANGED = (
        "output-changed",
        "Greedy output with speculation is not what the target generates alone.",
        "A defect of verification or of the cache; report it upstream with the engine's settings.",
    )
    DRAFTS_DIFFER = (
        "engine-drafts-others",
        "The engine drafts tokens that the training library would not draft there.",
        "Mend what the contracts of depths load and forward name. If they all hold, a later round differs "
        "from the first: report it upstream.",
    )
    VERIFICATION_DIFFERS = (
        "verification-differs",
        "The engine accepts more or fewer draft tokens than the target would have generated itself.",
        "A defect of verification; report it upstream with the engine's settings.",
    )
    ACCEPT_LENGTH = (
        "accept-length-low",
        "The accept length is not the one that the draft was trained to.",
        "Mend what the other contracts name: taps first, then draft tokens.",
    )
    COUNTS_DIFFER = (
        "counts-differ",
        "The library counts other rounds or accepted draft tokens than there were.",
        "A defect of the scheduler's counters; report it upstream.",
    )
    SETTING_IGNORED = (
        "setting-ignored",
        "The engine does not serve in the way that it was told to.",
        "Look for the argument in the release's --help: it may have been renamed, or is overridden.",
    )
    MACHINE_LACKS = (
        "machine-lacks-it",
        "This machine, or this release on it, does not have what the case needs; the others say enough.",
        "Nothing, unless you serve so: then judge it on a machine that can.",
    )
    SERVER_LEFT = (
        "server-left-something",
        "Processes of the server outlived it, or its port stayed taken.",
        "End them by hand before another server is started; report it upstream with the server's log.",
    )
    METRICS_MISSING = (
        "metrics-missing",
        "The trainer left no step accuracies beside the checkpoint, so nothing is promised.",
        "If the release renamed them, contracts/promise.py has to follow.",
    )
    ALGORITHM_DIFFERS = (
        "algorithm-differs",
        "The server speculates by another algorithm than the draft was trained for: it starts, and rejects.",
        "Start the server with --speculative-algorithm EAGLE3.",
    )
    TRAINING_DISAGREES = (
        "training-disagrees",
        "The training library's own forward pass and its modules run step by step give other numbers.",
        "A defect of the training release or of its attention on this machine; report it upstream.",
    )
    SURFACE_CHANGED = (
        "surface-changed",
        "The interface that this release shows differs from the recorded one.",
        "Read what each difference means; if it is meant, record it: pytest -m contracts --snapshot-update.",
    )


_BY_CODE = {str(cause): cause for cause in Cause}


def by_code(code: str) -> Cause:
    """The cause with a code.

    Raises:
        KeyError: there is none.

    """
    return _BY_CODE[code]
