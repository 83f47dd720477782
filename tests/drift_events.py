"""Events at the interface that were read out of the libraries' sources, and where the records show each.

An event names the two recorded releases around it and the change that `contracts diff` has to name between
them; or it says why no record can show it. `python -m tests.drift_table` writes docs/drift.md of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.drift_rules import Consequence

LOUD, SILENT, NONE = Consequence.LOUD, Consequence.SILENT, Consequence.NONE


@dataclass(frozen=True, kw_only=True)
class Event:
    name: str
    about: str
    library: str = "sglang"
    old: str | None = None
    """The last recorded release before it."""
    new: str | None = None
    path: str | None = None
    """Place that differs."""
    shows: str = ""
    """What the change has to mention."""
    recipe: str | None = None
    """One of the recipes that it has to be told for; None: it is about none."""
    consequence: Consequence | None = None
    """Of going from old to new."""
    why_not: str | None = None
    """Why no record shows it."""


OLDER = "before the oldest release that can be judged"
EVENTS = (
    Event(name="layers.N", about="the decoder layer is read as layers.N.* too, not as midlayer.* alone",
          old="0.5.11", new="0.5.12.post1", path="weight_names.ignored", shows="layers.0.mlp",
          recipe="trained_names", consequence=NONE),
    Event(name="several layers", about="drafts of more than one layer are taken", old="0.5.11",
          new="0.5.12.post1", path="refusals", shows="only supports 1 layer", recipe="two_layers",
          consequence=NONE),
    Event(name="number of aux layers", about="fc is as wide as the config says, not always three states",
          old="0.5.11", new="0.5.12.post1", path="refusals", shows="into parameter",
          recipe="four_aux_layers", consequence=NONE),
    Event(name="fc_norm", about="a norm per aux state before fc is applied", old="0.5.11",
          new="0.5.12.post1", path="norms.fc_norm", recipe="fc_norm", consequence=NONE),
    Event(name="norm_output", about="the state fed back is normed", old="0.5.11", new="0.5.12.post1",
          path="norms.norm_output", recipe="norm_output", consequence=NONE),
    Event(name="input_norm", about="one norm before fc is applied", old="0.5.16", new="0.5.17",
          path="norms.norm_before_fc", recipe="norm_before_fc", consequence=NONE),
    Event(name="RoPE spelling", about="rope_parameters is read; before, its values were lost in silence",
          old="0.5.9", new="0.5.10.post1", path="rope.inverse_frequencies", recipe="rope_new_spelling",
          consequence=NONE),
    Event(name="DeepSeek ids", about="1 is added to the ids only if the first is 1", old="0.5.12.post1",
          new="0.5.13.post1", path="targets.*DeepseekV3ForCausalLM*.usual", shows="ids contain no 1",
          consequence=SILENT),
    Event(name="gpt-oss ids", about="ids that contain the number of layers are used as given", old="0.5.16",
          new="0.5.17", path="targets.*GptOssForCausalLM*.with_the_last", consequence=SILENT),
    Event(name="MiniMax-M3 VL", about="the multimodal class can be captured", old="0.5.17", new="0.5.18",
          path="targets", shows="MiniMaxM3SparseForConditionalGeneration", consequence=NONE),
    Event(name="use_aux_hidden_state", about="eagle_config.use_aux_hidden_state is asked for", old="0.5.7",
          new="0.5.8.post1", path="config_keys", shows="eagle_config.use_aux_hidden_state", recipe="plain",
          consequence=NONE),
    Event(name="steps, topk, tokens", about="targets but Llama draft 3 steps in a chain when told nothing",
          old="0.5.7", new="0.5.8.post1", path="speculation.Qwen3ForCausalLM.num_steps", consequence=SILENT),
    Event(name="MLA draft", about="a class for EAGLE-3 drafts with MLA", old="0.5.11", new="0.5.12.post1",
          path="draft_classes", shows="Eagle3DeepseekV2ForCausalLM", consequence=NONE),
    Event(name="Python", about="Python 3.11 is required", old="0.5.21", new="0.5.22",
          path="requires_python", shows=">=3.11", consequence=LOUD),
    Event(name="Qwen3.5", about="the text classes can be captured since 0.5.22", old="0.5.21",
          new="0.5.22", path="targets", shows="Qwen3_5ForCausalLM", consequence=NONE),
    Event(name="embedding among the states", about="they can be captured", old="0.5.21", new="0.5.22",
          path="refusals", shows="NoneType", recipe="embedding_state", consequence=NONE),
    Event(name="layer ids of training", library="speculators",
          about="an id names the input of a layer; before, its output, and the draft does not record it",
          old="0.4.0.1", new="0.5.0", path="aux_layers.states", shows="other layers", recipe="plain",
          consequence=SILENT),
    Event(name="norms of training", library="speculators", about="fc_norm and norm_output", old="0.6.0.2",
          new="0.7.0.2", path="refusals", shows="has no option fc_norm", recipe="fc_norm", consequence=NONE),
    Event(name="aux layers in training", library="speculators", about="fc is as wide as the ids say",
          old="0.6.0.2", new="0.7.0.2", path="refusals", shows="be multiplied", recipe="four_aux_layers",
          consequence=NONE),
    Event(name="training command", library="speculators", about="`speculators train`", old="0.7.0.2",
          new="0.8.1", path="refusals", shows="no training command", recipe="command_defaults",
          consequence=NONE),
    Event(name="null eagle_config", about='`"eagle_config": null` ends the worker', old="0.5.7",
          new="0.5.8.post1", path="refusals", shows="NoneType", recipe="no_eagle_config", consequence=LOUD),
    Event(name="null eagle_config, mended", about="a null eagle_config is taken for none", old="0.5.14",
          new="0.5.15.post1", path="refusals", shows="NoneType", recipe="no_eagle_config", consequence=NONE),
    Event(name="capture in CUDA graphs", about="up to 0.5.10 decode graphs captured the default layers",
          why_not="needs a GPU: CUDA graphs"),
    Event(name="sticky capture", about="Qwen MoE targets captured default and given layers at once",
          why_not="needs a GPU: it follows from the CUDA graphs"),
    Event(name="fused all-reduce", about="partial sums are captured with tensor parallelism",
          why_not="needs two GPUs with fused all-reduce"),
    Event(name="multimodal embeddings", about="of a batch only the last token was replaced, 0.5.10 to 0.5.13",
          why_not="needs a multimodal target"),
    Event(name="worker", about="one draft worker instead of two", why_not="nothing changes for a checkpoint; "
          "declared in contracts/probes/sglang_release.py (one-worker)"),
    Event(name="no setter", about="a target without a setter is refused by name", why_not="loud in both"),
    Event(name="Glm4v", about="Glm4v loses its setter in 0.5.5", why_not=OLDER),
    Event(name="Qwen2 in 0.5.2", about="the aux states are unpacked twice", why_not=OLDER),
    Event(name="draft_vocab_size null", about="the target's head is shared since 0.5.2", why_not=OLDER),
    Event(name="tied without draft_vocab_size", about="an AttributeError since 0.5.5", why_not=OLDER),
    Event(name="padded vocabulary", about="logits are cut to draft_vocab_size since 0.5.5", why_not=OLDER),
    Event(name="dtype key", about="`dtype` without `torch_dtype` is read since 0.5.2", why_not=OLDER),
    Event(name="context length", about="a draft shorter than its target is refused", why_not=OLDER),
    Event(name="mrope", about="mrope_section is honoured since 0.5.2", why_not=OLDER),
    Event(name="rope_theta of scripts", library="speculators", about="scripts to 0.5 drop the target's base",
          why_not="the scripts are not in the wheel"),
    Event(name="script defaults", library="speculators", about="defaults of the 0.7 script",
          why_not="the scripts are not in the wheel; the command of 0.8 is recorded (command_defaults)"),
    Event(name="convert", library="speculators", about="convert drops the first layer in 0.2.0 to 0.4.0",
          why_not="none of these is the newest patch of its minor"),
    Event(name="eager mask", library="speculators",
          about="with eager attention a chained step attends to its own chain; from 0.7 on, to all of them",
          old="0.8.1", new="0.9.0", path="agrees_with_itself", recipe="eager_attention", consequence=NONE),
)  # fmt: skip
