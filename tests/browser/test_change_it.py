"""The panel "Change it here": shapes, what fits, and numbers follow what is entered at once."""

import random

import numpy as np
import pytest

from browser.watching import until, violations
from forms import letters
from qkv import example, notation, softmax
from qkv_site.parts import change_it
from support import thorough

WHICH, TWICE = "/start/which-q/", "/start/how-many-matrices/"
TIMES = "\N{MULTIPLICATION SIGN}"
PANEL = "[data-wq-change]"
STATUS = f"{PANEL} [role=status]"
MISFIT = "The shapes do not fit in line "
PARTS = "change-it.js", "evaluate.js", "change-it.css", "tools.css", "which-q.json"
# Of each line: what it says of its shape, what it says is wrong, and its matrices with their sizes.
SHOWN = """() => [...document.querySelectorAll(".wq-lines > li")].map(line => ({
  shape: line.querySelector(".wq-is")?.textContent ?? "",
  wrong: line.querySelector(".wq-fault")?.textContent ?? "",
  sizes: [...line.querySelectorAll(".wq-shape")].map(each => each.textContent),
  tables: [...line.querySelectorAll("tbody")].map(table => [...table.rows].map(row =>
    [...row.querySelectorAll("td")].map(cell => Number(cell.textContent.replace("−", "-"))))),
}))"""
ENTER = """texts => {
  const form = document.querySelector("[data-wq-change] form")
  form.elements.map.value = texts.map
  for (const field of form.querySelectorAll("[data-size]")) {
    field.value = texts[field.dataset.size] ?? ""
  }
  form.dispatchEvent(new Event("input", {bubbles: true}))
}"""
UNFOLD = """() => {
  for (const numbers of document.querySelectorAll(".wq-numbers")) numbers.open = true
}"""


def opened(page):
    page.locator(PANEL).evaluate("panel => panel.open = true")
    page.locator(".wq-lines > li").first.wait_for()
    return page


@pytest.fixture
def which(shared):
    return opened(shared(WHICH))


@pytest.fixture
def twice(shared):
    return opened(shared(TWICE))


def enter(page, *, maps="one", **sizes):
    texts = change_it.SIZES | sizes
    page.evaluate(ENTER, {"map": maps} | {name: str(text) for name, text in texts.items()})


def shown(page):
    """What the lines say, with all numbers folded out."""
    page.evaluate(UNFOLD)
    until(page, "[...document.querySelectorAll('.wq-numbers')].every(e => e.querySelector('td'))")
    return page.evaluate(SHOWN)


def assert_close(table, expected):
    np.testing.assert_allclose(table, expected, rtol=0, atol=0.0051)


def test_nothing_is_asked_for_before_it_is_opened(page):
    def asked():
        names = {url.rpartition("/")[2] for url in page.requested}
        return names & {*PARTS}

    page.goto(WHICH)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # the theme opens whatever is folded
    until(page, f"document.querySelector('{PANEL}').open")
    page.wait_for_load_state("networkidle")
    assert asked() == set()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(page, f"!document.querySelector('{PANEL}').open")
    assert asked() == set()
    page.locator(f"{PANEL} > summary").click()
    page.locator(".wq-lines > li").first.wait_for()
    assert asked() == {*PARTS}
    assert page.evaluate("document.querySelectorAll('*').length") < 3_500
    assert page.wrong == []


def test_at_first_it_shows_the_worked_example(page):
    page.goto(WHICH)
    lines = shown(opened(page))
    head = example.heads[0]
    results = example.Q[0], example.K[0], example.V[0], example.S[0], example.A[0], head, example.Y
    for line, expected in zip(lines, results, strict=True):
        rows, columns = expected.shape
        assert f"= {rows} {TIMES} {columns}" in line["shape"]
        assert line["sizes"][-1] == f"{rows} {TIMES} {columns}"
        assert_close(line["tables"][-1], expected)
    assert_close(lines[0]["tables"][0], example.X)
    assert_close(lines[0]["tables"][1], example.layer.W_Q[0])
    assert_close(lines[6]["tables"][0], np.hstack(example.heads))
    assert_close(lines[6]["tables"][1], np.concatenate(example.layer.W_O))
    said = page.locator(STATUS).inner_text()
    assert said == "The shapes fit. The numbers are those of the worked example."
    assert page.wrong == []
    page.get_by_role("link", name="the worked example").last.click()
    page.wait_for_url("**/start/one-head/")


