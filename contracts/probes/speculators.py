"""The training side: builds real drafts with the real speculators, saves them, and reports what they are.

Confirmed for speculators 0.8.1 and 0.9.0, without a difference. Everything here calls the library: config
class, draft class, vocabulary map builder, save path, and for one recipe its command line.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from contracts import checkpoint
from contracts.facts import (
    Device,
    DraftFacts,
)
from contracts.probes import (
    language,
    speculators_acceptance,
    speculators_facts,
    speculators_hypotheses,
    speculators_meta,
    speculators_release,
    speculators_replay,
    speculators_trainer,
    speculators_training,
    transformers_target,
)
from contracts.probes.kernels import torchvision_ops
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

AGREEMENT = 1e-5
"""Relative error that rounding explains between two ways of computing the same."""

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
            model = _load(folder, recipe["attention"])
    if model is None:
        return DraftFacts()
    taps = speculators_facts.taps(model, recipe, target)
    agrees = _replay(model, taps, target, (Path(case["inputs"]), Path(case["golden"])), refusals)
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
    described = speculators_facts.describe(model, checkpoint.read(folder), taps, target, ran)
    return replace(described, agrees_with_itself=agrees)


def _save_target(spec: dict[str, Any], folder: Path) -> None:
    """A seeded random Llama, saved by transformers, or a committed one; the same bytes whatever saves it."""
    if spec["fixture"]:
        shutil.copytree(FIXTURES / spec["fixture"], folder)
    else:
        from transformers import LlamaConfig, LlamaForCausalLM

        sizes = {key: spec[key] for key in (*LAYER_KEYS, "num_hidden_layers", "tie_word_embeddings")}
        rope = transformers_target.rope({"rope_type": "default", "rope_theta": spec["rope_theta"]})
        config = LlamaConfig(**sizes, **rope, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
        model = LlamaForCausalLM(config)
        _seed(model, spec["seed"], lambda _: True, spread=config.initializer_range)
        model.to(getattr(torch, spec["dtype"])).save_pretrained(folder)
    transformers_target.spell_for_all(folder)


def _draft_class(recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """Build the draft as the library's training script does, seed it, save it."""
    model = speculators_training.build(recipe, target, _layer_config(recipe, target))
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


def _seed(model: Any, seed: int, chosen: Callable[[str], bool], spread: float = 0.1) -> None:
    """Give every chosen weight a seeded value, as training would; norms stay near one.

    Values are drawn in the order of names: releases of transformers initialise in orders of their own.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        if chosen(name):
            noise = torch.randn(parameter.shape, generator=generator)
            with torch.no_grad():
                parameter.copy_(1 + 0.1 * noise if "norm" in name else spread * noise)


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
    draft = _load(FIXTURES / recipe["name"], recipe["attention"], target)
    draft.to(getattr(torch, recipe["target"]["dtype"])).save_pretrained(folder)


def _checkpoint(recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """Load anybody's draft and save it again, by the library, for the target at hand.

    The target is a stand-in: it gets the draft's embedding, unless that was trained on.
    """
    from transformers import LlamaForCausalLM

    draft = _load(Path(recipe["checkpoint"]), recipe["attention"], target)
    draft.save_pretrained(folder)
    own = draft.embed_tokens.weight.detach()
    model = LlamaForCausalLM.from_pretrained(target)
    if (
        not getattr(draft.config, "embed_requires_grad", False)
        and own.shape == model.model.embed_tokens.weight.shape
    ):
        model.model.embed_tokens.weight.data.copy_(own)
        model.save_pretrained(target)
        transformers_target.spell_for_all(target)


def _trainer(recipe: dict[str, Any], folder: Path, target: Path) -> None:
    """Train the draft by the library's command, or by its trainer where there is none."""
    if speculators_release.has("train-command"):
        speculators_training.train(recipe, folder, target)
    else:
        counts = {token: int(token in language.SYMBOL_IDS) for token in range(language.VOCAB_SIZE)}
        draft = speculators_training.build(recipe, target, _layer_config(recipe, target), counts)
        speculators_trainer.train(recipe, draft, folder, target)


BUILDERS: dict[str, Callable[[dict[str, Any], Path, Path], None]] = {
    "class": _draft_class,
    "command": _train_command,
    "trainer": _trainer,
    "fixture": _fixture,
    "checkpoint": _checkpoint,
}


def _load(folder: Path, attention: str, target: Path | None = None) -> Any:
    """The saved draft, by the library's own loader; for a target in another place than its config says."""
    from speculators.models.eagle3 import Eagle3DraftModel

    config = Eagle3DraftModel.config_class.from_pretrained(folder)
    chosen = speculators_release.has("attention-chosen")
    config.transformer_layer_config._attn_implementation = attention if chosen else "simple_flex_attention"
    transformers_target.read_rope(config.transformer_layer_config)
    if target is not None:
        config.speculators_config.verifier.name_or_path = str(target)
    draft = speculators_release.load(folder, config)
    for name, absent in speculators_release.WITHOUT.items():
        if not hasattr(draft, name):
            setattr(draft, name, absent)
    return draft


def _replay(
    draft: Any, taps: tuple[int, ...], target: Path, files: tuple[Path, Path], refusals: Refusals
) -> bool | None:
    """Write the inputs to a file of their own, and the golden tensors: what the draft makes of them.

    With them goes what each hypothesis would make, and what the target says. Tells whether the library's own
    forward pass makes the same of the inputs as its modules do; None if it raised.
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
        return None
    golden |= speculators_replay.chain(dense, trained.inputs, CHAIN_STEPS, trained.how).tensors("golden/")
    for name, outcome in speculators_hypotheses.outcomes(trained, CHAIN_STEPS):
        golden |= outcome.tensors(f"hypothesis/{name}/")
    inputs = {
        "tokens": golden["tokens"],
        "given": golden["given"],
        "steps": torch.tensor([len(golden["golden/logits"])]),
    }
    for file, tensors in zip(files, (inputs, golden), strict=True):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    return all(
        _error(golden[f"golden/{part}"], golden[f"library/{part}"]) <= AGREEMENT
        for part in ("fused", "recurrent", "logits")
    )


def _error(due: torch.Tensor, seen: torch.Tensor) -> float:
    """Largest difference, relative to the largest value that is due."""
    return float((due - seen).abs().max() / due.abs().max()) if due.shape == seen.shape else float("inf")
