"""An HTTP server that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Any
"""A status, JSON, text, or a function of the question that returns such; None breaks the connection."""


@contextmanager
def serving(routes: Mapping[str, Answer]) -> Iterator[str]:
    """Serve these paths; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def answer(self, question: Any) -> None:
            answer = routes.get(self.path, 404)
            if isinstance(answer, Callable):  # type: ignore[arg-type]
                answer = answer(question)
            if answer is None:
                self.close_connection = True
                return
            status, body = (answer, "") if isinstance(answer, int) else (200, answer)
            text = body if isinstance(body, str) else json.dumps(body)
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


INFO = {
    "version": "0.5.23",
    "model_path": "/models/target",
    "speculative_algorithm": "EAGLE3",
    "speculative_draft_model_path": "/models/draft",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "speculative_accept_threshold_single": 1.0,
    "speculative_accept_threshold_acc": 1.0,
}
"""What sglang 0.5.23 says at /server_info, in part."""


def meta(*by_accepted: int) -> dict[str, Any]:
    """An answer of sglang's /generate after so many rounds in which 0, 1, ... draft tokens were accepted."""
    rounds, accepted = sum(by_accepted), sum(k * count for k, count in enumerate(by_accepted))
    counts = {
        "completion_tokens": 1 + rounds + accepted,
        "spec_verify_ct": rounds,
        "spec_num_correct_drafts": accepted,
        "spec_correct_drafts_histogram": list(by_accepted),
    }
    return {"text": "", "meta_info": counts}


def sglang(*by_accepted: int, **info: Any) -> dict[str, Answer]:
    """Routes of an sglang server that accepts as told."""
    return {
        "/server_info": INFO | info,
        "/generate": meta(*by_accepted),
        "/tokenize": {"tokens": [5, 6, 7]},
    }


class Vllm(dict[str, Answer]):
    """Routes of a vLLM server, with the metrics of its 0.32.0, that drafts three tokens a round."""

    def __init__(self, *accepted_per_place: int, rounds: int, before: int = 5) -> None:
        self.rounds, self.answered = rounds, before
        self.per_place = accepted_per_place
        self["/version"] = {"version": "0.32.0"}
        self["/v1/models"] = {"data": [{"id": "/models/target"}]}
        self["/metrics"] = self.metrics
        self["/v1/chat/completions"] = self["/v1/completions"] = self.complete

    def complete(self, question: Any) -> Answer:
        assert question["model"] == "/models/target"
        self.answered += 1
        return {"choices": []}

    def metrics(self, _question: Any) -> str:
        labels = 'engine="0",model_name="/models/target"'
        lines = ["# TYPE vllm:num_requests_running gauge", f"vllm:num_requests_running{{{labels}}} 0.0"]
        counters = {"num_drafts": self.rounds, "num_accepted_tokens": sum(self.per_place)}
        for name, value in counters.items():
            lines.append(f"# TYPE vllm:spec_decode_{name}_total counter")
            lines.append(f"vllm:spec_decode_{name}_total{{{labels}}} {value * self.answered}.0")
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines.append(f"# TYPE {name} counter")
        for place, value in enumerate(self.per_place):
            lines.append(f'{name}{{{labels},position="{place}"}} {value * self.answered}.0')
        return "\n".join(lines) + "\n"