def settings(amount):
    draw = random.Random(0)
    for number in range(amount):
        sizes = {name: draw.randint(1, change_it.MOST) for name in change_it.SIZES}
        sizes["maps"] = [*change_it.MAPS][number % len(change_it.MAPS)]
        if draw.random() < 0.5:
            sizes["d_k"] = sizes["d_model"]
        sizes["width"] = draw.choice(["", sizes["d_model"], draw.randint(1, change_it.MOST)])
        yield sizes


@pytest.mark.parametrize("count", [12, *thorough(60)])
def test_shapes_fit_and_numbers_follow_what_is_entered(which, count):
    fitted = {(maps, fits): 0 for maps in change_it.MAPS for fits in (True, False)}
    for setting in settings(count):
        enter(which, **setting)
        fits = assert_follows(shown(which), setting)
        said = which.locator(STATUS).inner_text()
        assert said.startswith(("The shapes fit.", "The shapes fit, because ") if fits else MISFIT)
        fitted[setting["maps"], fits] += 1
    assert fitted.pop(("one", False)) == 0
    assert all(fitted.values()), fitted
    assert which.wrong == []


def assert_follows(lines, setting):
    """Compare with NumPy what the lines say; return whether the shapes fit."""
    maps, d_model, d_k = setting["maps"], setting["d_model"], setting["d_k"]
    width = setting["width"] or d_model
    if maps in ("two", "merged") and width != d_model:
        assert_clash(lines[0]["wrong"], 5 if maps == "two" else d_model, width, d_model, d_k)
        assert lines[-1]["wrong"] == "Not computed: line 1 does not fit."
        return False
    first = len(lines) - 7  # the line of the queries, if there is one
    keys, values, scores = lines[first + 1], lines[first + 2], lines[first + 3]
    X, W_K, K = of_product(keys, (5, d_model), (d_model, d_k))
    assert_close(K, X @ W_K)
    Q = X
    if maps != "none":
        Q = np.array(lines[first]["tables"][-1])
        assert_close(Q, np.linalg.multi_dot([*arrays(lines[first])[:-1]]))
    elif d_k != d_model:
        assert_clash(scores["wrong"], 5, d_model, d_k, 5)
        after = {line["wrong"] for line in lines[first + 4 :]}
        assert after == {f"Not computed: line {first + 4} does not fit."}
        return False
    S, A = (np.array(lines[first + place]["tables"][-1]) for place in (3, 4))
    assert_close(S, Q @ K.T)
    assert_close(A, softmax(S / np.sqrt(d_k)))
    weights, V, head = arrays(lines[first + 5])
    assert_close(V, arrays(values)[-1])
    assert np.abs(head - weights @ V).max() <= 0.0051 + 0.0051 * np.abs(V).sum(axis=0).max()
    heads, W_O, Y = arrays(lines[first + 6])
    assert heads.shape == (5, setting["h"] * setting["d_v"])
    assert W_O.shape == (heads.shape[1], d_model)
    assert np.abs(Y - heads @ W_O).max() <= 0.0051 * (1 + heads.shape[1])
    assert_close(heads[:, : setting["d_v"]], head)
    return True


def assert_clash(wrong, rows, one, other, columns):
    """The two shapes are said, and the two sizes that differ."""
    shapes = f"{rows} {TIMES} {one} times {other} {TIMES} {columns}"
    assert wrong == f"{shapes} does not fit: {one} is not {other}."


def of_product(line, *shapes):
    found = arrays(line)
    assert [each.shape for each in found[:-1]] == [*shapes]
    return found


def arrays(line):
    return [np.array(table) for table in line["tables"]]


