"""Tiny targets, what is recorded of them, and a class that is broken on purpose in the real engine."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts import known, records
from contracts.captures import Captures, NotCaptured
from contracts.causes import Cause
from contracts.group import Options
from contracts.probes.stream import NOT_HERE, ONLY_HERE
from contracts.recipes import RECIPES
from contracts.sides import Side
from contracts.targets import recorded
from contracts.targets.bench import Targets
from contracts.targets.missing import missing_key
from contracts.targets.recipes import LAYERS, ROPE_BASE, SHORT_WINDOW, TARGETS, selected
from contracts.targets.situations import BY_NAME, OUTPUTS, SITUATIONS, TRAINED
from tests.bench import Bench
from tests.target_table import PAGE, Few, page

if TYPE_CHECKING:
    from contracts.targets.recipes import TargetRecipe

CORE = [
    *("llama", "qwen2", "qwen3", "qwen3_moe", "qwen2_5_vl", "qwen3_vl", "deepseek_v3", "kimi_k25"),
    *("glm4_moe", "glm4_moe_lite", "gpt_oss", "gemma3", "gemma4", "minimax_m2"),
]


# ------------------------------------------------------------------------------ recipes


def test_names_are_unique_among_all_recipes() -> None:
    names = [recipe.name for recipe in (*RECIPES, *TARGETS)]
    assert len(set(names)) == len(names)
    assert len({recipe.architecture for recipe in TARGETS}) == len(TARGETS)


def test_core_is_what_people_serve_most() -> None:
    assert [recipe.name for recipe in selected("core")] == CORE
    assert selected("all") == TARGETS
    assert selected("none") == ()
    assert [recipe.name for recipe in selected("llama, gpt_oss,llama")] == ["llama", "gpt_oss"]
    assert [recipe.name for recipe in selected("Gemma3ForCausalLM")] == ["gemma3"]
    with pytest.raises(KeyError, match="no target ''"):
        selected("")


def test_unknown_target_is_one_line(bench: Bench) -> None:
    found = bench.run("--targets=lama", target="contracts.test_targets", k="")
    assert found.ret == 4
    found.stderr.fnmatch_lines(
        ["ERROR: --targets: no target 'lama'; do you mean llama, mllama4? (there are core, *"]
    )


def test_no_target_means_no_contract_about_any(bench: Bench) -> None:
    found = bench.run("--targets=none", "--collect-only", "-q", target="contracts", k="targets")
    assert not [line for line in found.outlines if "test_targets" in line]


@pytest.mark.parametrize("recipe", TARGETS, ids=lambda recipe: recipe.name)
def test_recipe_is_plain_data_and_whole(recipe: TargetRecipe) -> None:
    text = recipe.settings.get("text_config", recipe.settings)
    assert text["num_hidden_layers"] in (LAYERS, 2 * LAYERS)  # longcat counts each half of a layer
    json.dumps([dict(recipe.settings), dict(recipe.further)])
    assert recipe.wraps is None or recipe.wraps in {item.name for item in TARGETS}
    for varied in recipe.variations:
        assert recipe.varied(varied) != recipe


def test_variation_reaches_the_language_model() -> None:
    wrapper = next(recipe for recipe in TARGETS if recipe.name == "gemma3_mm")
    assert wrapper.varied(SHORT_WINDOW).settings["text_config"]["sliding_window"] == 6
    alone = next(recipe for recipe in TARGETS if recipe.name == "exaone_moe")
    assert alone.varied(ROPE_BASE).settings["rope_parameters"]["rope_theta"] == 500.0
    assert alone.varied(None) is alone


@pytest.mark.parametrize(
    ("told", "key"),
    [
        ("AttributeError: 'GptOssConfig' object has no attribute 'swiglu_limit'", "swiglu_limit"),
        ("KeyError: 'factor'", "factor"),
        ("AttributeError: 'Qwen2MoeForCausalLM' object has no attribute 'get_embed_and_head'", None),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", None),
    ],
)
def test_key_that_a_config_lacks_is_told(told: str, key: str | None) -> None:
    assert missing_key(told) == key


# ------------------------------------------------------------------------------ records


def test_every_release_is_recorded_with_every_target() -> None:
    assert recorded.releases() == records.recorded_releases("sglang")
    for release in recorded.releases():
        assert set(recorded.read(release)) == {recipe.name for recipe in TARGETS}


@pytest.mark.parametrize("release", records.recorded_releases("sglang"))
def test_setters_alone_say_what_was_seen_to_run(release: str) -> None:
    """Two kinds of evidence about one class: its setter on a stand-in, and the engine beside transformers."""
    rules = records.raw("sglang", release)["traits"]["targets"]
    compared = 0
    for recipe in TARGETS:
        rule, ran = rules.get(recipe.architecture), recorded.shifts(release).get(recipe.architecture)
        if rule is None or ran is None or rule["usual"] is None or ran.usual is None:
            continue
        compared += 1
        assert (rule["usual"], rule["first_is_1"]) == (ran.usual, ran.first_is_1), recipe.name
        assert rule["one_is_not_first"] == ran.one_is_not_first, recipe.name
        counts_layers = rule["without_ids"] != sorted(rule["without_ids"])  # the stand-in has none
        if isinstance(ran.without_ids, tuple) and not counts_layers:
            assert tuple(rule["without_ids"]) == ran.without_ids, recipe.name
    assert compared >= 8


RECORDED_AS = {
    "targets.target_is_served_with_a_draft": lambda seen: not seen.states,
    "targets.states_without_ids_are_those_of_training": lambda seen: seen.of(None) != TRAINED["usual"],
    "targets.order_of_ids_says_nothing": lambda seen: seen.of(BY_NAME["unordered"].ids) != seen.of(OUTPUTS),
    "targets.window_is_counted_as_by_transformers": lambda seen: "short_window" in seen.differs,
    "targets.rope_base_is_read": lambda seen: "rope_base" in seen.differs,
}
"""What a record shows where a contract does not hold."""


@pytest.mark.parametrize("contract", RECORDED_AS)
def test_known_defects_are_those_that_the_records_show(contract: str) -> None:
    """Neither more nor less, in every release in which the class was judged."""
    entries = known.load()
    for release in recorded.releases():
        for recipe in TARGETS:
            seen = recorded.read(release)[recipe.name]
            if seen.absent or seen.unjudged:
                continue
            served = contract.endswith("served_with_a_draft") or bool(seen.states)
            broken = served and RECORDED_AS[contract](seen)
            entry = entries.find(contract, recipe.name, None, release)
            assert (entry is not None) == broken, (release, recipe.name)


def test_no_record_takes_a_stand_in_for_the_library() -> None:
    """What the machine or a stand-in cannot do says nothing of a release."""
    for release in recorded.releases():
        for name, seen in recorded.read(release).items():
            for told in seen.refused.values():
                assert not ONLY_HERE.search(told.partition(": ")[2]), (release, name, told)
                assert not NOT_HERE.search(told), (release, name, told)


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


def test_record_reads_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(recorded.read("0.5.23"))
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    recorded.read.cache_clear()
    recorded.write("0.5.23", {"torch": "2.13.0"}, before, {"setters": {"A": "a.A"}})
    assert recorded.read("0.5.23") == before
    assert recorded.said("0.5.23") == {"setters": {"A": "a.A"}}
    (tmp_path / "0.5.22.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99"):
        recorded.read("0.5.22")
    recorded.read.cache_clear()


@pytest.mark.parametrize("trained", TRAINED.values(), ids=TRAINED)
@pytest.mark.parametrize("release", records.recorded_releases("sglang"))
def test_ids_that_export_writes_were_seen_to_deliver_the_states(
    release: str, trained: tuple[int, ...]
) -> None:
    """Where a list of ids that export writes is among those that were run, the run delivered the states."""
    captures = Captures.for_release(release)
    for recipe in TARGETS:
        seen = recorded.read(release)[recipe.name]
        try:
            ids = captures.ids((recipe.architecture,), trained, LAYERS)
        except NotCaptured:
            continue
        if recorded.spelled(ids) in {**seen.states, **seen.refused}:
            assert seen.of(ids) == trained, recipe.name


# ------------------------------------------------------------------------------ the real engine


BREAK = """
import importlib.abc, importlib.machinery, sys

