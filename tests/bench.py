"""A pytest session over two fake sides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts.facts import DraftFacts, Refusal, to_json
from contracts.promise import METRICS
from tests import acceptances, replays
from tests.facts import SERVED, TRAINED, save_draft, save_target, with_facet
from tests.fake_python import fake_python

RAW_REFUSED = {
    "facts": to_json(DraftFacts()),
    "refusals": [to_json(Refusal(stage="resolve", error="ValueError", message="no model_type"))],
}


class Bench:
    """A pytest session over two fake sides."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.root = pytester.path
        golden, self.replay = replays.save(self.root)
        expected, self.engine_run, _ = acceptances.save(self.root)
        draft, target = save_draft(self.root / "draft"), save_target(self.root / "target")
        (draft / METRICS).write_text(json.dumps(acceptances.METRICS))
        self.trained = {"folder": draft, "target": target, "golden": golden, "expected": expected}
        self.training = fake_python(
            self.root / "training",
            "speculators",
            files=self.trained,
            answers={"*": {"facts": to_json(TRAINED)}},
        )
        self.serve(SERVED)
        self.known = self.root / "known.toml"
        self.known.write_text("")

    def serve(self, facts: DraftFacts, **options: Any) -> None:
        answers = {
            "raw/*": RAW_REFUSED,
            "exported/*": {"facts": to_json(facts)},
            "spelling/*": {"facts": to_json(facts)},
            "forward/*": {"facts": to_json(DraftFacts())},
            "engine/*": {"facts": to_json(DraftFacts())},
        }
        usual = {
            "version": "0.5.23",
            "answers": answers,
            "files": {"replay": self.replay, "run": self.engine_run},
        }
        self.serving = fake_python(self.root / "serving", "sglang", **{**usual, **options})

    def run(
        self, *arguments: str, target: str = "contracts.test_norms", k: str = "plain"
    ) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(
            "--pyargs",
            target,
            "-m",
            "contracts",
            f"-k={k}",
            "-p",
            "no:cacheprovider",
            f"--contracts-cache={self.root / 'cache'}",
            f"--contracts-known={self.known}",
            f"--training-python={self.training}",
            f"--serving-python={self.serving}",
            "--verdicts=verdicts.jsonl",
            *arguments,
        )

    def record(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "verdicts.jsonl").read_text().splitlines()]

    def outcomes(self) -> dict[str, str]:
        return {line["contract"]: line["outcome"] for line in self.record() if line["kind"] == "verdict"}


FAULTY = with_facet(SERVED, "norms", norm_output=True)
