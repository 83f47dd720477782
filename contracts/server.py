"""A running server, over HTTP: what it serves, and what it counts while it answers prompts.

sglang reports its counts with each answer of /generate (sglang 0.5.23, managers/tokenizer_manager.py); vLLM
adds them up in its /metrics (vllm/v1/spec_decode/metrics.py), of which the difference over the prompts is
taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from prometheus_client.parser import text_string_to_metric_families

from contracts.prompts import Prompt, as_text

GREEDY = 0.0
SHOWN = 300
"""Characters of a server's own words that are passed on."""


class ServerError(Exception):
    """A server that cannot be measured: what, where, what to do. One line."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a server says about itself; None where it does not say."""

    engine: str
    """Name and release."""
    target: str
    draft: str | None = None
    algorithm: str | None = None
    steps: int | None = None
    """Draft tokens in a row."""
    topk: int | None = None
    """Branches to a node of the draft tree."""
    draft_tokens: int | None = None
    """Nodes of the tree, the last committed token included."""
    accept_thresholds: tuple[float, ...] = ()
    """Below 1, tokens are accepted that the target would not have chosen."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a server counted over some answers."""

    rounds: int = 0
    """Verifications of a draft."""
    accepted: int = 0
    """Draft tokens accepted."""
    reached: tuple[int, ...] = ()
    """Rounds in which at least 1, 2, ... draft tokens were accepted; empty if the server does not tell."""

    @property
    def accept_length(self) -> float:
        """Tokens per verification: the accepted draft tokens and one that the target adds."""
        return 1 + self.accepted / self.rounds if self.rounds else 1.0

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of rounds in which draft tokens 1 to k were all accepted; compares with full_acc_(k-1)."""
        return tuple(count / self.rounds for count in self.reached) if self.rounds else ()

    @property
    def standard_error(self) -> float:
        """Of the accept length, over rounds; 0 if the server does not count enough to tell."""
        if not self.rounds or not self.reached:
            return 0.0
        mean = self.accepted / self.rounds
        # E[n^2] of a count n >= 0 is the sum over k >= 1 of (2k - 1) P(n >= k).
        squares = sum((2 * k - 1) * share for k, share in enumerate(self.shares, 1))
        return math.sqrt(max(squares - mean**2, 0.0) / self.rounds)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            rounds=self.rounds + other.rounds,
            accepted=self.accepted + other.accepted,
            reached=_added(self.reached, other.reached),
        )


def _added(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    size = max(len(one), len(other))
    padded = ([*counts, *[0] * (size - len(counts))] for counts in (one, other))
    return tuple(map(sum, zip(*padded, strict=True)))


class Server(Protocol):
    """A server that drafts."""

    served: Served

    def measure(self, prompts: Sequence[Prompt], tokens: int, answered: Callable[[], None]) -> Counts:
        """Ask each prompt for so many tokens, greedily; returns what the server counted.

        Raises:
            ServerError: it refused, went away, or did not count.

        """


@contextmanager
def connect(url: str, *, api_key: str | None = None, timeout: float = 120.0) -> Iterator[Server]:
    """Find out what serves at `url`, and talk to it; `timeout` in seconds, for each answer.

    Raises:
        ServerError: nothing does, it is neither sglang nor vLLM, or it runs without speculation.

    """
    talk = _Talk(url, api_key, timeout)
    with closing(talk):
        yield _identify(talk)


def _identify(talk: _Talk) -> Server:
    for path in ("/server_info", "/get_server_info"):  # the second until sglang 0.5.4
        info = talk.json_or_none(path)
        if isinstance(info, dict) and "speculative_algorithm" in info:
            return Sglang(talk, info)
    version = talk.json_or_none("/version")
    if isinstance(version, dict) and "version" in version:
        return Vllm(talk, str(version["version"]))
    raise ServerError(
        f"{talk.url}: neither sglang (no /server_info) nor vLLM (no /version) answers there; "
        "--url takes the server's own address, without a path and not that of a router"
    )


class Sglang:
    """sglang's HTTP server."""

    def __init__(self, talk: _Talk, info: Mapping[str, Any]) -> None:
        """Read what `/server_info` said.

        Raises:
            ServerError: it runs without speculation.

        """
        self._talk = talk
        self._has_tokenizer = not info.get("skip_tokenizer_init")
        algorithm = info["speculative_algorithm"]
        if not algorithm:
            raise ServerError(
                f"{talk.url}: sglang runs without speculation; start it with --speculative-algorithm EAGLE3 "
                "and --speculative-draft-model-path"
            )
        thresholds = (info.get(f"speculative_accept_threshold_{name}") for name in ("single", "acc"))
        self.served = Served(
            engine=f"sglang {info.get('version', '(release unknown)')}",
            target=str(info.get("model_path")),
            draft=info.get("speculative_draft_model_path"),
            algorithm=str(algorithm),
            steps=info.get("speculative_num_steps"),
            topk=info.get("speculative_eagle_topk"),
            draft_tokens=info.get("speculative_num_draft_tokens"),
            accept_thresholds=tuple(value for value in thresholds if isinstance(value, (int, float))),
        )

    def measure(self, prompts: Sequence[Prompt], tokens: int, answered: Callable[[], None]) -> Counts:
        """See `Server.measure`."""
        total = Counts()
        for number, prompt in enumerate(prompts, 1):
            where = f"prompt {number} of {len(prompts)}"
            total += self._counted(self._generate(prompt, tokens, where), where)
            answered()
        return _some(total, self._talk.url)

    def _generate(self, prompt: Prompt, tokens: int, where: str) -> Mapping[str, Any]:
        sampling = {"temperature": GREEDY, "max_new_tokens": tokens}
        question = {**self._question(prompt), "sampling_params": sampling}
        answer = self._talk.ask("/generate", question, where)
        meta = answer.get("meta_info") if isinstance(answer, dict) else None
        if not isinstance(meta, dict):
            raise ServerError(f"{self._talk.url}: the answer to {where} has no meta_info")
        return meta

    def _question(self, prompt: Prompt) -> dict[str, Any]:
        if not isinstance(prompt, str) and isinstance(prompt[0], int):
            return {"input_ids": prompt}
        if not self._has_tokenizer:
            raise ServerError(
                f"{self._talk.url}: the server runs without a tokenizer (--skip-tokenizer-init); give it "
                f"token "
                "ids with --prompts FILE, a JSON list a line"
            )
        if isinstance(prompt, str):
            return {"text": prompt}
        ids = self._talk.json_or_none("/tokenize", {"messages": prompt})
        if isinstance(ids, dict) and ids.get("tokens"):
            return {"input_ids": ids["tokens"]}
        return {"text": as_text(prompt)}  # a target without a chat template

    def _counted(self, meta: Mapping[str, Any], where: str) -> Counts:
        """Of one answer. Releases before 0.5.6 count the rounds only, others by another name."""
        rounds = meta.get("spec_verify_ct", 0)
        if not rounds:
            return Counts()  # one token, made by the prefill
        accepted = meta.get("spec_num_correct_drafts", meta.get("spec_accept_token_num"))
        if accepted is None:
            accepted = meta.get("completion_tokens", 0) - 1 - rounds
        by_accepted = list(meta.get("spec_correct_drafts_histogram") or ())
        reached = tuple(sum(by_accepted[k:]) for k in range(1, len(by_accepted)))
        return Counts(rounds=int(rounds), accepted=int(accepted), reached=reached)


