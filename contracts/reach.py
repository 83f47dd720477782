"""What a session can serve on its device: all of it, some, or nothing, and why not."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property

from contracts import gpus
from contracts.causes import Cause
from contracts.facts import Device, Refusal
from contracts.handoff import NotRun, describe
from contracts.service import Serving
from contracts.settings import GPU_SETTINGS, SETTINGS, Setting


class Reach:
    """The device of a session, on this machine, with this release."""

    def __init__(self, device: Device, python: Callable[[], str]) -> None:
        self._device = device
        self._python = python
        """The interpreter of the serving side."""

    @cached_property
    def machine(self) -> gpus.Machine:
        """The GPUs that the serving side finds, and what its release offers for them."""
        return gpus.look(self._python())

    def settings(self) -> Sequence[Setting]:
        """In which the engine can serve; none if the device is not there."""
        if self._device == "cpu":
            return SETTINGS
        return [setting for setting in (*SETTINGS, *GPU_SETTINGS) if self.why_not(setting) is None]

    def why_not(self, setting: Setting | Serving | None = None) -> str | None:
        """Why nothing, or not this setting, can be served; None if it can."""
        if self._device == "cpu":
            return "only a GPU serves so: --device cuda" if setting and setting.of_gpus else None
        if not isinstance(setting, Setting) or setting.backend is None:
            return self.machine.reason
        return self.machine.why_not(setting.backend, setting.topk)

    def why_not_served(self, serving: Serving) -> str | None:
        """Why this machine cannot start the server so; None if it can."""
        if self._device == "cpu":
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
            few = f"{serving.ranks} ranks need as many cores; there is {cores}"
            return few if serving.ranks > cores else self.why_not(serving)
        found = len(self.machine.gpus)
        if 0 < found < serving.ranks:
            return f"{serving.ranks} ranks need as many GPUs; there is {found}"
        return self.machine.reason

    def check(self, why_not: str | None) -> None:
        """Stop at a reason why something cannot be served.

        Raises:
            NotRun: there is one; with a cause if this machine has a part of what the tier needs.

        """
        if why_not is None:
            return
        some = self._device == "cpu" or bool(self.machine.gpus)
        raise NotRun(why_not, cause=Cause.MACHINE_LACKS if some else None)

    def suited(self, refusals: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
        """What the library raised.

        Raises:
            NotRun: it says on a GPU that its kernels do not suit what it was asked for.

        """
        if self._device != "cpu" and any(gpus.UNSUITED.search(item.message) for item in refusals):
            self.check(f"the release says of this GPU: {describe(refusals)}")
        return refusals
