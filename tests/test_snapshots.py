"""Recorded surfaces: where they lie, what a difference means, and that they are whole."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from contracts import records, snapshots
from contracts.facts import DraftFacts
from contracts.recipes import RECIPES
from contracts.sides import Side
from tests.facts import SERVED, with_facet
from tests.fake_python import fake_python

LIBRARIES = [
    (library, release)
    for library in ("sglang", "speculators")
    for release in records.recorded_releases(library)
]


# ------------------------------------------------------------------------ what ships


def test_what_drifted_between_the_last_two_releases_of_sglang() -> None:
    old, new = (records.surface("sglang", release)["plain"] for release in ("0.5.22", "0.5.23"))
    (found,) = snapshots.differences(old, new)
    assert (found.path, found.recorded, found.seen) == (
        "config_keys",
        "nothing",
        "['enable_lm_head_output_fp32']",
    )


@pytest.mark.parametrize(("library", "release"), LIBRARIES)
def test_every_recipe_is_recorded_and_nothing_else(library: str, release: str) -> None:
    assert sorted(records.surface(library, release)) == sorted(recipe.name for recipe in RECIPES)


@pytest.mark.parametrize(("library", "release"), LIBRARIES)
def test_records_are_in_their_stable_form(library: str, release: str) -> None:
    for recipe, facts in records.surface(library, release).items():
        text = (records.RELEASES / library / release / f"{recipe}.json").read_text()
        assert text == records.as_json(facts)
        assert text.endswith("}\n")
        assert list(json.loads(text)) == sorted(json.loads(text))


def test_oldest_release_that_is_spoken_is_recorded() -> None:
    for library in ("sglang", "speculators"):
        assert records.catalog(library).oldest in records.recorded_releases(library)


# ------------------------------------------------------------------- which record counts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Records of three releases."""
    for release, states in (("0.5.9", (1, 4, 6)), ("0.5.12", (2, 5, 7)), ("0.6.0", (3, 5, 7))):
        folder = tmp_path / "records" / "sglang" / release
        folder.mkdir(parents=True)
        facts = with_facet(SERVED, "aux_layers", states=states)
        (folder / "plain.json").write_text(records.as_json(facts))
    return tmp_path / "records"


@pytest.mark.parametrize(
    ("version", "release"),
    [("0.5.9", "0.5.9"), ("0.5.10", "0.5.9"), ("0.5.12.post1", "0.5.12"), ("1.0", "0.6.0"), ("0.4.0", None)],
)
def test_own_record_else_the_newest_older_one(root: Path, version: str, release: str | None) -> None:
    assert records.baseline("sglang", version, root) == release


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
    assert record.recorded() == with_facet(SERVED, "aux_layers", states=(2, 5, 7))


def test_update_is_for_the_own_release(snapshot: object, root: Path, tmp_path: Path) -> None:
    record = record_for(snapshot, root, tmp_path, "0.5.23", update=True)
    assert record.name == "sglang 0.5.23, plain"
    assert record.recorded() is None


# ----------------------------------------------------------------- what differences mean


def test_equal_surfaces_do_not_differ() -> None:
    assert snapshots.differences(SERVED, SERVED) == []


def test_difference_shows_both_values_and_a_meaning() -> None:
    (found,) = snapshots.differences(SERVED, with_facet(SERVED, "aux_layers", states=(2, 5, 7)))
    assert (found.path, found.recorded, found.seen) == ("aux_layers.states", "[1, 4, 6]", "[2, 5, 7]")
    assert "other layers of the target" in found.meaning


def test_lists_show_only_what_differs() -> None:
    (found,) = snapshots.differences(SERVED, replace(SERVED, config_keys=("fc_norm",)))
    assert (found.recorded, found.seen) == ("['architectures']", "['fc_norm']")


def test_key_that_is_new_is_all_that_is_shown() -> None:
    (found,) = snapshots.differences(SERVED, replace(SERVED, config_keys=("architectures", "fc_norm")))
    assert (found.recorded, found.seen) == ("nothing", "['fc_norm']")


def test_facet_that_vanished_is_told_leaf_by_leaf() -> None:
    found = snapshots.differences(SERVED, replace(SERVED, rope=None))
    assert {item.path for item in found} == {
        "rope.amplitude",
        "rope.interleaved",
        "rope.inverse_frequencies",
    }


def test_every_place_of_a_surface_has_a_meaning() -> None:
    for path in records.flatten(json.loads(records.as_json(SERVED))):
        assert snapshots.meaning_of(path) != "the surface changed here", path


def test_no_record_at_all() -> None:
    (found,) = snapshots.differences(None, DraftFacts())
    assert "--snapshot-update" in found.meaning


# ---------------------------------------------------------- writing, through pytest itself


_ONLY_HELPERS = shutil.ignore_patterns("test_*", "conftest.py")


@pytest.fixture
def package(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session in which one test asserts one recorded surface under ./records."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(
        """
        from pathlib import Path
        import pytest
        from contracts import snapshots
        from contracts.sides import Side
        from tests.facts import SERVED

        @pytest.mark.parametrize("name", ["one", "two"])
        def test_surface(snapshot, name, pytestconfig):
            side = Side.find("serving", "./python/python")
            update = pytestconfig.option.update_snapshots
            root = Path("records").resolve()
            found = snapshots.surface_snapshot(snapshot, side, name, update=update, root=root)
            assert found.matches(SERVED)
        """
    )
    fake_python(pytester.path / "python", "sglang", version="0.5.23")
    shutil.copytree(Path(__file__).parent, pytester.path / "tests", ignore=_ONLY_HELPERS)
    pytester.syspathinsert()
    return pytester.path / "records" / "sglang" / "0.5.23"


def test_update_writes_what_compares_equal(pytester: pytest.Pytester, package: Path) -> None:
    assert pytester.runpytest_subprocess("--snapshot-update").ret == 0
    assert (package / "one.json").read_text() == records.as_json(SERVED)
    assert pytester.runpytest_subprocess().ret == 0


@pytest.mark.parametrize("selection", [["-k", "one"], ["-n2"], []])
def test_no_run_deletes_a_record(pytester: pytest.Pytester, package: Path, selection: list[str]) -> None:
    assert pytester.runpytest_subprocess("--snapshot-update").ret == 0
    other = package.parent / "0.5.9" / "one.json"
    other.parent.mkdir()
    other.write_text("{}")
    (package / "retired.json").write_text("{}")
    assert pytester.runpytest_subprocess("--snapshot-update", *selection).ret == 0
    assert sorted(file.name for file in package.iterdir()) == ["one.json", "retired.json", "two.json"]
    assert other.exists()


def test_mismatch_fails_and_leaves_the_record(pytester: pytest.Pytester, package: Path) -> None:
    package.mkdir(parents=True)
    text = records.as_json(with_facet(SERVED, "aux_layers", states=(2, 5, 7)))
    for name in ("one", "two"):
        (package / f"{name}.json").write_text(text)
    pytester.runpytest_subprocess().assert_outcomes(failed=2)
    assert (package / "one.json").read_text() == text
