"""Why each cause comes about, what one sees of it, and how to confirm it by hand.

What a cause is in one sentence, and its fix, stand in contracts.causes. Commands are to be run in the draft's
folder, whose tensors are taken to lie in model.safetensors. TRAINED_DRAFT and SERVED_DRAFT are the folders of
the draft as training saved it and as it is served, TARGET is the target's, and URL is the server's address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts.causes import Cause


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What one should know of a cause beyond its one sentence."""

    why: str
    """How one gets there, what the library does then, and which depth sees it."""
    symptom: str
    """What a user sees, loud or silent."""
    confirm: str
    """How to confirm it without this suite. Commands are blocks of their own, indented by four spaces."""


def _block(command: str) -> str:
    return f"\n\n    {command}"


def _run(code: str) -> str:
    """A Python one-liner; it must not hold double quotes."""
    return _block(f'python -c "{code}"')


_OPEN = "from safetensors import safe_open; f = safe_open('model.safetensors', 'pt')"
_OPEN_BOTH = (
    "from safetensors import safe_open; "
    "a, b = (safe_open(f'{p}/model.safetensors', 'pt') for p in ('TRAINED_DRAFT', 'SERVED_DRAFT'))"
)
_ONE_NAME = "lambda k: k.removeprefix('model.').replace('midlayer.', 'layers.0.')"
_GENERATE = _block(
    "curl -s URL/generate -H 'Content-Type: application/json' "
    """-d '{"input_ids": [1, 5, 9], "sampling_params": {"temperature": 0, "max_new_tokens": 64}}'"""
)
"""Answers with output_ids, and with the counts of speculation in meta_info."""


def _shapes(*parts: str) -> str:
    """Show names and shapes of the tensors whose names have one of these parts; of all without any."""
    wanted = f" if any(p in k for p in {parts!r})" if parts else ""
    return _run(f"{_OPEN}; print({{k: f.get_slice(k).get_shape() for k in f.keys(){wanted}}})")


def _keys(*names: str) -> str:
    """Show keys of config.json."""
    return _run(f"import json; c = json.load(open('config.json')); print({{k: c.get(k) for k in {names!r}}})")


def _map(shown: str) -> str:
    """Show something of d2t, called `d`, or of the target ids that it gives as offsets, called `t`."""
    return _run(
        f"import torch; {_OPEN}; d = f.get_tensor('d2t'); t = d + torch.arange(len(d)); print({shown})"
    )


def _equal(trained: str, served: str) -> str:
    """Show whether two tensors are equal, one as training saved it and one as it is served."""
    return _run(f"{_OPEN_BOTH}; print(a.get_tensor('{trained}').equal(b.get_tensor('{served}')))")


def _source(words: str, place: str, after: int = 0) -> str:
    """Show lines of the sglang that is installed, without importing it, and so many after each."""
    found = "from importlib.util import find_spec as f; print(f('sglang').submodule_search_locations[0])"
    more = f" -A {after}" if after else ""
    return _block(f'grep -n{more} \'{words}\' "$(python -c "{found}")/srt/{place}"')


def _served(pattern: str) -> str:
    """Show settings of a running server."""
    return _block(f"curl -s URL/server_info | python -m json.tool | grep -E '{pattern}'")