def test_two_maps_put_into_one_give_the_same(twice):
    enter(twice, maps="two")
    two = shown(twice)
    enter(twice, maps="merged")
    product, *one = shown(twice)
    assert product["tables"][-1] != two[0]["tables"][2]
    assert [line["tables"][-1] for line in one] == [line["tables"][-1] for line in two]
    said = twice.locator(STATUS).inner_text()
    assert " ".join(said.split()).startswith("The shapes fit. The last line gives the same ")
    assert " as with two matrices. " in " ".join(said.split())
    assert "PQismadeup:thenumbers−1,0and1.SoQiisnotthatoftheexample." in letters(said)
    assert np.abs(np.array(two[0]["tables"][-1]) - example.Q[0]).max() > 0.1


def test_what_is_made_up_is_said_to_be_and_stays_in_its_place(which):
    enter(which, d_k=4)
    four = shown(which)[0]["tables"][1]
    assert "These are other sizes than in the worked example" in which.locator(STATUS).inner_text()
    enter(which, d_k=5)
    five = shown(which)[0]["tables"][1]
    assert [row[:4] for row in five] == four
    assert {number for row in five for number in row} == {-1, 0, 1}


def status(page):
    return letters(page.locator(STATUS).inner_text())


def test_a_misfit_is_said_with_the_letters_of_both_sizes(twice):
    enter(twice, maps="none")
    fault = "dmodel=7anddk=3havetobeequal."
    assert status(twice).startswith(f"Theshapesdonotfitinline2:{fault}")
    assert_clash(twice.evaluate(SHOWN)[1]["wrong"], 5, 7, 3, 5)
    enter(twice, maps="none", d_k=7)
    assert status(twice).startswith("Theshapesfit,becausedmodelanddkareequal.")


def test_without_a_matrix_it_says_what_the_queries_are(twice):
    enter(twice, maps="none")
    for source, letter in {"site": "X", "ng-multi-head": "x"}.items():
        twice.locator("[data-wq-notation]").select_option(source)
        until(
            twice,
            f"[...document.querySelectorAll('{STATUS} math')]"
            f".some(math => math.textContent === '{letter}')",
        )
        assert f"withoutamatrixtheyarethesourceitself,{letter}." in status(twice)
    enter(twice, maps="one")
    assert "withoutamatrix" not in status(twice)


def test_one_click_leads_to_the_first_case_and_one_back_to_the_example(twice):
    before = shown(twice)
    enter(twice, maps="none", d_model=8)
    twice.get_by_role("button", name="Try two matrices that do not fit").click()
    assert twice.locator(f"{PANEL} [value=two]").is_checked()
    assert twice.locator(f"{PANEL} [data-size=d_model]").input_value() == "7"
    assert status(twice).startswith("Theshapesdonotfitinline1:numberofcolumnsofPQ=3anddmodel=7have")
    assert "Torepairit,enternumberofcolumnsofPQ=7,ordmodel=3." in status(twice)
    for repair in {"width": 7}, {"d_model": 3, "width": 3}:
        enter(twice, maps="two", **repair)
        assert status(twice).startswith("Theshapesfit.")
    assert "isnotthatoftheexample" not in status(twice)  # no query is computed
    twice.locator(f"{PANEL} [data-size=d_model]").fill("512")
    twice.get_by_role("button", name="Back to the example").click()
    assert twice.locator(f"{PANEL} [value=one]").is_checked()
    assert twice.locator(f"{PANEL} [aria-invalid=true]").count() == 0
    assert shown(twice) == before
    assert status(twice) == letters("The shapes fit. The numbers are those of the worked example.")


def test_its_limits_are_said_before_a_mistake(which):
    legend = which.locator(f"{PANEL} legend").last.inner_text()
    assert legend == (
        f"Sizes: whole numbers from 1 to {change_it.MOST}, so that all numbers can be shown"
    )


@pytest.mark.parametrize("address", [WHICH, *thorough(TWICE)])
def test_each_size_changes_a_shape_that_is_shown(shared, address):
    page = opened(shared(address))

    def found(**changed):
        enter(page, maps="two", **changed)
        return [(line["shape"], line["wrong"], line["sizes"]) for line in shown(page)]

    before = found()
    fields = page.locator(f"{PANEL} input[data-size]").all()
    names = [field.get_attribute("data-size") for field in fields]
    assert {"d_model", "d_k", "width"} <= {*names}
    assert [name for name in names if found(**{name: 5}) == before] == []


