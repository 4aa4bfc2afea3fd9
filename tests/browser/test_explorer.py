"""The explorer shows what `qkv.costs` computes; links, mistakes, keys, and no scripts."""

import random
import re
from fractions import Fraction

import pytest

from browser.watching import WITHOUT_SCRIPTS, until
from forms import STATUS, enter, letters
from qkv.costs import SCHEMES, Sizes, cost, products
from qkv_site.tables import exports
from support import thorough

COUNTS = ["parameters", "multiply_adds", "cached_per_token", "activations", "products"]
TIMES = "\N{MULTIPLICATION SIGN}"
VERSIONS = [*SCHEMES, "two-step-merged", "grouped"]
SHOWN = """() => {
  const texts = (root, selector) => [...root.querySelectorAll(selector)].map(e => e.textContent)
  const root = document.querySelector("[data-wq-explorer]")
  return {
    counts: Object.fromEntries([...root.querySelectorAll("[data-count]")].map(card => [
      card.dataset.count,
      {
        numbers: [...card.querySelectorAll("data")].map(e => [e.value, e.textContent]),
        ratio: card.querySelector("b")?.textContent,
      },
    ])),
    steps: [...root.querySelectorAll(".wq-step")].map(step => Object.fromEntries(
      [...step.querySelectorAll("[data-step]")].map(e => [e.dataset.step, e.textContent]))),
    drawn: [...root.querySelectorAll(".wq-drawn")].map(drawn => [...drawn.querySelectorAll(
      ".wq-matrix")].map(matrix => texts(matrix, ".wq-rows, .wq-columns").reverse())),
  }
}"""


@pytest.fixture
def explorer(shared):
    return shared("/explore/")


def settings(amount):
    """Settings of every version, with small sizes and with sizes whose products exceed 2**53."""
    draw = random.Random(0)
    for number in range(amount):
        most = draw.choice([12, 5_000, 30_000])
        h_kv = draw.randint(1, min(most, 64))
        h = h_kv * draw.randint(1, 8)
        own_width = draw.random() < 0.5
        yield {
            "version": VERSIONS[number % len(VERSIONS)],
            "n": draw.choice([draw.randint(1, most), 999_999_999]),
            "d_model": draw.randint(1, most) * (1 if own_width else h),
            "h": h,
            "h_kv": h_kv,
            "d_k": draw.randint(1, most) if own_width else None,
        }


def choose(explorer, *, version, **sizes):
    merged = version.endswith("-merged")
    enter(explorer, version=version.removesuffix("-merged"), merged=merged, **sizes)


def computed(version, h_kv, n, **sizes):
    layer = Sizes(n_q=n, h_kv=h_kv if version == "grouped" else None, **sizes)
    alone = Sizes(n_q=n, **sizes)
    scheme = exports.scheme_of(version)
    return cost(scheme, layer), cost("paper", alone), products(scheme, layer)


@pytest.mark.parametrize("count", [20, *thorough(120)])
def test_it_shows_what_python_computes(explorer, count):
    largest = 0
    for setting in settings(count):
        choose(explorer, **setting)
        shown = explorer.evaluate(SHOWN)
        version = setting["version"]
        here, paper, steps = computed(**setting)
        for name in COUNTS:
            numbers = [getattr(here, name), getattr(paper, name)]
            expected = [[str(each), f"{each:,}"] for each in numbers]
            expected = expected[: 1 if version == "paper" else 2]
            assert shown["counts"][name]["numbers"] == expected, (setting, name)
            if version != "paper":
                assert_ratio(shown["counts"][name]["ratio"], Fraction(*numbers))
            largest = max(largest, *numbers)
        drawn = in_rows(version, steps)
        assert shown["steps"] == [numbers_of(step) for row in drawn for step in row], setting
        assert shown["drawn"] == [matrices_of(row) for row in drawn], setting
    assert largest > 2**53
    assert explorer.wrong == []


def in_rows(version, steps):
    """The steps that are drawn together: two matrices in a row, where there are two."""
    if version != "two-step":
        return [[step] for step in steps]
    return [[steps[i], steps[i + 3]] for i in range(3)] + [[step] for step in steps[6:]]


def numbers_of(step):
    return {
        "count": f"{step.count:,}",
        **({"parameters": f"{step.parameters:,}"} if step.weight else {}),
        "multiply_adds": f"{step.multiply_adds:,}",
    }


def matrices_of(row):
    """The first factor, the others, and the result."""
    sides = [(row[0].rows, row[0].inner), *((step.inner, step.columns) for step in row)]
    sides.append((row[-1].rows, row[-1].columns))
    return [[f"{rows:,}", f"{columns:,}"] for rows, columns in sides]


