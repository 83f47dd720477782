"""Judges published drafts by what is known of them, and writes docs/published.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contracts import blank, records
from contracts.blank import Blank
from contracts.header.judge import judge
from contracts.header.report import Report
from contracts.header.sources import draft_in
from tests.memory import Memory

DATA = Path(__file__).with_name("published.json")
DOCUMENT = Path(__file__).parent.parent / "docs" / "published.md"
NEWEST = records.recorded_releases("sglang")[-1]
HEAD = """# Published drafts

Drafts that people publish, rebuilt without weights from what is publicly known of them
(`tests/published.json`: keys, names and shapes, with their sources; most keys are those of the trainer's
template, and the values of vocabulary maps are made up), and what `contracts check` says of them for sglang
{newest}, without a target. Where somebody reported in public what sglang did with a draft, it stands beside.

Written by `python -m tests.published_table`, held by `tests/test_published.py`.

| draft | trainer | taken for | verdict | causes | reported of sglang |
|---|---|---|---|---|---|
"""


def published() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DATA.read_text())
    return found


def place(draft: dict[str, Any]) -> Memory:
    """The draft as a checkpoint; no source tells the values of its maps: they lead to pairs of neighbours."""
    tensors = {
        name: Blank(dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in draft["tensors"].items()
    }
    layer = draft["config"].get("transformer_layer_config") or draft["config"]
    if "d2t" in tensors:
        size, vocab = tensors["d2t"].shape[0], layer["vocab_size"]
        ids = [at // 2 * 2 * (vocab // size) + at % 2 for at in range(size)]
        tensors["d2t"] = blank.integers([target - at for at, target in enumerate(ids)], tensors["d2t"].dtype)
        if "t2d" in tensors:
            tensors["t2d"] = blank.flags(ids, vocab)
    return Memory(draft["config"], tensors)


def judged(draft: dict[str, Any]) -> Report:
    return judge(draft_in(place(draft)), None, [NEWEST])


def _reported(result: dict[str, Any]) -> str:
    version, length = result["version"] or "", result["accept_length"]
    told = f"{version} {result['status']}".strip() + (f", accept length {length}" if length else "")
    return f"[{told}]({result['url']})" if result["url"].startswith("http") else told


def table() -> str:
    """The page."""
    rows = []
    for draft in published():
        report = judged(draft)
        causes = ", ".join(dict.fromkeys(str(it.finding.cause) for it in report.faults))
        reported = "; ".join(map(_reported, draft["sglang"]))
        source = f"[{draft['id']}]({draft['sources'][0]})"
        writer = report.draft.origin.writer
        rows.append(
            f"| {source} | {draft['trainer']} | {writer} | {report.verdict} | {causes} | {reported} |"
        )
    return HEAD.format(newest=NEWEST) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(table(), encoding="utf-8")
    print(f"written: {DOCUMENT}")