MISTAKES = {
    "0": "d_k is “0”: a whole number from 1 to 8 is expected.",
    "-1": "d_k is “-1”: a whole number from 1 to 8 is expected.",
    "1.5": "d_k is “1.5”: a whole number from 1 to 8 is expected.",
    "": "d_k is empty: a whole number from 1 to 8 is expected.",
    "1000000000": "d_k is “1000000000”: a whole number from 1 to 8 is expected.",
    "<b>2</b>": "d_k is “<b>2</b>”: a whole number from 1 to 8 is expected.",
}


def test_a_mistake_is_quoted_and_the_last_lines_are_marked_as_old(which):
    before = which.evaluate(SHOWN)
    for entered, message in MISTAKES.items():
        assert_refused(which, before, entered, message)


def test_a_wrong_width_is_called_the_same_for_all_readers(twice):
    enter(twice, maps="two", width=9)
    message = "numberofcolumnsofPQis“9”:awholenumberfrom1to8isexpected."
    assert letters(twice.locator("#wq-change-width-fault").inner_text()) == message
    assert status(twice).startswith(message)


def assert_refused(page, before, entered, message):
    field = page.locator(f"{PANEL} [data-size=d_k]")
    field.fill(entered)
    said = page.locator(STATUS)
    assert said.inner_text().split("\n")[0].startswith(message)
    assert said.inner_text().endswith("The lines below are for what was entered before.")
    fault = page.locator("#wq-change-d_k-fault")
    assert letters(fault.inner_text()) == letters(message.replace("d_k", "dk", 1))
    assert fault.locator("math").count() == 1
    assert page.locator(".wq-is > b:visible").count() == 0
    assert field.get_attribute("aria-invalid") == "true"
    assert page.locator(".wq-lines").get_attribute("inert") is not None
    assert page.evaluate(SHOWN) == before
    field.fill("3")
    assert page.locator(".wq-is > b:visible").count() == len(before)
    assert page.locator(".wq-lines").get_attribute("inert") is None
    assert page.locator("#wq-change-d_k-fault").inner_text() == ""
    assert page.wrong == []


def test_it_follows_the_letters_and_the_sides_of_a_source(which):
    rows = shown(which)
    which.locator("[data-wq-notation]").select_option("ng-multi-head")
    until(which, "document.querySelector('.wq-lines .wq-shape').textContent.startsWith('3')")
    columns = shown(which)
    for turned, upright in zip(columns, rows, strict=True):
        *factors, result = arrays(upright)
        expected = [*factors[::-1], result]
        assert len(turned["tables"]) == len(expected)
        for table, other in zip(arrays(turned), expected, strict=True):
            np.testing.assert_array_equal(table, other.T)
    formula = which.locator(".wq-lines > li").first.locator("math").first
    assert letters(formula.text_content()) == "WiQq"
    enter(which, maps="none")
    assert_clash(which.evaluate(SHOWN)[2]["wrong"], 5, 3, 7, 5)
    enter(which, maps="two", width=3)
    assert_clash(which.evaluate(SHOWN)[0]["wrong"], 3, 7, 3, 5)
    assert status(which).startswith(
        "Theshapesdonotfitinline1:dmodel=7andnumberofrowsofPQ=3havetobeequal."
    )


def test_a_misfit_is_drawn_with_the_two_sides_that_do_not_meet(twice):
    enter(twice, maps="two", width=3)
    boxes = twice.locator(".wq-clash > .wq-matrix").all()
    assert [letters(box.inner_text()) for box in boxes] == ["35XPQ", "37WiQ"]
    assert [box.locator("xpath=.").get_attribute("class").split()[-1] for box in boxes] == [
        "wq-clash-across",
        "wq-clash-down",
    ]
    left, right = (box.locator(".wq-block").bounding_box() for box in boxes)
    assert left["width"] * 7 == pytest.approx(right["height"] * 3, abs=0.5)


