"""The built site in a real browser: its fonts, and its first screen, with scripts and without."""


def test_formulas_are_drawn_in_the_mathematical_font(page, origin):
    page.goto("/")
    page.evaluate("document.fonts.ready.then(() => true)")
    assert f"{origin}/assets/fonts/math.woff2" in page.requested
    assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"', '\\u{1D444}\\u221A')")
    used = page.evaluate("getComputedStyle(document.querySelector('math mi')).fontFamily")
    assert used.startswith('"STIX Two Math"')


def test_every_character_of_a_formula_has_a_glyph(site):
    from fontTools.ttLib import TTFont

    from qkv_site.generated import font

    glyphs = TTFont(site / "assets" / "fonts" / "math.woff2").getBestCmap()
    for path in site.rglob("*.html"):
        missing = {chr(c) for c in font.characters(path.read_text()) if not chr(c).isspace()}
        missing -= {chr(c) for c in glyphs} | {"\u200b", "\u2061", "\u2062"}  # drawn as nothing
        assert not missing, (path, missing)


def test_pages_can_be_read_without_scripts(chromium, origin):
    context = chromium.new_context(java_script_enabled=False, base_url=origin)
    page = context.new_page()
    page.goto("/")
    assert page.locator("article math").first.is_visible()
    assert page.get_by_role("heading", level=1).inner_text().startswith("Which Q?")
    context.close()


def test_short_answer_is_on_the_first_screen_of_a_phone(chromium, origin):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, base_url=origin)
    page = context.new_page()
    page.goto("/")
    page.evaluate("document.fonts.ready.then(() => true)")
    answer = page.locator("h1 + p").bounding_box()
    assert answer["y"] + answer["height"] <= 844
    context.close()
