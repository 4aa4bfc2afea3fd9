"""Links to the repository's issue forms, as Markdown, where the repository has an address."""

from qkv_site.page import PAGE


def link(form: str, before: str, words: str) -> str:
    """A sentence that ends in a link to a form.

    Args:
        form: The form's name in `.github/ISSUE_TEMPLATE`, without its ending.
        before: What stands before the link.
        words: What the link says.

    Returns:
        The sentence; nothing where the repository is not known, as on a reader's own machine.
    """
    if not PAGE.get().site.repository:
        return ""
    return f"{before} [{words}]({PAGE.get().site.repository}/issues/new?template={form}.yml)."