@pytest.mark.parametrize("width", [1280, *thorough(320, 390)])
def test_a_product_and_its_result_stand_on_one_line_where_there_is_room(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(TWICE)
    opened(page)
    bottoms = page.eval_on_selector_all(
        ".wq-numbers[open] .wq-part",
        "parts => parts.map(e => Math.round(e.getBoundingClientRect().bottom))",
    )
    assert len(bottoms) > 1
    assert (len({*bottoms}) == 1) == (width == 1280)


@pytest.mark.thorough
def test_each_source_has_a_letter_for_what_is_shown(which):
    for source in notation.sources():
        which.locator("[data-wq-notation]").select_option(source.id)
        for maps in change_it.MAPS:
            enter(which, maps=maps, d_model=5)
            lines = which.evaluate(SHOWN)
            assert len(lines) >= 6
            assert all(line["shape"] or line["wrong"] for line in lines)
            assert "undefined" not in which.locator(PANEL).inner_text()
    assert which.wrong == []


def test_it_works_from_the_keyboard(page):
    page.goto(TWICE)
    page.locator(f"{PANEL} > summary").focus()
    page.keyboard.press("Enter")
    page.locator(".wq-lines > li").first.wait_for()
    page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator(f"{PANEL} [value=two]").is_checked()
    page.keyboard.press("Tab")
    page.keyboard.type("5")  # the field's text is chosen when it gets the focus
    assert page.locator(f"{PANEL} [data-size=d_model]").input_value() == "5"
    numbers = page.locator(".wq-numbers > summary").nth(1)
    numbers.focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.wq-lines > :nth-child(2) table').length === 3")
    assert page.locator(PANEL).get_by_role("radio").count() == len(change_it.MAPS)
    for field in page.locator(f"{PANEL} input").all():
        assert field.evaluate("e => e.labels.length > 0")


@pytest.mark.parametrize("width", [320, *thorough(390, 1280)])
def test_it_is_not_wider_than_the_screen(which, width):
    which.set_viewport_size({"width": width, "height": 844})
    for maps in change_it.MAPS:
        enter(which, maps=maps, **dict.fromkeys(change_it.SIZES, change_it.MOST))
        shown(which)
        assert which.evaluate("document.documentElement.scrollWidth") <= width, maps


@pytest.mark.parametrize("scheme", ["light", *thorough("dark")])
def test_nothing_that_axe_finds_is_serious(page, scheme):
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto(WHICH)
    opened(page)
    enter(page, maps="two", width=6)
    shown(page)
    page.evaluate("for (const m of document.querySelectorAll('math')) m.replaceWith(m.textContent)")
    assert violations(page, PANEL) == []


@pytest.mark.parametrize(
    ("missing", "name"),
    [
        ("**/assets/change-it/**", "change-it/"),
        *thorough(("**/assets/change-it*.css", "change-it.css")),
    ],
)
def test_what_is_missing_is_named_and_who_opens_it_again_has_it(page, missing, name):
    page.goto(WHICH)
    summary, said = page.locator(f"{PANEL} > summary"), page.locator(f"{PANEL} > p")
    page.route(missing, lambda route: route.fulfill(status=404))
    summary.click()
    said.wait_for()
    assert said.inner_text().startswith(f"This part could not be loaded: {name}")
    page.unroute(missing)
    page.route(missing, lambda route: route.abort())
    with page.expect_event("requestfailed"):
        summary.click()
        summary.click()
    said.wait_for()
    assert "To try again" in said.inner_text()
    page.unroute(missing)
    summary.click()
    summary.click()
    page.locator(".wq-lines > li").first.wait_for()
    assert said.count() == 0


def test_without_scripts_the_picture_stands(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto(WHICH)
    assert page.locator("figure.wq-equation table:visible").count() == 3
    page.locator(f"{PANEL} > summary").click()
    assert page.locator(f"{PANEL} noscript").inner_text().startswith("This part needs JavaScript.")
    page.close()
