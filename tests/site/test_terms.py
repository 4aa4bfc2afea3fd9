"""A term is explained where it first stands in a sentence, and nowhere else."""

from markdown import Markdown

TERMS = {"abbr": {"glossary": {"RoPE": "turns queries and keys", "rank": "independent directions"}}}


def render(text):
    extensions = ["abbr", "qkv_site.write.html"]
    return Markdown(extensions=extensions, extension_configs=TERMS).convert(text)


def test_the_first_one_in_a_sentence_is_explained():
    page = render("# RoPE\n\nSee [RoPE](a.md). With RoPE, and *RoPE*, the rank is RoPE's.\n\nRoPE.")
    assert page.count("<abbr") == 2
    assert page.count("RoPE") == 6
    assert 'With <abbr title="turns queries and keys">RoPE</abbr>, and <em>RoPE</em>, the' in page
    assert 'the <abbr title="independent directions">rank</abbr> is RoPE\'s.' in page


def test_pages_explain_their_terms(site):
    page = (site / "explanation" / "grouped-and-latent-heads" / "index.html").read_text()
    assert page.count(">GQA</abbr>") == 1
    assert "share one head of keys and values" in page
