"""The training side: builds real drafts with the real speculators, saves them, and reports what they are.

Confirmed for speculators 0.8.1 and 0.9.0, without a difference. Everything here calls the library: config
class, draft class, vocabulary map builder, save path, and for one recipe its command line.
"""

from __future__ import annotations

import copy
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts import checkpoint
from contracts.facts import (
    Attention,
    AuxLayers,
    Device,
    DraftFacts,
    HiddenDims,
    NormFlags,
    Rope,
    Sharing,
    TensorShapes,
    VocabMap,
    WeightNames,
)
from contracts.probes import (
    speculators_acceptance,
    speculators_capture,
    speculators_hypotheses,
    speculators_meta,
    speculators_release,
    speculators_replay,
    speculators_trainer,
    speculators_training,
    transformers_target,
)
from contracts.probes.kernels import torchvision_ops
from contracts.probes.observe import STATE, angles, epsilon, reads
from contracts.probes.stream import Refusals

LAYER_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
)
"""What a draft's layer config takes over from the target, as the library's own command does."""

ATTENTION = "sdpa"
"""Runs on every device. So does eager, but that of 0.8.1 lets a chained step attend to every other chain."""

FIXTURES = Path(__file__).parent.parent / "fixtures"

PROMPT_TOKENS = 40
"""More than the shortest attention window of a recipe."""
PROMPT_SEED = 5
CHAIN_STEPS = 4
"""Greedy draft tokens after the first."""


def setup(_device: Device = "cpu") -> tuple[str, ...]:
    """Import the library once, for all cases; this side runs on the CPU whatever serves."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # every file is local; never look for one elsewhere
    torch.set_num_threads(1)
    uncompiled = speculators_release.set_up()
    declared = torchvision_ops.install()
    import speculators.models.eagle3
    import speculators.train.vocab_mapping  # noqa: F401

    found = ["torchvision operators (declared only)"] if declared else []
    return (*uncompiled, *found, *speculators_training.install())


def observe(case: dict[str, Any], refusals: Refusals) -> DraftFacts:
    """Build the target if need be, then build, save and describe the draft of one recipe."""
    if "release" in case:
        return speculators_release.observe(case)
    recipe, folder, target = case["recipe"], Path(case["folder"]), Path(case["target"])
    _save_target(recipe["target"], target)
    try:
        with refusals.stage("build"):
            BUILDERS[recipe["built_by"]](recipe, folder, target)
    except speculators_training.Lacking as lacking:
        refusals.note("build", lacking)
    model = None
    if not refusals.items:
        with refusals.stage("reload"):
            model = _load(folder)
    if model is None:
        return DraftFacts()
    taps = _taps(model, recipe, target)
    _replay(model, taps, target, Path(case["golden"]), refusals)
    if "prompts" in case:
        with refusals.stage("generate"):
            speculators_acceptance.save_expected(
                speculators_release.with_dense_attention(copy.deepcopy(model).float().eval()),
                taps,
                target,
                case["prompts"],
                case["tokens"],
                Path(case["expected"]),
            )
    ran = None
    with refusals.stage("run"):
        ran = speculators_meta.forward(model)
    return _describe(model, checkpoint.read(folder), taps, target, ran)


def _save_target(spec: dict[str, Any], folder: Path) -> None:
    """A seeded random Llama, saved by transformers, or a committed one; recipes share targets."""
    if (folder / "config.json").exists():
        return
    if spec["fixture"]:
        shutil.copytree(FIXTURES / spec["fixture"], folder)
        transformers_target.spell_rope_twice(folder)
        return
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(spec["seed"])
    sizes = {key: spec[key] for key in (*LAYER_KEYS, "num_hidden_layers", "tie_word_embeddings")}
    rope = transformers_target.rope({"rope_type": "default", "rope_theta": spec["rope_theta"]})
    config = LlamaConfig(**sizes, **rope, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
    model = LlamaForCausalLM(config)
    _seed(model, spec["seed"], lambda name: "norm" in name)  # fresh norms are all ones and hide much
    model.to(getattr(torch, spec["dtype"])).save_pretrained(folder)
    transformers_target.spell_rope_twice(folder)


def _draft_class(recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """Build the draft as the library's training script does, seed it, save it."""
    model = speculators_training.build(recipe, target, _layer_config(recipe, target), ATTENTION)
    frozen = {"lm_head.weight"} | (set() if recipe["train_embedding"] else {"embed_tokens.weight"})
    _seed(model, recipe["seed"], lambda name: name not in frozen and not name.startswith("verifier_"))
    model.to(getattr(torch, recipe["target"]["dtype"])).save_pretrained(folder)


