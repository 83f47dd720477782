from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from contracts import checkpoint as checkpoints
from contracts import export, records, refusals
from contracts.conventions import exported_name
from contracts.dialect import Dialect
from contracts.refusals import Refused
from contracts.saved_draft import SavedConfig
from contracts.verdict import Cause
from tests.exporting import with_norms
from tests.facts import SERVED, checkpoint, save_draft, saved_config, with_facet

DIALECT = Dialect.for_release("0.5.23")


def causes(**changes: Any) -> list[Cause]:
    return [item.cause for item in export.plan(checkpoint(**changes), DIALECT).refusals]


def test_dialect_is_drawn_from_what_was_observed() -> None:
    assert DIALECT.architecture == "LlamaForCausalLMEagle3"
    assert DIALECT.id_shift == 1
    assert DIALECT.shares_embedding
    assert DIALECT.tensors is not None
    assert "layers.*.hidden_norm.weight" in DIALECT.tensors
    assert "midlayer.self_attn.q_norm.weight" not in DIALECT.tensors
    assert DIALECT.config_keys is not None
    assert "norm_output" in DIALECT.config_keys
    assert "norm_before_residual" not in DIALECT.config_keys


def test_another_convention_of_ids_is_followed() -> None:
    shifted = with_facet(SERVED, "aux_layers", states=(1, 4, 6), layer_ids=(1, 4, 6))
    dialect = Dialect.of({"plain": shifted}, "0.5.23")
    config = export.plan(checkpoint(), dialect).config
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 4, 6]


def test_contradictory_or_missing_observations_give_no_dialect() -> None:
    mixed = {"a": SERVED, "b": with_facet(SERVED, "aux_layers", layer_ids=(1, 4, 6))}
    for surface in (mixed, {}):
        with pytest.raises(ValueError, match="does not show one way"):
            Dialect.of(surface, "0.5.23")


def test_config_is_flat_and_in_the_serving_convention() -> None:
    config = export.plan(with_norms("norm_before_fc"), DIALECT).config
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["model_type"] == "llama"
    assert config["hidden_size"] == 64
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 3, 5]
    assert config["num_aux_hidden_states"] == 3
    assert config["norm_before_fc"] is config["eagle_config"]["norm_before_fc"] is True
    assert "transformer_layer_config" not in config


def test_head_of_its_own_is_never_tied() -> None:
    assert (
        export.plan(checkpoint(layer={"tie_word_embeddings": True}), DIALECT).config["tie_word_embeddings"]
        is False
    )


@pytest.mark.parametrize(
    "layer",
    [
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e4, "factor": 8.0}},
        {"rope_parameters": None, "rope_theta": 5e4, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        {"rope_parameters": None, "rope_theta": 5e4, "rope_scaling": {"type": "llama3", "factor": 8.0}},
    ],
    ids=["transformers_5", "transformers_4", "older_still"],
)
def test_rope_is_written_in_both_spellings(layer: dict[str, Any]) -> None:
    config = export.plan(checkpoint(layer=layer), DIALECT).config
    assert config["rope_theta"] == 5e4
    assert config["rope_scaling"] == {"rope_type": "llama3", "factor": 8.0}
    assert config["rope_parameters"] == {"rope_type": "llama3", "factor": 8.0, "rope_theta": 5e4}


def test_names() -> None:
    assert exported_name("layers.0.mlp.up_proj.weight") == "midlayer.mlp.up_proj.weight"
    assert exported_name("layers.0.input_layernorm.weight") == "midlayer.input_layernorm.weight"
    assert exported_name("layers.1.input_layernorm.weight") == "layers.1.hidden_norm.weight"
    assert exported_name("layers.10.mlp.up_proj.weight") == "layers.10.mlp.up_proj.weight"
    assert "t2d" not in export.plan(checkpoint(), DIALECT).renames


def test_the_target_embeddings_can_be_among_the_states() -> None:
    planned = export.plan(checkpoint(eagle_aux_hidden_state_layer_ids=[0, 4, 6]), DIALECT)
    assert planned.refusals == ()
    assert planned.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [-1, 3, 5]


