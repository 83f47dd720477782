"""Talking to one server over HTTP; whatever goes wrong is one line."""

from __future__ import annotations

import ipaddress
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx

SHOWN = 300
"""Characters of a server's own words that are passed on."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes."""
UNKNOWN = {400, 404, 405, 422, 501}
"""Statuses of a server that does not know what it was asked."""


class ServerError(Exception):
    """A server that cannot be measured: what, where, what to do. One line."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Status and body."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    @property
    def json(self) -> Any:
        """The JSON of a success; None if it is none."""
        try:
            return json.loads(self.body) if 200 <= self.status < 300 else None
        except (ValueError, RecursionError):
            return None


class Talk:
    """One server's address."""

    def __init__(self, url: str, api_key: str | None, timeout: float) -> None:
        """Take note; nothing is sent yet.

        Raises:
            ServerError: the address or the key is none.

        """
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise ServerError("--api-key: a key has printable ASCII characters only")
        try:
            address = httpx.URL(url.rstrip("/"))
            if address.scheme not in ("http", "https") or not address.host:
                raise httpx.UnsupportedProtocol("no http address")
            self.url = str(address.copy_with(userinfo=b""))
            """Without what may be a password."""
            self._timeout = timeout
            self._client = httpx.Client(
                base_url=address,
                headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
                timeout=timeout,
                trust_env=not _is_here(address.host),  # no proxy knows this machine by that name
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError):
            raise ServerError(
                f"--url {url!r}: write http://HOST:PORT, as in http://127.0.0.1:30000"
            ) from None
        except (ImportError, OSError) as error:  # of a proxy's scheme, or of certificates
            raise ServerError(f"{url}: the settings of this machine for HTTP do not work ({error})") from None

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def look(self, path: str) -> Any:
        """The JSON at `path`; None if the server does not have it.

        Raises:
            ServerError: it does not answer, or only that it cannot.

        """
        return self._ready(path).json

    def read(self, path: str) -> str:
        """The text at `path`; empty if the server does not have it.

        Raises:
            ServerError: as of `look`.

        """
        answer = self._ready(path)
        return answer.text if answer.status == 200 else ""

    def try_to(self, path: str, question: Any, where: str) -> Any:
        """The JSON that answers `question`; None if the server does not know how to.

        Raises:
            ServerError: it refused for another reason.

        """
        answer = self._send(path, question, where)
        return None if answer.status in UNKNOWN else self._read(answer, path, where)

    def ask(self, path: str, question: Any, where: str) -> Any:
        """The JSON that answers `question`.

        Raises:
            ServerError: it was refused.

        """
        return self._read(self._send(path, question, where), path, where)

    def _ready(self, path: str) -> Answer:
        answer = self._send(path, None, path)
        if answer.status >= 500 and answer.status not in UNKNOWN:
            raise ServerError(
                f"{self.url}: {path} answers {answer.status}: the server is not ready, or its log says why"
            )
        return answer

    def _read(self, answer: Answer, path: str, where: str) -> Any:
        found = answer.json
        if found is None:
            words = " ".join(answer.text.split())
            told = words if len(words) <= SHOWN else f"{words[:SHOWN]} ..."
            raise ServerError(f"{self.url}: {where} was refused by {path} with {answer.status}: {told}")
        return found

    def _send(self, path: str, question: Any, where: str) -> Answer:
        """The answer, whatever it is.

        Raises:
            ServerError: there is none, it takes too long, or it asks for a key.

        """
        try:
            answer = self._receive("GET" if question is None else "POST", path, question)
        except httpx.TimeoutException:
            raise ServerError(
                f"{self.url}: no answer to {where} within {self._timeout:g} s (--timeout)"
            ) from None
        except httpx.ConnectError as error:
            raise ServerError(
                f"{self.url}: no server answers there ({error}); is it started, and has it loaded?"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError) as error:
            told = str(error) or type(error).__name__
            raise ServerError(
                f"{self.url}: the connection broke at {where} ({told}); the server's own log says why"
            ) from None
        if answer.status in (401, 403):
            raise ServerError(f"{self.url}: {path} asks for a key ({answer.status}); give --api-key")
        return answer

    def _receive(self, method: str, path: str, question: Any) -> Answer:
        deadline = time.monotonic() + self._timeout
        body = bytearray()
        with self._client.stream(method, path, json=question) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer goes on and on")
                if len(body) > LARGEST_ANSWER:
                    raise httpx.ReadError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
            return Answer(status=response.status_code, body=bytes(body))


def _is_here(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
