"""The form for shapes: it answers as `qkv.which` does, from the same rules."""

import random

import numpy as np
import pytest

from browser.watching import until
from forms import STATUS, enter, letters
from qkv import which

SHOWN = """() => [...document.querySelectorAll(".wq-answer")].map(answer => ({
  shape: answer.querySelector("h2").textContent,
  readings: [...answer.querySelectorAll("ol > li")].map(li => [
    ...[...li.querySelectorAll(".wq-name > :not(.wq-written)")].map(e => e.textContent),
    li.querySelector(".wq-ask").textContent,
    ...[...li.querySelector(".wq-why").children].map(e => e.textContent),
  ]),
  nothing: answer.querySelector(":scope > p")?.textContent,
}))"""

SIZES = [
    {"d_model": 512, "h": 8},
    {"d_model": 7, "h": 6, "h_kv": 2, "d_k": 5},
    {"d_model": 12, "h": 3, "d_k": 4, "h_kv": 1},
    {"d_model": 999_999_999, "h": 999_999, "d_k": 999_999_999},
    {"d_model": 1, "h": 1},
]


@pytest.fixture
def form(shared):
    return shared("/which-shape/")


def shapes(sizes, amount):
    """Shapes of the sizes that a layer has, and of some that it has not."""
    draw = random.Random(0)
    h, d_model = sizes["h"], sizes["d_model"]
    d_k, h_kv = sizes.get("d_k", d_model // h), sizes.get("h_kv", h)
    known = [d_model, h, h_kv, d_k, h * d_k, h_kv * d_k, 2 * h_kv * d_k, (h + 2 * h_kv) * d_k]
    known = [size for size in known if size < 1_000_000_000]
    return [
        tuple(draw.choice([*known, draw.randint(1, 20)]) for _ in range(draw.randint(1, 5)))
        for _ in range(amount)
    ]


def answer(shape, sizes):
    try:
        readings = which(*shape, **sizes)
    except ValueError as error:
        return {
            "shape": str(shape),
            "readings": [],
            "nothing": str(error).partition(" If ")[0].replace("pass d_k", "enter d_k"),
        }
    return {
        "shape": str(shape),
        "readings": [[r.symbol, r.convention, r.what, r.question, r.axes, r.why] for r in readings],
        "nothing": None,
    }


def test_it_answers_as_python_does(form):
    for sizes in SIZES:
        wanted = shapes(sizes, 100)
        enter(form, **sizes, shape="\n".join(map(str, wanted)))
        assert form.evaluate(SHOWN) == [answer(shape, sizes) for shape in wanted]
    assert form.wrong == []


WRITTEN = [
    "8, 512, 64",
    "(8, 512, 64)",
    "  [8, 512, 64],",
    "8 512 64",
    "8 x 512 x 64",
    "8\u00d7512\u00d764",
    "8 * 512 * 64",
    "torch.Size([8, 512, 64])",
    "8 by 512 by 64",
    "8x512x64",
]


def test_shapes_are_read_as_libraries_print_them(form):
    for text in WRITTEN:
        form.get_by_label("Shapes").fill("1")
        form.get_by_label("Shapes").fill(text)
        assert form.locator(".wq-answer h2").all_inner_texts() == ["(8, 512, 64)"], text


def test_a_size_that_is_not_known_yet_is_one_of_tokens_or_samples(form):
    for text, shape in {"(None, 5, 512)": (None, 5, 512), "? x 512": (None, 512)}.items():
        form.get_by_label("Shapes").fill(text)
        assert form.evaluate(SHOWN) == [answer(shape, {"d_model": 512, "h": 8})], text


def test_matrices_in_a_row_are_one_where_they_fit(form, addresses):
    form.get_by_label("Shapes").fill("512\u00d7512, then 512\u00d764")
    fit, misfit = form.locator(".wq-in-a-row").all_inner_texts()
    one = (np.ones((512, 512)) @ np.ones((512, 64))).shape
    assert f"one matrix of shape {one} does the same" in fit
    assert "Matrix 1 gives 512 numbers, and matrix 2 takes 64." in misfit
    form.get_by_label("Shapes").fill("64x512 -> 64x512")
    *ways, perhaps = form.locator(".wq-in-a-row").all()
    assert all("does not fit" in way.inner_text() for way in ways)
    assert "both matrices take the same 512 numbers" in perhaps.inner_text()
    leads_to = perhaps.get_by_role("link").evaluate("link => link.pathname")
    assert leads_to == "/start/how-many-matrices/"
    assert leads_to in addresses


def test_matrices_on_lines_of_their_own_or_between_commas_are_in_a_row_too(form):
    for typed in ("512x512\n512x64", "512x512, 512x64"):
        form.get_by_label("Shapes").fill(typed)
        fit, misfit = form.locator(".wq-in-a-row").all_inner_texts()
        assert "they fit" in fit
        assert "does not fit" in misfit
        assert form.locator(".wq-answer").count() == 2


def test_a_letter_of_a_source_leads_back_to_its_shape(form):
    form.get_by_label("Letters of").select_option("ng-multi-head")
    form.get_by_label("Letter", exact=True).and_(form.locator("select")).select_option(
        "W_i^Q: one head's weight for queries"
    )
    said = form.locator("[data-back=answer]").inner_text()
    assert "one head's weight for queries" in said
    assert said.endswith(": 64 \u00d7 512.")
    form.locator("[data-wq-notation]").select_option("paper-3-2-2")
    until(form, "document.querySelector('[data-back=source]').value == 'paper-3-2-2'")
    assert form.locator("[data-back=answer]").inner_text().endswith(": 512 \u00d7 64.")


def letter(form):
    """The second form: which source, which letter, and what it says of it."""
    return form.evaluate(
        """() => [...document.querySelectorAll("[data-back]")]
          .map(e => e.selectedOptions?.[0].textContent ?? e.textContent)"""
    )


def test_a_role_stays_chosen_in_the_letters_of_another_source(form):
    form.get_by_label("Shapes").fill("W_1^Q")
    for source, written in {
        "ng-multi-head": "W_i^Q",
        "ng-self-attention": "W^Q",
        "vit": None,  # it has no letter for this role
        "weng": "W^q_i",
    }.items():
        form.get_by_label("Letters of").select_option(source)
        if written:
            assert letter(form)[1] == f"{written}: one head's weight for queries"
    form.locator("[data-back=letter]").select_option(
        label="W^o: packed output weight: all heads together"
    )
    form.get_by_label("Letters of").select_option("ng-multi-head")
    assert letter(form)[1].startswith("W_o: packed output weight")


@pytest.mark.parametrize(
    ("typed", "source", "role"),
    [
        ("W_1^Q in Ng's letters", "Ng, Multi-Head Attention", "W_i^Q: one head's weight"),
        ("what is the shape of W^Q_1 in video 2?", "Ng, Multi-Head Attention", "W_i^Q: one head's"),
        ("W^Q in Ng's letters", "Ng, Self-Attention", "W^Q: one head's weight for queries"),
        ("W_1^Q", "Ng, Multi-Head Attention", "W_i^Q: one head's weight for queries"),
        ("W_q of Raschka", "Raschka, LLM from scratch", "W_q: one head's weight for queries"),
    ],
)
def test_a_letter_that_is_typed_is_answered(form, typed, source, role):
    form.get_by_label("Shapes").fill(typed)
    chosen, written, said = letter(form)
    assert chosen == source
    assert written.startswith(role)
    answer = form.locator(".wq-in-a-row").first.text_content()
    assert answer == f"{source}: {said}"
    assert "64" in answer
    assert form.locator("[aria-invalid=true]").count() == 0


def test_a_letter_that_two_videos_have_is_answered_for_both(form):
    form.get_by_label("Shapes").fill("q in Ng's videos\n64, 512")
    said = form.locator(".wq-in-a-row").all_text_contents()
    assert [text.split(":")[0] for text in said] == [
        "Ng, Multi-Head Attention",
        "Ng, Self-Attention",
    ]
    assert "source of the queries" in said[0]
    assert "projected queries of one head" in said[1]
    assert form.locator(".wq-answer").count() == 1


MISTAKES = [
    ("shape", "512 to 64", "In “512 to 64”, “to” is no size: write 512, 64"),
    ("shape", "(-1, 512)", "In “(-1, 512)”, “-1” is no size"),
    ("shape", "8.5, 2", "In “8.5, 2”, “8.5” is no size"),
    ("shape", "512, 0", "In “512, 0”, axis 1 is 0: a size from 1"),
    ("shape", "", "No shape is entered"),
    ("d_model", "wide", "d_model is “wide”: a whole number"),
    ("h", "7", "512 cannot be divided evenly by 7. Try 8 heads, or choose d_k."),
    ("h_kv", "3", "8 heads cannot share 3 evenly: choose h_kv = 4."),
]


def test_a_mistake_is_quoted_and_the_last_answer_is_out_of_use(form):
    for field, entered, message in MISTAKES:
        entry = form.locator(f"[data-size={field}]")
        right = entry.input_value()
        entry.fill(entered)
        assert form.locator(STATUS).inner_text().startswith(message), entered
        assert form.locator("[data-output]").get_attribute("inert") is not None
        assert form.locator("[aria-invalid=true]").count() == 1
        entry.fill(right)
        assert form.locator("[data-output]").get_attribute("inert") is None
        assert form.locator("[aria-invalid=true]").count() == 0


def test_the_link_carries_the_question(form):
    form.get_by_label("Shapes").fill("1536, 512\n64")
    form.get_by_label("number of heads").fill("8")
    shown = form.evaluate(SHOWN)
    form.reload()
    form.locator(".wq-answer").first.wait_for()
    assert form.evaluate(SHOWN) == shown
    assert len(shown) == 2


def test_without_scripts_python_answers(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto("/which-shape/")
    assert not page.locator("form.wq-controls").is_visible()
    said = " ".join(page.locator("article").inner_text().split())  # its lines are wrapped
    assert which(1536, 512, d_model=512, h=8)[0].question in said
    page.close()


def test_possibilities_have_the_chosen_letters(page):
    page.goto("/which-shape/?shape=512,64&notation=ng-multi-head")
    assert letter(page)[1] == "W_i^Q: one head's weight for queries"
    first = page.locator(".wq-written").first
    assert letters(first.text_content()) == "inthechosenletters:WiQ,WiK,WiV"
    page.locator("[data-wq-notation]").select_option("site")
    assert first.text_content() == ""
    assert page.wrong == []
