from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from contracts import known
from contracts.known import KnownError
from contracts.recipes import RECIPES
from contracts.targets.recipes import TARGETS
from contracts.verdict import Cause
from tests.runner import all_contracts

ENTRY = """
[[known]]
contract = "norms.fc_norm_is_honoured"
recipes = ["plain"]
training = ">=0.5"
serving = "<0.5.12"
cause = "norm-differs"
reason = "fc_norm came with 0.5.12"
upstream = "https://github.com/sgl-project/sglang/pull/1"
date = 2026-11-29
"""


def load(tmp_path: Path, text: str) -> known.Known:
    file = tmp_path / "known.toml"
    file.write_text(text)
    return known.load(file)


def test_entry_covers_its_ranges(tmp_path: Path) -> None:
    entries = load(tmp_path, ENTRY)
    assert entries.find("norms.fc_norm_is_honoured", "plain", "0.9.0", "0.5.11") is not None
    assert entries.find("norms.fc_norm_is_honoured", "plain", "0.9.0", "0.5.12") is None
    assert entries.find("norms.fc_norm_is_honoured", "fc_norm", "0.9.0", "0.5.11") is None
    assert entries.find("norms.norm_output_is_honoured", "plain", "0.9.0", "0.5.11") is None


def test_star_covers_every_recipe(tmp_path: Path) -> None:
    entries = load(tmp_path, ENTRY.replace('["plain"]', '["*"]'))
    assert entries.find("norms.fc_norm_is_honoured", "two_layers", "0.9.0", "0.5.11") is not None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('upstream = "https://github.com/sgl-project/sglang/pull/1"\n', "", "upstream: Field required"),
        ("https://github.com", "github com", "upstream"),
        ('"https://github.com/sgl-project/sglang/pull/1"', '"unreported"', "reproduce"),
        ('"norm-differs"', '"because"', "cause"),
        ('"<0.5.12"', '"older than 0.5.12"', "serving"),
        ('"<0.5.12"', '"<0.1"', "matches no known release of sglang"),
        ('">=0.5"', '">=7"', "matches no known release of speculators"),
        ("date = 2026-11-29", 'date = "soon"', "date"),
        ("reason =", "raeson =", "reason"),
        ("fc_norm_is", "fc_norms_are", "no contract 'norms.fc_norms_are_honoured'"),
        ('["plain"]', '["plane"]', "no recipe 'plane'"),
        ("[[known]]", "[[knwon]]", "unknown key 'knwon'"),
        ('["plain"]', "[]", "recipes"),
        ('"fc_norm came with 0.5.12"', '""', "reason"),
        ("[[known]]", "known = 3\n[entry]", "unknown key 'entry'"),
        ('["plain"]', '"plain"', "recipes"),
        ("[[known]]", "[[known]", "TOML"),
    ],
)
def test_unusable_entry_is_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(KnownError, match=says) as error:
        load(tmp_path, ENTRY.replace(old, new))
    assert "\n" not in str(error.value)
    assert "known.toml" in str(error.value)


def test_known_that_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(KnownError, match="no list of tables"):
        load(tmp_path, "known = 3")


def test_contract_of_a_module_of_ones_own(tmp_path: Path) -> None:
    assert load(tmp_path, ENTRY.replace("norms.fc_norm_is_honoured", "ours.a_promise")).entries


def test_duplicate(tmp_path: Path) -> None:
    with pytest.raises(KnownError, match="entry 2: says again what entry 1 says"):
        load(tmp_path, ENTRY + ENTRY)


@pytest.mark.parametrize(
    "others",
    [
        ENTRY.replace('["plain"]', '["*"]'),
        ENTRY.replace("<0.5.12", "==0.5.12") + ENTRY.replace("<0.5.12", ">=0.5.12"),
    ],
    ids=["star", "third_overlaps_second"],
)
def test_duplicates_are_found_wherever_they_are(tmp_path: Path, others: str) -> None:
    with pytest.raises(KnownError, match="says again"):
        load(tmp_path, ENTRY + others)


def test_same_contract_for_other_releases_is_no_duplicate(tmp_path: Path) -> None:
    other = ENTRY.replace("<0.5.12", ">=0.5.12")
    assert len(load(tmp_path, ENTRY + other).entries) == 2


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(KnownError, match="nowhere"):
        known.load(tmp_path / "nowhere.toml")


def test_what_ships_names_contracts_recipes_and_causes_that_exist() -> None:
    names = {"*", *(recipe.name for recipe in RECIPES), *(target.name for target in TARGETS)}
    entries = known.load().entries
    assert entries
    for entry in entries:
        assert entry.contract in {**all_contracts(), **all_contracts("targets")}
        assert set(entry.recipes) <= names
        assert entry.cause in set(Cause)


@pytest.mark.parametrize(("until", "over"), [("2026-12-31", False), ("2026-12-30", True), (None, False)])
def test_entry_is_over_on_the_day_after_its_last(tmp_path: Path, until: str | None, over: bool) -> None:
    told = ENTRY.replace("date =", f"until = {until}\ndate =") if until else ENTRY
    (entry,) = load(tmp_path, told).entries
    assert entry.is_over(date(2026, 12, 31)) is over
