"""How releases of speculators differ in what the probe has to call: each difference declared, with its range.

Nothing here says what a draft is; it says how the library is asked for one. A release in which nothing moved
needs no entry.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from contracts.facts import DraftFacts
from contracts.probes import transformers_target
from contracts.probes.capability import Capability, Release

CAPABILITIES: Mapping[str, Capability] = {
    "built-from-arguments": Capability(
        since="0.4.0", why="from_training_args builds a draft; before, the script filled in the config"
    ),
    "compiled-on-gpu-only": Capability(
        since="0.4.0", why="forward is compiled where there is a GPU; before, everywhere"
    ),
    "maps-loaded-apart": Capability(
        since="0.5.0", why="a draft is made of its config; before, its constructor was given the maps as well"
    ),
    "ids-recorded": Capability(
        since="0.5.0",
        why="layer ids are in the config and name inputs of layers, as vLLM's; before, outputs, unrecorded",
    ),
    "attention-chosen": Capability(
        since="0.7.0", why="the attention is an option; before, it was flex attention"
    ),
    "document-ids": Capability(
        since="0.7.0",
        why="forward is given document ids and the true next tokens; before, lengths, and it used its own",
    ),
    "ids-validated": Capability(
        since="0.8.0", why="layer ids out of range are refused; before, nothing looked at them"
    ),
    "train-command": Capability(
        since="0.8.0", why="`speculators train`; before, a script that is not in the wheel"
    ),
}

WITHOUT: Mapping[str, Any] = {
    "input_norm": None,
    "fc_norm": None,
    "sliding_window": None,
    "sliding_window_indices": (),
}
"""What the attributes of a draft would say in a release that does not have them."""

PLAIN = (bool, int, float, str, type(None))
"""Types of defaults that are recorded; the others are made anew for each config."""

release = Release("speculators", CAPABILITIES)
has = release.has


def set_up() -> tuple[str, ...]:
    """Before the library is imported: let it run uncompiled; says what is stood in for."""
    if has("compiled-on-gpu-only"):
        return ()
    setattr(torch, "compile", lambda function=None, *_, **__: function or (lambda inner: inner))  # noqa: B010
    return ("compilation (none)",)


def load(folder: Path, config: Any) -> Any:
    """The draft saved in `folder`: by the library's loader, or where that loads none, by its constructor."""
    from speculators.models.eagle3 import Eagle3DraftModel

    if has("maps-loaded-apart"):
        return Eagle3DraftModel.from_pretrained(folder, config=config)
    weights = load_file(folder / "model.safetensors")
    draft = Eagle3DraftModel(config, t2d=weights.get("t2d"), d2t=weights.get("d2t"))
    left = draft.load_state_dict(weights, strict=False)
    if left.unexpected_keys or not all(key.startswith("verifier_") for key in left.missing_keys):
        raise RuntimeError(f"the draft does not fit its own class: {left}")
    return draft


def config_fields() -> set[str]:
    """Options of a draft that this release knows."""
    from speculators.models.eagle3 import Eagle3SpeculatorConfig

    return set(Eagle3SpeculatorConfig.model_fields)


def build(arguments: Mapping[str, Any]) -> Any:
    """A draft, as the library's training script builds it from its arguments."""
    from speculators.models.eagle3 import Eagle3DraftModel

    if has("built-from-arguments"):
        return Eagle3DraftModel.from_training_args(**arguments)
    from speculators.config import SpeculatorsConfig, VerifierConfig
    from speculators.models.eagle3 import Eagle3SpeculatorConfig
    from speculators.proposals.greedy import GreedyTokenProposalConfig
    from transformers import AutoConfig

    proposal = GreedyTokenProposalConfig(speculative_tokens=arguments["ttt_steps"])
    target = arguments["verifier_name_or_path"]
    architectures = AutoConfig.from_pretrained(target).architectures
    verifier = VerifierConfig(name_or_path=target, architectures=architectures)
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=arguments["verifier_config"],
        draft_vocab_size=arguments["draft_vocab_size"],
        norm_before_residual=arguments["norm_before_residual"],
        speculators_config=SpeculatorsConfig(
            algorithm="eagle3",
            proposal_methods=[proposal],
            default_proposal_method="greedy",
            verifier=verifier,
        ),
    )
    return Eagle3DraftModel(config=config, t2d=arguments["t2d"], d2t=arguments["d2t"])


def with_dense_attention(draft: Any) -> Any:
    """The draft with an attention that takes any mask; itself where that was chosen when it was loaded."""
    if has("attention-chosen"):
        return draft
    dense = copy.deepcopy(draft)
    for layer in dense.layers:
        layer.self_attn.config._attn_implementation = "sdpa"
    return dense


@contextlib.contextmanager
def on_the_meta_device() -> Iterator[None]:
    """Let forward run where no mask can be computed, and where transformers 4 cannot turn autocast off."""
    from speculators.models.eagle3 import core

    changed: list[tuple[Any, str, Any]] = []
    if not has("attention-chosen"):
        names = ("create_combined_mask_mod", "create_block_mask", "extend_mask_for_draft_tokens")
        changed += [(core, name, lambda *_, **__: None) for name in names]
    if transformers_target.MAJOR < 5:
        changed.append((torch, "autocast", lambda *_, **__: contextlib.nullcontext()))
    with contextlib.ExitStack() as stack:
        for place, name, replacement in changed:
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, replacement)
        yield


def target_layer_ids(draft: Any) -> tuple[int, ...] | None:
    """Layer ids in the config of a draft; None before they were recorded."""
    ids = draft.config.eagle_aux_hidden_state_layer_ids
    return None if ids is None else tuple(ids)


def sequence(tokens: int) -> dict[str, Any]:
    """How forward is told that `tokens` tokens are one sequence, on the meta device or the CPU."""
    if has("document-ids"):
        return {"document_ids": torch.zeros(1, tokens, dtype=torch.long)}
    return {"lengths": torch.tensor([tokens])}


def observe(case: Mapping[str, Any]) -> DraftFacts:
    """Write what the release shows whatever the recipe to `case["release"]`."""
    from speculators import SpeculatorModelConfig, models
    from speculators.models.eagle3 import Eagle3SpeculatorConfig

    for module in pkgutil.iter_modules(models.__path__):  # each registers its type
        importlib.import_module(f"{models.__name__}.{module.name}")
    own = {
        name
        for base in Eagle3SpeculatorConfig.__mro__
        if base.__module__.partition(".")[0] == "speculators"
        for name in vars(base).get("__annotations__", ())
    }
    defaults = {
        name: field.default
        for name, field in sorted(Eagle3SpeculatorConfig.model_fields.items())
        if name in own - {"speculators_version"} and isinstance(field.default, PLAIN)
    }
    traits = {"types": sorted(SpeculatorModelConfig.registry or ()), "config_defaults": defaults}
    Path(case["release"]).write_text(json.dumps(traits))
    return DraftFacts()