class Vllm:
    """vLLM's HTTP server."""

    def __init__(self, talk: _Talk, version: str) -> None:
        """Look at `/v1/models` and `/metrics`.

        Raises:
            ServerError: it keeps no metrics, or runs without speculation.

        """
        self._talk = talk
        self._before()
        models = talk.json_or_none("/v1/models")
        names = [item.get("id") for item in models.get("data", [])] if isinstance(models, dict) else []
        if not names:
            raise ServerError(f"{talk.url}: /v1/models of vLLM {version} names no model")
        self.served = Served(engine=f"vLLM {version}", target=str(names[0]))

    def _before(self) -> Counts:
        families = dict(self._families())
        if not any(name.startswith("vllm:") for name in families):
            raise ServerError(
                f"{self._talk.url}: vLLM keeps no metrics; start it without --disable-log-stats"
            )
        if "vllm:spec_decode_num_drafts" not in families:
            raise ServerError(
                f"{self._talk.url}: vLLM runs without speculation; start it with --speculative-config"
            )
        per_place: dict[int, int] = {}
        for sample in families.get("vllm:spec_decode_num_accepted_tokens_per_pos", ()):
            if sample.name.endswith("_total"):
                place = int(sample.labels["position"])
                per_place[place] = per_place.get(place, 0) + int(sample.value)
        return Counts(
            rounds=_total(families["vllm:spec_decode_num_drafts"]),
            accepted=_total(families.get("vllm:spec_decode_num_accepted_tokens", ())),
            reached=tuple(per_place[place] for place in sorted(per_place)),
        )

    def _families(self) -> Iterator[tuple[str, Sequence[Any]]]:
        text = self._talk.text("/metrics")
        try:
            for family in text_string_to_metric_families(text):
                yield family.name, family.samples
        except (ValueError, KeyError, IndexError):
            raise ServerError(f"{self._talk.url}: /metrics is not in the format of Prometheus") from None

    def measure(self, prompts: Sequence[Prompt], tokens: int, answered: Callable[[], None]) -> Counts:
        """See `Server.measure`. Requests of others that are answered meanwhile are counted too."""
        before = self._before()
        for number, prompt in enumerate(prompts, 1):
            self._complete(prompt, tokens, f"prompt {number} of {len(prompts)}")
            answered()
        after = self._before()
        counted = Counts(
            rounds=after.rounds - before.rounds,
            accepted=after.accepted - before.accepted,
            reached=_added(after.reached, [-count for count in before.reached]),
        )
        return _some(counted, self._talk.url)

    def _complete(self, prompt: Prompt, tokens: int, where: str) -> None:
        question = {"model": self.served.target, "temperature": GREEDY, "max_tokens": tokens}
        if not isinstance(prompt, str) and isinstance(prompt[0], dict):
            chat = self._talk.json_or_none("/v1/chat/completions", {**question, "messages": prompt})
            if chat is not None:
                return
            prompt = as_text([turn for turn in prompt if isinstance(turn, dict)])
        self._talk.ask("/v1/completions", {**question, "prompt": prompt}, where)


