"""Lets the library tell a target which hidden states to deliver, wherever a release keeps that step."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from contracts.probes import sglang_release
from contracts.probes.stream import OutOfReach

SETTER = "set_eagle3_layers_to_capture"
LAST_STEP = "init_aux_hidden_state_capture"
STEPS = ("initialize", LAST_STEP, "_build_model_config")
"""Of ModelRunner's methods those that decide about capture; the others load, allocate and record graphs."""


class Capture:
    """What the library decided about capture, and what it then told the target."""

    def __init__(self, arguments: Any, target_config: Any, algorithm: Any) -> None:
        """Let it decide, where a release does so before there is a target."""
        self.layer_ids: tuple[int, ...] | None = None
        """The ids that the target was given; None: none, so that its class's defaults apply."""
        self._arguments = arguments
        self._target_config = target_config
        self._algorithm = algorithm
        self._decided: Any = None
        if sglang_release.has("capture-apart"):
            from sglang.srt.model_executor.model_runner_components import spec_aux_hidden_state

            self._decided = spec_aux_hidden_state.resolve_spec_aux_hidden_state_config(
                server_args=arguments,
                model_config=target_config,
                spec_algorithm=algorithm,
                is_draft_worker=False,
            )

    def tell(self, target: Any) -> None:
        """Tell the target, as far as the library does; notes the ids that it is given."""
        if hasattr(target, SETTER):
            setter = getattr(target, SETTER)

            def noting(layer_ids: Any = None) -> None:
                self.layer_ids = None if layer_ids is None else tuple(layer_ids)
                setter(layer_ids)

            setattr(target, SETTER, noting)
        if sglang_release.has("capture-apart"):
            self._configure(target)
        else:
            _construct_runner(self._arguments, self._target_config, target)

    def _configure(self, target: Any) -> None:
        from sglang.srt.model_executor.model_runner_components import attention_backend_setup

        decided = self._decided
        attention_backend_setup.configure_aux_hidden_state_capture(
            model=target,
            eagle_use_aux_hidden_state=decided.eagle_use_aux_hidden_state,
            eagle_aux_hidden_state_layer_ids=decided.eagle_aux_hidden_state_layer_ids,
            dflash_use_aux_hidden_state=decided.dflash_use_aux_hidden_state,
            dflash_target_layer_ids=decided.dflash_target_layer_ids,
            is_dspark=self._algorithm.is_dspark(),
        )


def _construct_runner(arguments: Any, target_config: Any, target: Any) -> None:
    """Run the constructor of ModelRunner around a target that is there already; it tells the target."""
    from sglang.srt.model_executor import model_runner

    taken: set[str] = set()

    class Runner(model_runner.ModelRunner):
        """Everything that does not decide about capture is left out."""

        model = target
        # Set by steps that are left out:
        kv_cache_dtype = target_config.dtype
        sliding_window_size = None
        max_total_num_tokens = 2

        def __getattribute__(self, name: str) -> Any:
            step = inspect.getattr_static(model_runner.ModelRunner, name, None)
            if not inspect.isfunction(step) or name.startswith("__"):
                return super().__getattribute__(name)
            taken.add(name)
            if name in STEPS:
                return super().__getattribute__(name)
            if {SETTER, LAST_STEP} & set(step.__code__.co_names):
                raise OutOfReach(f"ModelRunner.{name} tells the target what to capture, and is left out")
            return lambda *_, **__: 0.0  # one of them measures memory

    model_runner.apply_torchao_config_to_model = lambda *_, **__: None
    asked = inspect.signature(model_runner.ModelRunner).parameters
    alone: dict[str, Any] = {name: 0 for name in asked if name.endswith("_rank") and name != "dp_rank"}
    alone |= {name: 1 for name in asked if name.endswith("_size")}
    alone |= {"req_to_token_pool": SimpleNamespace(size=1)}
    runner = Runner(
        model_config=target_config,
        mem_fraction_static=0.1,
        gpu_id=0,
        nccl_port=0,
        server_args=arguments,
        **alone,
    )
    if LAST_STEP not in taken and hasattr(model_runner.ModelRunner, LAST_STEP):
        runner.init_aux_hidden_state_capture()  # in 0.5.14 and 0.5.15 its owner has it do so later
