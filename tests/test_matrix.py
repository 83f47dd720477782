from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.causes import Cause
from contracts.matrix import cells, views
from contracts.matrix.cells import BadCell, Pair
from contracts.matrix.table import table
from contracts.records import catalog
from contracts.verdict import Outcome
from tests.cells import HOSTILE, broken, cell, save, verdict

HOLDING = cell("0.9.0", "0.5.23", verdict(), verdict(case="two_layers"))
BROKEN = cell("0.8.1", "0.5.23", verdict(), broken(case="two_layers"))
RELEASES = ["0.5.6", "0.5.7", "0.5.8", "0.5.9", "0.5.10"]


# ------------------------------------------------------------------------------ one cell


def test_cell_is_what_its_file_says(tmp_path: Path) -> None:
    save(tmp_path, [HOLDING, BROKEN])
    assert cells.read_all([tmp_path]) == [BROKEN, HOLDING]


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (HOLDING, Outcome.HOLDS),
        (BROKEN, Outcome.BROKEN),
        (cell("0.9.0", "0.5.23"), Outcome.ERROR),
        (cell("0.9.0", "0.5.23", verdict(), expected=2), Outcome.ERROR),
        (cell("0.9.0", "0.5.23", verdict(Outcome.KNOWN), verdict()), Outcome.KNOWN),
        (cell("0.9.0", "0.5.23", verdict(), verdict(Outcome.NOT_RUN)), Outcome.NOT_RUN),
        (
            cell("0.9.0", "0.5.23", broken(Cause.DRAFT_REFUSED), verdict(Outcome.NOT_RUN)),
            Outcome.BROKEN,
        ),
    ],
)
def test_outcome_of_a_cell_is_the_worst_of_its_contracts(made: cells.Cell, outcome: Outcome) -> None:
    assert made.outcome is outcome


def test_refusal_that_is_known_accounts_for_what_was_not_run() -> None:
    refused = verdict(Outcome.KNOWN, cause=Cause.DRAFT_REFUSED)
    assert cell("0.9.0", "0.5.23", refused, verdict(Outcome.NOT_RUN)).outcome is Outcome.KNOWN


def test_draft_crosses_whole_if_all_about_it_holds() -> None:
    raw = verdict(Outcome.KNOWN, draft="raw", cause=Cause.CONFIG_NOT_RESOLVED)
    made = cell(
        "0.9.0",
        "0.5.23",
        *(verdict(), raw),
        *(verdict(case="two_layers"), verdict(Outcome.KNOWN, case="serving/two_layers")),
        verdict(case="serving/release"),  # about no draft
    )
    assert made.crossing("exported") == (1, 2)
    assert made.crossing("raw") == (0, 1)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("0.9.0--0.5.23.jsonl", "", "no whole record"),
        ("0.9.0--0.5.23.jsonl", "{}\n{}\n", "no whole record"),
        ("0.9.0--0.5.23.jsonl", '{"kind": "header", "expected": 1, "sides": {}}\n', "no whole record"),
        ("0.9.0--.jsonl", "", "does not say whose"),
    ],
)
def test_damaged_file_is_told_in_one_line(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadCell, match=says) as error:
        cells.read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_selection_of_contracts_is_told(tmp_path: Path) -> None:
    some = replace(HOLDING, selection="norms")
    told = "Only some of the contracts were judged: those that -k 'norms' selects."
    assert told in views.markdown([some])
    assert told.replace("'", "&#39;") in views.page([some])
    assert "Only some" not in views.markdown([HOLDING])


def test_damaged_cell_is_one_of_the_table(tmp_path: Path) -> None:
    save(tmp_path, [HOLDING, BROKEN])
    (tmp_path / HOLDING.pair.file_name).write_text("{")
    found = {cell.pair: cell.unavailable for cell in cells.read_all([tmp_path])}
    assert found[BROKEN.pair] is None
    assert "no whole record of verdicts" in str(found[HOLDING.pair])


def test_contract_about_training_alone_keeps_no_draft_from_crossing() -> None:
    aside = verdict(Outcome.KNOWN, contract="forward.training_agrees_with_itself")
    assert cell("0.9.0", "0.5.23", verdict(), aside).crossing("exported") == (1, 1)


def test_cut_record_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    file = save(tmp_path, [BROKEN]) / BROKEN.pair.file_name
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([lines[0], *lines[2:]]))
    with pytest.raises(BadCell):
        cells.read(file)


