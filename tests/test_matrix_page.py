"""The page in a real browser: what its script makes of the data, at widths of a desk and a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest

from contracts.causes import Cause
from contracts.matrix import views
from contracts.matrix.cells import Cell, Pair
from contracts.verdict import Outcome
from tests.cells import HOSTILE, broken, cell, verdict

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is installed")

OTHER = "rope.frequencies_are_equal"
CELLS = (
    cell("0.9.0", "0.5.23", verdict(), verdict(case="two_layers"), verdict(contract=OTHER)),
    cell(
        "0.9.0",
        "0.5.22",
        verdict(Outcome.KNOWN, cause=Cause.NORM_DIFFERS, fix="mend it", upstream="https://example.org/1"),
        broken(Cause.ROPE_FREQUENCIES, contract=OTHER, seen=HOSTILE),
        verdict(Outcome.NOT_RUN, case="two_layers", reason="the serving side is missing"),
    ),
    Cell(pair=Pair("0.8.1", "0.5.23"), unavailable="speculators==0.8.1: no such release"),
)


class Page(HTMLParser):
    """Text by the element that it stands in, and attributes of links to cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: dict[str, dict[str, str | None]] = {}
        self.headings: list[str] = []
        self.text = ""
        self._in: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._in.append(tag)
        if values.get("data-cell"):
            self.cells[str(values["data-cell"])] = values

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._in and self._in[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)
        if not {"script", "style", "option"} & set(self._in):
            self.text += f" {data}"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("page") / "matrix.html"
    page.write_text(views.page(CELLS), encoding="utf-8")
    return page