def test_name_in_two_spellings_loses_no_tensor() -> None:
    """The exported name of one tensor is the saved name of another: neither may overwrite the other."""
    source = checkpoint()
    both = {**source.tensors, "midlayer.mlp.up_proj.weight": source.tensors["layers.0.mlp.up_proj.weight"]}
    with pytest.raises(checkpoints.CheckpointError, match="no place for tensor midlayer"):
        export.plan(replace(source, tensors=both), DIALECT)


@pytest.mark.parametrize("name", ["fc.weight", "d2t", "norm.weight", "layers.0.mlp.up_proj.weight"])
def test_draft_that_lacks_a_tensor_is_one_line(name: str) -> None:
    source = checkpoint()
    rest = {key: value for key, value in source.tensors.items() if key != name}
    with pytest.raises(checkpoints.CheckpointError, match=f"tensor {name} is missing"):
        export.plan(replace(source, tensors=rest), DIALECT)


@pytest.mark.parametrize(
    "layer",
    [
        {"num_hidden_layers": "1"},
        {"num_hidden_layers": 10**9},
        {"hidden_size": None},
        {"layer_types": 5},
        {"sliding_window": "32"},
        {"rope_parameters": "x"},
        {"rope_theta": "x"},
        {"rope_theta": float("inf")},
        {"rms_norm_eps": float("nan")},
        {"rms_norm_eps": -1.0},
        {"model_type": "gemma2"},
    ],
)
def test_odd_layer_config_is_one_line(layer: dict[str, Any]) -> None:
    (key,) = layer
    with pytest.raises(checkpoints.CheckpointError, match=f"transformer_layer_config.{key}") as error:
        export.plan(checkpoint(layer=layer), DIALECT)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"norm_before_fc": True}, "tensor input_norm.weight is missing"),
        ({"fc_norm": True}, "tensor fc_norm.0.weight is missing"),
        ({"layer": {"num_hidden_layers": 2}}, "tensor layers.1.input_layernorm.weight is missing"),
        ({"layer": {"attention_bias": True}}, "tensor layers.0.self_attn.q_proj.bias is missing"),
        ({"layer": {"mlp_bias": True}}, "tensor layers.0.mlp.gate_proj.bias is missing"),
    ],
)
def test_config_that_promises_more_than_there_is_is_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(checkpoints.CheckpointError, match=says):
        export.plan(checkpoint(**changes), DIALECT)


@pytest.mark.parametrize("name", ["input_norm.weight", "layers.1.mlp.up_proj.weight", "stranger"])
def test_tensor_that_the_config_does_not_speak_of_is_one_line(name: str) -> None:
    source = checkpoint()
    tensors = {**source.tensors, name: source.tensors["norm.weight"]}
    with pytest.raises(checkpoints.CheckpointError, match=f"no place for tensor {name}"):
        export.plan(replace(source, tensors=tensors), DIALECT)


def test_map_of_floats_is_one_line() -> None:
    source = checkpoint()
    tensors = {**source.tensors, "d2t": replace(source.tensors["d2t"], dtype="F32")}
    with pytest.raises(checkpoints.CheckpointError, match="d2t is of dtype F32, expected I64 or I32"):
        export.plan(replace(source, tensors=tensors), DIALECT)


def test_dtype_is_that_of_the_tensors_whatever_the_config_says() -> None:
    assert export.plan(checkpoint(dtype="bfloat16"), DIALECT).config["dtype"] == "float32"


@pytest.mark.parametrize(
    "changes",
    [
        {"draft_vocab_size": 100},
        {"layer": {"hidden_size": 128}},
        {"draft_vocab_size": 300},
        {"layer": {"head_dim": 32}},
        {"layer": {"num_key_value_heads": 4}},
        {"layer": {"intermediate_size": 128}},
    ],
)
def test_config_of_another_draft_is_one_line(changes: dict[str, Any]) -> None:
    with pytest.raises(checkpoints.CheckpointError, match="not of one draft"):
        export.plan(checkpoint(**changes), DIALECT)


@pytest.mark.parametrize("serving", ["0.5.5", "0.4.0", "banana"])
def test_release_whose_way_of_reading_is_not_recorded(tmp_path: Path, serving: str) -> None:
    with pytest.raises(records.UnsupportedRelease, match=f"sglang .?{serving}"):
        export.export_draft(save_draft(tmp_path / "draft"), tmp_path / "exported", serving=serving)
    assert not (tmp_path / "exported").exists()


