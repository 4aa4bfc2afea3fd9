"""`qkv.read`: inputs as people write them, the letters of every text, and input that is wrong."""

import random
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv.layouts import layouts
from qkv.notation import sources, typeset
from qkv.notation.tree import parse as parse_formula
from qkv.reading import read
from qkv.reading._data import DATA, MESSAGES
from qkv.reading._shell import main
from qkv.reading._tables import cut_out, tables
from support import ROOT

INPUTS = tomllib.loads((Path(__file__).parent / "inputs.toml").read_text())


def is_right(typed: str, want: dict) -> bool:
    """Whether the first card says what is expected."""
    found = read(typed)
    if want.get("kind") in ("nothing", "question"):
        return not found and want.get("says", "") in found.says
    first = found[0] if found else None
    return bool(
        first
        and first.kind == want.get("kind", "formula")
        and bool(first.wrong) == want.get("wrong", False)
        and all(
            getattr(first, key) == want[key] for key in ("which", "tokens", "line") if key in want
        )
        and want.get("says", "") in repr(found)
        and want.get("not", "no such text") not in repr(found)
    )


@pytest.mark.parametrize(
    ("typed", "want"), [each for part in INPUTS.values() for each in part.items()]
)
def test_what_people_write_is_read(typed, want):
    assert is_right(typed, want), read(typed)


def test_the_cards_of_the_two_videos_say_what_q_is_in_each():
    first, second = read("q = W^Q x")[0], read("W_1^Q q")[0]
    assert first.title.startswith("q is projected")
    assert "Self-Attention" in first.texts[0]
    assert second.title.startswith("q is a source")
    assert "Multi-Head" in second.texts[0]
    assert second.letters["W_1^Q"] == "head 1's weight for queries, takes 512 numbers to 64"
    both = read("q = W^Q x\nW_1^Q q")[0]
    assert both.line == "X_Q = X @ P_Q; X_Q @ W_Q[0]"
    assert both.page == "how-to/remove-a-double-projection.md"


LINES = [
    "Q[i] = X @ W_Q[i]",
    "head[i] = softmax(Q[i] @ K[i].T / sqrt(d_k)) @ V[i]",
    "head[i] = attention(X_Q @ W_Q[i], X_K @ W_K[i], X_V @ W_V[i])",
    "X_Q @ W_Q[i]",
    "Q[i] @ K[i].T",
    "A[i] @ V[i]",
]


def own(line: str, source) -> bool:
    """Whether a source has a letter of its own for each role of a line, and no two the same."""
    used = {
        str(part.role.key): part.role
        for part in parse_formula(line).walk()
        if hasattr(part, "role")
    }
    return all(source.names(role) for role in used.values())


@pytest.mark.parametrize(
    ("line", "name"),
    [(line, each.id) for line in LINES for each in sources() if own(line, each)],
)
def test_a_formula_in_a_texts_letters_is_read_as_that_texts(line, name):
    """As the site sets it, and back: the text is named, and so is its side for words."""
    found = read(typeset(line, name))
    where = tables()["texts"][name]["where"]
    assert any(where in each.texts for each in found), (typeset(line, name), found)
    assert not found[0].wrong


def layer(self_attention: bool) -> dict:
    """Arrays for all roles, of widths that differ, made from each other as a layer does."""
    made = np.random.default_rng(5).normal
    n, h, d_model, d_k, d_v = (5, 3), 2, 11, 4, 7
    X_Q, X_K = (made(size=(size, d_model)) for size in n)
    it = {"X_Q": X_Q, "X_K": X_Q if self_attention else X_K, "h": h, "d_k": d_k, "d_v": d_v}
    it |= {"X_V": it["X_K"], "X": X_Q, "d_model": d_model, "scale": 0.3, "scaling": 0.3, "b": 2.0}
    it |= {"mask": np.zeros((n[0], len(it["X_K"]))), "C_Q": X_Q[:, :6], "C_KV": it["X_K"][:, :9]}
    it |= {"W_DQ": made(size=(d_model, 6)), "W_DKV": made(size=(d_model, 9))}
    for letter, wide, rank in ("Q", d_k, 6), ("K", d_k, 9), ("V", d_v, 9):
        it[f"P_{letter}"] = made(size=(d_model, d_model))
        it[f"W_{letter}"], it[f"b_{letter}"] = made(size=(d_model, h * wide)), made(size=h * wide)
        it[f"W_U{letter}"] = made(size=(rank, h * wide))
        for name in ("W_", "b_", "W_U"):
            it[f"{name}{letter}_i"] = it[f"{name}{letter}"][..., :wide]
            it[f"{name}{letter}_0"] = it[f"{name}{letter}_1"] = it[f"{name}{letter}_i"]
        it[letter] = it[f"X_{letter}"] @ it[f"W_{letter}"]
        it[f"{letter}_i"] = it[letter][:, :wide]
    it |= {"W_O": made(size=(h * d_v, d_model)), "W_O_i": made(size=(d_v, d_model))}
    it |= {"W_QKV": made(size=(d_model, 3 * h * d_k)), "W_i": made(size=(d_model, d_k))}
    it |= {"QKV": X_Q @ it["W_QKV"]}
    it |= {"W_KR": made(size=(d_model, 8)), "W_QK_i": it["W_Q_i"] @ it["W_K_i"].T}
    it |= {"W_VO_i": it["W_V_i"] @ it["W_O_i"], "S_i": it["Q_i"] @ it["K_i"].T}
    it |= {"A_i": qkv.softmax(it["S_i"] / 2), "K_R": it["X_K"] @ it["W_KR"]}
    it["head_i"] = qkv.attention(it["Q_i"], it["K_i"], it["V_i"])
    it |= {"added": X_Q, "mean": it["A_i"] @ it["X_K"]}
    it["QKV_i"] = [it["Q_i"]] * 3
    it["joined"] = np.concatenate([it["head_i"]] * h, axis=-1)
    it["Y"] = it["joined"] @ it["W_O"]
    stack = lambda each: np.concatenate([*each], axis=-1)  # noqa: E731
    functions = {"softmax": qkv.softmax, "attention": qkv.attention, "sqrt": np.sqrt}
    functions |= {"concat": stack, "split": np.split, "heads": range(h), "i": 0, "rotate": np.copy}
    functions |= {"exp": np.exp, "multihead": lambda q, k, v: it["Y"] if len(k) == len(v) else None}
    return it | functions


