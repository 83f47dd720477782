"""`contracts check`: the places that a draft can be in, and what is no draft."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import contracts
from contracts import blank
from tests.checking import NEWEST, good, run, written
from tests.good_drafts import IDS, by_name
from tests.patient import Patient


def test_a_single_file_with_its_config(tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    assert run(f"{draft}/model.safetensors", "--for", NEWEST).exit_code == 0


def test_a_snapshot_of_the_hubs_cache_is_links_and_is_read(tmp_path: Path) -> None:
    draft, _ = good(tmp_path / "plain")
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in Path(draft).iterdir():
        file.rename(blobs / file.name)
        (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    assert run(str(snapshot), "--for", NEWEST).exit_code == 0


def _link_outside(root: Path, draft: Path) -> Path:
    (draft / "model.safetensors").rename(root / "elsewhere.safetensors")
    (draft / "model.safetensors").symlink_to(root / "elsewhere.safetensors")
    return draft


def _config_is_a_link(root: Path, draft: Path) -> Path:
    (draft / "config.json").unlink()
    (draft / "config.json").symlink_to("/etc/hostname")
    return draft


def _only_pickles(root: Path, draft: Path) -> Path:
    (draft / "model.safetensors").unlink()
    (draft / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    return draft


def _written(name: str, content: bytes) -> object:
    def change(root: Path, draft: Path) -> Path:
        (draft / name).write_bytes(content)
        return draft

    return change


def _gone(name: str) -> object:
    def change(root: Path, draft: Path) -> Path:
        (draft / name).unlink()
        return draft

    return change


def _set(**keys: object) -> object:
    def change(root: Path, draft: Path) -> Path:
        config = json.loads((draft / "config.json").read_text())
        (draft / "config.json").write_text(json.dumps(config | keys))
        return draft

    return change


def _many_tensors(draft: Path, number: int) -> Path:
    blank.write_tensors(draft / "model.safetensors", {f"t{at}": blank.weight(1) for at in range(number)})
    return draft


BAD = {
    "no_such_folder": (lambda root, draft: root / "nothing", "no such folder or file"),
    "no_config": (_gone("config.json"), "no config.json; is this a checkpoint?"),
    "no_weights": (_gone("model.safetensors"), "only safetensors checkpoints are read"),
    "only_pickles": (_only_pickles, "pickled weights, which are never opened"),
    "a_pickle_itself": (lambda root, draft: _only_pickles(root, draft) / "pytorch_model.bin", "never opened"),
    "another_file": (lambda root, draft: draft / "config.json", "neither a folder nor a safetensors file"),
    "config_is_a_list": (_written("config.json", b"[]"), "expected a JSON object, found list"),
    "config_is_not_utf8": (_written("config.json", b'{"a": "\xff"}'), "not readable as JSON"),
    "config_is_huge": (_written("config.json", b" " * (9 * 2**20)), "no config is as large"),
    "config_is_deep": (_written("config.json", b"[" * 10**6), "not readable as JSON"),
    "config_names_a_key_twice": (_written("config.json", b'{"a": 1, "a": 2}'), "names the key 'a' twice"),
    "weights_are_empty": (_written("model.safetensors", b""), "truncated or not safetensors"),
    "weights_link_outside": (_link_outside, "outside the folder; not followed"),
    "config_links_outside": (_config_is_a_link, "outside the folder; not followed"),
    "hidden_size_is_a_text": (
        _set(hidden_size="64"),
        "hidden_size is '64', expected a positive whole number",
    ),
    "hidden_size_is_negative": (_set(hidden_size=-1), "expected a positive whole number"),
    "hidden_size_overflows": (_set(hidden_size=2**70), "expected a positive whole number"),
    "heads_are_true": (_set(num_attention_heads=True), "expected a positive whole number"),
    "ids_are_no_numbers": (_set(eagle_config={IDS: ["1"]}), f"eagle_config.{IDS} is ['1'], expected a list"),
    "eagle_config_is_a_list": (_set(eagle_config=[1]), "eagle_config is [1], expected an object"),
    "architectures_is_a_text": (_set(architectures="LlamaForCausalLMEagle3"), "expected a list of texts"),
    "rope_is_a_number": (_set(rope_scaling=1), "rope_scaling is 1, expected an object"),
    "layers_without_end": (_set(num_hidden_layers=2 * 10**9), "no draft has as many"),
    "base_overflows": (_set(rope_theta=10**400), "expected a positive number"),
    "epsilon_is_not_a_number": (_set(rms_norm_eps=float("nan")), "expected a positive number"),
    "a_name_without_end": (lambda root, draft: "x" * 5000, "no name of a folder"),
    "nobodys_home": (lambda root, draft: "~nosuchuser/draft", "no name of a folder"),
    "tensors_without_end": (
        lambda root, draft: _many_tensors(draft, 20_001),
        "more than 20000 tensors, and no draft has as many",
    ),
    "flag_is_a_text": (_set(fc_norm="yes"), "fc_norm is 'yes', expected true or false"),
}


@pytest.mark.parametrize(("change", "says"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_status_2(tmp_path: Path, change: object, says: str) -> None:
    draft, target = good(tmp_path)
    place = change(tmp_path, Path(draft))  # type: ignore[operator]
    found = run(str(place), "--target", target, "--for", NEWEST)
    assert found.exit_code == 2, found.output
    assert found.exception is None or isinstance(found.exception, SystemExit)
    assert says in found.stderr
    assert found.stderr.count("\n") == 1
    assert found.stdout == ""


def test_bad_targets_are_one_line(tmp_path: Path) -> None:
    draft, target = good(tmp_path)
    for place in (str(tmp_path / "nothing"), draft + "/config.json"):
        found = run(draft, "--target", place)
        assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    (Path(target) / "config.json").write_text('{"model_type": "llama"}')
    assert "no language model's config" in run(draft, "--target", target).stderr


def test_no_file_outside_the_draft_is_opened(tmp_path: Path) -> None:
    """By the system's own account: every file that is opened lies in the draft, or belongs to Python."""
    draft, _ = good(tmp_path)
    opened: list[str] = []
    allowed = (
        draft,
        sys.prefix,
        sys.base_prefix,
        str(Path(contracts.__file__).parent.parent),
        "/usr",
        "/lib",
    )
    code = (
        "import sys\n"
        "import contracts.header.api, contracts.header.rules\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event == 'open' else None)\n"
        f"contracts.check({draft!r}, serving={NEWEST!r})\n"
        "print('\\n'.join(seen))\n"
    )
    done = subprocess.run(  # from elsewhere: the package that is installed, not one that lies here
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    opened = [line for line in done.stdout.splitlines() if line.startswith("/")]
    assert any(line.startswith(draft) for line in opened)
    assert [line for line in opened if not line.startswith(allowed)] == []


def test_a_draft_of_a_hundred_gigabytes_is_read_by_its_header(tmp_path: Path) -> None:
    patient = Patient.of(by_name("specforge_ids"))
    patient.tensors["midlayer.mlp.huge.weight"] = blank.weight(50_000_000_000)
    draft, _ = written(tmp_path, patient)
    assert (Path(draft) / "model.safetensors").stat().st_size > 100e9  # sparse: next to nothing is on disk
    command = [sys.executable, "-m", "contracts", "check", draft, "--for", NEWEST]
    limited = [
        "bash",
        "-c",
        'ulimit -v 1000000; exec "$@"',
        "bash",
        *command,
    ]  # kilobytes, of all that is mapped
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "midlayer.mlp.huge.weight" in done.stdout
