"""What readers type into the search, and the heading that has to be among the first three."""

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
    "two linear maps q W_1^Q": "explanation/projected-twice",
    "W1Q": "explanation/deeplearning-ai-course",
    "W_1^Q": "explanation/deeplearning-ai-course",
    "W1Q in the video": "explanation/deeplearning-ai-course",
    "what is q": "explanation/which-q",
    "is there a second linear layer": "explanation/double-projection",
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
    # other texts, and what surrounds a layer
    "permutation equivariant": "explanation/word-order",
    "bag of words positional encoding": "explanation/word-order",
    "bahdanau attention": "explanation/before-the-transformer",
    "luong general score": "explanation/before-the-transformer",
    "concatenate decoder state encoder state": "explanation/before-the-transformer",
    "hopfield": "explanation/hopfield",
    "udlbook columns omega": "explanation/understanding-deep-learning",
    "word attends to itself diagonal": "explanation/attends-to-itself",
    "softmax of one number is 1": "explanation/one-vector",
    "rope before or after qk norm": "explanation/rope-or-norm-first",
    "kv_a_proj_with_mqa kv_b_proj": "explanation/two-maps-of-the-keys",
    "benchmark merge query and key faster": "threads/a-benchmark-of-merging",
    "is the second W the inverse": "explanation/deeplearning-ai-course",
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
    # weights that are changed
    "which weights may be merged": "explanation/may-i-merge",
    "may I merge with dropout": "explanation/may-i-merge",
    "ablate a head": "how-to/remove-a-head",
    "zero query weights head still contributes": "how-to/remove-a-head",
    "prune attention head": "how-to/remove-a-head",
    "which columns of o_proj belong to a head": "how-to/remove-a-head",
    "fold layernorm into q_proj": "how-to/fold-a-norm",
    "Gemma RMSNorm 1 + weight": "how-to/fold-a-norm",
    "center weights RMSNorm": "how-to/fold-a-norm",
    "AWQ v_proj o_proj GQA": "how-to/smooth-values-and-output",
    "smoothquant grouped heads scale": "how-to/smooth-values-and-output",
    "W_K IndexError": "explanation/circuits-of-grouped-heads",
    "QK circuit Qwen GQA": "explanation/circuits-of-grouped-heads",
    # it runs, and it is wrong
    "same output for every token": "symptoms/same-vector",
    "bhqk,bvhd einsum": "symptoms/same-vector",
    "view size is not compatible with input tensor's size and stride": "symptoms/heads-mixed",
    "forgot permute before merging heads": "symptoms/heads-mixed",
    "einsum and matmul attention differ": "symptoms/heads-mixed",
    "batch times heads index order": "symptoms/only-batches",
    "only batches are wrong": "symptoms/only-batches",
    "repeat vs repeat_interleave kv heads": "symptoms/grouped-heads",
    "onnx tile gqa export": "symptoms/grouped-heads",
    "weights 0.1888 0.3112": "symptoms/square-weight",
    "forgot to transpose k": "symptoms/square-weight",
    "rotary_pct partial rotary wrong": "symptoms/rotation",
    "wq wk permuted but not wv": "symptoms/rotation",
    "error grows with distance": "symptoms/rotation",
    "pad head_dim 80 to 128 scale": "symptoms/scale",
    "deberta sqrt 3": "symptoms/scale",
    "scale applied twice": "symptoms/scale",
    "cross attention wrong after porting": "symptoms/only-cross-attention",
    "output differs by a constant": "symptoms/constant-vector",
    "output differs by the input residual": "symptoms/steps",
    "loss stuck attention does not train": "symptoms/idle",
    "fused qkv split gives garbage": "symptoms/first-third",
    "attention runs but output is wrong": "symptoms",
    # to look up
    "which notation": "how-to/which-notation-is-this",
    "rosetta table letters": "notation",
    "glossary projected query": "glossary",
    "bibtex cite": "cite",
}


