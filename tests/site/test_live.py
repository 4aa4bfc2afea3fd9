"""The live layer's data: its lines in each source, and its sentences."""

import re
from itertools import chain

import numpy as np
import pytest

from qkv import example, notation
from qkv.notation.tree import Symbol, parse
from qkv_site.parts import live, trees


def test_each_source_finds_each_letter_once():
    wanted = sorted(source.id for source in notation.sources())
    said = live.data()["said"]
    assert len(said) > 30
    for each in said:
        assert sorted(chain(*(sources.split() for _, sources in each))) == wanted


@pytest.mark.parametrize("source", [each.id for each in notation.sources()])
def test_two_texts_have_two_letters(source):
    parts = {name: live.data()["lines"][f"{name}.cross"]["parts"] for name in ("one", "keys")}
    said = live.data()["said"]
    (queries,), (keys,) = (
        [written for written, sources in said[parts[name][key]] if source in sources.split()]
        for name, key in (("one", "X_Q"), ("keys", "X_K"))
    )
    letters = [re.sub("<[^>]+>", "", each) for each in (queries, keys)]
    assert letters[0] != letters[1]


def test_lines_hold_unless_the_reader_changed_the_layer():
    for name, line in live.LINES.items():
        found = notation.Block((line,)).faults()
        assert bool(found) == (name in {"tied", "bare", "unscaled"}), name


def test_the_layer_knows_the_sizes_of_the_example():
    for key, array in live.GIVEN.items():
        shape = [notation.size_of(size, live.SIZES) for size in notation.role(key).shape]
        if key not in ("P_Q", "X_K", "X_V"):
            assert array.shape[-2:] == tuple(shape), key
        assert Symbol(notation.role(key), "i" if array.ndim == 3 else "").role.per_head == (
            array.ndim == 3
        )
    assert live.P.shape == (example.layer.d_model, live.MOST)
    assert len(live.X_OTHER) == len(live.OTHERS) != len(example.words)


def test_made_up_numbers_differ_and_can_be_seen():
    assert np.abs(live.P[:, :7] @ example.layer.W_Q[0] - example.layer.W_Q[0]).max() > 0.1
    assert np.array_equal(live.P, live.P.round(1))


def test_a_sentence_names_what_there_is_and_belongs_to_a_step():
    texts = live.texts()
    known = {*live.SIZES, "head", "joined", "word", "row", "side by side", "best", "most", "usual",
             "share", "seen", "pair", "there", "back", "effect", "count", "place", "what", "other",
             "which", "terms", "value", "steps", "width", "own", "hidden", "scored", "letter",
             "number"}  # fmt: skip
    known |= {role.key for role in notation.roles()}
    for said in (texts["says"] | texts["phrases"]).values():
        assert {*re.findall(r"\{(.+?)\}", said)} <= known, said
        assert said.count("*") % 2 == 0, said
    assert {key.split("-")[0] for key in texts["says"]} == {*texts["steps"]}
    assert {*texts["acts"].values()} <= {*texts["steps"]}


NOT_COMPUTED = {
    "X.T @ multihead(X, X, X)": r"is a node Apply that .*evaluate\.js does not compute",
    "X.T @ rotate(X)": r"is a node Apply that .*evaluate\.js does not compute",
    "concat(W_V[i] for i in kv_heads)": "a node OverHeads that .*",
    "Q[i] @ K[g(i)].T": "a node Symbol that .*",
    "X @ W_K[1]": "a node Symbol that .*",
    "X @ W_Q[i] + b_Q[i]": "a node Sum that .*",
}


@pytest.mark.parametrize("line", NOT_COMPUTED)
def test_a_node_that_the_script_does_not_compute_is_named(line):
    with pytest.raises(ValueError, match=NOT_COMPUTED[line]):
        trees.as_data(parse(line).sides[0])