LINED = ("formulas", "code", "unread", "sources", "axes", "spelled", "evidence", "phone", "pasted")
LINED += ("typed", "counted")


@pytest.mark.parametrize("typed", [typed for part in LINED for typed in INPUTS[part]])
def test_a_line_that_is_shown_fits(typed):
    """In NumPy, with arrays of all roles: both sides of a line have one shape."""
    for line in filter(None, (each.line for each in read(typed))):
        plain = re.sub(r"(\w)\[(\w)\]", r"\1_\2", line)
        it = layer(self_attention=bool(re.search(r"\bX\b|X_Q = X_K", plain)))
        for each in plain.split("; "):
            names, equal, value = each.rpartition(" = ")
            sides = [eval(side, it) for side in (value or names).split(" == ")]
            names = names.split(" = ")[0]
            if equal and len(parts := names.split(", ")) > 1:
                sides = list(sides[0])
                assert len(sides) == len(parts)
            elif equal:
                sides.append(it[re.sub(r"_\d$", "_i", names)])
            assert len({*map(np.shape, sides)}) == 1, (line, [*map(np.shape, sides)])


def test_many_lines_are_shown():
    assert sum(bool(found and found[0].line) for found in map(read, INPUTS["code"])) > 20
    assert sum(bool(found and found[0].line) for found in map(read, INPUTS["formulas"])) > 35


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "Nothing was entered"),
        ("   \n", "Nothing was entered"),
        ("Q" * 10_000, "10000 characters are too many: at most 2000"),
        ("softmax(QK^T", "“(” is not closed"),
        (r"\frac{QK^T}{\sqrt{d_k}", "“{” is not closed"),
        ("softmax(QK^T))V", "“)” closes no bracket"),
        ("V(softmax(QK^T/√d_k", "In “V(softmax(QK^T/√d_k”, “(” is not closed"),
        ('np.einsum("bnd,hde->bhnz", x, W)', "“z” of the result “bhnz” is in no operand"),
        ('np.einsum("bnd->bdn", x, W)', "has 1 operands, and 2 arrays follow"),
        ("(0, 512)", "axis 0 is 0: a size from 1"),
        ("512 x -3", "axis 1 is -3: a size from 1"),
    ],
)
def test_bad_input_is_refused_with_the_place(typed, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        read(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "<script>alert(1)</script>",
        "שלום עולם",
        "E = mc^2",
        "PV = nRT",
        "Q = CV",
        "K = \\frac{1}{2} m v^2",
        "F = q v B",
        "h_t = W_{hh}h_{t-1} + W_{xh}x_t",
        "score = v^T tanh(W_1 h + W_2 s)",
        "SELECT * FROM t",
        "for i in range(10): print(i)",
    ],
)
def test_what_is_no_attention_gets_no_card(typed):
    found = read(typed)
    assert not found
    assert found.says


@pytest.mark.parametrize(
    "typed",
    [
        r"K + \\sqrt",
        "Q = X W_Q\n\\sqrt",
        ".transpose()for i inv * ×+",
        "T = self.q_proj(x)\nq *= 3",
    ],
)
def test_a_root_or_a_call_of_nothing_ends_in_no_other_error(typed):
    found = read(typed)
    assert found or found.says