def _layer_config(recipe: dict[str, Any], target: Path) -> Any:
    from transformers import AutoConfig, LlamaConfig, Qwen3Config

    source = AutoConfig.from_pretrained(target)
    keys: dict[str, Any] = {key: getattr(source, key) for key in LAYER_KEYS}
    keys |= {"num_hidden_layers": recipe["num_layers"], "tie_word_embeddings": False, "rms_norm_eps": 1e-5}
    keys |= transformers_target.rope_of(source)
    layer = dict(recipe["layer"])
    if "rope_parameters" in layer:
        keys |= transformers_target.rope(layer.pop("rope_parameters"))
    keys |= layer
    return {"llama": LlamaConfig, "qwen3": Qwen3Config}[recipe["layer_type"]](**keys)


def _seed(model: Any, seed: int, chosen: Callable[[str], bool]) -> None:
    """Give every chosen weight a seeded value, as training would; norms stay near one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        if chosen(name):
            noise = 0.1 * torch.randn(parameter.shape, generator=generator)
            with torch.no_grad():
                parameter.copy_(1 + noise if "norm" in name else noise)


def _train_command(_recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """`speculators train --dry-run` with its defaults: it saves the untrained draft and stops.

    Raises:
        Lacking: the release has no such command.

    """
    speculators_training.check_command()
    from speculators.cli import app

    arguments = ["--verifier-name-or-path", str(target), "--save-path", str(folder), "--dry-run"]
    # The tiny target has no tokenizer to take the mask token from; eagle3 does not use one.
    app(["train", *arguments, "--mask-token-id", "0"], standalone_mode=False)


def _fixture(recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """Load a committed draft and save it again, by the library, for the target at hand."""
    draft = _load(FIXTURES / recipe["name"], target)
    draft.to(getattr(torch, recipe["target"]["dtype"])).save_pretrained(folder)


def _trainer(recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """Train the draft by the library's command, or by its trainer where there is none."""
    if speculators_release.has("train-command"):
        speculators_training.train(recipe, folder, target)
    else:
        draft = speculators_training.build(recipe, target, _layer_config(recipe, target), ATTENTION)
        speculators_trainer.train(recipe, draft, folder, target)


BUILDERS: dict[str, Callable[[dict[str, Any], Path, Path], None]] = {
    "class": _draft_class,
    "command": _train_command,
    "trainer": _trainer,
    "fixture": _fixture,
}


def _load(folder: Path, target: Path | None = None) -> Any:
    """The saved draft, by the library's own loader; for a target in another place than its config says."""
    from speculators.models.eagle3 import Eagle3DraftModel

    config = Eagle3DraftModel.config_class.from_pretrained(folder)
    chosen = speculators_release.has("attention-chosen")
    config.transformer_layer_config._attn_implementation = ATTENTION if chosen else "simple_flex_attention"
    if target is not None:
        config.speculators_config.verifier.name_or_path = str(target)
    draft = speculators_release.load(folder, config)
    for name, absent in speculators_release.WITHOUT.items():
        if not hasattr(draft, name):
            setattr(draft, name, absent)
    return draft