def test_exported_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    export.export_draft(save_draft(tmp_path / "draft"), tmp_path / "exported", serving="0.5.23")
    (tmp_path / "any").mkdir()
    (tmp_path / "any" / "file").touch()
    assert (tmp_path / "exported").stat().st_mode == (tmp_path / "any").stat().st_mode
    for file in (tmp_path / "exported").iterdir():
        assert file.stat().st_mode == (tmp_path / "any" / "file").stat().st_mode


def test_window_becomes_a_server_argument() -> None:
    layer = {"layer_types": ["sliding_attention"], "sliding_window": 2048}
    planned = export.plan(checkpoint(layer=layer), DIALECT)
    assert planned.server_args == ("--speculative-draft-window-size", "2047")
    assert planned.refusals == ()


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"norm_before_residual": True}, Cause.NORM_NOT_SERVED),
        ({"embed_requires_grad": True}, Cause.EMBEDDING_REPLACED),
        ({"eagle_aux_hidden_state_layer_ids": [6, 4, 1]}, Cause.LAYER_ORDER),
        ({"eagle_aux_hidden_state_layer_ids": [-1, 4, 6]}, Cause.LAYER_OUT_OF_RANGE),
        ({"brand_new_flag": True}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"partial_rotary_factor": 0.5}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"hidden_act": "gelu"}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"layer_types": ["chunked_attention"]}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_parameters": {"rope_type": "longrope"}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_parameters": {"rope_type": "bogus"}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_parameters": {"partial_rotary_factor": 0.5}}}, Cause.NOT_EXPRESSIBLE),
        (
            {"layer": {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "mscale": 2.0}}},
            Cause.NOT_EXPRESSIBLE,
        ),
        ({"layer": {"rope_parameters": {"rope_type": "yarn", "factor": "4"}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_parameters": {"rope_type": "linear"}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_parameters": {"rope_type": "linear", "factor": True}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}}, Cause.NOT_EXPRESSIBLE),
        ({"layer": {"layer_types": ["sliding_attention"]}}, Cause.WINDOW_DIFFERS),
        ({"layer": {"attention_multiplier": 3.0}}, Cause.NOT_EXPRESSIBLE),
        ({"eagle_aux_hidden_state_layer_ids": [1, 4, 4]}, Cause.LAYER_ORDER),
        ({"layer": {"layer_types": ["sliding_attention"], "sliding_window": 1}}, Cause.WINDOW_DIFFERS),
        ({"eagle_aux_hidden_state_layer_ids": None}, Cause.WRONG_LAYERS),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_cause(changes: dict[str, Any], cause: Cause) -> None:
    assert set(causes(**changes)) == {cause}


def test_layers_with_different_windows_are_refused() -> None:
    kinds = ["sliding_attention", "full_attention"]
    layer = {"layer_types": kinds, "sliding_window": 8, "num_hidden_layers": 2}
    arguments, (refusal,) = refusals.window(SavedConfig.model_validate(saved_config(layer=layer)))
    assert arguments == ()
    assert refusal.cause is Cause.WINDOW_DIFFERS


@pytest.mark.parametrize("name", ["layers.0.self_attn.o_proj.bias", "layers.0.mlp.up_proj.bias"])
def test_bias_that_the_config_does_not_promise_is_one_line(name: str) -> None:
    source = checkpoint()
    tensors = {**source.tensors, name: source.tensors["norm.weight"]}
    with pytest.raises(checkpoints.CheckpointError, match=f"no place for tensor {name}"):
        export.plan(replace(source, tensors=tensors), DIALECT)


@pytest.mark.parametrize("name", ["d2t", "t2d"])
def test_map_of_another_size_is_one_line(name: str) -> None:
    source = checkpoint()
    tensors = {**source.tensors, name: replace(source.tensors[name], shape=(10,))}
    with pytest.raises(checkpoints.CheckpointError, match=f"{name} is .10."):
        export.plan(replace(source, tensors=tensors), DIALECT)