class Late(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "sglang.srt.models.llama":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            setter = module.LlamaForCausalLM.set_eagle3_layers_to_capture
            def late(self, ids=None):
                setter(self, None if ids is None else [item + 1 for item in ids])
            module.LlamaForCausalLM.set_eagle3_layers_to_capture = late

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Late())
"""
"""Makes Llama's setter add one more to every id, in whatever process imports it."""


def test_setter_that_is_off_by_one_is_seen_in_the_real_engine(
    tmp_path: Path, sglang: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(BREAK))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    options = Options(cache=tmp_path / "cache", session="", case_timeout=60.0, progress=None)
    run = Targets(selected("llama"), lambda _: sglang, options).of(selected("llama")[0]).trusted(OUTPUTS)
    assert run.states == (3, 5, 6)
    assert BY_NAME["outputs"].ids == (1, 3, 4)


def test_key_that_the_targets_config_lacks_is_named_by_the_real_engine(tmp_path: Path, sglang: Side) -> None:
    """One class that lacks its key, beside one that does not."""
    whole = {recipe.name: recipe for recipe in TARGETS}
    lacking = [
        replace(whole[name], further={key: it for key, it in whole[name].further.items() if key != lacks})
        for name, lacks in (("deepseek_v3", "moe_layer_freq"), ("minimax_m2", "scoring_func"))
    ]
    options = Options(cache=tmp_path / "cache", session="", case_timeout=60.0, progress=None)
    bench = Few([*lacking, whole["llama"]], lambda _: sglang, options, [OUTPUTS])
    told = [bench.of(recipe).run(OUTPUTS).refused for recipe in bench.recipes]
    assert [missing_key(refused or "") for refused in told] == ["moe_layer_freq", "scoring_func", None]
    assert told[-1] is None


def test_every_situation_differs() -> None:
    assert len({situation.ids for situation in SITUATIONS}) == len(SITUATIONS)
    assert {cause.value for cause in (Cause.TARGET_REFUSED, Cause.NO_SUCH_TARGET)} <= set(Cause)
