"""What readers type into the search, and the page that has to come first."""

import re

import pytest

FIRST = {
    # which Q, one map or two
    "same Q in equation 1 and MultiHead": "explanation/which-q",
    "W^Q without an index": "explanation/which-q",
    "is the query projected twice": "explanation/projected-twice",
    "YOLOv5": "explanation/double-projection",
    "double projection": "how-to/remove-a-double-projection",
    "LoRA dropout between maps": "explanation/really-two-maps",
    "two linear maps redundant": "threads/course-forum-357334",
    "Coursera Andrew Ng": "explanation/deeplearning-ai-course",
    "coursera assignment": "explanation/deeplearning-ai-assignment",
    "Andrew Ng attention": "explanation/deeplearning-ai-course",
    "what is q in multi-head attention video": "explanation/deeplearning-ai-course",
    "two linear maps q W_1^Q": "explanation/deeplearning-ai-course",
    "W1Q": "explanation/deeplearning-ai-course",
    "W_1^Q": "explanation/deeplearning-ai-course",
    "W1Q in the video": "explanation/deeplearning-ai-course",
    "what is q": "explanation/which-q",
    "is there a second linear layer": "explanation/projected-twice",
    # two matrices
    "merge W_Q W_K into one matrix": "explanation/why-not-one-matrix",
    "RoPE QK-norm merge": "explanation/rope-and-qk-norm",
    "gauge freedom": "explanation/is-w-q-unique",
    "are q k v the same": "explanation/are-they-the-same",
    "cross attention": "explanation/are-they-the-same",
    "attention by hand": "explanation/worked-example",
    # shapes
    "is the weight matrix square": "explanation/square-or-rectangular",
    "slice of the embedding per head": "explanation/square-or-rectangular",
    "what is a head": "explanation/widths",
    "d_k d_model difference": "explanation/widths",
    "key_dim": "explanation/widths",
    "head_dim times heads not hidden size": "explanation/widths",
    "transpose row vectors column vectors": "explanation/rows-or-columns",
    "nn.Linear weight transposed": "explanation/rows-or-columns",
    # the rest of the layer
    "why divide by sqrt d_k": "explanation/scaling",
    "scaling variance softmax": "explanation/scaling",
    "what does W^O do": "explanation/values-and-output",
    "concatenate heads": "explanation/values-and-output",
    "key bias": "explanation/biases",
    "grouped query attention": "explanation/grouped-and-latent-heads",
    "multi-query MQA": "explanation/grouped-and-latent-heads",
    "MLA latent absorb": "explanation/grouped-and-latent-heads",
    # code
    "attention mask": "how-to/masks",
    "padding mask true false": "how-to/masks",
    "get W_1^Q out of a checkpoint": "how-to/weights-out-of-a-checkpoint",
    "state_dict in_proj_weight": "how-to/weights-out-of-a-checkpoint",
    "safetensors file attention layers": "how-to/weights-out-of-a-checkpoint",
    "key_padding_mask": "how-to/masks",
    "causal mask fewer queries than keys": "how-to/masks",
    "keras set_weights": "how-to/weights-into-a-library",
    "GPT-NeoX query_key_value": "libraries/gpt-neox",
    "nanoGPT c_attn": "libraries/nanogpt",
    "Phi-3 qkv_proj": "libraries/phi3",
    "falcon num_kv_heads": "libraries/falcon",
    "StarCoder": "libraries/gpt-bigcode",
    "CodeGen qkv_proj": "libraries/codegen",
    "stable diffusion to_q": "libraries/diffusers",
    "timm attention": "libraries/timm",
    "megatron linear_qkv": "libraries/megatron",
    "which layout has my model": "libraries/models",
    "gemma mistral": "libraries/models",
    "query_antecedent": "libraries/tensor2tensor",
    # to look up
    "which notation": "how-to/which-notation-is-this",
    "rosetta table letters": "notation",
    "glossary projected query": "glossary",
    "bibtex cite": "cite",
}


@pytest.fixture(scope="module")
def search(chromium, origin):
    """A search in the site's own box: from what is typed to the pages found, the best first."""
    page = chromium.new_page(base_url=origin)
    page.goto("/")
    box = page.get_by_role("textbox", name="Search")
    box.click()

    def type_in(query, said):
        box.fill(query)
        box.dispatch_event("keyup")
        page.locator(".md-search-result__meta", has_text=said).wait_for(state="attached")

    def found(query):
        type_in("", "Type to start searching")
        type_in(query, "matching document")
        meta = page.locator(".md-search-result__meta")
        if not meta.inner_text().startswith("No "):  # the list comes after the number
            page.locator(".md-search-result__item").first.wait_for(state="attached")
        links = page.locator(".md-search-result__item > a").evaluate_all(
            "links => links.map(link => new URL(link.href).pathname)"
        )
        return [link.strip("/") for link in links]

    found.page = page
    yield found
    page.close()


def test_why_two_matrices_leads_to_the_page_on_two_matrices(search):
    assert "explanation/projected-twice" in search("why two matrices")[:2]


@pytest.mark.parametrize("query", FIRST)
def test_the_page_that_answers_comes_first(search, query):
    assert search(query)[:1] == [FIRST[query]]


def test_what_is_typed_stays_and_is_shared_as_typed(search):
    search("what is W^Q")
    assert search.page.get_by_role("textbox", name="Search").input_value() == "what is W^Q"


def test_the_search_reads_no_menu_no_button_and_no_data(search):
    index = search.page.request.get("/search/search_index.json").json()
    for section in index["docs"]:
        said = re.sub(r"<code>.*?</code>", "", section["text"], flags=re.DOTALL)
        for tool in ("Copy a link", "The way back", '{"'):
            assert tool not in said, section["location"]


def test_what_is_found_is_shown_with_its_formulas(search):
    search("W_i^Q")
    said = search.page.locator(".md-search-result__item").first.inner_text()
    assert "W_i^Q" in said


def test_what_is_nowhere_is_not_found(search):
    assert search("zeppelin") == []