def _replay(draft: Any, taps: tuple[int, ...], target: Path, file: Path, refusals: Refusals) -> None:
    """Write the golden tensors: inputs, what the draft makes of them, and what each hypothesis would.

    Everything is computed in float32 from the weights as saved. What the library raises is its refusal; what
    goes wrong with a hypothesis is our own fault.
    """
    draft = copy.deepcopy(draft).float().eval()
    vocab_size = draft.embed_tokens.num_embeddings
    generator = torch.Generator().manual_seed(PROMPT_SEED)
    states = transformers_target.observe(
        target, torch.randint(0, vocab_size, (PROMPT_TOKENS,), generator=generator)
    )
    dense = speculators_release.with_dense_attention(draft)
    trained = speculators_hypotheses.setting(dense, states, taps)
    golden = {
        "tokens": states.tokens,
        "given": trained.inputs.states,
        "ids": torch.tensor(trained.ids),
        "target_ids": torch.tensor(
            [speculators_replay.target_id(draft, token) for token in range(draft.lm_head.out_features)]
        ),
        "states": states.states,
        "normed_states": states.normed,
        "bare_states": states.bare,
    }
    with refusals.stage("replay"):
        golden |= speculators_replay.library_forward(draft, trained.inputs, CHAIN_STEPS).tensors("library/")
    if refusals.items:
        return
    golden |= speculators_replay.chain(dense, trained.inputs, CHAIN_STEPS, trained.how).tensors("golden/")
    for name, outcome in speculators_hypotheses.outcomes(trained, CHAIN_STEPS):
        golden |= outcome.tensors(f"hypothesis/{name}/")
    file.parent.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in golden.items()}, file)


def _describe(
    model: Any,
    saved: checkpoint.Checkpoint,
    taps: tuple[int, ...],
    target: Path,
    ran: speculators_meta.Ran | None,
) -> DraftFacts:
    """Facts of a built draft: from the live model, from a forward pass of it if it ran, and what it saved."""
    config = model.config
    target_config = checkpoint.read_json(target / "config.json")
    offsets = [0] * config.draft_vocab_size if model.d2t is None else model.d2t.tolist()
    return DraftFacts(
        architecture=type(model).__name__,
        algorithm=str(config.speculators_config.algorithm).lower(),
        reads_target_state=None if ran is None else STATE in ran.logits_from,
        config_keys=tuple(sorted(_keys(dict(saved.config)))),
        weight_names=WeightNames(names=tuple(sorted(saved.tensors))),
        tensor_shapes=TensorShapes(
            shapes={name: tensor.shape for name, tensor in sorted(saved.tensors.items())},
            dtypes={name: tensor.dtype for name, tensor in sorted(saved.tensors.items())},
        ),
        aux_layers=AuxLayers(
            states=taps,
            layer_ids=speculators_release.target_layer_ids(model),
            num_layers=target_config["num_hidden_layers"],
        ),
        vocab_map=VocabMap(
            target_ids=tuple(draft + offset for draft, offset in enumerate(offsets)),
            mapped=model.d2t is not None,
            draft_vocab_size=config.draft_vocab_size,
            target_vocab_size=target_config["vocab_size"],
        ),
        hidden_dims=None
        if ran is None
        else _hidden_dims(model, len(taps), target_config["hidden_size"], ran),
        norms=None if ran is None else _norms(ran),
        norm_eps=epsilon(model),
        rope=_rope(model),
        attention=_attention(model),
        sharing=_sharing(model, target),
    )


def _hidden_dims(model: Any, taps: int, target: int, ran: speculators_meta.Ran) -> HiddenDims:
    return HiddenDims(
        target=target,
        delivered=taps * target,
        fc_in=model.fc.in_features,
        draft=model.embed_tokens.weight.shape[1],
        recurrent=ran.recurrent_width,
        fc_applied="fc.weight" in ran.logits_from,
    )


