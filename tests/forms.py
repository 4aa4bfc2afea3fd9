"""What the tests of the forms share: entering texts, and what is said about them."""

import unicodedata

STATUS = "[data-output] >> xpath=.. >> [role=status]"
_ENTER = """texts => {
  const form = document.querySelector(".wq-tool form")
  const { version, merged } = form.elements
  for (const field of form.querySelectorAll("[data-size]")) {
    field.value = texts[field.dataset.size] ?? ""
  }
  if (version) version.value = texts.version
  if (merged) merged.checked = texts.merged ?? false
  form.dispatchEvent(new Event("input", {bubbles: true}))
}"""


def letters(text):
    """A text as one types it, without its spaces: dk for a symbol with an index."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def enter(page, **texts):
    """Fill a form's fields at once, with nothing where nothing is given."""
    said = {name: text if isinstance(text, bool) else str(text)
            for name, text in texts.items() if text is not None}  # fmt: skip
    page.evaluate(_ENTER, said)
