"""What is beside a page's text: the button of a block, and the one for colours."""

from browser.watching import WITHOUT_SCRIPTS, until

PAGE = "/explanation/decoding-step/"
SCHEME = "document.body.dataset.mdColorScheme"


def test_a_block_is_copied_as_it_stands(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(PAGE)
    block = page.locator(".highlight:not(.language-text)", has=page.locator(":visible")).first
    block.get_by_role("button").click()
    block.get_by_role("status").get_by_text("Copied").wait_for()
    assert block.get_by_role("button").get_attribute("title") == "Copy this block"
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


def test_colours_are_chosen_without_storage_too(chromium, origin):
    page = chromium.new_page(base_url=origin)
    page.add_init_script(
        """for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(
          window, name, {get() { throw new DOMException("", "SecurityError") }})"""
    )
    page.goto(PAGE)
    page.get_by_role("button", name="Switch to dark colours").click()
    assert page.evaluate(SCHEME) == "slate"
    page.close()


def test_colours_follow_the_system_at_once(page):
    page.goto(PAGE)
    assert page.evaluate(SCHEME) == "default"
    page.emulate_media(color_scheme="dark")
    until(page, f"{SCHEME} === 'slate'")


def test_without_scripts_no_button_does_nothing(visit):
    for path in (PAGE, "/which-shape/"):
        page = visit(path, **WITHOUT_SCRIPTS)
        dead = "article button:visible, .wq-scheme:visible, [data-wq-example]:visible"
        assert page.locator(dead).count() == 0