@pytest.mark.parametrize("flag", ["norm_before_fc", "fc_norm", "norm_output"])
def test_norms_that_the_release_reads_are_written(flag: str) -> None:
    planned = export.plan(with_norms(flag), DIALECT)
    assert planned.refusals == ()
    assert planned.config[flag] is True


def test_tensor_without_a_place_is_refused() -> None:
    tensors = {
        **checkpoint().tensors,
        "layers.0.self_attn.q_norm.weight": checkpoint().tensors["norm.weight"],
    }
    planned = export.plan(replace(checkpoint(), tensors=tensors), DIALECT)
    assert [(item.cause, item.what) for item in planned.refusals] == [
        (Cause.QK_NORM_MISSING, "layers.0.self_attn.q_norm.weight")
    ]


def test_writes_a_checkpoint(tmp_path: Path) -> None:
    planned = export.export_draft(
        save_draft(tmp_path / "draft"), tmp_path / "new" / "exported", serving="0.5.23"
    )
    written = checkpoints.read(tmp_path / "new" / "exported")
    assert written.config == planned.config
    assert set(written.tensors) == set(planned.renames.values())
    assert torch.equal(
        load_file(tmp_path / "new/exported/model.safetensors")["fc.weight"], torch.ones(64, 192)
    )


def test_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    draft = save_draft(tmp_path / "draft", norm_before_residual=True)
    with pytest.raises(Refused, match="norm-not-served"):
        export.export_draft(draft, tmp_path / "exported", serving="0.5.23")
    assert [path.name for path in tmp_path.iterdir()] == ["draft"]


def test_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    draft = save_draft(tmp_path / "draft")
    monkeypatch.setattr("contracts.tensor_copy.copy", full_disk)
    with pytest.raises(OSError, match="no space"):
        export.export_draft(draft, tmp_path / "exported", serving="0.5.23")
    assert [path.name for path in tmp_path.iterdir()] == ["draft"]


def test_never_overwrites(tmp_path: Path) -> None:
    draft = save_draft(tmp_path / "draft")
    (tmp_path / "exported").mkdir()
    with pytest.raises(FileExistsError, match="new folder"):
        export.export_draft(draft, tmp_path / "exported", serving="0.5.23")


def test_release_without_record_is_treated_as_the_newest_before_it(tmp_path: Path) -> None:
    planned = export.export_draft(save_draft(tmp_path / "draft"), tmp_path / "exported", serving="0.6.0")
    assert planned.config["architectures"] == ["LlamaForCausalLMEagle3"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"transformer_layer_config": None}, "transformer_layer_config"),
        ({"draft_vocab_size": None}, "draft_vocab_size"),
        ({"eagle_aux_hidden_state_layer_ids": ["1", "2"]}, "eagle_aux_hidden_state_layer_ids"),
        ({"norm_output": "yes"}, "norm_output"),
        ({"speculators_model_type": "dflash"}, "speculators_model_type"),
        ({"speculators_version": None}, "speculators_version"),
        ({"draft_vocab_size": 0}, "draft_vocab_size"),
    ],
)
def test_config_that_speculators_did_not_write_is_one_line(changes: dict[str, Any], says: str) -> None:
    odd = replace(checkpoint(), config=saved_config() | changes)
    with pytest.raises(checkpoints.CheckpointError, match=f"saved by speculators .{says}") as error:
        export.plan(odd, DIALECT)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0.1"])
def test_release_that_did_not_record_layer_ids_is_refused(version: str) -> None:
    planned = export.plan(checkpoint(speculators_version=version), DIALECT)
    (refusal,) = planned.refusals
    assert refusal.cause is Cause.WRONG_LAYERS
    assert version in refusal.what
    assert "eagle_aux_hidden_state_layer_ids" in refusal.fix


def test_release_that_is_none_is_one_line() -> None:
    with pytest.raises(checkpoints.CheckpointError, match="'unknown' is no release"):
        export.plan(checkpoint(speculators_version="unknown"), DIALECT)


def test_draft_of_another_format_is_one_line(tmp_path: Path) -> None:
    draft = save_draft(tmp_path / "draft")
    (draft / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(checkpoints.CheckpointError, match="not an EAGLE-3 draft saved by speculators"):
        export.export_draft(draft, tmp_path / "exported", serving="0.5.23")
    assert not (tmp_path / "exported").exists()