def test_two_matrices_become_one_that_costs_less(explorer):
    explorer.get_by_label("Two steps").check()
    switch = explorer.get_by_label("Multiply the two matrices")
    before = explorer.evaluate(SHOWN)
    assert [len(row) for row in before["drawn"][:3]] == [4, 4, 4]
    switch.press("Space")
    after = explorer.evaluate(SHOWN)
    assert switch.is_checked()
    assert [len(row) for row in after["drawn"][:3]] == [3, 3, 3]
    assert after["drawn"][0][1] == ["512", "64"]
    for name in ("parameters", "multiply_adds"):
        assert not before["counts"][name]["ratio"].startswith("1\N{NO-BREAK SPACE}")
        assert after["counts"][name]["ratio"].startswith("1\N{NO-BREAK SPACE}")
    assert explorer.locator(".wq-chain").first.locator("[data-role='M[i]']").count() > 0
    explorer.get_by_role("radio", name="The paper").check()
    assert switch.is_hidden()


def test_letters_and_sides_follow_the_notation_in_each_version(explorer):
    explorer.get_by_label("Two steps").check()
    rows = explorer.evaluate(SHOWN)["drawn"]
    explorer.locator("[data-wq-notation]").select_option("ng-multi-head")
    until(explorer, "document.querySelector('.wq-turned')")
    turned = [[[*side[::-1]] for side in row] for row in explorer.evaluate(SHOWN)["drawn"]]
    assert turned == [[*row[-2::-1], row[-1]] for row in rows]
    first = explorer.locator(".wq-chain").first
    steps = first.locator(".wq-step > var").all_inner_texts()
    assert [*map(letters, steps)] == ["PQx", "Qi=WiQPQx"]
    symbols = first.locator(".wq-letter > var:first-child").all_inner_texts()
    assert [*map(letters, symbols)] == ["WiQ", "PQ", "x", "Qi"]
    for version in VERSIONS:
        choose(explorer, version=version)
        until(
            explorer,
            """() => [...document.querySelectorAll("[data-wq-explorer] [data-set]")]
              .every(shown => shown.dataset.in.split(" ").includes("ng-multi-head"))""",
        )
        assert explorer.locator("[data-wq-explorer] [data-set]").count() > 3, version


def assert_ratio(shown, ratio):
    about, digits = re.fullmatch(rf"(≈\s)?([\d.,]+)\s{TIMES}", shown).groups()
    value = Fraction(digits.replace(",", ""))
    assert (value != ratio) == bool(about), (shown, ratio)
    assert abs(value - ratio) <= ratio / 100, (shown, ratio)


MISTAKES = [
    ("n", "abc", "n is “abc”: a whole number from 1 to 999,999,999 is expected."),
    ("n", "", "Type the number of tokens, for example 100."),
    ("d_model", "0", "d_model is “0”"),
    ("h", "1.5", "h is “1.5”"),
    ("h", "1000000000", "h is “1000000000”"),
    ("d_k", "x", "d_k is “x”"),
    ("h_kv", "3", "8 heads cannot share 3 evenly: choose h_kv = 4."),
    ("h_kv", "", "Type the number of heads of keys and values"),
]


def typed(text):
    """The letters of a text, in which a symbol may stand as a reader types it: d_k or dk."""
    return letters(text).replace("_", "")


def test_a_mistake_is_quoted_and_the_last_drawing_is_out_of_use(explorer):
    explorer.get_by_label("Grouped").check()
    output = explorer.locator("[data-output]")
    for name, entered, message in MISTAKES:
        height = explorer.evaluate("document.documentElement.scrollHeight")
        field = explorer.locator(f"[data-size={name}]")
        right = field.input_value() or "64"
        field.fill(entered)
        assert explorer.locator(STATUS).inner_text().startswith(message), entered
        assert field.get_attribute("aria-invalid") == "true"
        described = explorer.locator(f"#{field.get_attribute('aria-describedby')}")
        assert typed(described.inner_text()).startswith(typed(message))
        assert described.locator("math").count() == message.startswith(f"{name} is")
        assert output.get_attribute("inert") is not None
        assert explorer.evaluate("document.documentElement.scrollHeight") > height - 100
        field.fill(right)
        assert field.get_attribute("aria-invalid") == "false"
        assert output.get_attribute("inert") is None
        assert explorer.locator(".wq-fault:visible").count() == 0


def test_a_head_width_that_is_left_out_has_to_be_whole(explorer):
    for name, entered, right, said in (
        ("h", "7", "8", "512 cannot be divided evenly by 7. Try 8 heads, or choose d_k."),
        ("d_model", "510", "", "510 cannot be divided evenly by 8. Try d_model = 512, or choose "),
    ):
        explorer.locator(f"[data-size={name}]").fill(entered)
        assert explorer.locator(f"#wq-{name}-fault").inner_text().startswith(said)
        assert explorer.locator("[data-size=d_k]").get_attribute("placeholder") == "?"
        explorer.locator(f"[data-size={name}]").fill(right or entered)
    explorer.locator("[data-size=d_k]").fill("64")
    assert "parameters" in explorer.locator(STATUS).inner_text()


