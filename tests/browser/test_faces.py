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


def test_bold_italic_is_asked_for_by_a_page_that_has_some(chromium, origin):
    asked = {}
    for path in ("/", "/explanation/before-the-transformer/"):
        page = chromium.new_page(base_url=origin)  # with no files of an earlier page
        asked[path] = []
        page.on("request", lambda request, path=path: asked[path].append(request.url))
        page.goto(path, wait_until="networkidle")
        page.close()
    face = f"{origin}/assets/fonts/bold-italic.woff2"
    assert [path for path, addresses in asked.items() if face in addresses] == [
        "/explanation/before-the-transformer/"
    ]