@pytest.fixture(scope="module")
def search(chromium, origin):
    """The site's own search: from what is typed to the headings found, the best first."""
    page = chromium.new_page(base_url=origin)
    page.goto("/explanation/scaling/")
    page.get_by_role("button", name="Search").click()
    box = page.get_by_role("dialog").get_by_role("searchbox", name="Search")
    status = page.get_by_role("dialog").get_by_role("status")

    def found(query):
        box.fill("")
        page.wait_for_function("s => !s.textContent", arg=status.element_handle())
        box.fill(query)
        page.wait_for_function("s => s.textContent", arg=status.element_handle())
        links = page.locator(".wq-search li a").evaluate_all(
            "links => links.map(({href}) => href.slice(location.origin.length + 1))"
        )
        return [link.replace("/#", "#").removesuffix("/") for link in links]

    found.page, found.box, found.status = page, box, status
    yield found
    page.close()


@pytest.mark.parametrize("query", FIRST)
def test_the_page_that_answers_is_among_the_first_three(search, query):
    pages = [address.partition("#")[0] for address in search(query)]
    assert FIRST[query] in pages[:3]


@pytest.mark.parametrize("query", ["W_1^Q", "mask", "what is q", "heads"])
def test_a_page_is_found_once_and_few_are(search, query):
    pages = [address.partition("#")[0] for address in search(query)]
    assert 0 < len(pages) == len(set(pages)) <= 8


def test_what_is_found_is_shown_with_its_formulas_and_without_holes(search):
    search("W_i^Q d_model")
    said = search.page.locator(".wq-search li p").all_inner_texts()
    assert any("W_i^Q" in each for each in said)
    for each in said:
        assert 20 < len(each) < 260
        assert "  " not in each
        assert not re.search(r" [,.;:]( |$)|\(\s*\)", each), each


def test_a_symptom_a_synonym_and_a_slip_are_understood(search):
    assert search("lecture video") == search("lecture video")
    assert "explanation/deeplearning-ai-course" in search("coursera video")[:2]
    assert search("trasnpose")[0] == search("transpose")[0]


def test_what_is_nowhere_is_not_found_and_the_index_of_questions_is_offered(search):
    assert search("zeppelin") == []
    assert search.status.inner_text() == "Nothing is found for “zeppelin”."
    index = search.page.get_by_role("dialog").get_by_role("link", name="index of questions")
    assert index.get_attribute("href").endswith("questions/")


def test_a_word_that_is_nowhere_is_named(search):
    assert search("keras key_dim zeppelin")
    assert "No page has “zeppelin”." in search.status.inner_text()


def test_the_search_reads_no_menu_no_button_and_no_data(search):
    index = search.page.request.get("/assets/search.json").json()
    assert len(index["sections"]) > 500
    for _, _, title, text, _, _ in index["sections"]:
        for tool in ("Copy a link", "The way back", '{"', "¶", "<", "&lt;"):
            assert tool not in re.sub(r"<[\w ,.]*>|<|d_k < ", "", text + title), title


def test_the_search_is_a_dialog_for_the_keyboard(page):
    page.goto("/explanation/scaling/")
    page.get_by_role("button", name="Search").focus()
    page.keyboard.press("/")
    box = page.get_by_role("dialog", name="Search").get_by_role("searchbox")
    box.type("key_dim")
    page.locator(".wq-search li").first.wait_for()
    first = page.locator(".wq-search li a").first
    page.keyboard.press("ArrowDown")
    assert first.evaluate("it => it === document.activeElement")
    page.keyboard.press("ArrowUp")
    assert box.evaluate("it => it === document.activeElement")
    page.keyboard.press("Escape")
    assert not box.is_visible()
    assert page.get_by_role("button", name="Search").evaluate("it => it === document.activeElement")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # what was typed is still there, and its first hit is opened
    page.wait_for_url("**/widths/**")
    assert page.wrong == []


def test_a_link_may_ask(page):
    page.goto("/?q=key_dim")
    page.locator(".wq-search li").first.wait_for()
    assert page.get_by_role("searchbox").input_value() == "key_dim"


def test_axe_finds_nothing_in_the_dialog(search):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    search("key_dim")
    assert axe.run(search.page, context=".wq-search").response["violations"] == []


def test_without_a_script_the_way_leads_to_the_index_of_questions(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto("/explanation/scaling/")
    page.get_by_role("link", name="Search").click()
    assert page.url.endswith("/questions/")
    page.close()