def test_the_link_carries_the_state_and_what_is_not_the_explorers_and_so_does_going_back(page):
    page.goto("/explore/?notation=d2l#base-model")
    page.get_by_label("Grouped").check()
    sizes = {"h": "16", "h_kv": "4", "n": "77"}
    for name, size in sizes.items():
        page.locator(f"[data-size={name}]").fill(size)
    shown = page.evaluate(SHOWN)
    assert "version=grouped" in page.url
    assert "notation=d2l" in page.url
    assert page.url.endswith("#base-model")
    for again in (page.reload, page.go_back):
        if again == page.go_back:
            foot = page.locator(".md-footer")
            foot.get_by_role("link", name="Which array has this shape?").click()
            page.locator(".wq-examples").first.wait_for()
            page.wait_for_load_state()  # what a page that is left at once asked for, fails
        again()
        page.locator("[data-count]").first.wait_for()
        assert page.evaluate(SHOWN) == shown
        assert page.get_by_label("Grouped").is_checked()
        for name, size in sizes.items():
            assert page.locator(f"[data-size={name}]").input_value() == size
        assert page.locator(".wq-controls").count() == 1
    assert page.wrong == []


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ("version=nonsense", ["version “nonsense”", "one of paper, packed, two-step", "The paper"]),
        ("d_k=<b>1</b>&version=w_qk", ["d_k is “<b>1</b>”", "Query and key weights as one matrix"]),
    ],
)
def test_what_a_link_cannot_ask_for_is_named(page, query, messages):
    page.goto(f"/explore/?{query}")
    page.locator("[data-count]").first.wait_for()
    for message in messages:
        assert message in page.locator(STATUS).inner_text()
    assert page.locator("[data-wq-explorer] [aria-invalid=true]").count() == 0


def test_it_works_from_the_keyboard_and_a_slider_puts_a_mistake_right(explorer):
    explorer.get_by_role("radio", name="The paper").press("ArrowDown")
    assert explorer.locator(STATUS).inner_text().startswith("Packed")
    slider = explorer.get_by_label("d_model, width of the source: slider")
    slider.press("ArrowRight")
    assert explorer.locator("[data-size=d_model]").input_value() == "1024"
    assert slider.get_attribute("aria-valuetext") == "1,024"
    explorer.locator("[data-size=h]").press("Enter")
    assert "d_model=1024" in explorer.url
    choose(explorer, version="grouped", n=100, d_model=512, h=8, h_kv=3)
    field = explorer.locator("[data-size=h_kv]")
    assert field.get_attribute("aria-invalid") == "true"
    explorer.get_by_label("heads of keys and values: slider").press("Home")
    assert field.input_value() == "1"
    assert field.get_attribute("aria-invalid") == "false"
    assert explorer.locator("[data-count]").count() == len(COUNTS)


def test_rectangles_are_to_scale_with_a_block_for_each_head(explorer):
    units = explorer.evaluate(
        """[...document.querySelectorAll(".wq-steps .wq-matrix")].flatMap(matrix => {
          const box = matrix.querySelector(".wq-blocks").getBoundingClientRect()
          return [
            box.height / matrix.querySelector(".wq-rows").value,
            box.width / matrix.querySelector(".wq-columns").value,
          ]
        })"""
    )
    assert len(units) == 6 * 3 * 2
    assert max(units) / min(units) < 1.01
    cut = explorer.locator(".wq-blocks:has(.wq-block + .wq-block)").evaluate_all(
        "all => all.map(it => [getComputedStyle(it).flexDirection, it.childElementCount])"
    )
    assert cut == [["row", 8], ["column", 8]]  # the heads' results, and W_O below them


def test_the_largest_sizes_are_not_wider_than_the_screen(explorer):
    most = dict.fromkeys(["n", "d_model", "h", "d_k"], "999999999") | {"h_kv": "1"}
    for width in (390, 1280):
        explorer.set_viewport_size({"width": width, "height": 844})
        for version in VERSIONS:
            choose(explorer, version=version, **most)
            assert "999,999,999" in explorer.locator(".wq-steps").inner_text()
            assert explorer.evaluate("document.documentElement.scrollWidth") <= width, version


def test_without_scripts_there_stands_what_they_show_at_first(visit, explorer):
    page = visit("/explore/", **WITHOUT_SCRIPTS)
    built = page.evaluate(SHOWN)
    assert built == explorer.evaluate(SHOWN)
    assert len(built["steps"]) == page.locator(".wq-steps > li:visible").count() == 6
    assert not page.locator("form.wq-controls").is_visible()
    assert page.locator("noscript").first.is_visible()
    for version, place in {"paper": STATUS, "two-step": "article"}.items():
        expected = cost(version, Sizes(d_model=512, h=8, n_q=100))
        assert f"{expected.multiply_adds:,}" in page.locator(place).inner_text()
