"""Recorded surfaces: where they lie, what a difference means, and that they are whole."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from contracts import records, snapshots
from contracts.facts import DraftFacts, Refusal
from contracts.recipes import RECIPES
from contracts.sides import Side
from contracts.surfaces import Shown, leaves
from contracts.verdict import Difference
from tests.facts import SERVED, with_facet
from tests.fake_python import fake_python

LIBRARIES = [
    (library, release)
    for library in ("sglang", "speculators")
    for release in records.recorded_releases(library)
]


# ------------------------------------------------------------------------ what ships


@pytest.mark.parametrize("library", ["sglang", "speculators"])
def test_every_release_of_the_matrix_is_recorded(library: str) -> None:
    assert set(records.recorded_releases(library)) == set(records.catalog(library).matrix)


@pytest.mark.parametrize(("library", "release"), LIBRARIES)
def test_every_recipe_is_recorded_and_nothing_else(library: str, release: str) -> None:
    record = records.read(library, release)
    names = {recipe.name for recipe in RECIPES}
    assert set(record.facts) == names
    assert set(record.refusals) <= names
    assert record.traits
    assert {"torch", "transformers"} <= set(record.packages)


@pytest.mark.parametrize(("library", "release"), LIBRARIES)
def test_records_are_in_their_stable_form_and_small(library: str, release: str) -> None:
    text = records.record_file(library, release).read_text()
    assert records.as_text(records.parse(text)) == text
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert len(text) < 96 * 1024
    assert not re.search(r"(?<![\w.])/\w+/", text), "an absolute path"
    assert not any(f"/{top}/" in text for top in ("tmp", "home", "root"))


def test_record_of_another_format_is_refused() -> None:
    text = records.as_text(records.Record(library="sglang", release="1"))
    with pytest.raises(ValueError, match="a record of format 9, and this is format 2"):
        records.parse(text.replace('"format": 2', '"format": 9'))


# ------------------------------------------------------------------- which record counts


def write(root: Path, release: str, facts: DraftFacts) -> Path:
    file = records.record_file("sglang", release, root)
    file.parent.mkdir(parents=True, exist_ok=True)
    record = records.Record(library="sglang", release=release, facts={"plain": facts})
    file.write_text(records.as_text(record))
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Records of three releases."""
    for release, states in (("0.5.9", (1, 4, 6)), ("0.5.12", (2, 5, 7)), ("0.6.0", (3, 5, 7))):
        write(tmp_path / "records", release, with_facet(SERVED, "aux_layers", states=states))
    return tmp_path / "records"


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.5.9", "0.5.9"),
        ("0.5.10", "0.5.9"),
        ("0.5.12.post1", "0.5.12"),
        ("1.0", "0.6.0"),
        ("0.5.8", "0.5.9"),  # nothing older: the oldest
    ],
)
def test_own_record_else_the_newest_older_one(root: Path, version: str, release: str) -> None:
    assert records.baseline("sglang", version, root) == release


def test_without_any_record_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    assert records.baseline("sglang", "0.5.9", tmp_path) is None


def record_for(
    snapshot: object, root: Path, tmp_path: Path, version: str, *, update: bool = False
) -> snapshots.SurfaceSnapshot:
    script = fake_python(tmp_path / version, "sglang", version=version)
    identity = replace(Side.find("serving", str(script)).identity)
    side = Side(name="serving", python=str(script), identity=identity)
    return snapshots.surface_snapshot(snapshot, side, "plain", update=update, root=root)  # type: ignore[arg-type]


def test_upgrade_is_compared_with_the_release_before(snapshot: object, root: Path, tmp_path: Path) -> None:
    record = record_for(snapshot, root, tmp_path, "0.5.23")
    assert record.name == "sglang 0.5.12, plain"
    assert record.recorded() == Shown(facts=with_facet(SERVED, "aux_layers", states=(2, 5, 7)))


def test_update_is_for_the_own_release(snapshot: object, root: Path, tmp_path: Path) -> None:
    record = record_for(snapshot, root, tmp_path, "0.5.23", update=True)
    assert record.name == "sglang 0.5.23, plain"
    assert record.recorded() is None


# ----------------------------------------------------------------- what differences mean


def differences(one: DraftFacts, other: DraftFacts) -> list[Difference]:
    return snapshots.differences(Shown(facts=one), Shown(facts=other))


def test_equal_surfaces_do_not_differ() -> None:
    assert differences(SERVED, SERVED) == []


def test_difference_shows_both_values_and_a_meaning() -> None:
    (found,) = differences(SERVED, with_facet(SERVED, "aux_layers", states=(2, 5, 7)))
    assert (found.path, found.recorded, found.seen) == ("aux_layers.states", "[1, 4, 6]", "[2, 5, 7]")
    assert "other layers of the target" in found.meaning


