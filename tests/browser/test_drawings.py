"""The drawings of notebooks, as a browser shows them on a white ground: whole, and legible."""

import re

import nbformat
import pytest

# Of each text in each drawing its edges, from the drawing's own corner; and the drawing's size.
EDGES = """() => [...document.querySelectorAll("svg")].map((svg) => {
  const whole = svg.getBoundingClientRect()
  const written = [...svg.querySelectorAll("text")]
  const texts = written.map((text) => {
    const { left, top, right, bottom } = text.getBoundingClientRect()
    return [left - whole.left, top - whole.top, right - whole.left, bottom - whole.top]
  })
  const words = written.map((text) => text.textContent)
  return { size: [whole.width, whole.height], texts, words }
})"""
# Two letters of a formula may share this part of the room that a browser gives to the smaller one.
SHARED = 0.45


@pytest.fixture(scope="module")
def outputs(site):
    """What each cell with a drawing has shown, with its notebook, and the SVG in its code."""
    found = []
    for path in sorted(site.rglob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.source.startswith("# @title Drawing: "):
                [svg] = re.findall(r'svg = r"""(.*?)"""', cell.source, re.DOTALL)
                name = path.relative_to(site).as_posix()
                found.append((name, cell.outputs[0].data["text/html"], svg))
    assert len(found) > 80
    return found


def shared(one, other):
    """The part of the smaller rectangle that two share."""
    wide, high = (min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (0, 1))
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (one, other)]
    return wide * high / min(areas) if wide > 0 and high > 0 else 0


def test_each_is_an_image_that_asks_for_nothing(outputs, page):
    page.set_content("".join(image for _, image, _ in outputs))
    page.wait_for_function("[...document.images].every((image) => image.complete)")
    sizes = page.evaluate("[...document.images].map((image) => [image.naturalWidth, image.alt])")
    assert len(sizes) == len(outputs)
    for (name, *_), (width, words) in zip(outputs, sizes, strict=True):
        assert 60 < width <= 800, name
        assert len(words) > 20, name
    assert not [address for address in page.requested if not address.startswith("data:")]


def test_what_is_written_stands_inside_and_not_on_other_words(outputs, page):
    page.set_content("".join(svg for *_, svg in outputs))
    drawn = page.evaluate(EDGES)
    assert len(drawn) == len(outputs)
    for (name, *_), each in zip(outputs, drawn, strict=True):
        (wide, high), texts, words = each["size"], each["texts"], each["words"]
        assert texts, name
        for left, top, right, bottom in texts:
            assert 0 <= left < right <= wide, name
            assert 0 <= top < bottom <= high, name
        pairs = ((i, j) for i in range(len(texts)) for j in range(i))
        met = [(words[j], words[i]) for i, j in pairs if shared(texts[i], texts[j]) > SHARED]
        assert met == [], name