def test_a_card_says_what_was_not_read():
    found = read("scores = q @ k.transpose(-2, -1) / math.sqrt(N)")
    assert len(found) == 1
    assert (found.says, found.unread) == ("Not read: N.", ("N",))


def test_whatever_is_typed_is_read_or_refused():
    """Lines with slips, as fingers make them: a card, a reason, or a ValueError."""
    lines = [typed for part in INPUTS.values() for typed in part]
    chance = random.Random(7)
    for _ in range(600):
        typed = chance.choice(lines)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(typed) + 1)
            sign = chance.choice(["", *"()[]{}^_=/*+-.,@\\QKVWxT'\"|"])
            typed = typed[:place] + sign + typed[place + (not sign) :]
        try:
            found = read(typed)
        except ValueError:
            continue
        assert found or found.says, typed


def test_what_was_not_understood_is_named():
    found = read("softmax(QK^T + Ж)V")
    assert found[0].which == "head"
    assert "Ж" in found.says


def test_a_mistake_that_can_be_mended_says_how():
    assert "Q Kᵀ" in read("softmax(Q K / sqrt(d_k)) V")[0].wrong[0]
    assert "transpose(1, 2)" in read("q = self.q_proj(x).view(B, h, T, d)")[0].wrong[0]


def test_two_readings_say_what_decides():
    found = read("Q = X W_Q")
    assert [each.which for each in found] == ["head", "packed"]
    assert "cut into heads" in found.says


@pytest.mark.parametrize("layout", layouts().values(), ids=lambda layout: layout.name)
def test_the_line_that_cuts_out_a_head_does(layout):
    """Computed on an array of numbers, against what `qkv.load` takes out of it."""
    sizes = {"d_model": 6, "h": 4, "h_kv": 2, "d_k": 3, "d_v": 3}
    sizes |= dict.fromkeys(("d_source", "d_source_k", "d_source_v", "d_out"), 6)
    for stored in {it for form in layout.forms for it in form.stored}:
        if not (line := cut_out(stored)):
            continue
        array = np.arange(np.prod(stored.shape_for(sizes))).reshape(stored.shape_for(sizes))
        first = stored.unpack(array, sizes)[stored.parts[0]]
        for i in range(len(first)):
            cut = eval(line, {"w": array, "i": i, **sizes})  # a line of this package's own
            np.testing.assert_array_equal(cut, first[i], err_msg=f"{stored.name}: {line}")


def test_every_name_that_a_library_stores_is_read():
    for name in " ".join(its[0] for held in tables()["names"].values() for its in held).split():
        if not re.fullmatch(r"[A-Za-z]_\w", name):
            assert read(f"model.layers.0.{name}")[0].kind == "name", name


def test_every_page_that_a_card_leads_to_is_there():
    shape, fit = MESSAGES["shape"], MESSAGES["fit"]
    pages = [*DATA["page"], shape["page"], fit["page"], *fit["pages"].values()]
    pages += [page for held in tables()["names"].values() for _, page, *_ in held]
    pages += [page for _, page, *_ in MESSAGES["message"]]
    for page in pages:
        name, _, anchor = page.partition("#")
        text = (ROOT / "docs" / name).read_text()
        assert not anchor or f"#{anchor} }}" in text, page


def test_the_numbers_in_a_message_are_put_in():
    found = read("RuntimeError: shape '[1, 28, 64, 128]' is invalid for input of size 28672")
    assert found[0].title.startswith(f"{28672 // 28 // 128} heads came")


def test_at_the_shell(capsys):
    assert main(["read", "W_1^Q", "q"]) == 0
    assert capsys.readouterr().out.startswith("q is a source")
    assert main(["read", "softmax(Q"]) == 1
    assert "not closed" in capsys.readouterr().err
    assert main(["no-such-file"]) == 1


def test_it_is_at_the_top():
    assert qkv.read is read


@pytest.mark.parametrize(
    "typed",
    [
        r"softmax(QK^T/\sqrt{d_v})V",
        "Q @ K.T / np.sqrt(K.shape[0])",
        "q @ k.transpose(-2, -1) / k.size(1)**0.5",
        r"softmax(QK^T/\sqrt{d_k}) * mask @ V",
    ],
)
def test_a_formula_that_is_not_read_whole_has_no_line_and_is_no_sources(typed):
    for reading in read(typed):
        assert (reading.line, reading.texts) == ("", ())


def test_a_product_with_its_own_transpose_has_nothing_exchanged():
    (reading, *_) = read("softmax(X X^T)X")
    assert reading.wrong == ()


def test_the_usual_axis_of_a_softmax_may_be_named():
    (plain, *_), (named, *_) = map(read, ("softmax(QK^T)V", "softmax(QK^T, dim=-1)V"))
    assert plain == named
