"""vLLM's HTTP server. It adds up its counts in /metrics (vllm/v1/spec_decode/metrics.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from contracts.prompts import Prompt, as_text
from contracts.servers.counts import Counts, Served
from contracts.servers.talk import ServerError, Talk

PREFIX = "vllm:spec_decode_num_"
LARGEST = 10**12
MOST_PLACES = 1024


class Vllm:
    """vLLM's HTTP server."""

    def __init__(self, talk: Talk, version: str) -> None:
        """Look at /v1/models and /metrics.

        Raises:
            ServerError: it keeps no metrics, or runs without speculation.

        """
        self._talk = talk
        self.notes: list[str] = []
        steps = len(self._read().reached)
        self.served = Served(
            url=talk.url, engine=f"vLLM {version}", target=self._model(version), steps=steps or None
        )

    def _model(self, version: str) -> str:
        models = self._talk.look("/v1/models")
        try:
            return str(models["data"][0]["id"])
        except (TypeError, LookupError):
            raise ServerError(f"{self._talk.url}: /v1/models of vLLM {version} names no model") from None

    def _read(self) -> Counts:
        """What it has counted since it was started."""
        try:
            text = self._talk.read("/metrics")
            families = {family.name: family.samples for family in text_string_to_metric_families(text)}
            if not any(name.startswith("vllm:") for name in families):
                raise ServerError(
                    f"{self._talk.url}: vLLM keeps no metrics; start it without --disable-log-stats"
                )
            if f"{PREFIX}drafts" not in families:
                raise ServerError(
                    f"{self._talk.url}: vLLM runs without speculation; start it with --speculative-config"
                )
            places = _by_place(families.get(f"{PREFIX}accepted_tokens_per_pos", ()))
            return Counts(
                rounds=_total(families[f"{PREFIX}drafts"]),
                accepted=_total(families.get(f"{PREFIX}accepted_tokens", ())),
                reached=tuple(places[place] for place in sorted(places)),
            )
        except (ValueError, LookupError) as error:
            raise ServerError(f"{self._talk.url}: /metrics is not as vLLM writes it ({error})") from None

    def measure(self, prompts: Sequence[Prompt], tokens: int, answered: Callable[[], None]) -> Counts:
        """See `Server.measure`. Requests of others that are answered meanwhile are counted too."""
        before = self._read()
        for number, prompt in enumerate(prompts, 1):
            self._complete(prompt, tokens, f"prompt {number} of {len(prompts)}")
            answered()
        counts = self._read() - before
        if told := counts.contradiction(self.served.steps):
            raise ServerError(f"{self._talk.url}: the counts in /metrics contradict each other: {told}")
        if not counts.rounds:
            raise ServerError(
                f"{self._talk.url}: no draft was verified: every answer ended at its first token"
            )
        return counts

    def _complete(self, prompt: Prompt, tokens: int, where: str) -> None:
        question = {"model": self.served.target, "temperature": 0.0, "max_tokens": tokens}
        if not isinstance(prompt, str) and isinstance(prompt[0], dict):
            chat = {**question, "messages": prompt}
            if self._talk.try_to("/v1/chat/completions", chat, where) is not None:
                return
            if not self.notes:
                self.notes.append("asked as plain text: the server has no chat template")
            prompt = as_text([turn for turn in prompt if isinstance(turn, dict)])
        self._talk.ask("/v1/completions", {**question, "prompt": prompt}, where)


def _counters(samples: Sequence[Any]) -> list[Any]:
    return [sample for sample in samples if sample.name.endswith("_total")]


def _total(samples: Sequence[Any]) -> int:
    return sum(_whole(sample.value) for sample in _counters(samples))


def _by_place(samples: Sequence[Any]) -> dict[int, int]:
    """Rounds in which the token at each place was accepted, over all engines of the server."""
    places: dict[int, int] = {}
    for sample in _counters(samples):
        place = int(sample.labels["position"])
        if not 0 <= place < MOST_PLACES:
            raise ValueError(f"position {place}")
        places[place] = places.get(place, 0) + _whole(sample.value)
    return places


def _whole(value: float) -> int:
    if not 0 <= value <= LARGEST or value != int(value):
        raise ValueError(f"a count of {value:g}")
    return int(value)