def test_folder_without_cells(tmp_path: Path) -> None:
    with pytest.raises(BadCell, match="no cell of a matrix"):
        cells.read_all([tmp_path])


def merged(folder: Path, *made: cells.Cell) -> list[cells.Cell]:
    """What machines that filled these cells come to."""
    parts = [save(folder / f"machine-{number}", [item]) for number, item in enumerate(made)]
    return cells.read_all(parts)


def test_two_records_that_say_the_same_are_one(tmp_path: Path) -> None:
    assert merged(tmp_path, HOLDING, HOLDING, BROKEN) == [HOLDING, BROKEN]


def test_two_records_that_disagree_are_told(tmp_path: Path) -> None:
    (found,) = merged(tmp_path, HOLDING, replace(BROKEN, pair=HOLDING.pair, sides=HOLDING.sides))
    assert found.outcome is Outcome.ERROR
    assert found.unavailable is not None
    assert "two records of it disagree" in found.unavailable
    assert "machine-0" in found.unavailable
    assert found.unavailable.endswith(
        "norms.norm_output_is_honoured [two_layers] is holds and broken (norm-differs)"
    )


def test_record_of_some_contracts_is_not_taken_for_one_of_all(tmp_path: Path) -> None:
    (found,) = merged(tmp_path, HOLDING, replace(HOLDING, verdicts=HOLDING.verdicts[:1]))
    assert "is holds and not judged" in (found.unavailable or "")


def test_whole_record_counts_beside_one_that_was_broken_off(tmp_path: Path) -> None:
    broken_off = save(tmp_path / "a", [HOLDING]) / HOLDING.pair.file_name
    lines = broken_off.read_text().splitlines(keepends=True)
    broken_off.write_text("".join(lines[:-1]))
    assert cells.read_all([tmp_path / "a"])[0].outcome is Outcome.ERROR
    assert cells.read_all([tmp_path / "a", save(tmp_path / "b", [HOLDING])]) == [HOLDING]


def test_record_under_another_name_is_told(tmp_path: Path) -> None:
    file = save(tmp_path, [HOLDING]) / HOLDING.pair.file_name
    file.rename(tmp_path / "0.9.0--0.5.22.jsonl")
    (found,) = cells.read_all([tmp_path])
    assert (found.unavailable or "").endswith("sglang 0.5.22, and its record is about sglang 0.5.23")


def test_folder_without_cells_beside_others_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    assert cells.read_all([tmp_path / "killed", save(tmp_path / "whole", [HOLDING])]) == [HOLDING]


def test_record_of_another_format_is_told(tmp_path: Path) -> None:
    file = save(tmp_path, [HOLDING]) / HOLDING.pair.file_name
    file.write_text(file.read_text().replace('"format": 1', '"format": 7'))
    (found,) = cells.read_all([tmp_path])
    assert "of format 7, and this version of draft-contracts reads 1" in (found.unavailable or "")


def test_records_of_a_cpu_and_of_a_gpu_are_not_mixed(tmp_path: Path) -> None:
    save(tmp_path / "cpu", [HOLDING])
    file = save(tmp_path / "gpu", [BROKEN]) / BROKEN.pair.file_name
    file.write_text(file.read_text().replace('"expected"', '"device": "cuda", "expected"', 1))
    with pytest.raises(BadCell, match=r"judged on different devices: .* on cpu and .* on cuda"):
        cells.read_all([tmp_path])


def test_cell_without_a_side_keeps_its_reason(tmp_path: Path) -> None:
    pair = Pair("9.9.9", "0.5.23")
    cells.write_unavailable(tmp_path / pair.file_name, "no such release")
    (found,) = cells.read_all([tmp_path])
    assert (found.pair, found.outcome, found.unavailable) == (pair, Outcome.ERROR, "no such release")


def test_releases_stand_in_order() -> None:
    names = ["0.5.10", "0.5.9", "0.5.10.post1", "sglang@src", "0.5.9"]
    assert cells.in_order(names) == ["0.5.9", "0.5.10", "0.5.10.post1", "sglang@src"]


# ----------------------------------------------------------------------------- the views