def _total(samples: Sequence[Any]) -> int:
    return sum(int(sample.value) for sample in samples if sample.name.endswith("_total"))


def _some(counts: Counts, url: str) -> Counts:
    if counts.rounds <= 0:
        raise ServerError(
            f"{url}: no draft was verified: every answer ended at its first token, or the server does not "
            f"count"
        )
    return counts


class _Talk:
    """One server's address; turns whatever goes wrong into one line."""

    def __init__(self, url: str, api_key: str | None, timeout: float) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            if httpx.URL(self.url).scheme not in ("http", "https"):
                raise httpx.UnsupportedProtocol("no http address")
            self._client = httpx.Client(base_url=self.url, headers=headers, timeout=timeout)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError):
            raise ServerError(
                f"--url {url!r}: write http://HOST:PORT, as in http://127.0.0.1:30000"
            ) from None

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _send(self, path: str, question: Any, where: str) -> httpx.Response:
        """The answer, whatever it is.

        Raises:
            ServerError: there is none, or it asks for a key.

        """
        try:
            method = "GET" if question is None else "POST"
            answer = self._client.request(method, path, json=question)
        except httpx.TimeoutException:
            seconds = self._client.timeout.read
            raise ServerError(f"{self.url}: no answer to {where} within {seconds:g} s (--timeout)") from None
        except httpx.ConnectError as error:
            raise ServerError(f"{self.url}: no server answers there ({error}); is it started?") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            told = str(error) or type(error).__name__
            raise ServerError(
                f"{self.url}: the connection broke at {where} ({told}); the server's own log says why"
            ) from None
        if answer.status_code in (401, 403):
            raise ServerError(f"{self.url}: {path} asks for a key ({answer.status_code}); give --api-key")
        return answer

    def json_or_none(self, path: str, question: Any = None) -> Any:
        """The JSON at `path`; None if there is none."""
        answer = self._send(path, question, path)
        try:
            return answer.json() if answer.is_success else None
        except ValueError:
            return None

    def text(self, path: str) -> str:
        """The text at `path`; empty if there is none."""
        answer = self._send(path, None, path)
        return answer.text if answer.is_success else ""

    def ask(self, path: str, question: Any, where: str) -> Any:
        """The JSON that answers `question`.

        Raises:
            ServerError: it was refused.

        """
        answer = self._send(path, question, where)
        try:
            if answer.is_success:
                return answer.json()
        except ValueError:
            pass
        told = " ".join(answer.text.split())[:SHOWN]
        raise ServerError(f"{self.url}: {where} was refused by {path} with {answer.status_code}: {told}")
