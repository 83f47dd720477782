"""What somebody may name as a side: a release, a source tree, a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts import environments
from contracts.environments import NotProvisioned
from contracts.wanted import BadRequirement, Wanted


@pytest.mark.parametrize(
    ("words", "requirement", "name"),
    [
        ("sglang==0.5.9", "sglang==0.5.9", "sglang-0.5.9"),
        ("SGLang == 0.5.24rc1", "sglang==0.5.24rc1", "sglang-0.5.24rc1"),
        ("speculators==0.4.0.1", "speculators==0.4.0.1", "speculators-0.4.0.1"),
    ],
)
def test_release(words: str, requirement: str, name: str) -> None:
    found = Wanted.parse(words)
    assert (found.requirement, found.name) == (requirement, name)
    assert found.release == requirement.partition("==")[2]


@pytest.mark.parametrize("inside", [".", "python"])
def test_source_tree_in_which_the_project_may_lie_in_a_folder(tmp_path: Path, inside: str) -> None:
    project = tmp_path / "tree" / inside
    project.mkdir(parents=True)
    (project / "pyproject.toml").write_text("")
    found = Wanted.parse(f"sglang@{tmp_path / 'tree'}")
    assert found.requirement == f"sglang @ {project.resolve().as_uri()}"
    assert found.release is None


@pytest.mark.parametrize("words", ["sglang@git+https://host/r@main", "sglang @ git+https://host/r@main"])
def test_repository(words: str) -> None:
    assert Wanted.parse(words).requirement == "sglang @ git+https://host/r@main"


def test_each_place_has_an_environment_of_its_own() -> None:
    names = {Wanted.parse(f"sglang@git+https://host/r@{branch}").name for branch in ("a", "b")}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vllm==0.1", "vllm is none of speculators, sglang"),
        ("sglang", "does not name one release"),
        ("sglang>=0.5", "does not name one release"),
        ("sglang==0.5.*", "does not name one release"),
        ("sglang==banana", "is not understood"),
        ("sglang==0.5.9; rm", "is not understood"),
        ("sglang@/nowhere/at/all", "there is no folder /nowhere/at/all"),
        ("", "is not understood"),
        ("sglang[all]==0.5.9", "extras and markers mean nothing"),
        ("sglang==0.5.9; python_version < '3'", "extras and markers mean nothing"),
        ("--index-url=http://evil", "is not understood"),
    ],
)
def test_what_is_neither_gets_one_line(words: str, said: str) -> None:
    with pytest.raises(BadRequirement) as raised:
        Wanted.parse(words)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_folder_without_a_project(tmp_path: Path) -> None:
    with pytest.raises(BadRequirement, match="has no pyproject"):
        Wanted.parse(f"sglang@{tmp_path}")


def test_side_is_an_interpreter_or_a_release(tmp_path: Path) -> None:
    assert environments.interpreter("serving", "python3", tmp_path) == "python3"
    assert environments.interpreter("serving", "/any/where/python", tmp_path) == "/any/where/python"
    with pytest.raises(BadRequirement, match="of speculators"):
        environments.interpreter("serving", "speculators==0.9.0", tmp_path)
    with pytest.raises(NotProvisioned, match="contracts provision"):
        environments.interpreter("serving", "sglang==0.5.9", tmp_path)


def test_token_of_a_url_is_never_shown() -> None:
    found = Wanted.parse("sglang@git+https://user:TOKEN@host/r@main")
    assert "TOKEN" in found.requirement
    assert found.shown == "sglang @ git+https://***@host/r@main"