def browse(file: Path, *options: str, **address: str) -> str:
    """What the browser makes of the page at an address."""
    assert BROWSER is not None
    profile = file.parent / "profile"
    url = file.as_uri() + (f"#{urlencode(address)}" if address else "")
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    done = subprocess.run(
        [*command, *(options or ("--dump-dom",)), url],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_grid_says_what_became_of_each_pair(file: Path) -> None:
    page = Page(browse(file))
    labels = {name: values["aria-label"] for name, values in page.cells.items()}
    assert labels == {
        "0.9.0|0.5.23": "speculators 0.9.0, sglang 0.5.23: holds, 2 of 2 cross",
        "0.9.0|0.5.22": "speculators 0.9.0, sglang 0.5.22: broken, 0 of 2 cross",
        "0.8.1|0.5.23": "speculators 0.8.1, sglang 0.5.23: error, nothing could be judged",
    }
    assert "3 cells: 1 error, 1 holds, 1 broken" in page.text


def test_cell_opens_its_causes_worst_first(file: Path) -> None:
    page = Page(browse(file, cell="0.9.0|0.5.22"))
    assert page.headings[1:] == [
        "speculators 0.9.0 → sglang 0.5.22",
        "What does not hold",
        "BROKEN: rope-frequencies-differ",
        "NOT-RUN: 1 contract",
        "KNOWN: norm-differs",
    ]
    assert page.cells["0.9.0|0.5.22"]["aria-current"] == "true"
    for told in (
        "mend it",
        Cause.ROPE_FREQUENCIES.explanation,
        "the serving side is missing",
        "pytest --pyargs 'contracts.test_rope::test_frequencies_are_equal[plain]' --serving-python=x",
    ):
        assert told in page.text


def test_what_a_library_said_is_text(file: Path) -> None:
    dom = browse(file, cell="0.9.0|0.5.22")
    assert "<title>speculators to sglang: which drafts cross</title>" in dom
    assert "&lt;b&gt;bold&lt;/b&gt;" in dom


def test_upstream_is_a_link(file: Path) -> None:
    assert 'href="https://example.org/1"' in browse(file, cell="0.9.0|0.5.22")


def test_cell_without_a_side_says_why(file: Path) -> None:
    assert "speculators==0.8.1: no such release" in Page(browse(file, cell="0.8.1|0.5.23")).text


@pytest.mark.parametrize(
    ("filtered", "labels"),
    [
        ({"contract": OTHER}, ["1 holds", "1 broken"]),
        ({"recipe": "two_layers"}, ["1 holds", "1 not-run"]),
        ({"cause": "norm-differs"}, ["nothing of the kind", "1 known"]),
        (
            {"cause": "norm-differs", "recipe": "two_layers"},
            ["nothing of the kind", "nothing of the kind"],
        ),
        ({"cause": "no-such-cause"}, ["holds, 2 of 2 cross", "broken, 0 of 2 cross"]),
    ],
)
def test_filter_of_the_address_is_applied(file: Path, filtered: dict[str, str], labels: list[str]) -> None:
    page = Page(browse(file, **filtered))
    told = [
        str(page.cells[name]["aria-label"]).partition(": ")[2] for name in ("0.9.0|0.5.23", "0.9.0|0.5.22")
    ]
    assert told == labels
    if "no-such-cause" not in filtered.values():
        query = urlencode(filtered)
        assert page.cells["0.9.0|0.5.23"]["href"] == f"#{query}&cell=0.9.0%7C0.5.23"


def test_draft_that_is_known_to_be_refused_is_no_worse_for_what_was_not_run(tmp_path: Path) -> None:
    refused = verdict(Outcome.KNOWN, cause=Cause.DRAFT_REFUSED)
    page = tmp_path / "matrix.html"
    page.write_text(views.page([cell("0.9.0", "0.5.23", refused, verdict(Outcome.NOT_RUN, contract=OTHER))]))
    dom = browse(page, recipe="plain")
    assert (
        Page(dom).cells["0.9.0|0.5.23"]["aria-label"]
        == "speculators 0.9.0, sglang 0.5.23: 1 known, 1 not-run"
    )
    assert '<td class="known">' in dom


def test_cell_without_anything_of_the_kind_does_not_claim_that_it_holds(file: Path) -> None:
    text = Page(browse(file, cell="0.9.0|0.5.23", cause="norm-differs")).text
    assert "There is nothing of the kind in this cell." in text
    assert "Everything that is shown holds." not in text


def test_evidence_that_differs_says_whose_it_is(tmp_path: Path) -> None:
    known = [
        verdict(Outcome.KNOWN, case=case, cause=Cause.NORM_DIFFERS, seen=case)
        for case in ("plain", "two_layers")
    ]
    page = tmp_path / "matrix.html"
    page.write_text(views.page([cell("0.9.0", "0.5.23", *known)]))
    text = Page(browse(page, cell="0.9.0|0.5.23")).text
    assert "seen (plain) plain" in text
    assert "honoured[plain]' 'contracts.test_norms::test_norm_output_is_honoured[two_layers]'" in text


def test_filter_holds_in_the_cell(file: Path) -> None:
    page = Page(browse(file, cell="0.9.0|0.5.22", cause="norm-differs"))
    assert "KNOWN: norm-differs" in page.headings
    assert not [heading for heading in page.headings if heading.startswith("BROKEN")]


@pytest.mark.parametrize("name", ["1.0|2.0", "constructor", ""])
def test_unknown_cell_of_the_address_is_none(file: Path, name: str) -> None:
    page = Page(browse(file, cell=name))
    assert "What does not hold" not in page.text
    assert "undefined" not in page.text


@pytest.mark.parametrize("width", [1400, 390])
def test_page_is_no_wider_than_its_window(file: Path, width: int) -> None:
    """Tables scroll in frames of their own; the page itself never does."""
    measuring = file.with_name(f"wide-{width}.html")
    framed = (
        f"<iframe id=f src={file.name}#cell=0.9.0%7C0.5.22 style='width:{width}px;height:900px'></iframe>"
        "<script>f.onload = () => { document.title = `wide "
        "${f.contentDocument.documentElement.scrollWidth} of ${f.clientWidth}`; };</script>"
    )
    measuring.write_text(framed)
    dom = browse(measuring, "--allow-file-access-from-files", "--dump-dom", "--virtual-time-budget=5000")
    match = re.search(r"<title>wide (\d+) of (\d+)</title>", dom)
    assert match, dom[:500]
    assert int(match[1]) <= int(match[2])


def test_page_prints_with_everything_open(file: Path) -> None:
    pdf = file.with_suffix(".pdf")
    browse(file, f"--print-to-pdf={pdf}", cell="0.9.0|0.5.22")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert pdf.stat().st_size > 10_000