def test_lists_show_only_what_differs() -> None:
    (found,) = differences(SERVED, replace(SERVED, config_keys=("fc_norm",)))
    assert (found.recorded, found.seen) == ("['architectures']", "['fc_norm']")


def test_key_that_is_new_is_all_that_is_shown() -> None:
    (found,) = differences(SERVED, replace(SERVED, config_keys=("architectures", "fc_norm")))
    assert (found.recorded, found.seen) == ("nothing", "['fc_norm']")


def test_facet_that_vanished_is_told_leaf_by_leaf() -> None:
    found = differences(SERVED, replace(SERVED, rope=None))
    assert {item.path for item in found} == {
        "rope.amplitude",
        "rope.interleaved",
        "rope.inverse_frequencies",
    }


def test_every_place_of_a_surface_has_a_meaning() -> None:
    for library, release in LIBRARIES:
        record = records.read(library, release)
        shown = [Shown(traits=record.traits)]
        shown += [
            Shown(facts=record.facts[name], refusals=record.refusals.get(name, ())) for name in record.facts
        ]
        for path in {path for item in shown for path in leaves(item)}:
            assert snapshots.meaning_of(path) != "the surface changed here", path


def test_no_record_at_all() -> None:
    (found,) = snapshots.differences(None, Shown())
    assert "--snapshot-update" in found.meaning


def test_refusal_that_is_new_is_told() -> None:
    refusal = Refusal(stage="load", error="ValueError", message="only one layer")
    (found,) = snapshots.differences(Shown(facts=SERVED), Shown(facts=SERVED, refusals=(refusal,)))
    assert (found.path, found.seen) == ("refusals.load", "ValueError: only one layer")
    assert Shown(facts=SERVED) != Shown(facts=SERVED, refusals=(refusal,))


# ---------------------------------------------------------- writing, through pytest itself


_ONLY_HELPERS = shutil.ignore_patterns("test_*", "conftest.py")


@pytest.fixture
def package(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session in which each test asserts one recorded surface under ./records."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(
        """
        from pathlib import Path
        import pytest
        from contracts import snapshots
        from contracts.sides import Side
        from contracts.surfaces import Shown
        from tests.facts import SERVED

        TRAITS = Shown(traits={"server_options": ["x"]})

        @pytest.mark.parametrize("name", ["one", "two", ""])
        def test_surface(snapshot, name, pytestconfig):
            side = Side.find("serving", "./python/python")
            update = pytestconfig.option.update_snapshots
            root = Path("records").resolve()
            found = snapshots.surface_snapshot(snapshot, side, name, update=update, root=root)
            assert found.matches(Shown(facts=SERVED) if name else TRAITS)
        """
    )
    fake_python(pytester.path / "python", "sglang", version="0.5.23")
    shutil.copytree(Path(__file__).parent, pytester.path / "tests", ignore=_ONLY_HELPERS)
    pytester.syspathinsert()
    return pytester.path / "records"


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_update_writes_what_compares_equal(
    pytester: pytest.Pytester, package: Path, workers: list[str]
) -> None:
    assert pytester.runpytest_subprocess("--snapshot-update", *workers).ret == 0
    record = records.read("sglang", "0.5.23", package)
    assert record.facts == {"one": SERVED, "two": SERVED}
    assert (record.traits, record.packages) == ({"server_options": ["x"]}, {"torch": "2.13.0"})
    again = pytester.runpytest_subprocess()
    assert again.ret == 0
    again.stdout.no_fnmatch_line("*snapshot* failed*")


@pytest.mark.parametrize("selection", [["-k", "one"], ["-n2"], []])
def test_no_run_deletes_a_record(pytester: pytest.Pytester, package: Path, selection: list[str]) -> None:
    write(package, "0.5.9", SERVED)
    write(package, "0.5.23", SERVED)
    assert pytester.runpytest_subprocess("--snapshot-update", *selection).ret == 0
    assert {"one", "plain"} <= set(records.read("sglang", "0.5.23", package).facts)
    assert records.recorded_releases("sglang", package) == ["0.5.9", "0.5.23"]


def test_mismatch_fails_and_leaves_the_record(pytester: pytest.Pytester, package: Path) -> None:
    assert pytester.runpytest_subprocess("--snapshot-update").ret == 0
    file = records.record_file("sglang", "0.5.23", package)
    other = with_facet(SERVED, "aux_layers", states=(2, 5, 7))

    def change(record: records.Record) -> records.Record:
        return replace(record, facts={"one": other, "two": other}, traits={"server_options": ["y"]})

    records.update("sglang", "0.5.23", change, package)
    text = file.read_text()
    pytester.runpytest_subprocess().assert_outcomes(failed=3)
    assert file.read_text() == text