EXPLANATIONS: Mapping[Cause, Explanation] = {
    Cause.CONFIG_NOT_RESOLVED: Explanation(
        why=(
            "speculators writes config.json for itself and vLLM: the layer's keys are nested in "
            "transformer_layer_config, and sglang reads the file through transformers' AutoConfig, which "
            "finds no model_type there. A config.json written by hand that leaves draft_vocab_size out "
            "gets further and ends in the draft class. Depths header and load see it."
        ),
        symptom=(
            "Loud: the server ends at start with ValueError: Unrecognized model, or with AttributeError: "
            "draft_vocab_size."
        ),
        confirm=(
            "Look at the top level of config.json: a draft for sglang has model_type and draft_vocab_size "
            "there, and no transformer_layer_config."
            + _keys("model_type", "draft_vocab_size", "speculators_model_type", "transformer_layer_config")
        ),
    ),
    Cause.DRAFT_NOT_WHOLE: Explanation(
        why=(
            "An option of a training release may change config.json and not the tensors: speculators 0.5 "
            "and 0.6 build fc for three states however many layer ids they write. The export contract "
            "(depth load) checks what was saved against its own config.json."
        ),
        symptom=(
            "Loud: contracts export ends with one line that names the tensor; served all the same, the "
            "draft fails while it is loaded or with the first batch."
        ),
        confirm=(
            "Compare shapes with config.json: fc.weight is [hidden_size, number of layer ids times "
            "hidden_size], lm_head.weight and d2t have draft_vocab_size rows."
            + _shapes("fc.", "lm_head", "d2t")
        ),
    ),
    Cause.OTHER_DRAFT: Explanation(
        why=(
            "This is about the suite, not about a draft of yours. What a serving release shows is recorded "
            "with the drafts of the newest recorded training release; another release may make another "
            "draft of the same recipe, and then a difference would say nothing about the server. The "
            "surface contracts (depth load) are not run for it."
        ),
        symptom="In this suite's report only: a surface contract is not run, and this is the cause.",
        confirm=(
            "Compare the training library that is installed with the newest record in "
            "contracts/releases/speculators." + _block("python -m pip show speculators")
        ),
    ),
    Cause.RECIPE_REFUSED: Explanation(
        why=(
            "The suite builds small drafts with the training library's own code, and the library raised. "
            "Most often the release does not know an option: fc_norm and norm_output came with speculators "
            "0.7, and the training command with 0.8 (it was a script before). Depths load and forward "
            "report it."
        ),
        symptom="Loud: the report shows the library's exception, and contracts about that draft are not run.",
        confirm=(
            "Look for the option in the help of the release that is installed."
            + _block("speculators train --help")
        ),
    ),
    Cause.DRAFT_REFUSED: Explanation(
        why=(
            "Whatever sglang cannot do with a draft ends in an exception of its own: an empty list of "
            "layer ids, eagle_config null (0.5.8 to 0.5.14), two decoder layers before 0.5.12, a target "
            "class without set_eagle3_layers_to_capture, states that do not fit fc. All depths see it: "
            "header from what is recorded of the release, the others by letting the library raise."
        ),
        symptom="Loud: the server ends at start or with the first batch, and its log has the exception.",
        confirm=(
            "Start the server and send one short request, then read the last traceback of its log. Start "
            "it once more without the --speculative options: if that works, the draft or its config.json "
            "is to blame."
        ),
    ),
    Cause.OTHER_KIND: Explanation(
        why=(
            "Drafts of several algorithms look alike on disk: EAGLE, DFlash, DSpark, P-EAGLE, MTP, Medusa, "
            "or a small language model. Marks tell them apart: the class in architectures, and tensors "
            "such as mask_hidden, eh_proj, markov_head or medusa_head. Depth header looks for them."
        ),
        symptom=(
            "Loud in most cases, because tensors do not fit the class; silent if they do, and then next to "
            "no draft token is accepted."
        ),
        confirm=(
            "An EAGLE-3 draft has fc.weight, a hidden_norm in its first layer, and a q_proj there that is "
            "twice as wide as hidden_size. Look for these, and for marks of the others."
            + _shapes("fc.", "hidden_norm", "q_proj", "mask_hidden", "eh_proj", "medusa", "markov")
        ),
    ),
    Cause.NOT_LOOKED_INTO: Explanation(
        why=(
            "This is about the suite: the records say how each release reads drafts with Llama's "
            "attention. A draft with latent attention (MLA, the class Eagle3DeepseekV2ForCausalLM, in "
            "sglang since 0.5.12) has other tensors, so depth header judges its vocabulary map and layer "
            "ids and leaves the rest open."
        ),
        symptom="None by itself: the draft may be served right, wrong or not at all.",
        confirm=(
            "A draft with latent attention has kv_a_proj tensors. Serve it, and compare accept len in the "
            "server's Decode batch lines with what training measured."
            + _shapes("kv_a_proj", "q_a_proj", "q_proj")
        ),
    ),
    Cause.CLASS_UNKNOWN: Explanation(
        why=(
            "Trainers write class names of their own (Eagle3DraftModel, Eagle3Speculator, "
            "Eagle3LlamaForCausalLM) or keep the target's. sglang takes the first name from its model "
            "registry, else from transformers; a plain language model class has no place for the draft's "
            "tensors. Depth header names it, and depth load reports draft-refused."
        ),
        symptom=(
            "Loud: ValueError: Cannot find model module, or an AssertionError about the shape of a tensor."
        ),
        confirm=(
            "The class has to be one that the installed sglang defines for EAGLE-3."
            + _keys("architectures")
            + _source("^EntryClass", "models/llama_eagle3.py")
        ),
    ),
    Cause.CONTRADICTION: Explanation(
        why=(
            "A key stands at the top level and, with another value, in eagle_config, or rope_theta and "
            "rope_parameters state two bases. Each is read in one place: layer ids in eagle_config alone, "
            "norm_before_fc there first, fc_norm and norm_output at the top level alone, and of two bases "
            "sglang 0.5.23 takes that of rope_parameters. Depth header sees it."
        ),
        symptom="Silent: one of the two has no effect, and if that was the trained one, acceptance is lost.",
        confirm=(
            "Print both places and compare them with the config of training."
            + _keys(
                "eagle_config",
                "eagle_aux_hidden_state_layer_ids",
                "norm_before_fc",
                "rope_theta",
                "rope_parameters",
            )
        ),
    ),
    Cause.TENSOR_TWICE: Explanation(
        why=(
            "A checkpoint that was renamed in place, or merged from two, may hold one tensor as midlayer.* "
            "and as layers.0.*, or with and without model. in front. The loader takes both names for one "
            "parameter and writes one after the other. Depth header sees it."
        ),
        symptom="Silent: harmless if the two are equal, else the draft runs on the one that was read last.",
        confirm=(
            "Bring all names to one spelling and print those that occur twice."
            + _run(
                f"from collections import Counter; {_OPEN}; n = Counter(map({_ONE_NAME}, f.keys())); "
                "print([k for k in n if n[k] > 1])"
            )
        ),
    ),
    Cause.HEAD_MISSING: Explanation(
        why=(
            "A trainer may leave lm_head.weight out because the target has a head. sglang takes the "
            "target's only if draft_vocab_size is null or tie_word_embeddings is true; if a size is "
            "stated, it builds a head of the draft's own, and nothing checks that it was filled. Depth "
            "header names it; depth load reports parameter-unwritten."
        ),
        symptom=(
            "Silent: the server starts and scores draft tokens with whatever memory held, and the accept "
            "length is near 1."
        ),
        confirm=(
            "No lm_head.weight in the checkpoint while config.json states a draft_vocab_size: then the "
            "head is never filled."
            + _shapes("lm_head")
            + _keys("draft_vocab_size", "vocab_size", "tie_word_embeddings")
        ),
    ),
    Cause.MAP_DISAGREES: Explanation(
        why=(
            "t2d marks the target's tokens that the draft knows, and d2t leads to them; sglang reads d2t "
            "alone. speculators writes both from one count of tokens; they part if a file of another run "
            "is taken for one of them, or one is changed by hand. Depth header compares their values."
        ),
        symptom=(
            "Silent: if d2t is the wrong one, its tokens are not those that the head was trained for, and "
            "they are rejected."
        ),
        confirm=(
            "The tokens that t2d marks have to be those that d2t leads to: this prints True if they are."
            + _map("f.get_tensor('t2d').nonzero().flatten().equal(t.sort().values)")
        ),
    ),
    Cause.MAP_TYPE: Explanation(
        why="d2t was saved as floating-point numbers or with a dimension too many, as happens when a whole "
        "state dict is cast. sglang adds the draft ids to it and uses the sums as token ids. Depth header "
        "names it.",
        symptom="None where the type holds every id, as float32 does; else draft tokens are other tokens.",
        confirm="Types and shapes of the two maps." + _shapes("d2t", "t2d"),
    ),
    Cause.MAP_LENGTH: Explanation(
        why=(
            "d2t has an entry, and lm_head.weight a row, per draft token; t2d has an entry per token of "
            "the target. They part if draft_vocab_size is changed or the map of another run is put in, and "
            "sglang compares no lengths before it looks draft tokens up. Depth header sees it, and notes a "
            "t2d of another length."
        ),
        symptom="Loud if d2t is too short, once a token beyond its end is drafted; silent if it is too long.",
        confirm=(
            "d2t and lm_head.weight have draft_vocab_size rows, t2d has vocab_size."
            + _shapes("d2t", "t2d", "lm_head")
            + _keys("draft_vocab_size", "vocab_size")
        ),
    ),
    Cause.MAP_EMPTY: Explanation(
        why=(
            "speculators makes d2t as a buffer of zeros and fills it when the vocabulary mapping is "
            "loaded; a draft that is built and saved without that step keeps the zeros. As offsets, zeros "
            "are a sound map to the first tokens of the vocabulary, so nothing complains. Depth header "
            "sees it."
        ),
        symptom="Silent: draft token ids count as target token ids, and next to none is accepted.",
        confirm=(
            "In a map that was filled, offsets begin small and grow. This prints the first and the last "
            "ones." + _map("d[:8].tolist(), d[-8:].tolist()")
        ),
    ),
    Cause.MAP_UNSORTED: Explanation(
        why=(
            "speculators sorts the chosen target ids before it stores the offsets, so a map that goes down "
            "was put together in another way. It is right if the rows of lm_head.weight stand in the same "
            "order, which the file does not tell. Depth header raises it as a doubt."
        ),
        symptom=(
            "Silent: if the orders differ, each row of the head proposes another token than it was trained "
            "for."
        ),
        confirm=(
            "This prints True for a map that ascends. For one that does not, compare the heads: in "
            "speculators since 0.5 the draft's is a frozen copy, so row i of lm_head.weight equals row i + "
            "d2t[i] of the target's." + _map("bool((t[1:] > t[:-1]).all())")
        ),
    ),
    Cause.MAP_ELSEWHERE: Explanation(
        why=(
            "For EAGLE, sglang can be given a token map as a file (--speculative-token-map). For EAGLE3 it "
            "logs a warning, ignores that option and reads d2t from the checkpoint. Depth header notes "
            "files whose names look like a map, and opens none."
        ),
        symptom=(
            "None if d2t is in the checkpoint as well; else silent, and next to every draft token is "
            "rejected."
        ),
        confirm=("See whether d2t is in the checkpoint." + _shapes("d2t")),
    ),
    Cause.IDS_NOT_READ: Explanation(
        why=(
            "speculators keeps eagle_aux_hidden_state_layer_ids at the top level of config.json, and some "
            "converters leave it there. sglang looks in eagle_config alone, within a try whose except "
            "means the target's defaults. Depth header names it; depths load, forward and engine report "
            "wrong-layers."
        ),
        symptom=(
            "Silent: the usual hidden states 2, n//2 and n - 3 of n layers are captured, and acceptance "
            "drops if the draft was trained on others."
        ),
        confirm=(
            "The ids have to stand within eagle_config."
            + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids")
        ),
    ),
    Cause.IDS_GUESSED: Explanation(
        why=(
            "SpecForge and the EAGLE reference write no ids and train on what sglang captures by default. "
            "speculators 0.3 and 0.4 wrote none either, and trained on states one layer later. Depth "
            "header asks where it cannot tell that the defaults are right."
        ),
        symptom=(
            "Silent: hidden states 2, n//2 and n - 3 of n layers are captured by most target classes, "
            "right or wrong."
        ),
        confirm=(
            "Look up which layers the training run captured. If nobody knows, write ids to eagle_config, "
            "shift all of them by one up and down, and keep those with the longest accept len in the "
            "server's Decode batch lines."
            + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids", "speculators_version")
        ),
    ),
    Cause.IDS_REPEATED: Explanation(
        why=(
            "A slip of the pen, or ids that were cut to fit a small target. sglang asks of each layer "
            "whether it is in the list, so a layer that is named twice delivers one state, while fc is "
            "built for as many states as the list has entries. Depth header sees it, and export reports "
            "layer-order."
        ),
        symptom="Loud: the first batch fails with a matrix shape error in fc.",
        confirm=("Every id has to occur once." + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids")),
    ),
    Cause.IDS_CONVENTION: Explanation(
        why=(
            "There are two ways of counting: hidden-state indices (0 for the embeddings, i for the output "
            "of layer i - 1), which speculators since 0.5 and vLLM use, and outputs of layers, which "
            "sglang uses. The list 2, n//2, n - 3 is the usual one of the first way; sglang's Llama adds "
            "one and captures states 3, n//2 + 1 and n - 2. Depth header asks about it if it knows the "
            "target."
        ),
        symptom="Silent: if these are indices, every state is one layer late and acceptance drops.",
        confirm=(
            "In a copy of the draft subtract one from each id, restart, and compare accept len in the "
            "server's Decode batch lines on the same prompts. The longer one is right."
            + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids")
        ),
    ),
    Cause.OTHER_TARGET: Explanation(
        why=(
            "A draft for one size of a family is served with another, or with a sibling of another "
            "vocabulary. sglang does not compare the two configs. Depth header does if it is given the "
            "target, and export refuses such a pair."
        ),
        symptom=(
            "Loud with another hidden size (a matrix shape error in the first batch); silent with another "
            "vocabulary, where token ids mean other tokens."
        ),
        confirm=(
            "vocab_size and hidden_size of draft and target have to be equal; a draft of another width "
            "states the target's as target_hidden_size. Run this in both folders."
            + _keys("vocab_size", "hidden_size", "target_hidden_size")
        ),
    ),
    Cause.LENGTH_SHORT: Explanation(
        why=(
            "Drafts are trained on short texts and may state just that length. The draft worker is given "
            "the target's context length, and sglang since 0.5.2 refuses a model that states less, unless "
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is set. Depth header sees it if it knows the "
            "target; depths forward and engine report draft-refused."
        ),
        symptom=(
            "Loud: the server ends with ValueError: Target model's context_length is greater than the "
            "derived context_length."
        ),
        confirm=(
            "max_position_embeddings of the draft has to be no less than the target's context. Run this in "
            "both folders." + _keys("max_position_embeddings", "rope_scaling", "rope_parameters")
        ),
    ),
    Cause.QUANTIZATION: Explanation(
        why=(
            "quantization_config is copied from a quantised target, or gets lost when weights are "
            "converted. sglang builds the draft's layers by it and by --quantization, which also holds for "
            "the draft unless --speculative-draft-model-quantization says otherwise (unquant for none). "
            "Depth header compares the block with the dtypes of the tensors; a draft that is quantised it "
            "does not judge."
        ),
        symptom=(
            "Loud if weights and method do not fit; silent, with an accept length near 1, if quantised "
            "numbers are taken for weights."
        ),
        confirm=(
            "All weights of one plain dtype and no block, or quantised weights and a block: anything else "
            "is wrong."
            + _run(f"{_OPEN}; print({{f.get_slice(k).get_dtype() for k in f.keys()}})")
            + _keys("quantization_config")
        ),
    ),
    Cause.DTYPE_DIFFERS: Explanation(
        why=(
            "speculators 0.3 to 0.6 state float32 for weights that are saved in bfloat16, and some configs "
            "state nothing. Without --dtype sglang takes the draft's dtype from the draft's own "
            "config.json, makes float16 of float32 and of nothing, and does not look at the target. Depths "
            "header and load see it; depths forward and engine set the dtype and so do not."
        ),
        symptom=(
            "Loud, but late: the server starts, and the first batch fails with a RuntimeError about two "
            "dtypes."
        ),
        confirm=(
            "The dtype of both config.json files has to be the same, unless the server is started with "
            "--dtype. Run this in both folders." + _keys("dtype", "torch_dtype")
        ),
    ),
    Cause.STATE_NOT_READ: Explanation(
        why=(
            "config.json names a class that takes tokens and no hidden states, as a language model does. "
            "The draft was trained to read them, so it has nothing to go by. Depth load follows the "
            "target's state through the draft and sees that no score depends on it."
        ),
        symptom=(
            "Loud in most cases, because such a class does not take the draft's tensors; else silent, with "
            "an accept length near 1."
        ),
        confirm=(
            "architectures has to name LlamaForCausalLMEagle3, or Eagle3DeepseekV2ForCausalLM for latent "
            "attention." + _keys("architectures")
        ),
    ),
    Cause.TENSOR_DROPPED: Explanation(
        why=(
            "sglang's loader looks each tensor up by its name, as it is and with model. in front, and goes "
            "on without a log line if there is no such parameter. Names of another library, layers beyond "
            "num_hidden_layers, and biases and norms that the class does not have are lost in this way. "
            "Depths header and load see it."
        ),
        symptom="Silent: fewer draft tokens are accepted, or next to none if the tensor was a large one.",
        confirm=(
            "List the names. What sglang reads is fc, norm, lm_head, embed_tokens, d2t, and midlayer.* "
            "(since 0.5.12 layers.N.* too); all but lm_head may have model. in front." + _shapes()
        ),
    ),
    Cause.PARAMETER_UNWRITTEN: Explanation(
        why=(
            "Nothing in sglang checks that every parameter of the draft was loaded. A tensor under another "
            "name, a bias that config.json promises (bias, attention_bias), or a second layer that was not "
            "saved leaves a parameter as it was made: norms hold ones, others random numbers or whatever "
            "memory held. Depths header and load see it."
        ),
        symptom=(
            "Silent: what the draft computes is chance; the accept length may be near 1 or as trained, and "
            "another after the next start."
        ),
        confirm=(
            "List the names and look for what is missing: fc.weight, norm.weight, lm_head.weight, and for "
            "each layer hidden_norm, post_attention_layernorm, four projections of attention and three of "
            "the MLP (the first layer has input_layernorm too)." + _shapes()
        ),
    ),
    Cause.TENSOR_NOT_OFFERED: Explanation(
        why=(
            "The checkpoint that is served lacks a tensor that training saved, or has it under a name that "
            "nobody reads. After an export it means that export lost it, or that somebody changed the "
            "files since. Depth load compares the names of both sides; t2d may be missing."
        ),
        symptom="Silent, as with any parameter that nothing filled: the accept length is near 1.",
        confirm=(
            "Compare the names of both checkpoints in one spelling: this prints those that only one of "
            "them has."
            + _run(f"{_OPEN_BOTH}; print(set(map({_ONE_NAME}, a.keys())) ^ set(map({_ONE_NAME}, b.keys())))")
        ),
    ),
    Cause.SHAPE_MISMATCH: Explanation(
        why=(
            "config.json was edited, or is of another draft than the weights. sglang makes parameters of "
            "the sizes that config.json states, and its loader asserts that each tensor fits (on a CPU it "
            "pads attention projections that are too small). Depths header and load see it."
        ),
        symptom=(
            "Loud: AssertionError: Attempted to load weight, with both shapes, while the draft is loaded."
        ),
        confirm=(
            "Compare the shapes with the sizes in config.json."
            + _shapes()
            + _keys("hidden_size", "intermediate_size", "vocab_size")
        ),
    ),
    Cause.HEAD_ROWS: Explanation(
        why=(
            "draft_vocab_size was left null or at the target's size, or the head of another run was put "
            "in. sglang builds the head with draft_vocab_size rows, and with vocab_size rows if it is "
            "null. Depths header and load see it."
        ),
        symptom=(
            "Loud: an AssertionError with org_vocab_size and the loaded shape, while the draft is loaded."
        ),
        confirm=(
            "The rows of lm_head.weight have to be draft_vocab_size."
            + _shapes("lm_head")
            + _keys("draft_vocab_size", "vocab_size")
        ),
    ),
    Cause.FC_WIDTH: Explanation(
        why=(
            "fc takes the captured states side by side, and sglang since 0.5.12 sizes it by "
            "num_aux_hidden_states, else by the number of ids in eagle_config, else for three states; "
            "before, always for three. speculators before 0.7 saved it for three whatever the ids. Depths "
            "header and load see it."
        ),
        symptom=(
            "Loud: an AssertionError while the draft is loaded, or a matrix shape error in the first batch."
        ),
        confirm=(
            "fc.weight has to be [hidden_size, number of ids times the target's hidden size]."
            + _shapes("fc.")
            + _keys("hidden_size", "target_hidden_size", "num_aux_hidden_states", "eagle_config")
        ),
    ),
    Cause.WRONG_LAYERS: Explanation(
        why=(
            "Ids are copied from training as they are, converted twice, left out, or meant for another "
            "target class: sglang's Llama delivers the output of layer i for id i, while its DeepSeek and "
            "GLM-4 Lite classes add one only if the first id is 1. Depth header sees defaults and lists "
            "that cannot be right, depth load which layers stand behind a state, depths forward and engine "
            "the values themselves."
        ),
        symptom="Silent: acceptance drops by much, or by next to nothing if one state is one layer off.",
        confirm=(
            "For most targets id i has to be the trained hidden-state index minus one. In doubt shift the "
            "ids by one, restart, and compare accept len in the server's Decode batch lines."
            + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids", "num_aux_hidden_states")
        ),
    ),
    Cause.LAYER_ORDER: Explanation(
        why=(
            "fc has a block of columns for each state, in the order of training. sglang goes through the "
            "layers from the first to the last, so states arrive in ascending order whatever the order of "
            "the ids. Depths header and load compare the orders, depths forward and engine the values; "
            "export refuses such a draft."
        ),
        symptom="Silent: fc multiplies states by each other's blocks, and few draft tokens are accepted.",
        confirm=(
            "Look at the ids in the config.json of training: if they do not ascend, this is the cause."
            + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids")
        ),
    ),
    Cause.CAPTURE_UNKNOWN: Explanation(
        why=(
            "What a target class makes of layer ids is recorded of each sglang release by running its own "
            "setter. Of a class that has no record, or whose setter could not be run, and of the output of "
            "a target's last layer, nothing is known. Depth header and export say so instead of guessing."
        ),
        symptom="None by itself: the draft may get the right layers, other layers, or be refused.",
        confirm=(
            "Read the setter of the target's class in the sglang that is installed: it shows what is added "
            "to the ids. Name the file of your target's class in place of llama.py."
            + _source("def set_eagle3_layers_to_capture", "models/llama.py", 13)
        ),
    ),
    Cause.STATES_ALIKE: Explanation(
        why=(
            "This is about the target, not about a library. The suite tells captured states apart by their "
            "values; in a target with a layer that changes nothing, two states agree to rounding. Depths "
            "forward and engine report it in place of a guess."
        ),
        symptom="In this suite's report only, as the cause of a contract about aux layers.",
        confirm=(
            "Run the target with transformers and print how far each state is from the one before it: a "
            "zero is such a layer."
            + _run(
                "import torch; from transformers import AutoModelForCausalLM as M; "
                "m = M.from_pretrained('TARGET'); "
                "h = m(torch.arange(9)[None], output_hidden_states=True).hidden_states; "
                "print([(b - a).abs().max().item() for a, b in zip(h, h[1:])])"
            )
        ),
    ),
    Cause.TARGET_DIFFERS: Explanation(
        why=(
            "The target itself gives other tokens in sglang than in transformers: another dtype, a "
            "quantised target, or a defect of its class. The draft is then fed states that it did not see "
            "in training, whatever its own checkpoint is like. Depth forward compares the first token, "
            "depth engine the text of the target alone."
        ),
        symptom="Silent: the accept length is too low, and the text may differ from what transformers gives.",
        confirm=(
            "Serve the target without the --speculative options and compare its answer to a few token ids "
            "with transformers' generate(do_sample=False) for the same ids." + _GENERATE
        ),
    ),
    Cause.STATE_NORMED: Explanation(
        why=(
            "An aux state is what a decoder layer put out, before the target's final norm. With "
            "use_aux_hidden_state false, or with --speculative-algorithm EAGLE, sglang hands over the last "
            "state after that norm. Depth load sees the norm behind what is delivered, depths forward and "
            "engine know it by its values."
        ),
        symptom="Silent: fc is skipped as well, and the accept length is near 1.",
        confirm=(
            "use_aux_hidden_state must not be false, and the server has to run EAGLE3."
            + _keys("eagle_config")
            + _served("speculative_algorithm")
        ),
    ),
    Cause.TARGET_REFUSED: Explanation(
        why=(
            "sglang raises when it starts, or at the first batch, with a target of this class and any "
            "EAGLE-3 "
            "draft: the class has the capture setter and lacks something else that drafting needs "
            "(Qwen2-MoE has "
            "no get_embed_and_head, which the draft worker calls to share the embedding). The contracts "
            "about "
            "targets run every class; header knows what was recorded of it."
        ),
        symptom="Loud: the server ends while it starts, with the message that is shown.",
        confirm=(
            "Start the server with this target and any EAGLE-3 draft, then without "
            "--speculative-algorithm: only "
            "the first fails." + _block("contracts reproduce target-refused")
        ),
    ),
    Cause.TARGET_CONFIG_INCOMPLETE: Explanation(
        why=(
            "sglang's class reads a key that the class of transformers does not write: the checkpoint was "
            "saved by "
            "transformers, and published ones carry the key because their authors wrote it (DeepSeek's "
            "moe_layer_freq, MiniMax-M2's rotary_dim, ...). docs/targets.md lists the keys by class."
        ),
        symptom="Loud: AttributeError or KeyError with the name of the key, while the server starts.",
        confirm="Ask config.json for the key that the message names." + _keys("moe_layer_freq", "rotary_dim"),
    ),
    Cause.NO_SUCH_TARGET: Explanation(
        why=(
            "The release is older than the class, or than its set_eagle3_layers_to_capture. Without the "
            "setter "
            "sglang up to 0.5.15 raises AttributeError, and later says that the model does not implement it."
        ),
        symptom="Loud: the server ends while it starts.",
        confirm=(
            "Look the class up in the release's sources."
            + _block(
                "grep -rl set_eagle3_layers_to_capture $(python -c 'import sglang; "
                "print(*sglang.__path__)')/srt/models"
            )
        ),
    ),
    Cause.NO_RECIPE: Explanation(
        why=(
            "Classes come with every release, and each has a capture of its own. Those that inherit the "
            "setter of "
            "a class that is judged most likely do as that one does; nobody has run them."
        ),
        symptom="Nothing is known to be amiss.",
        confirm="Read the setter and the forward pass of the class in sglang/srt/models.",
    ),
    Cause.NO_KERNELS: Explanation(
        why=(
            "Quantised weights are multiplied by kernels that are compiled for one kind of GPU, and ranks "
            "split what one process cannot show. The class itself is judged in float32, where it has a "
            "recipe: its capture is the same Python."
        ),
        symptom="Nothing is known to be amiss.",
        confirm="Serve the target as it is published, and ask the server whether the draft is accepted."
        + _block("contracts acceptance --url http://127.0.0.1:30000 --expect 2.5"),
    ),
    Cause.LAST_LAYER_NOT_CAPTURED: Explanation(
        why=(
            "sglang captures a layer's output where the next layer takes it in, and behind the last one "
            "there is "
            "none. Gemma-3 and -4, gpt-oss and MiniMax-M3 have code for it; docs/targets.md shows which "
            "classes "
            "were seen to deliver it."
        ),
        symptom="Loud: the first batch fails with a matrix shape error in fc, or the server ends before.",
        confirm="The highest id has to be lower than the number of layers less one." + _keys("eagle_config"),
    ),
    Cause.DEFAULT_LAYERS_DIFFER: Explanation(
        why=(
            "EAGLE-3 trains on hidden states 2, n//2 and n - 3 of n layers, and drafts of the reference "
            "and of "
            "SpecForge carry no ids for them. A class whose setter adds one to its defaults delivers the "
            "states "
            "behind them (MiniMax-M3's wrapper does so on purpose, for a published draft that was trained "
            "so)."
        ),
        symptom="Silent: acceptance drops, for a trained draft often by little.",
        confirm=(
            "Write the ids of training to eagle_config.eagle_aux_hidden_state_layer_ids, restart, and "
            "compare "
            "accept len in the server's Decode batch lines." + _keys("eagle_config")
        ),
    ),
    Cause.ORDER_DECIDES: Explanation(
        why=(
            "Since 0.5.13 sglang's DeepSeek, Kimi K2.5 and GLM-4-MoE-lite classes add one to every id if the "
            "first of the list is 1, and nothing otherwise; states are handed over ascending in either "
            "case. So "
            "[1, 3, 4] delivers hidden states 2, 4, 5, and [3, 1, 4] delivers 1, 3, 4. Export uses that: for "
            "states 1, 4, 7 it writes [4, 1, 7]."
        ),
        symptom="Silent: acceptance drops, because every tap is one layer early.",
        confirm="See what is delivered for either order:" + _block("contracts reproduce layer-order-decides"),
    ),
    Cause.IDS_REFUSED: Explanation(
        why=(
            "Most classes cannot deliver the output of their last layer, some not the input of their first. "
            "Whether verification delivers what the prefill does cannot be asked of them there."
        ),
        symptom="Loud: the server ends, or its first batch fails.",
        confirm="Look the class up in docs/targets.md.",
    ),
    Cause.NOTHING_REFUSED: Explanation(
        why=(
            "The contract asks whether a refusal of export is right. Of this class, which delivers its last "
            "layer's output, too, it refuses nothing."
        ),
        symptom="Nothing is amiss.",
        confirm="Look the class up in docs/targets.md.",
    ),
    Cause.EXPORT_REFUSES_NEEDLESSLY: Explanation(
        why=(
            "Export goes by what is recorded of the serving release, or of the newest recorded one before "
            "it. A "
            "class that learned to deliver more since is not known to it."
        ),
        symptom="Loud: contracts export refuses a draft that could be served.",
        confirm="Serve the draft with the ids that the verdict names, and look at its acceptance.",
    ),
    Cause.SENSELESS_IDS_SERVED: Explanation(
        why=(
            "sglang asks of each layer whether it is in the list. An id that no layer has is never met, "
            "and one that "
            "is there twice is met once; then fewer states arrive than fc takes, and the first batch "
            "fails. A class "
            "that pads or ignores what is missing would serve the draft all the same."
        ),
        symptom="Silent: the draft reads other states than it was trained on, and acceptance collapses.",
        confirm="Every id has to be lower than the number of layers, and occur once." + _keys("eagle_config"),
    ),
    Cause.VERIFICATION_CAPTURES_OTHERS: Explanation(
        why=(
            "Prefill and verification run the target through different paths: other attention kernels, and "
            "on a "
            "GPU a recorded graph. Up to sglang 0.5.10 the graph was recorded before the ids were known, "
            "so that "
            "decoding delivered the defaults whatever the draft said."
        ),
        symptom="Silent: the first draft of each request is good, all others are rejected.",
        confirm="Start the server with --disable-cuda-graph and compare accept len.",
    ),
    Cause.WRAPPER_CAPTURES_OTHERS: Explanation(
        why=(
            "A multimodal class has a setter and a forward pass of its own around the text model's. A "
            "draft that was "
            "trained with the text model alone is then served with other states."
        ),
        symptom="Silent: acceptance drops with the wrapper, and is as trained with the text model alone.",
        confirm="Serve the text model alone with the same draft, and compare accept len.",
    ),
    Cause.TARGET_WINDOW_DIFFERS: Explanation(
        why=(
            "transformers counts the token itself among the positions of its window, sglang's attention "
            "backends do "
            "not, so classes hand over one less. A class that forgets to (EXAONE-MoE) attends to one more."
        ),
        symptom="Silent: on prompts longer than the window the target's output differs from transformers'.",
        confirm="Compare greedy output of server and transformers on such a prompt."
        + _block("contracts reproduce target-window-differs"),
    ),
    Cause.TARGET_ROPE_DIFFERS: Explanation(
        why=(
            "transformers 5 keeps the base of RoPE in rope_parameters and drops rope_theta from the loaded "
            "config. "
            "A class that asks for rope_theta alone (EXAONE-MoE) takes its own default of a million."
        ),
        symptom="Silent: the target's output differs from transformers', the more the longer the prompt.",
        confirm="Compare the base in config.json with a million." + _keys("rope_parameters", "rope_theta"),
    ),
    Cause.NOT_RETURNED: Explanation(
        why=(
            "sglang returns the state before the head with --enable-return-hidden-states, and since 0.5.23 "
            "those "
            "that a draft would be given with --enable-return-aux-hidden-states. A release that does not "
            "know an "
            "option ends with a message that names it."
        ),
        symptom="Loud: the server ends while it starts.",
        confirm="Ask the server for its options."
        + _block("python -m sglang.launch_server --help | grep hidden"),
    ),
    Cause.EXTRACTION_DIFFERS: Explanation(
        why=(
            "Drafts are trained on states that somebody extracted: by transformers, whose last entry is "
            "normed and "
            "whose others are not, or by sglang itself. If the path that returns states counts, orders or "
            "norms them "
            "otherwise than the path that hands them to a draft, training and serving differ."
        ),
        symptom="Silent: accuracy in training is good, acceptance is poor.",
        confirm="Extract a few prompts again by another path, and compare the tensors.",
    ),
    Cause.LAYER_OUT_OF_RANGE: Explanation(
        why=(
            "Ids are of a larger target, or hidden-state indices are taken for outputs of layers, so that "
            "the last names a layer too many. sglang never meets that layer, and fc gets a state too few; "
            "the embeddings (state 0, id -1) it delivers since 0.5.22 only. Depth header sees it if it "
            "knows the target, depth load looks at what was trained, and export refuses it."
        ),
        symptom="Loud: the first batch fails with a matrix shape error in fc.",
        confirm=(
            "With n layers in the target, n - 2 is the largest id that most classes deliver. Run this in "
            "both folders." + _keys("num_hidden_layers", "eagle_config", "eagle_aux_hidden_state_layer_ids")
        ),
    ),
    Cause.MAP_DIFFERS: Explanation(
        why=(
            "The d2t that is served is not that of training: it holds ids and not offsets, is of another "
            "run, or is missing. Each row of lm_head was trained for one token and now proposes another. "
            "Depth load compares, draft token by draft token, what it becomes."
        ),
        symptom="Silent: the text stays right, and the accept length is near 1.",
        confirm=("Compare the two maps: this prints True if they are equal." + _equal("d2t", "d2t")),
    ),
    Cause.MAP_OUT_OF_RANGE: Explanation(
        why=(
            "Most often d2t holds target ids: sglang adds the draft token's own id to each entry when it "
            "loads d2t, which then leads beyond the vocabulary. Nothing checks the bound. Depths header "
            "and load see it; depths forward and engine report draft-refused."
        ),
        symptom=(
            "Loud as soon as such a token is drafted: its embedding cannot be looked up, and the server ends."
        ),
        confirm=(
            "The largest target id has to be below vocab_size, the smallest no less than 0."
            + _map("int(t.min()), int(t.max())")
            + _keys("vocab_size")
        ),
    ),
    Cause.MAP_MISSING: Explanation(
        why=(
            "The map was left in a file of its own, or got lost when tensors were renamed. Without d2t "
            "sglang keeps no token map and takes draft ids for target ids; it does not compare "
            "draft_vocab_size with vocab_size. Depths header and load see it, and depth forward reports "
            "d2t-ignored."
        ),
        symptom="Silent: next to no draft token is accepted.",
        confirm=(
            "lm_head.weight has fewer rows than vocab_size, and there is no d2t."
            + _shapes("d2t", "lm_head")
            + _keys("draft_vocab_size", "vocab_size")
        ),
    ),
    Cause.MAP_NOT_INJECTIVE: Explanation(
        why=(
            "A map that was put together by hand, or is read in the wrong encoding, leads twice to one "
            "token. One of the two rows of lm_head then proposes the other's token. Depths header and load "
            "see it."
        ),
        symptom="Silent: the tokens that the map lost are never drafted.",
        confirm=(
            "This prints how many entries lead to a token that another one leads to: it should be 0."
            + _map("len(t) - len(t.unique())")
        ),
    ),
    Cause.WIDTH_DIFFERS: Explanation(
        why=(
            "fc was built for a number of states, and another number arrives: capture is off, an id names "
            "no layer, the list and fc are not of one draft, or the server runs EAGLE. Depth load compares "
            "the widths on both sides; depths forward and engine report what is no whole number of states."
        ),
        symptom=(
            "Loud, with a matrix shape error in fc; but silent if what arrives is as wide as the "
            "embedding, because fc is then skipped."
        ),
        confirm=(
            "The columns of fc.weight by the target's hidden size have to be the number of ids."
            + _shapes("fc.")
            + _keys("hidden_size", "target_hidden_size", "eagle_config")
        ),
    ),
    Cause.FC_SKIPPED: Explanation(
        why=(
            "sglang applies fc, and the norms before it, only if what arrives has another width than the "
            "embedding. With capture off a single state arrives, of just that width. Depths header and "
            "load see it."
        ),
        symptom=(
            "Silent: the draft runs on a state that it was not trained on, and the accept length is near 1."
        ),
        confirm=(
            "use_aux_hidden_state must not be false. The condition stands in the draft class."
            + _keys("eagle_config")
            + _source("embeds.shape", "models/llama_eagle3.py")
        ),
    ),
    Cause.RECURRENT_WIDTH: Explanation(
        why=(
            "In chained steps the draft is given its own state, hidden_size wide, and sglang goes by the "
            "width of the embedding to decide on fc. A draft that is narrower than its target and does not "
            "state target_hidden_size gets the target's wider embedding, so the two no longer fit. Depth "
            "load sees it."
        ),
        symptom="Loud: a matrix shape error in fc in the first batch or the first chained step.",
        confirm=(
            "hidden_size of the draft has to be the target's, or target_hidden_size has to state it. Run "
            "this in both folders." + _keys("hidden_size", "target_hidden_size")
        ),
    ),
    Cause.EMBEDDING_REPLACED: Explanation(
        why=(
            "sglang's draft worker puts the target's embedding in the place of the draft's, unless "
            "target_hidden_size differs from hidden_size. A frozen embedding is a copy of the target's, so "
            "nothing changes; one that was trained (speculators train --embed-requires-grad) is lost. "
            "Depth header goes by that flag, depth load by whose embedding runs, depths forward and engine "
            "by its values."
        ),
        symptom="Silent: every state and score is off, and acceptance drops.",
        confirm=(
            "Compare the draft's embedding with the target's: False means that it was trained and is lost. "
            "TARGET_FILE is the file of the target that holds its own."
            + _run(
                f"{_OPEN}; g = safe_open('TARGET_FILE', 'pt'); "
                "print(f.get_tensor('embed_tokens.weight').equal(g.get_tensor('model.embed_tokens.weight')))"
            )
        ),
    ),
    Cause.HEAD_REPLACED: Explanation(
        why=(
            "Three ways lead there: tie_word_embeddings true, copied from a target that ties, makes sglang "
            "score with the shared embedding; draft_vocab_size null makes it take the target's head; "
            "--speculative-algorithm EAGLE shares embedding and head. Depths header and load see whose "
            "head it is; depth engine reports any head that is not the trained one."
        ),
        symptom=(
            "Silent: with a reduced vocabulary next to no draft token is accepted, because rows of the "
            "head mean other tokens."
        ),
        confirm=(
            "tie_word_embeddings has to be false, draft_vocab_size the rows of lm_head.weight, and the "
            "server has to run EAGLE3."
            + _shapes("lm_head")
            + _keys("tie_word_embeddings", "draft_vocab_size")
            + _served("speculative_algorithm")
        ),
    ),
    Cause.NORM_DIFFERS: Explanation(
        why=(
            "The four optional norms are keys that sglang reads in different places or not at all: 0.5.23 "
            "reads norm_before_fc in eagle_config and at the top level, fc_norm and norm_output at the top "
            "level alone, and norm_before_residual nowhere. speculators train switches on all but fc_norm. "
            "Depth load follows, on both sides, which of them take part."
        ),
        symptom="Silent: acceptance drops, by how much depends on the norm.",
        confirm=(
            "Compare the flags of the config.json of training with those of the one that is served, and "
            "with what the draft class reads."
            + _keys("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual", "eagle_config")
            + _source("norm_before\\|fc_norm\\|norm_output", "models/llama_eagle3.py")
        ),
    ),
    Cause.NORM_EPSILON: Explanation(
        why=(
            "rms_norm_eps is left out, and sglang takes the 1e-6 of transformers' LlamaConfig, or it is "
            "that of another model. Depth header sees a missing value, depth load another one, and depth "
            "forward knows 1e-6 and 1e-5 by their numbers."
        ),
        symptom="Silent: next to nothing is lost between 1e-6 and 1e-5, much at 1e-2.",
        confirm=(
            "rms_norm_eps has to be that of training: in a config.json of speculators it stands in "
            "transformer_layer_config. Run this in both folders."
            + _keys("rms_norm_eps", "transformer_layer_config")
        ),
    ),
    Cause.NORM_NOT_SERVED: Explanation(
        why=(
            "The draft was trained with a norm that no key switches on in this release: "
            "norm_before_residual in any release of sglang so far, norm_before_fc before 0.5.17, fc_norm "
            "and norm_output before 0.5.12. Export and its contract (depth load) refuse such a draft."
        ),
        symptom=(
            "Loud with contracts export, which ends with status 1; silent if the draft is served all the "
            "same."
        ),
        confirm=(
            "Every norm flag that is true in the config.json of training has to occur in the draft class "
            "of the sglang that is installed."
            + _keys("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
            + _source("norm_before\\|fc_norm\\|norm_output", "models/llama_eagle3.py")
        ),
    ),
    Cause.ROPE_FREQUENCIES: Explanation(
        why=(
            "Another base, another head_dim, or a scaling that one side does not read. sglang since 0.5.10 "
            "looks at rope_parameters first, older releases at rope_theta and rope_scaling alone, so a "
            "config.json in one spelling may lose its base in a release that expects the other. Depth load "
            "compares the frequencies; depth header notes a base that is not the target's."
        ),
        symptom="Silent: acceptance falls with the distance between tokens, so short prompts may look right.",
        confirm=(
            "Both spellings have to state what training had: in a config.json of speculators it stands in "
            "transformer_layer_config."
            + _keys("rope_theta", "rope_scaling", "rope_parameters", "head_dim", "transformer_layer_config")
        ),
    ),
    Cause.ROPE_PAIRS: Explanation(
        why=(
            "With rope_is_neox_style false sglang turns neighbouring dimensions together. speculators "
            "trains with the layers of transformers, which turn the two halves of a head together. Depths "
            "header, load and forward see it."
        ),
        symptom="Silent: acceptance drops.",
        confirm=("The key has to be absent or true." + _keys("rope_is_neox_style")),
    ),
    Cause.ROPE_AMPLITUDE: Explanation(
        why=(
            "yarn also multiplies cosine and sine by a factor; without yarn it is 1. It differs if one "
            "side does not read the scaling, or if config.json gives the factor: transformers takes "
            "attention_factor as it is, while sglang reads attn_factor and multiplies its own factor by "
            "it. Depth load compares the two."
        ),
        symptom="Silent: attention is too sharp or too flat, and acceptance drops.",
        confirm=(
            "See whether there is a yarn scaling, where it is spelled, and whether it has one of these "
            "factors." + _keys("rope_scaling", "rope_parameters", "transformer_layer_config")
        ),
    ),
    Cause.SCALE_DIFFERS: Explanation(
        why=(
            "Attention scores are multiplied by 1 / sqrt(head_dim). sglang takes head_dim from "
            "config.json; if it is wrong, or is left out though it is not hidden_size / "
            "num_attention_heads, the factor is another one. Depth load compares it, and depth forward "
            "knows it by its numbers."
        ),
        symptom="Loud on a GPU, where the projections then do not fit; on a CPU, which pads them, silent.",
        confirm=(
            "The rows of q_proj by num_attention_heads are head_dim."
            + _shapes("q_proj")
            + _keys("head_dim", "num_attention_heads", "hidden_size")
        ),
    ),
    Cause.HEADS_DIFFER: Explanation(
        why=(
            "num_attention_heads, num_key_value_heads or head_dim is of another model, or head_dim is left "
            "out though it is not hidden_size / num_attention_heads. Depth header compares the projections "
            "with config.json, depth load the attention that was built."
        ),
        symptom=(
            "Loud on a GPU, where the loader refuses the projections; on a CPU it pads them, silently, and "
            "few draft tokens are accepted."
        ),
        confirm=(
            "q_proj has num_attention_heads times head_dim rows, k_proj and v_proj num_key_value_heads "
            "times head_dim."
            + _shapes("q_proj", "k_proj", "v_proj")
            + _keys("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size")
        ),
    ),
    Cause.BIAS_DROPPED: Explanation(
        why=(
            "attention_bias true in the draft's layer config gives q, k, v and o a bias. sglang builds the "
            "draft's qkv projection with bias=False whatever config.json says, and its loader drops the "
            "three tensors; the bias of o_proj it keeps. Depths header, load and forward see it, and "
            "export refuses the draft."
        ),
        symptom="Silent: every state and score is off, and acceptance drops.",
        confirm=("Look for biases in the attention." + _shapes("q_proj.bias", "k_proj.bias", "v_proj.bias")),
    ),
    Cause.QK_NORM_MISSING: Explanation(
        why=(
            "A draft with qwen3 layers (speculators train --draft-arch qwen3, or the draft class with its "
            "own default since 0.7) norms queries and keys. sglang runs every EAGLE-3 draft as a Llama "
            "layer, which has no such norms, and its loader drops them. Depths header, load and forward "
            "see it, and export refuses the draft."
        ),
        symptom="Silent: every state and score is off, and acceptance drops.",
        confirm=("Look for the two norms." + _shapes("q_norm", "k_norm")),
    ),
    Cause.WINDOW_DIFFERS: Explanation(
        why=(
            "speculators train gives all draft layers a sliding window of 2048 unless told otherwise, and "
            "writes layer_types and sliding_window. For the draft sglang reads neither: only "
            "--speculative-draft-window-size counts, for all layers, and it counts the positions before a "
            "token's own, one fewer than training. Depths header and load see it, and export prints the "
            "argument."
        ),
        symptom="Silent: acceptance drops in contexts that are longer than the window.",
        confirm=(
            "If layer_types has sliding_attention, the server has to be told sliding_window minus one."
            + _keys("layer_types", "sliding_window", "transformer_layer_config")
            + _served("draft_window_size")
        ),
    ),
    Cause.NOT_EXPRESSIBLE: Explanation(
        why=(
            "The draft has something that no key or tensor of this release carries: an activation other "
            "than silu, a type of RoPE scaling that is not known, two decoder layers before 0.5.12, or "
            "keys and tensors that export does not understand. Export and its contract (depth load) refuse "
            "it; depth header names activation and scaling."
        ),
        symptom=(
            "Loud: export ends with status 1, and sglang raises for the activation and for an unknown "
            "scaling; other keys it ignores without a word."
        ),
        confirm=(
            "Look at what is unusual in config.json, and whether the draft class asks for it."
            + _keys("hidden_act", "num_hidden_layers", "rope_scaling", "rope_parameters")
        ),
    ),
    Cause.NUMBERS_DIFFER: Explanation(
        why=(
            "Two things are wrong at once, or one that none of the suite's hypotheses is about, such as a "
            "head whose rows stand in another order. Depth forward says which hypothesis comes nearest. Of "
            "captured states, at depths forward and engine, it means that a state is like none of the "
            "target's."
        ),
        symptom="Silent: acceptance drops.",
        confirm=(
            "Make sure that the served tensors are those of training: this prints the ones that are not, "
            "or are missing. Then compare config.json key by key."
            + _run(
                f"{_OPEN_BOTH}; n = {_ONE_NAME}; s = {{n(k): k for k in b.keys()}}; "
                "print([k for k in a.keys() if k != 't2d' "
                "and not (n(k) in s and a.get_tensor(k).equal(b.get_tensor(s[n(k)])))])"
            )
        ),
    ),
    Cause.TAPS_EARLY: Explanation(
        why=(
            "Ids were converted to sglang's counting twice, or the draft was trained on outputs of layers "
            "and its ids were taken for indices. A draft of speculators 0.3 or 0.4, served without ids, "
            "also gets states one layer early. Depths forward and engine know each state by its values; "
            "depth load reports wrong-layers."
        ),
        symptom="Silent: acceptance drops, for a trained draft often by little.",
        confirm=(
            "Add one to each id, restart, and compare accept len in the server's Decode batch lines on the "
            "same prompts." + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids", "speculators_version")
        ),
    ),
    Cause.TAPS_LATE: Explanation(
        why=(
            "Ids of speculators since 0.5 are hidden-state indices; sglang's Llama takes them for outputs "
            "of layers and adds one. Depths forward and engine know each state by its values; depth load "
            "reports wrong-layers."
        ),
        symptom=(
            "Silent: acceptance drops; loud if the last id then names a layer that the target does not have."
        ),
        confirm=(
            "Subtract one from each id, restart, and compare accept len in the server's Decode batch lines "
            "on the same prompts." + _keys("eagle_config", "eagle_aux_hidden_state_layer_ids")
        ),
    ),
    Cause.CHUNKS_PERMUTED: Explanation(
        why=(
            "fc.weight has a block of columns per state. If ids are sorted without the blocks, or the "
            "blocks without the ids, each state meets the block of another, and names and shapes show "
            "nothing of it. Depth forward tries every order of up to four states."
        ),
        symptom="Silent: few draft tokens are accepted.",
        confirm=(
            "Compare fc.weight with that of training: False means that somebody changed it. If it is "
            "equal, look whether the ids of training ascend." + _equal("fc.weight", "fc.weight")
        ),
    ),
    Cause.STATE_WITHOUT_RESIDUAL: Explanation(
        why=(
            "Many target classes of sglang carry the residual apart from the hidden state, and a capture "
            "has to add the two. That of Gemma 3 appends the hidden state alone since 0.5.17, which is what "
            "the last part of the layer put out; up to 0.5.16 it is right. Depth header and export know "
            "these classes by having run them; depths forward and engine know the state by its values."
        ),
        symptom="Silent: few draft tokens are accepted.",
        confirm=(
            "Look at what the target's class appends when it captures: hidden_states alone, in a class "
            "that also has a residual, is this defect."
            + _source("aux_hidden_states.append", "models/gemma3_causal.py")
            + "\n\nA script that shows it:"
            + _block("contracts reproduce state-without-residual")
        ),
    ),
    Cause.TOKENS_NOT_SHIFTED: Explanation(
        why=(
            "In EAGLE-3 the hidden state of a position is paired with the token after it. A worker that "
            "hands over the tokens unshifted gives the draft pairs that it never saw. No recorded release "
            "does so; depth forward looks for it in new ones."
        ),
        symptom="Silent: even the first draft token is rejected nearly always.",
        confirm=(
            "Print input_ids in the draft's forward pass (models/llama_eagle3.py) for one short prompt, "
            "with CUDA graphs off: they have to be the prompt from its second token on, and then the token "
            "that the target chose."
        ),
    ),
    Cause.INPUT_NORM_MISSING: Explanation(
        why=(
            "speculators train switches norm_before_fc on. sglang applies it since 0.5.17, if the flag is "
            "true in eagle_config or at the top level; else it drops input_norm.weight, and fc gets "
            "numbers of another size. Depths header and forward name it; depth load reports norm-differs "
            "and tensor-dropped."
        ),
        symptom="Silent: acceptance drops from the first draft token on.",
        confirm=(
            "input_norm.weight is in the checkpoint, and the flag is not true or sglang is older than "
            "0.5.17." + _shapes("input_norm") + _keys("norm_before_fc", "eagle_config")
        ),
    ),
    Cause.INPUT_NORM_ADDED: Explanation(
        why=(
            "config.json says norm_before_fc true, and the draft was trained without. sglang then builds "
            "the norm with weights of one, which no tensor changes, and norms the states together before "
            "fc. Depth forward names it; depths header and load report parameter-unwritten."
        ),
        symptom="Silent: acceptance drops from the first draft token on.",
        confirm=(
            "The flag is true, and there is no input_norm.weight."
            + _shapes("input_norm")
            + _keys("norm_before_fc", "eagle_config")
        ),
    ),
    Cause.FC_NORM_MISSING: Explanation(
        why=(
            "A draft that was trained with fc_norm has a norm per state. sglang applies them since 0.5.12, "
            "if fc_norm or use_aux_norm is true at the top level; in eagle_config it does not look, and "
            "drops the weights. Depths header and forward name it; depth load reports norm-differs and "
            "tensor-dropped."
        ),
        symptom="Silent: acceptance drops from the first draft token on.",
        confirm=(
            "fc_norm tensors (or aux_norm_low, _mid and _high) are in the checkpoint, and the flag is not "
            "true at the top level or sglang is older than 0.5.12."
            + _shapes("fc_norm", "aux_norm")
            + _keys("fc_norm", "use_aux_norm", "eagle_config")
        ),
    ),
    Cause.FC_NORM_ADDED: Explanation(
        why=(
            "config.json says fc_norm or use_aux_norm true, and the draft was trained without. sglang then "
            "builds norms with weights of one, which no tensor changes. Depth forward names it; depths "
            "header and load report parameter-unwritten."
        ),
        symptom="Silent: acceptance drops from the first draft token on.",
        confirm=(
            "A flag is true, and there are no fc_norm tensors."
            + _shapes("fc_norm", "aux_norm")
            + _keys("fc_norm", "use_aux_norm")
        ),
    ),
    Cause.RESIDUAL_BEFORE_NORM: Explanation(
        why=(
            "speculators train switches norm_before_residual on: the residual of the first layer is then "
            "the fused state after hidden_norm. sglang's draft class takes it before that norm and reads "
            "no such key, in every release so far. Depths header and forward name it; depth load reports "
            "norm-differs, and export refuses the draft."
        ),
        symptom="Silent: state and scores are off by about their whole size, and acceptance drops.",
        confirm=(
            "norm_before_residual is true in the config.json of training. In sglang's class residual = "
            "hidden_states stands before hidden_norm."
            + _keys("norm_before_residual")
            + _source("residual = \\|hidden_norm(", "models/llama_eagle3.py")
        ),
    ),
    Cause.RESIDUAL_AFTER_NORM: Explanation(
        why=(
            "The reverse of the usual case: the draft was trained without norm_before_residual, and the "
            "serving side takes the residual of the first layer after hidden_norm. No recorded sglang does "
            "so; a library that honours the flag does if config.json says true. Depth forward names it."
        ),
        symptom="Silent: state and scores are off by about their whole size, and acceptance drops.",
        confirm=(
            "The flag has to be the same in both folders, and in sglang's class residual = hidden_states "
            "has to stand before hidden_norm."
            + _keys("norm_before_residual")
            + _source("residual = \\|hidden_norm(", "models/llama_eagle3.py")
        ),
    ),
    Cause.NORMS_SWAPPED: Explanation(
        why=(
            "The first layer has two norms before its attention: input_layernorm for the embedding and "
            "hidden_norm for the target's state. Both are vectors of hidden_size, so names that were mixed "
            "up pass every check of names and shapes. Depth forward names it."
        ),
        symptom="Silent: a trained draft may lose so little that the accept length does not show it.",
        confirm=(
            "This prints True if they were exchanged on the way from training."
            + _equal("layers.0.hidden_norm.weight", "midlayer.input_layernorm.weight")
        ),
    ),
    Cause.HALVES_SWAPPED: Explanation(
        why=(
            "The first attention reads the normed embedding and the normed state side by side, the "
            "embedding first, in speculators as in sglang. Weights of a trainer with the other order, or a "
            "converter that exchanges the halves, pass every check of names and shapes. Depth forward "
            "names it."
        ),
        symptom="Silent: few draft tokens are accepted.",
        confirm=(
            "This prints True if the column halves were exchanged on the way from training."
            + _run(
                f"{_OPEN_BOTH}; w = a.get_tensor('layers.0.self_attn.q_proj.weight'); "
                "print(w.roll(w.shape[1] // 2, 1).equal(b.get_tensor('midlayer.self_attn.q_proj.weight')))"
            )
        ),
    ),
    Cause.K_AND_V_SWAPPED: Explanation(
        why=(
            "k_proj and v_proj have the same shape, so names that were mixed up pass every check of names "
            "and shapes. Depth forward names it."
        ),
        symptom="Silent: few draft tokens are accepted.",
        confirm=(
            "This prints True if they were exchanged on the way from training."
            + _equal("layers.0.self_attn.k_proj.weight", "midlayer.self_attn.v_proj.weight")
        ),
    ),
    Cause.GATE_AND_UP_SWAPPED: Explanation(
        why=(
            "gate_proj and up_proj have the same shape, and a fused tensor that is split in the wrong "
            "order gives just this. Names and shapes show nothing of it. Depth forward names it."
        ),
        symptom="Silent: acceptance drops, for a trained draft perhaps by little.",
        confirm=(
            "This prints True if they were exchanged on the way from training."
            + _equal("layers.0.mlp.gate_proj.weight", "midlayer.mlp.up_proj.weight")
        ),
    ),
    Cause.LATER_LAYERS_SKIPPED: Explanation(
        why=(
            "The draft was trained with several decoder layers, and config.json states one. sglang builds "
            "as many as num_hidden_layers says and drops the tensors of the others. Depth forward names "
            "it; depths header and load report tensor-dropped."
        ),
        symptom="Silent: acceptance drops.",
        confirm=(
            "num_hidden_layers has to be the number of layers that the checkpoint has."
            + _shapes("layers.", "midlayer.")
            + _keys("num_hidden_layers")
        ),
    ),
    Cause.ROPE_BASE_DEFAULT: Explanation(
        why=(
            "If sglang finds no base it takes 10000: there is no rope_theta, or the base stands in "
            "rope_parameters alone and the release is older than 0.5.10. speculators 0.3 to 0.5 lost the "
            "target's base in training itself, and such a draft wants 10000. Depths header and forward "
            "name it; depth load reports rope-frequencies-differ."
        ),
        symptom="Silent: acceptance falls with the distance between tokens, so short prompts may look right.",
        confirm=(
            "The base of training has to stand as rope_theta at the top level, and in rope_parameters if "
            "that is there." + _keys("rope_theta", "rope_parameters", "transformer_layer_config")
        ),
    ),
    Cause.ROPE_UNSCALED: Explanation(
        why=(
            "The scaling stands where this release does not look: sglang before 0.5.10 reads rope_scaling "
            "alone, later ones rope_parameters first. Depths header and forward name it; depth load "
            "reports rope-frequencies-differ."
        ),
        symptom="Silent: acceptance falls with the distance between tokens, so short prompts may look right.",
        confirm=(
            "The scaling has to stand in both spellings, or in the one that your release reads."
            + _keys("rope_scaling", "rope_parameters", "transformer_layer_config")
        ),
    ),
    Cause.RECURRENT_NORMED: Explanation(
        why=(
            "config.json says norm_output true, and the draft was trained without. sglang then feeds the "
            "draft its state after the final norm. Depth forward names it from the first chained step on; "
            "depth load reports norm-differs."
        ),
        symptom="Silent: the first draft token is right as often as trained, later ones are not.",
        confirm=("norm_output has to be that of training. Run this in both folders." + _keys("norm_output")),
    ),
    Cause.RECURRENT_NOT_NORMED: Explanation(
        why=(
            "speculators train switches norm_output on: a chained step is fed the state after the final "
            "norm. sglang does so since 0.5.12, if norm_output is true at the top level; in eagle_config "
            "it does not look. Depths header and forward name it; depth load reports norm-differs."
        ),
        symptom="Silent: the first draft token is right as often as trained, later ones are not.",
        confirm=(
            "norm_output has to be that of training, at the top level, and sglang no older than 0.5.12."
            + _keys("norm_output", "eagle_config")
        ),
    ),
    Cause.FINAL_NORM_MISSING: Explanation(
        why=(
            "Both sides norm the state with norm.weight before the output head reads it. A class that "
            "leaves the norm out scores with another direction and size. No recorded release does so; "
            "depth forward looks for it in new ones."
        ),
        symptom="Silent: acceptance drops from the first draft token on.",
        confirm=(
            "norm.weight has to be in the checkpoint, and the draft class has to apply self.norm to what "
            "its last layer put out."
            + _shapes("norm.weight")
            + _source("self.norm(", "models/llama_eagle3.py", 3)
        ),
    ),
    Cause.FEEDBACK_LATE: Explanation(
        why=(
            "Each chained step of a draft is fed the state of the step before it. A worker that hands over "
            "an older one makes every step after the first draft from the wrong place. No recorded release "
            "does so; depth forward looks for it in new ones."
        ),
        symptom="Silent: the first draft token is right as often as trained, later ones are not.",
        confirm=(
            "Print hidden_states in the draft's forward pass (models/llama_eagle3.py), as it comes in and "
            "as it goes out, with CUDA graphs off: what comes in has to be what the step before gave out."
        ),
    ),
    Cause.POSITIONS_LATE: Explanation(
        why=(
            "sglang 0.5.6.post2 to 0.5.11 count one position too many between the prompt and the first "
            "chained step, for every draft. The rotary embedding then sees a gap of one. Depth header "
            "knows these releases, and depth forward finds it by its numbers."
        ),
        symptom="Silent: draft tokens after the first are rejected more often.",
        confirm=(
            "Print positions in the draft's forward pass (models/llama_eagle3.py) for one short prompt, "
            "with CUDA graphs off: the first chained step has to come one after the last position of the "
            "prompt." + _block("python -m pip show sglang")
        ),
    ),
    Cause.POSITIONS_STANDING: Explanation(
        why=(
            "Each chained step has to be one position further than the step before. If the worker does not "
            "count on, all of them are computed at one position. No recorded release does so; depth "
            "forward looks for it in new ones."
        ),
        symptom="Silent: draft tokens after the first are rejected more often.",
        confirm=(
            "Print positions in the draft's forward pass (models/llama_eagle3.py) for one short prompt, "
            "with CUDA graphs off: they have to grow by one with each chained step."
        ),
    ),
    Cause.POSITIONS_DIFFER: Explanation(
        why=(
            "The steps between positions are not those of training, which counts by one. Where positions "
            "begin makes no difference, so only the steps are compared, at depth forward. In sglang "
            "0.5.6.post2 to 0.5.11 it goes with positions-one-late."
        ),
        symptom="Silent: draft tokens after the first are rejected more often.",
        confirm=(
            "Print positions in the draft's forward pass (models/llama_eagle3.py) for one short prompt, "
            "with CUDA graphs off: over the prompt and the chained steps they have to grow by one."
        ),
    ),
    Cause.WINDOW_IGNORED: Explanation(
        why=(
            "The draft was trained with a sliding window, and the server attends to the whole context: it "
            "was not told --speculative-draft-window-size, the only thing that counts for sglang's Llama "
            "draft. Depth forward finds it by its numbers, if the prompt is longer than the window; depths "
            "header and load report window-differs."
        ),
        symptom="Silent: acceptance drops in contexts that are longer than the window.",
        confirm=(
            "If layer_types has sliding_attention, the server has to be told sliding_window minus one."
            + _keys("layer_types", "sliding_window", "transformer_layer_config")
            + _served("draft_window_size")
        ),
    ),
    Cause.WINDOW_STANDING: Explanation(
        why=(
            "In speculators' training a chained step attends to what the last position of the prompt "
            "attended to, and to its own chain: the window does not move. Token by token it moves along. "
            "Depth forward sees that the training library's forward pass and its modules differ by this, "
            "for drafts with a window."
        ),
        symptom=(
            "Silent, and next to nothing with a window of thousands: a chain of s steps sees up to s "
            "positions more in training than when it is served."
        ),
        confirm=(
            "Look whether the draft has a window, and how long it is. Contexts that are shorter than the "
            "window do not have the difference."
            + _keys("layer_types", "sliding_window", "transformer_layer_config")
        ),
    ),
    Cause.MAP_ABSOLUTE: Explanation(
        why=(
            "d2t holds offsets, and the serving side takes them for target ids. sglang adds the draft "
            "token's id when it loads d2t, in every recorded release; a library or a patch that does not "
            "would show this. Depth forward names it by the tokens that come out."
        ),
        symptom="Silent: all draft tokens become low token ids, and next to none is accepted.",
        confirm=(
            "Look at what the draft class does with d2t: an arange has to be added."
            + _source("hot_token_id = ", "models/llama_eagle3.py")
        ),
    ),
    Cause.MAP_HOLDS_IDS: Explanation(
        why=(
            "Whoever wrote d2t stored the target ids themselves. sglang and speculators both read offsets, "
            "so the draft token's id is added once too often. Depths header and forward name it; depth "
            "load reports vocab-map-differs, and vocab-map-out-of-range where the sum leaves the "
            "vocabulary."
        ),
        symptom=(
            "Silent as long as the sums stay within the vocabulary, and next to no draft token is "
            "accepted; loud beyond."
        ),
        confirm=(
            "Offsets never fall from entry to entry and are at most vocab_size minus draft_vocab_size; "
            "target ids reach up to vocab_size. This prints the first entries, the largest one, and the "
            "largest target id if they are offsets."
            + _map("d[:8].tolist(), int(d.max()), int(t.max())")
            + _keys("vocab_size", "draft_vocab_size")
        ),
    ),
    Cause.MAP_IGNORED: Explanation(
        why=(
            "Draft ids are used as target ids: d2t is missing, or the server runs an algorithm that does "
            "not look at it (EAGLE). Depth forward names it by the tokens that come out; depths header and "
            "load report vocab-map-missing."
        ),
        symptom="Silent: next to no draft token is accepted.",
        confirm=(
            "d2t has to be in the checkpoint, and the server has to run EAGLE3."
            + _shapes("d2t")
            + _served("speculative_algorithm")
        ),
    ),
    Cause.TOKENS_DIFFER: Explanation(
        why=(
            "Scores agree to rounding, and other tokens come out of them. What lies between is the "
            "vocabulary map, and how the best score is chosen. Depth forward tells it from differing "
            "scores, and leaves ties out."
        ),
        symptom="Silent: next to no draft token is accepted if the map is wrong.",
        confirm=("Compare the two maps: this prints True if they are equal." + _equal("d2t", "d2t")),
    ),
    Cause.OUTPUT_CHANGED: Explanation(
        why=(
            "With greedy sampling a draft may change how fast tokens come, and never which. If the text "
            "differs, verification accepted a token that the target would not choose, or the cache holds "
            "what was rejected. Depth engine compares every token with what the target generates alone."
        ),
        symptom=(
            "Silent: users get other answers; with acceptance thresholds below 1 that is what the server "
            "was told to do."
        ),
        confirm=(
            "Send the same token ids to the server with the draft and to one without, and compare "
            "output_ids. On a GPU two scores that are nearly equal may change places by rounding alone."
            + _GENERATE
        ),
    ),
    Cause.DRAFTS_DIFFER: Explanation(
        why=(
            "Depth engine asks training's modules, at every place of the text, what they would draft "
            "there, and the engine drafted something else. If depths load and forward name a cause it is "
            "the same one; if they do not, something goes wrong after the first round, in the cache or in "
            "how accepted states are handed on."
        ),
        symptom="Silent: the accept length is lower than it should be.",
        confirm=(
            "Compare the accept length of answers of few tokens with that of long ones, by the counts that "
            "come with each answer: 1 + spec_num_correct_drafts / spec_verify_ct. If it falls with length, "
            "a later round is to blame." + _GENERATE
        ),
    ),
    Cause.VERIFICATION_DIFFERS: Explanation(
        why=(
            "Verification has to accept the longest drafted path that the target would have generated "
            "itself. Thresholds below 1 accept more, and SGLANG_SIMULATE_ACC_LEN makes acceptance up. "
            "Depth engine compares the count of each round with the target's own text."
        ),
        symptom=(
            "Silent: the accept length says nothing of the draft, and with too much accepted the text "
            "changes."
        ),
        confirm=(
            "The two thresholds have to be 1, and SGLANG_SIMULATE_ACC_LEN must not be set where the server "
            "was started." + _served("accept_threshold")
        ),
    ),
    Cause.ACCEPT_LENGTH: Explanation(
        why=(
            "The sum of everything else: any cause that lets draft tokens be rejected ends here. Depth "
            "engine compares the engine's count with a replay by training's modules, and with what the "
            "trainer's own full_acc promise. For a draft with a reduced vocabulary the trainer measures "
            "within that vocabulary, and text that leaves it accepts less."
        ),
        symptom=(
            "Silent: accept len in the server's Decode batch lines is near 1, or lower than 1 + full_acc_0 "
            "+ full_acc_1 + ..."
        ),
        confirm=(
            "Send prompts like the training data and compute 1 + spec_num_correct_drafts / spec_verify_ct "
            "from meta_info of the answer; contracts acceptance --url URL does the same for several "
            "prompts." + _GENERATE
        ),
    ),
    Cause.COUNTS_DIFFER: Explanation(
        why=(
            "The scheduler counts verifications and accepted draft tokens for each request, and logs and "
            "metrics are made of these. Depth engine counts itself and compares. The spec_accept_length of "
            "an answer is another matter: it also counts the first token, which no draft had a part in."
        ),
        symptom="Silent: the accept length that is reported is wrong, the text is not.",
        confirm=(
            "Of an answer, completion_tokens has to be 1 + spec_verify_ct + spec_num_correct_drafts, or "
            "less if the last round went beyond the end." + _GENERATE
        ),
    ),
    Cause.SETTING_IGNORED: Explanation(
        why=(
            "An argument was renamed, or the library overrides it: with topk 1 sglang sets the number of "
            "draft tokens to the number of steps plus one, and says so in its log. Depth engine counts "
            "nodes, branches, requests in a batch and parts of prompts."
        ),
        symptom="Silent but for a warning at start: trees, batches or chunks are of another size than told.",
        confirm=(
            "The server tells the values that it arrived at."
            + _served("speculative_num|eagle_topk|max_running|chunked_prefill")
        ),
    ),
    Cause.MACHINE_LACKS: Explanation(
        why=(
            "A GPU has some of the attention backends that a release offers, and a machine some number of "
            "GPUs or cores. What it lacks is left out, and told; no GPU at all is another matter, and "
            "judges nothing."
        ),
        symptom="None: this is about the machine that judges.",
        confirm="contracts ci machine --tier gpu",
    ),
    Cause.SERVER_LEFT: Explanation(
        why=(
            "sglang's server is a family of processes. Its children end with it where the kernel is asked to "
            "(PR_SET_PDEATHSIG); one that was started otherwise, or that hangs in a driver, stays, and holds "
            "memory of the GPU and the port."
        ),
        symptom="Loud, later: the next server finds its port taken or too little memory.",
        confirm="After the server was ended: `ps -ef | grep sglang` and `nvidia-smi` show who is left.",
    ),
    Cause.METRICS_MISSING: Explanation(
        why=(
            "This is about the suite and the trainer: the promise of an accept length is made of "
            "full_acc_0, full_acc_1, ... in the val_metrics.json beside a checkpoint. A trainer that "
            "validates nothing, or names them otherwise, leaves nothing to compare with. Depth engine "
            "needs them."
        ),
        symptom=(
            "In this suite's report only: the contract about what training promised fails, whatever the "
            "server does."
        ),
        confirm=(
            "Look into the file that the trainer left beside the checkpoint."
            + _run(
                "import json; m = json.load(open('val_metrics.json')); "
                "print({k: m[k] for k in m if 'acc' in k})"
            )
        ),
    ),
    Cause.ALGORITHM_DIFFERS: Explanation(
        why=(
            "A server that is started with --speculative-algorithm EAGLE (or NEXTN) takes an EAGLE-3 draft "
            "without a word. It captures no aux states, so fc is skipped, takes the target's head, and "
            "does not look at d2t. Depths header and load see it if they are given the server's arguments."
        ),
        symptom=(
            "Silent: the server starts and answers, and rejects next to every draft token; other "
            "algorithms are loud."
        ),
        confirm=("Ask the server what it runs: it has to be EAGLE3." + _served("speculative_algorithm")),
    ),
    Cause.TRAINING_DISAGREES: Explanation(
        why=(
            "The forward pass that trains a draft, and its modules run one token at a time, as any engine "
            "runs them, give other numbers. In speculators 0.7 to 0.8.1 eager attention masks with 1 and 0 "
            "where 0 and -inf are due, so chained steps see what they should not. Depth forward compares "
            "the two ways; no engine can serve such a draft as it was trained."
        ),
        symptom="Silent: the trainer's accuracies of later draft tokens are not what any server reaches.",
        confirm=(
            "Validate one checkpoint with --draft-attn-impl eager and with sdpa: if full_acc_1 and later "
            "ones differ by more than noise, one of them is wrong." + _block("python -m pip show speculators")
        ),
    ),
    Cause.SURFACE_CHANGED: Explanation(
        why=(
            "This is about the suite: what a release shows at the interface (names, shapes, keys, options, "
            "defaults) is recorded, and this release shows something else, or has no record and differs "
            "from the newest before it. The surface contracts (depth load) list every difference with what "
            "it means for drafts already trained."
        ),
        symptom="In this suite's report only; whether a server gains or loses depends on the difference.",
        confirm=(
            "Compare the records of two releases, then look the difference up in the library's own release "
            "notes." + _block("contracts diff sglang 0.5.22 0.5.23")
        ),
    ),
}
