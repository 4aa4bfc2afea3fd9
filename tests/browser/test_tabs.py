"""The tabs of frameworks: chosen once, and open where an address lies in one."""

from browser.watching import WITHOUT_SCRIPTS, until

OPEN = """[...document.querySelectorAll(".tabbed-set")].map(set =>
  set.querySelector(`label[for="${set.querySelector(":checked").id}"]`).innerText.trim())"""


def choose(page, title):
    page.locator(".tabbed-labels label", has_text=title).first.click()


def test_who_chooses_a_framework_has_chosen_it_on_all_pages(page):
    page.goto("/how-to/remove-a-double-projection/")
    assert page.evaluate(OPEN) == ["NumPy", "NumPy"]
    choose(page, "PyTorch")
    assert page.evaluate(OPEN) == ["PyTorch", "PyTorch"]
    assert page.get_by_text("torch.from_numpy(array)").first.is_visible()
    page.goto("/explanation/widths/")
    assert page.evaluate(OPEN) == ["PyTorch"]
    choose(page, "Flax")
    page.goto("/start/which-q/")
    assert page.evaluate(OPEN) == ["PyTorch"]  # there is no Flax: the choice before it
    page.goto("/how-to/masks/")
    assert page.evaluate(OPEN) == ["Flax"]
    assert page.wrong == []


def test_an_address_in_a_tab_opens_the_tab_and_is_no_choice(page):
    page.goto("/start/which-q/")
    choose(page, "Keras")
    page.goto("/explanation/widths/#claim-six-widths")
    until(page, "document.querySelector('#claim-six-widths').offsetHeight > 0")
    assert page.evaluate(OPEN) == ["NumPy"]
    assert page.locator("#claim-six-widths").bounding_box()["y"] < 200
    page.goto("/start/which-q/")
    assert page.evaluate(OPEN) == ["Keras"]


def test_a_tab_opens_without_scripts(visit):
    page = visit("/start/which-q/", viewport={"width": 390, "height": 800}, **WITHOUT_SCRIPTS)
    code = page.get_by_text("from keras import ops")
    assert not code.is_visible()
    choose(page, "Keras")
    assert code.is_visible()