def _norms(ran: speculators_meta.Ran) -> NormFlags:
    return NormFlags(
        norm_before_fc=reads(ran.logits_from, "input_norm."),
        fc_norm=reads(ran.logits_from, "fc_norm."),
        norm_output=reads(ran.recurrent_from, "norm."),
        norm_before_residual=reads(ran.residual_from, "layers.0.hidden_norm."),
    )


def _rope(model: Any) -> Rope:
    """What the rotary module tabulates, and which dimensions the layer's own function rotates together."""
    cos, sin = model.rotary_emb(torch.zeros(1, 2, model.hidden_size), torch.arange(2)[None])
    pairs = cos.shape[-1] // 2
    frequencies, amplitude = angles(cos[0, :, :pairs], sin[0, :, :pairs])
    layer = sys.modules[type(model.layers[0].self_attn).__module__]
    unit = torch.zeros(1, 1, 1, cos.shape[-1])
    unit[..., 0] = 1.0
    turned, _ = layer.apply_rotary_pos_emb(unit, unit, cos[:, 1:], sin[:, 1:])
    partner = int(turned[0, 0, 0, 1:].abs().argmax()) + 1
    return Rope(inverse_frequencies=frequencies, interleaved=partner == 1, amplitude=amplitude)


def _attention(model: Any) -> Attention:
    first, layer_config = model.layers[0].self_attn, model.config.transformer_layer_config
    windowed = getattr(model, "sliding_window_indices", ())  # none before 0.7
    windows = (model.sliding_window if index in windowed else None for index in range(len(model.layers)))
    return Attention(
        num_heads=layer_config.num_attention_heads,
        num_kv_heads=layer_config.num_key_value_heads,
        head_dim=first.head_dim,
        scale=float(first.scaling),
        biased=first.q_proj.bias is not None,
        qk_norm=hasattr(first, "q_norm"),
        windows=tuple(windows),
    )


def _taps(model: Any, recipe: dict[str, Any], target: Path) -> tuple[int, ...]:
    """Hidden-state indices of the target that the draft is trained on.

    Since 0.5.0 a layer id is the index itself: id i is the input of layer i. Where the library validates ids,
    it is asked: it has to accept the number of layers, the final state, and to refuse the next. Before 0.5.0
    ids were those of the library's own capture, which is asked as well, and the draft does not record them.
    """
    ids = speculators_release.target_layer_ids(model)
    if not speculators_release.has("ids-recorded") and ids is None:
        return speculators_capture.states(recipe["aux_layer_ids"])
    assert ids is not None
    if speculators_release.has("ids-validated"):
        _check_convention(str(target), transformers_target.num_layers(target))
    return ids


def _check_convention(target: str, last: int) -> None:
    from speculators.models.utils import resolve_target_layer_ids

    resolve_target_layer_ids([last], target)
    try:
        resolve_target_layer_ids([last + 1], target)
    except ValueError:
        return
    raise NotImplementedError(
        "this release numbers the target's layers in a way that this probe does not know"
    )


def _sharing(model: Any, target: Path) -> Sharing:
    """Whether the saved embedding and head are the target's own, bit for bit."""
    from transformers import AutoModelForCausalLM

    owner = AutoModelForCausalLM.from_pretrained(target)
    embedding = owner.get_input_embeddings().weight.to(model.embed_tokens.weight.dtype)
    head = owner.get_output_embeddings().weight.to(model.lm_head.weight.dtype)
    return Sharing(
        embedding="target" if torch.equal(model.embed_tokens.weight, embedding) else "draft",
        head="target" if torch.equal(model.lm_head.weight, head) else "draft",
    )


def _keys(config: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys of a nested config, dotted; which library version wrote it is no term of the interface."""
    keys = []
    for key, value in config.items():
        if key in ("speculators_version", "transformers_version"):
            continue
        keys.append(prefix + key)
        if isinstance(value, dict):
            keys += _keys(value, f"{prefix}{key}.")
    return keys
