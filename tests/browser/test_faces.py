"""What text is drawn with: each style, with its punctuation, in a face of its own."""

import pytest

SIGNS = ". , ; : ( ) [ ] ? ! \" ' ‘ ’ “ ” – — … × · − ² ᵀ / % & 0 1 Q q"
STYLES = {
    "<span>{}</span>": "STIXTwoText-Regular",
    "<em>{}</em>": "STIXTwoText-Italic",
    "<strong>{}</strong>": "STIXTwoText-Bold",
    "<strong><em>{}</em></strong>": "STIXTwoText-BoldItalic",
}

ADD = """html => {
  document.querySelector("#signs")?.remove()
  const page = document.querySelector("article")
  page.insertAdjacentHTML("beforeend", `<p id="signs">${html}</p>`)
  const loaded = [...document.fonts].map(face => face.load())
  return Promise.all(loaded).then(() => new Promise(requestAnimationFrame))
}"""


def faces(page, selector):
    """PostScript names of the faces of an element's text, and whether they are the site's."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("DOM.enable")
    devtools.send("CSS.enable")
    root = devtools.send("DOM.getDocument")["root"]["nodeId"]
    found = devtools.send("DOM.querySelector", {"nodeId": root, "selector": selector})
    fonts = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": found["nodeId"]})["fonts"]
    devtools.detach()
    return {(font["postScriptName"], font["isCustomFont"]) for font in fonts}


@pytest.mark.parametrize("style", STYLES)
def test_every_sign_of_a_style_is_of_its_own_face(shared, style):
    page = shared("/")
    page.evaluate(ADD, style.format(SIGNS))
    assert faces(page, "#signs > *") == {(STYLES[style], True)}


def test_formulas_are_drawn_in_the_mathematical_font(page, origin):
    page.goto("/")
    page.evaluate("document.fonts.ready.then(() => true)")
    assert f"{origin}/assets/fonts/math.woff2" in page.requested
    assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"', '\\u{1D444}\\u221A')")
    used = page.evaluate("getComputedStyle(document.querySelector('math mi')).fontFamily")
    assert used.startswith('"STIX Two Math"')


def test_bold_italic_is_asked_for_by_a_page_that_has_some_alone(visit):
    face = (
        "performance.getEntriesByName(`${location.origin}/assets/fonts/bold-italic.woff2`).length"
    )
    for path, asked in {"/": 0, "/explanation/before-the-transformer/": 1}.items():
        page = visit(path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate(face) == asked, path
