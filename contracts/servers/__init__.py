"""Running servers, over HTTP: what they serve, and what they count while they answer prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

from contracts.prompts import Prompt
from contracts.servers.counts import Counts, Served
from contracts.servers.sglang import Sglang
from contracts.servers.talk import ServerError, Talk
from contracts.servers.vllm import Vllm

__all__ = ["Counts", "Served", "Server", "ServerError", "connect"]


class Server(Protocol):
    """A server that drafts."""

    served: Served
    notes: list[str]
    """What was otherwise than the caller may think, once it has been asked."""

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
    with closing(Talk(url, api_key, timeout)) as talk:
        yield _identify(talk)


def _identify(talk: Talk) -> Server:
    for path in ("/server_info", "/get_server_info"):  # the second until sglang 0.5.4
        info = talk.look(path)
        if isinstance(info, dict) and "speculative_algorithm" in info:
            return Sglang(talk, info)
    version = talk.look("/version")
    if isinstance(version, dict) and "version" in version:
        return Vllm(talk, str(version["version"]))
    raise ServerError(
        f"{talk.url}: neither sglang (no /server_info) nor vLLM (no /version) answers there; "
        "--url takes the server's own address, without a path and not that of a router"
    )
