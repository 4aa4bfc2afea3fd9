"""Sentences are short enough for readers whose first language is another one."""

import re

import pytest

from qkv_site.markdown import sentences
from support import ROOT

PAGES = sorted((ROOT / "docs" / "explanation").glob("*.md"))
NO_SENTENCE = ("#", "|", "???", "!!!", "///", "<")


def lengths(text):
    """Of each sentence, how many words it has; a formula, a name of code or a number is one."""
    for _, sentence in sentences.of_page(text):
        if not sentence.startswith(NO_SENTENCE) and not set(sentence) <= set("|- :"):
            plain = re.sub(r"\{\{.*?\}\}|`[^`]+`|\$[^$]+\$", "x", sentence, flags=re.DOTALL)
            words = re.findall(r"\w[^\s]*", re.sub(r"\]\([^)]*\)", "]", plain))
            if words:
                yield len(words)


@pytest.mark.parametrize("page", [ROOT / "docs" / "index.md", *PAGES], ids=lambda page: page.stem)
def test_sentences_of_a_page_are_short(page):
    counted = list(lengths(page.read_text()))
    assert len(counted) > 10
    assert sum(counted) / len(counted) <= 17
    assert max(counted) <= 35


def test_a_word_is_counted_once():
    text = "---\ntitle: A b\n---\n# Four words\n\nOne is {{2 * d_model}} [or two](a/b.md). Three."
    assert list(lengths(text)) == [5, 1]
