"""`qkv PATH` at the shell: the table, JSON for programs, and errors as a shell expects them."""

import json

import numpy as np
import pytest

from qkv import MultiHead, dump
from qkv.layouts import layouts
from qkv.layouts._shell import main

LLAMA = {
    "model_type": "llama",
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "rope_theta": 500000.0,
    "sliding_window": None,
}


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of two layers, without a config."""
    safetensors = pytest.importorskip("safetensors.numpy")
    from dataclasses import replace

    mh = replace(MultiHead.random(12, 6, h_kv=2, d_k=4), between=layouts()["llama"].between)
    prefixes = (f"layers.{i}.self_attn." for i in range(2))
    weights = {"embed.weight": np.ones((3, 12))}
    for prefix in prefixes:
        weights |= dump(mh, "llama", prefix=prefix)
    safetensors.save_file(weights, tmp_path / "model.safetensors")
    return tmp_path


def test_a_table_of_a_folder_or_of_a_file(folder, capsys):
    for path in (folder, folder / "model.safetensors"):
        assert main([str(path)]) == 0
        said = capsys.readouterr().out
        assert "layers.0-1.self_attn.  llama   none    d_model=12, h·d_k=24, h_kv·d_k=8" in said
        assert "pass h, or config" in said
    assert main([str(folder), "--heads", "6"]) == 0
    assert "h=6, h_kv=2, d_model=12, d_k=4" in capsys.readouterr().out


def test_the_config_beside_the_files_is_read_and_another_one_can_be_named(folder, capsys):
    (folder / "config.json").write_text(json.dumps(LLAMA))
    other = folder / "other.json"
    other.write_text(json.dumps(LLAMA | {"sliding_window": 3, "model_type": "mistral"}))
    for path in (folder, folder / "model.safetensors"):
        assert main([str(path)]) == 0
        assert "layers.0-1.self_attn.: Rotation(angles (2,)" in (said := capsys.readouterr().out)
        assert "a window" not in said
    assert main([str(folder), "--config", str(other)]) == 0
    assert "a window of 2 keys before; causal." in " ".join(capsys.readouterr().out.split())


def test_json_for_programs(folder, capsys):
    assert main([str(folder), "--json"]) == 0
    first, _ = json.loads(capsys.readouterr().out)
    assert first["prefix"] == "layers.0.self_attn."
    assert first["layouts"] == ["llama"]
    assert {"h": 6, "h_kv": 2, "d_k": 4} in first["heads"]
    assert first["between"] is first["causal"] is first["refused"] is None
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert main([str(folder), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["heads"] == [{"h": 6, "h_kv": 2, "d_k": 4}]
    assert first["between"] == ["Rotation(angles (2,), pairs='halves', magnitude=1.0)"]
    assert (first["causal"], first["window"], first["chunk"]) == (True, None, None)
    assert second["prefix"] == "layers.1.self_attn."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no file or folder 'nowhere'"),
        (["--heads", "0", "model.safetensors"], "h must be a positive whole number, but is 0"),
        (["--config", "config.json", "."], "config.json' is no JSON"),
        (["--config", "list.json", "."], "config must be a mapping"),
        (["list.json"], "weights must be a mapping, or the path of a .safetensors file"),
    ],
)
def test_errors_are_sentences_on_stderr(folder, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(folder)
    (folder / "list.json").write_text("[]")
    if "config.json" in arguments:
        (folder / "config.json").write_text("{")
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("qkv: ")
    assert said in printed.err