def test_texts_are_stored_once() -> None:
    made = table([BROKEN, cell("0.9.0", "0.5.23", verdict(), broken(case="two_layers"))])
    assert made.texts.count("mend it") == 1
    assert len(made.details) == 1
    assert made.cells["0.8.1|0.5.23"]["outcomes"] == ".B"
    assert made.cells["0.8.1|0.5.23"]["options"] == "--serving-python=x"
    assert made.rows[1][2] == "'contracts.test_norms::test_norm_output_is_honoured[two_layers]'"


def test_cells_with_other_contracts_share_rows() -> None:
    made = table([HOLDING, cell("0.8.1", "0.5.23", broken(case="two_layers"))])
    assert made.cells["0.8.1|0.5.23"]["outcomes"] == " B"


def test_page_takes_nothing_that_a_library_said_for_markup() -> None:
    page = views.page([cell("0.9.0", "0.5.23", broken(seen=HOSTILE, fix=HOSTILE))])
    assert page.count("</script>") == 2  # the data's and the script's own
    data = page.split('id="data">')[1].split("</script>")[0]
    assert HOSTILE in json.loads(data)["texts"]


def test_page_fetches_nothing() -> None:
    page = views.page([HOLDING])
    assert "http" not in page.replace("https:\\/\\/", "")


def test_markdown_has_the_table_and_each_cause() -> None:
    made = views.markdown([HOLDING, BROKEN])
    assert "| 0.5.23 | B 1/2 | . 2/2 |" in made
    assert "| norm-differs | two_layers | 0.8.1 | 0.5.23 |" in made
    assert "## Why, as saved\n\nEverything holds." in made
    assert f"- **norm-differs**: {Cause.NORM_DIFFERS.explanation}" in made


def test_markdown_keeps_saved_and_exported_drafts_apart() -> None:
    raw = verdict(Outcome.BROKEN, draft="raw", cause=Cause.CONFIG_NOT_RESOLVED)
    exported, saved = views.markdown([cell("0.9.0", "0.5.23", raw, verdict())]).split("## Why, as saved")
    assert "config-not-resolved" not in exported
    assert "| config-not-resolved | plain | 0.9.0 | 0.5.23 |" in saved


def test_reason_of_a_missing_side_stands_below_the_table(tmp_path: Path) -> None:
    pair = Pair("9.9.9", "0.5.23")
    cells.write_unavailable(tmp_path / pair.file_name, "no such | release")
    made = views.markdown([HOLDING, *cells.read_all([tmp_path])])
    assert "| 0.5.23 | . 2/2 | E |" in made
    assert "- speculators 9.9.9 → sglang 0.5.23: no such \\| release" in made


def test_cause_of_another_version_is_shown_all_the_same() -> None:
    made = cell("0.9.0", "0.5.23", verdict(Outcome.BROKEN, cause="of-tomorrow"))  # type: ignore[arg-type]
    assert "of-tomorrow" in views.markdown([made])
    assert "of-tomorrow" in views.page([made])


def test_figure_that_is_no_number_is_left_out() -> None:
    odd = replace(verdict(), figures={"accept_length": float("nan"), "replayed": 3.5})
    assert '"figures":{"plain":{"replayed":3.5}}' in views.page([cell("0.9.0", "0.5.23", odd)])


def test_markdown_tells_pairs_alike_together() -> None:
    made = views.markdown(
        [cell(training, serving, broken()) for training in ("0.8.1", "0.9.0") for serving in RELEASES[:3]]
        + [cell(training, "0.5.9", verdict()) for training in ("0.8.1", "0.9.0")]
    )
    assert "| norm-differs | plain | all | 0.5.6 to 0.5.8 |" in made


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (RELEASES, "all"),
        (RELEASES[:1], "0.5.6"),
        (RELEASES[1:4], "0.5.7 to 0.5.9"),
        ([*RELEASES[:2], RELEASES[4]], "0.5.6 to 0.5.7, 0.5.10"),
    ],
)
def test_neighbours_are_told_as_ranges(chosen: list[str], told: str) -> None:
    assert views.in_words(chosen, RELEASES) == told


def test_one_release_of_one_is_named() -> None:
    assert views.in_words(["0.5.23"], ["0.5.23"]) == "0.5.23"


def test_committed_matrix_has_every_release() -> None:
    lines = (Path(__file__).parent.parent / "docs" / "matrix.md").read_text(encoding="utf-8").splitlines()
    assert f"| sglang | {' | '.join(catalog('speculators').matrix)} |" in lines
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| 0.5.")]
    assert rows == list(catalog("sglang").matrix)[::-1]
