"""What is beside a page's text: the button of a block, and the one for colours."""

from browser.watching import until

PAGE = "/explanation/decoding-step/"
SCHEME = "document.body.dataset.mdColorScheme"


def test_a_block_is_copied_as_it_stands(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(PAGE)
    block = page.locator(".highlight:not(.language-text)", has=page.locator(":visible")).first
    block.get_by_role("button").click()
    block.locator("[data-said=Copied]").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == block.locator("code").inner_text()
    compile(copied, "copied", "exec")


def test_colours_are_the_systems_until_a_reader_chooses(page):
    page.emulate_media(color_scheme="dark")
    page.goto(PAGE)
    assert page.evaluate(SCHEME) == "slate"
    page.get_by_role("button", name="Switch to light colours").click()
    assert page.evaluate(SCHEME) == "default"
    page.goto("/")
    assert page.evaluate(SCHEME) == "default"
    page.get_by_role("button", name="Switch to dark colours").press("Enter")
    assert page.evaluate(SCHEME) == "slate"


def test_colours_follow_the_system_at_once(page):
    page.goto(PAGE)
    assert page.evaluate(SCHEME) == "default"
    page.emulate_media(color_scheme="dark")
    until(page, f"{SCHEME} === 'slate'")


def test_without_scripts_no_button_does_nothing(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto(PAGE)
    assert page.locator("article button:visible, .wq-scheme:visible").count() == 0
    page.close()
