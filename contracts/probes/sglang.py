"""The serving side at depth "load": the real sglang resolves, loads, shares and captures, on the meta device.

Confirmed for sglang 0.5.22 and 0.5.23. What runs is the library's own: server arguments, model configuration,
model class, checkpoint iteration, `load_weights`, the draft worker's sharing of embedding and head, the
target's capture setter, and one forward pass of target and draft. The meta device has no values, so the cost
does not grow with the draft; the vocabulary map is the one tensor that is read for real.

The only pieces of ours inside that forward pass are the attention (its output depends on q, k and v and is
otherwise meaningless: attention kernels are compiled) and the batch that stands in for a scheduler's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from contracts import spellings
from contracts.facts import (
    Attention,
    AuxLayers,
    ComputeDtypes,
    Device,
    DraftFacts,
    HiddenDims,
    NormFlags,
    Owner,
    Rope,
    Sharing,
    TensorShapes,
    VocabMap,
    WeightNames,
)
from contracts.probes import (
    sglang_capture,
    sglang_engine,
    sglang_release,
    sglang_replay,
    sglang_targets,
    sglang_traits,
)
from contracts.probes import sglang_meta as meta
from contracts.probes.dataflow import Names
from contracts.probes.kernels import (
    attention_backend,
    gpu_kernels,
    sgl_kernel,
    torchvision_ops,
    vllm_layers,
)
from contracts.probes.observe import STATE, angles, epsilon, first_hidden_norm, reads
from contracts.probes.recording import record_reads
from contracts.probes.stream import OutOfReach, Refusals


def setup(device: Device = "cpu") -> tuple[str, ...]:
    """Import the library once, for all cases; a machine without a GPU needs no more than this.

    On a GPU nothing is stood in for.

    Raises:
        OutOfReach: there is no GPU.

    """
    os.environ.update(TORCHDYNAMO_DISABLE="1", HF_HUB_OFFLINE="1", GLOO_SOCKET_IFNAME="lo")
    drafts_here = device == "cuda" or sglang_release.has("cpu-drafting")
    if not drafts_here:
        os.environ["TRITON_INTERPRET"] = "1"  # the library's small index kernels
    torch.set_num_threads(1)
    stand_ins: list[str] = []
    if device == "cuda":
        if not torch.cuda.is_available():
            raise OutOfReach(f"torch {torch.__version__} finds no GPU here; leave --device cuda out")
    else:
        os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
        stand_ins += ["torchvision operators (declared only)"] if torchvision_ops.install() else []
        stand_ins += sgl_kernel.install()
        if not sglang_release.has("own-layers"):
            stand_ins += vllm_layers.install()
        stand_ins += sglang_release.wait_for_nothing()
    import sglang.srt.managers.scheduler
    import sglang.srt.model_executor.model_runner
    import sglang.srt.models.registry
    import sglang.srt.speculative.eagle_worker_v2  # noqa: F401

    if not drafts_here:
        stand_ins += attention_backend.install()
        stand_ins += gpu_kernels.install()
    return tuple(stand_ins)


def observe(case: dict[str, Any], refusals: Refusals) -> DraftFacts:
    """Serve the draft in `case["folder"]` for the target in `case["target"]` as far as the library allows."""
    if "target_recipe" in case:
        return sglang_targets.observe(case, refusals)
    if "classes" in case:
        return sglang_targets.classes(case)
    if "inputs" in case:
        return sglang_replay.observe(case, refusals)
    if "release" in case:
        return sglang_traits.observe(case)
    if "prompts" in case:
        return sglang_engine.observe(case, refusals)
    if "spelling" in case:
        spellings.by_name(case["spelling"]).write(Path(case["folder"]), Path(case["target"]))
    session = Session()
    with refusals.stage("resolve"):
        session.resolve(case["target"], case["folder"], case["server_args"])
    if refusals.items:
        return DraftFacts()
    meta.connect()
    with refusals.stage("load"):
        session.build_target()
        session.load_draft()
    if refusals.items:
        return session.facts_of_config()
    with refusals.stage("share"):
        session.share()
    if refusals.items and not hasattr(session.draft, "hot_token_id"):
        return session.facts_of_config()  # no draft class at all
    with refusals.stage("capture"):
        session.capture()
    if not refusals.items:
        with refusals.stage("forward"):
            session.forward()
    return session.facts()


class Session:
    """One target and one draft inside the library, stage by stage."""

    def __init__(self) -> None:
        self.seen_keys: set[str] = set()
        self.target: Any = None
        self.draft: Any = None
        self.shared = False
        self.delivered: torch.Tensor | None = None
        self.delivered_parts: tuple[tuple[int, Names], ...] = ()
        self.logits_from: Names = frozenset()
        self.recurrent_from: Names = frozenset()
        self.residual_from: Names = frozenset()
        self.recurrent_width = 0

    # ------------------------------------------------------------------ stages

    def resolve(self, target: str, draft: str, server_args: list[str]) -> None:
        """Server arguments and both model configurations."""
        from sglang.srt.configs import model_config
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        self._record_config_reads(model_config, draft)
        arguments = self.arguments = sglang_release.server_arguments(
            meta.command_line(target, draft, server_args), server_args
        )
        sglang_release.publish(arguments)
        self.algorithm = SpeculativeAlgorithm.from_string(arguments.speculative_algorithm)
        self.target_config = ModelConfig.from_server_args(arguments)
        self.captured = sglang_capture.Capture(arguments, self.target_config, self.algorithm)
        # The path that the library goes by, which is the target's where it was told of none.
        path = sglang_release.speculation(arguments).speculative_draft_model_path
        self.draft_config = sglang_release.draft_config(arguments, path, self.target_config.context_len)

    def _record_config_reads(self, module: Any, draft: str) -> None:
        """Note which keys of the draft's config.json are asked for, from the moment it has been read."""
        read = module.get_config

        def get_config(model: str, *args: Any, **kwargs: Any) -> Any:
            config = read(model, *args, **kwargs)
            if model == draft:
                record_reads(config, self.seen_keys)
            return config

        module.get_config = get_config

    def build_target(self) -> None:
        """The target, by its real class; its weights say nothing about the interface."""
        self.target = meta.build(self.target_config)

    def load_draft(self) -> None:
        """The draft, by its real class and loader, watched."""
        self.draft = meta.build(self.draft_config)
        self.loading = meta.load(self.draft_config, self.draft)

    def share(self) -> None:
        """The draft worker's own token map, embedding and head."""
        from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker

        runner = meta.StandIn(
            "target runner",
            model=self.target,
            model_config=self.target_config,
            load_config=meta.load_config(),
        )
        worker: Any = meta.StandIn(
            "draft worker",
            server_args=self.arguments,
            speculative_algorithm=self.algorithm,
            hot_token_id=None,
            draft_runner=meta.StandIn("draft runner", model=self.draft),
            target_worker=meta.StandIn("target worker", model_runner=runner),
        )
        if hasattr(EagleDraftWorker, "_resolve_shared_embed_and_head"):  # since 0.5.21
            resolve = EagleDraftWorker._resolve_shared_embed_and_head
            worker._resolve_shared_embed_and_head = lambda: resolve(worker)
        EagleDraftWorker.init_token_map(worker)
        EagleDraftWorker.init_lm_head(worker)
        self.worker_map: torch.Tensor | None = worker.hot_token_id
        self.shared = True

    def capture(self) -> None:
        """Tell the target which hidden states to deliver, then let it deliver them."""
        self.captured.tell(self.target)
        output, flow = meta.forward(self.target)
        self.delivered = output.hidden_states
        self.delivered_parts = flow.parts(output.hidden_states)

    def forward(self) -> None:
        """One decode step of the draft on what the target delivers, then one with attention and MLP muted.

        With both muted, what the first layer feeds on is its residual alone: that shows whether the norm
        before it is part of the residual.
        """
        assert self.delivered is not None
        output, flow = meta.forward(self.draft, state=self.delivered)
        self.logits_from = flow.origins(output.next_token_logits)
        self.recurrent_from = flow.origins(output.hidden_states)
        self.recurrent_width = output.hidden_states.shape[-1]
        hooks = [
            layer.mlp.register_forward_hook(
                lambda _module, _inputs, out: torch.zeros_like(out, device="meta")
            )
            for layer in meta.layers(self.draft)
        ]
        muted, flow = meta.forward(self.draft, state=self.delivered, mute=True)
        self.residual_from = flow.origins(muted.hidden_states)
        for hook in hooks:
            hook.remove()

    # ------------------------------------------------------------------- facts

    def facts_of_config(self) -> DraftFacts:
        """All that is known when loading was refused."""
        architectures = self.draft_config.hf_config.architectures or [None]
        return DraftFacts(
            architecture=architectures[0],
            algorithm=self.algorithm.name.lower(),
            config_keys=self._config_keys(),
        )

    def facts(self) -> DraftFacts:
        """What was observed; a stage that was refused leaves its fields None."""
        ran = bool(self.logits_from)
        return DraftFacts(
            architecture=type(self.draft).__name__,
            algorithm=self.algorithm.name.lower(),
            reads_target_state=STATE in self.logits_from if ran else None,
            config_keys=self._config_keys(),
            weight_names=self._weight_names() if ran else None,
            tensor_shapes=self._tensor_shapes(),
            aux_layers=self._aux_layers() if self.delivered is not None else None,
            vocab_map=self._vocab_map(),
            hidden_dims=self._hidden_dims() if ran else None,
            norms=self._norms() if ran else None,
            norm_eps=epsilon(self.draft),
            rope=self._rope(),
            attention=self._attention(),
            sharing=self._sharing() if self.shared else None,
            compute=ComputeDtypes(
                draft=str(self.draft_config.dtype).removeprefix("torch."),
                target=str(self.target_config.dtype).removeprefix("torch."),
            ),
        )

    def _config_keys(self) -> tuple[str, ...]:
        methods = {
            name
            for name in self.seen_keys
            if callable(getattr(type(self.draft_config.hf_config), name, None))
        }
        return tuple(sorted(self.seen_keys - methods))

    def _weight_names(self) -> WeightNames:
        consumed = {write.source for writes in self.loading.flow.writes.values() for write in writes}
        if self.draft.hot_token_id is not None:
            consumed |= self.loading.flow.origins(self.draft.hot_token_id)
        return WeightNames(
            names=tuple(sorted(consumed)),
            ignored=tuple(sorted(set(self.loading.offered) - consumed)),
            unwritten=tuple(sorted(self._unwritten())),
        )

    def _unwritten(self) -> list[str]:
        """Parameters of the draft's own that the forward pass reads and that are not wholly written."""
        own = {name: p for name, p in self.draft.named_parameters() if not self._is_targets(p)}
        return [name for name, p in own.items() if name in self.logits_from and not self._is_full(name, p)]

    def _is_targets(self, parameter: torch.Tensor) -> bool:
        return any(parameter is candidate for candidate in self.target.parameters())

    def _is_full(self, name: str, parameter: torch.Tensor) -> bool:
        """Whether the written parts cover the parameter (each part counted once, padding left out)."""
        parts = {(write.offset, write.size) for write in self.loading.flow.writes.get(name, ())}
        rows = meta.used_rows(self.draft.get_submodule(name.rpartition(".")[0]), parameter)
        return sum(size for _, size in parts) >= rows * parameter[0].numel()

    def _tensor_shapes(self) -> TensorShapes:
        shapes, dtypes, places = {}, {}, {}
        for parameter, writes in self.loading.flow.writes.items():
            for write in writes:
                shapes[write.source] = write.shape
                dtypes[write.source] = write.dtype
                places[write.source] = f"{parameter}[{write.offset}]"
        ids = self.draft.hot_token_id
        if ids is not None:
            for name in self.loading.flow.origins(ids):
                shapes[name], dtypes[name] = tuple(ids.shape), str(ids.dtype).removeprefix("torch.")
                places[name] = "hot_token_id[0]"
        return TensorShapes(shapes=shapes, dtypes=dtypes, places=places)

    def _aux_layers(self) -> AuxLayers:
        return AuxLayers(
            states=tuple(meta.hidden_state_index(origins) for _, origins in self.delivered_parts),
            layer_ids=self.captured.layer_ids,
            num_layers=self.target_config.hf_text_config.num_hidden_layers,
            final_norm=any(meta.after_final_norm(origins) for _, origins in self.delivered_parts),
        )

    def _vocab_map(self) -> VocabMap | None:
        """The map as the worker holds it after it has set up the draft."""
        if not self.shared:
            return None
        ids = None
        if self.worker_map is not None:
            ids = self.draft.hot_token_id  # the worker's copy is on the target's device and has no values
            if ids is None or self.worker_map.shape != ids.shape:
                raise NotImplementedError("the worker holds another map than the draft does")
        size = self.draft_config.hf_config.draft_vocab_size
        return VocabMap(
            target_ids=tuple(range(size)) if ids is None else tuple(ids.tolist()),
            mapped=ids is not None,
            draft_vocab_size=size,
            target_vocab_size=self.target_config.hf_text_config.vocab_size,
        )

    def _hidden_dims(self) -> HiddenDims:
        assert self.delivered is not None
        return HiddenDims(
            target=self.target_config.hf_text_config.hidden_size,
            delivered=self.delivered.shape[-1],
            fc_in=self.draft.model.fc.in_features,
            draft=self.draft.model.embed_tokens.weight.shape[-1],
            recurrent=self.recurrent_width,
            fc_applied="model.fc.weight" in self.logits_from,
        )

    def _norms(self) -> NormFlags:
        return NormFlags(
            norm_before_fc=reads(self.logits_from, "model.input_norm."),
            fc_norm=reads(self.logits_from, "model.fc_norm."),
            norm_output=reads(self.recurrent_from, "model.norm."),
            norm_before_residual=reads(self.residual_from, f"{first_hidden_norm(self.draft)}."),
        )

    def _rope(self) -> Rope:
        """The table that the rotary module computes for itself, on the CPU."""
        rotary = meta.layers(self.draft)[0].self_attn.rotary_emb
        cos, sin = rotary._compute_cos_sin_cache()[:2].chunk(2, dim=-1)
        frequencies, amplitude = angles(cos, sin)
        return Rope(
            inverse_frequencies=frequencies, interleaved=not rotary.is_neox_style, amplitude=amplitude
        )

    def _attention(self) -> Attention:
        layers = [layer.self_attn for layer in meta.layers(self.draft)]
        first = layers[0]
        windows = [layer.attn.sliding_window_size for layer in layers]
        return Attention(
            num_heads=first.total_num_heads,
            num_kv_heads=first.total_num_kv_heads,
            head_dim=first.head_dim,
            scale=float(first.attn.scaling),
            biased=any(name.endswith("qkv_proj.bias") for name, _ in self.draft.named_parameters()),
            qk_norm=any(".q_norm." in name for name, _ in self.draft.named_parameters()),
            # sglang counts the positions before the token's own
            windows=tuple(window + 1 if window is not None and window >= 0 else None for window in windows),
        )

    def _sharing(self) -> Sharing:
        embedding: Owner = "target" if self._is_targets(self.draft.model.embed_tokens.weight) else "draft"
        head: Owner = "target" if self._is_targets(self.draft.lm_head.weight) else "draft"
        return Sharing(embedding=embedding, head=head)
