"""The checks that pages give for a reader's own code, on PyTorch's layers in float32.

A reader's layer is rarely in float64. A right one has to pass, and a wrong one not, at each width.
In half precision and with dropout a right one passes unless the page asks for float32 or eval().
"""

import ast
import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import qkv
from qkv.masks import causal
from qkv_site import run
from qkv_site.page import Site
from support import ROOT, thorough

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("unchecked")
WIDTHS = pytest.mark.parametrize(("width", "h"), [(24, 3), (64, 4), *thorough((768, 12))])
SIZES = pytest.mark.parametrize("size", [0.02, 1, 10, 30])  # embeddings, norms, residual streams
SEEDS = pytest.mark.parametrize("seed", [0, *thorough(1, 2)])
SITE = Site()


def check(page, name, width=24):
    """A function of a page's block, as a reader pastes it, with the reader's width for 24."""
    names = {
        "np": np,
        "attention": qkv.attention,
        "softmax": qkv.softmax,
        "MultiHead": qkv.MultiHead,
        "replace": replace,
    }
    for block in run.blocks_of(SITE.pages[f"{page}.md"]):
        if f"def {name}(" in block.code:
            tree = ast.parse(block.code)
            found = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
            exec("\n".join(map(ast.unparse, found)).replace("24", str(width)), names)
            return names[name]
    raise AssertionError(f"{page} has no function {name}")


def single(x):
    return torch.as_tensor(np.asarray(x, dtype=np.float32))


def mha(width, h, seed, **options):
    """A fresh nn.MultiheadAttention, with biases that are not zero, and samples first."""
    torch.manual_seed(seed)
    layer = torch.nn.MultiheadAttention(width, h, batch_first=True, **options).eval()
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, 0, 0.1)
    return layer


@torch.no_grad()
def called(layer, *sources, **options):
    return layer(*map(single, sources), **options)[0].numpy()


@torch.no_grad()
def shortened(dtype, function, *arrays, **options):
    """What a function of tensors gives in a dtype, as an array of float32."""
    tensors = (torch.as_tensor(np.asarray(x), dtype=dtype) for x in arrays)
    return function(*tensors, **options).float().numpy()


def sdpa(Q, K, V, dtype=torch.float32, **options):
    return shortened(dtype, F.scaled_dot_product_attention, Q, K, V, **options)


def later(n):
    """A mask that is True for later words."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def with_bias(Q, K, V, bias, dtype, by=1):
    """Attention of single heads with a bias that is added after the scale, or divided with it."""
    mask = torch.as_tensor(bias / by, dtype=dtype)
    return sdpa(*(x[None, None] for x in (Q, K, V)), dtype=dtype, attn_mask=mask)[0, 0]


def product(Q, K, dtype, turn):
    return shortened(dtype, torch.matmul, Q / 11**0.5, turn(K))


def softmaxed(S, dtype, axis):
    return shortened(dtype, torch.softmax, S, dim=axis)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("page", "name", "function", "right", "wrong"),
    [
        ("how-to/position-bias", "adds_after_the_scale", with_bias, {}, [{"by": 8}]),
        (
            *("symptoms/square-weight", "scores_are_dot_products", product),
            {"turn": lambda K: K.swapaxes(-1, -2)},
            [{"turn": lambda K: K.reshape(2, 3, 11, 7)}],
        ),
        (
            *("symptoms/weights-wrong", "over_the_keys", softmaxed),
            {"axis": 3},
            [{"axis": axis} for axis in range(3)],
        ),
    ],
)
def test_a_right_function_passes_in_each_precision_and_a_wrong_one_does_not(
    page, name, function, right, wrong, dtype
):
    passes = check(page, name)
    assert passes(partial(function, dtype=dtype, **right))
    for options in wrong:
        assert not passes(partial(function, dtype=dtype, **options))


@SEEDS
@WIDTHS
@SIZES
def test_a_batch_of_a_right_layer_passes_and_a_tiled_mask_does_not(width, h, seed, size):
    samples_are_apart = check("symptoms/grouped-heads", "samples_are_apart")
    layer = mha(width, h, seed)
    X = size * np.random.default_rng(seed).normal(size=(3, 7, width))
    real = np.arange(7) < np.array([7, 5, 2])[:, None, None]

    def right(X, mask):
        return called(layer, X, X, X, key_padding_mask=~torch.as_tensor(mask[:, 0]))

    def tiled(X, mask):
        of_heads = np.tile(np.broadcast_to(mask, (len(X), 7, 7)), (h, 1, 1))
        return called(layer, X, X, X, attn_mask=~torch.as_tensor(of_heads))

    assert samples_are_apart(right, X, real)
    assert not samples_are_apart(tiled, X, real)


@SEEDS
@WIDTHS
def test_sources_in_place_pass_and_exchanged_ones_do_not(width, h, seed):
    sources_are_in_place = check("symptoms/square-weight", "sources_are_in_place", width)

    def of(layer, order):
        return lambda *QKV: called(layer, *(QKV["qkv".index(each)][None] for each in order))[0]

    layer = mha(width, h, seed)
    assert sources_are_in_place(of(layer, "qkv"))
    assert not any(sources_are_in_place(of(layer, order)) for order in ("qvk", "qkk", "kqq"))
    for option in ("add_zero_attn", "add_bias_kv"):  # weights on the given keys sum to less than 1
        added = mha(width, h, seed, **{option: True})
        assert not sources_are_in_place(of(added, "qkv"))


@pytest.mark.parametrize("order", [*itertools.product("qkv", repeat=3)])
@SEEDS
def test_no_order_of_sources_passes_but_the_right_one(order, seed):
    """On a CPU PyTorch's function may take fewer keys than values without an error."""
    sources_are_in_place = check("symptoms/square-weight", "sources_are_in_place")
    weights = np.random.default_rng(seed).normal(size=(3, 24, 3, 8)) / 24**0.5

    def layer(*QKV):
        sources = [QKV["qkv".index(each)] for each in order]
        heads = [np.einsum("nd,dhk->hnk", *each) for each in zip(sources, weights, strict=True)]
        return sdpa(*(each[None] for each in heads))[0].swapaxes(0, 1).reshape(-1, 24)

    assert sources_are_in_place(layer) == (order == ("q", "k", "v"))


@pytest.mark.parametrize("n", [6, 100])
def test_a_right_cache_passes_and_a_mask_from_the_first_key_does_not(n):
    cache_agrees = check("symptoms/causal-and-cache", "cache_agrees")
    for aligned, right in ("end", True), ("start", False):

        def attend(Q, K, V, aligned=aligned):
            mask = torch.as_tensor(causal(len(Q), len(K), aligned=aligned))
            return sdpa(Q[None], K[None], V[None], attn_mask=mask)[0]

        assert cache_agrees(attend, n) == right


@WIDTHS
@pytest.mark.parametrize("size", [0.02, 1, 10])
def test_idle_weights_are_named_in_float32(width, h, size):
    """With all keys the bias of the keys alone is idle; with one key queries and keys are."""
    idle_weights = check("symptoms/idle", "idle_weights")
    names = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
    mh = qkv.MultiHead.random(d_model=width, h=h, bias=True)
    weights = {name: getattr(mh, name) for name in names}
    weights |= {name: weights[name] / size for name in ("W_Q", "W_K")}  # or one key gets all
    X = size * np.random.default_rng(0).normal(size=(5, width))

    def layer(weights, X, Y):
        w = {name: single(each) for name, each in weights.items()}
        q, k, v = (
            single(source) @ w[f"W_{name}"] + w[f"b_{name}"][:, None]
            for name, source in zip("QKV", (X, Y, Y), strict=True)
        )
        return (single(sdpa(q[None], k[None], v[None])[0]) @ w["W_O"]).sum(dim=0).numpy()

    def heads_of(*names):
        return [f"{name}[{head}]" for name in names for head in range(h)]

    assert idle_weights(layer, weights, X, X) == heads_of("b_K")
    assert idle_weights(layer, weights, X, X[:1]) == heads_of("W_Q", "W_K", "b_Q", "b_K")


@SEEDS
@pytest.mark.parametrize("d", [4, 64, 512])
@pytest.mark.parametrize("size", [0.02, 1, 3])
@pytest.mark.parametrize("is_causal", [True, False])
def test_words_see_other_words_unless_words_and_heads_are_exchanged(d, size, is_causal, seed):
    sees_other_words = check("libraries/attention-functions", "sees_other_words")
    x = size * np.random.default_rng(seed).normal(size=(2, 5, 3, d))
    attend = partial(sdpa, is_causal=is_causal)
    assert sees_other_words(lambda x: attend(*[x.swapaxes(1, 2)] * 3).swapaxes(1, 2), x)
    assert not sees_other_words(lambda x: attend(x, x, x), x)


@SEEDS
@pytest.mark.parametrize(
    ("n", "d_k", "size"), [(6, 24, 0.02), (6, 24, 1), (64, 128, 1), (512, 128, 3)]
)
def test_two_right_rotations_agree_at_each_distance_and_other_pairs_do_not(n, d_k, size, seed):
    """Neighbours turned as complex numbers, and halves with the coordinates permuted."""
    wrong_distances = check("symptoms/rotation", "wrong_distances")
    t, j = torch.arange(n)[:, None], torch.arange(0, d_k, 2)
    angle, same = t * 1e4 ** (-j / d_k), t * torch.exp(j * (-np.log(1e4) / d_k))

    def neighbours(x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], d_k // 2, 2).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)

    def halves(x):
        a, b = x.chunk(2, dim=-1)
        cos, sin = same.cos(), same.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    permuted = torch.arange(d_k).reshape(-1, 2).T.flatten()
    torch.manual_seed(seed)
    Q, K = size * torch.randn(2, 3, n, d_k)
    theirs = (neighbours(Q) @ neighbours(K).transpose(-1, -2)).numpy()
    right = halves(Q[..., permuted]) @ halves(K[..., permuted]).transpose(-1, -2)
    wrong = halves(Q) @ halves(K).transpose(-1, -2)
    assert wrong_distances(right.numpy(), theirs) == []
    assert wrong_distances(wrong.numpy(), theirs) == list(range(1, n))
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    for hidden in (-torch.inf, -1e9, torch.finfo(torch.float32).min):
        scores = (single(theirs), right, wrong, 8 * right)
        masked, *ours = (S.masked_fill(later, hidden).numpy() for S in scores)
        found = [wrong_distances(each, masked) for each in ours]
        assert found == [[], [*range(1, n)], [*range(n)]]


def test_distances_of_later_keys_are_those_of_the_turned_arrays():
    """As the page says of scores without a causal mask, here of ALiBi with and without a sign."""
    wrong_distances = check("symptoms/rotation", "wrong_distances")
    S = np.random.default_rng(0).normal(size=(3, 6, 6))
    distance = np.arange(6)[:, None] - np.arange(6)
    by_sign, by_distance = S - distance / 2, S - np.abs(distance) / 2
    turned = [each.swapaxes(-1, -2) for each in (by_sign, by_distance)]
    assert wrong_distances(by_sign, by_distance) == []
    assert wrong_distances(*turned) == [1, 2, 3, 4, 5]


def test_the_scale_is_found_in_float32():
    scale_used = check("symptoms/scale", "scale_used")
    candidates = {"1/√d_k": 1 / 4, "none": 1.0, "1/d_k": 1 / 16, "1/√(h·d_k)": 32**-0.5}
    for name, scale in candidates.items():
        assert scale_used(partial(sdpa, scale=scale), candidates) == [name]


@SIZES
@SEEDS
@WIDTHS
@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
def test_a_step_that_differs_is_named_in_float32(width, h, seed, size, bias):
    step_that_differs = check("symptoms/steps", "step_that_differs")
    layer = mha(width, h, seed, bias=bias)
    W_O, b_O = layer.out_proj.weight.numpy().T, layer.out_proj.bias.numpy() if bias else 0
    X = size * np.random.default_rng(seed).normal(size=(9, width)).astype(np.float32)
    right = called(layer, X, X, X)
    outputs = {
        "residual": right + X,
        "W_O twice": layer.out_proj(single(right)).numpy(),
        "a LayerNorm comes last": F.layer_norm(single(right), (width,)).numpy(),
        "W_O left out": np.linalg.solve(W_O.T.astype(float), (right - b_O).T).T,
    }
    if size < 1 and not bias:  # a LayerNorm's eps takes most of so small a variance
        assert step_that_differs(outputs.pop("a LayerNorm comes last"), right, X, W_O) == []
    for step, mine in outputs.items():
        assert step_that_differs(mine, right, X, W_O, b_O) == [step]
        assert step_that_differs(mine, mine, X, W_O, b_O) == []
    assert step_that_differs(right, right, X, W_O, b_O) == []
    assert step_that_differs(0 * right, 0 * right, X, 0 * W_O, 0 * b_O) == []  # as W^O may start


@SEEDS
@WIDTHS
@SIZES
def test_a_bias_that_is_left_out_is_named_in_float32(width, h, size, seed):
    constant_difference = check("symptoms/steps", "constant_difference")
    layer = mha(width, h, seed)
    X = size * np.random.default_rng(seed).normal(size=(5, width)).astype(np.float32)
    theirs = called(layer, X, X, X)
    b_O = layer.out_proj.bias.detach().numpy()
    mine = qkv.load(layer.state_dict(), "pytorch", h=h)(X).astype(np.float32)
    assert constant_difference(mine - b_O, theirs, {"b_O": b_O}) == ["-1 b_O"]
    assert constant_difference(mine, theirs, {"b_O": b_O}) == []


@SEEDS
@WIDTHS
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_causal_encoder_layer_changes_later_places_alone(width, h, norm_first, seed):
    """Behind a LayerNorm too, where the same number added to all coordinates changes nothing."""
    outputs_that_change = check("symptoms/index", "outputs_that_change")
    torch.manual_seed(seed)
    options = {"batch_first": True, "norm_first": norm_first}
    layer = torch.nn.TransformerEncoderLayer(width, h, 2 * width, **options).eval()
    X = np.random.default_rng(seed).normal(size=(7, width))
    found = outputs_that_change(lambda X: called(layer, X[None], src_mask=later(7)), X, 3)
    assert found.tolist() == [3, 4, 5, 6]


@SEEDS
@WIDTHS
def test_hidden_padding_passes_and_a_mask_that_is_added_does_not(width, h, seed):
    hides_padding, layer = check("symptoms/padding-leaks", "hides_padding"), mha(width, h, seed)
    real = np.arange(5) < np.array([5, 4, 3, 5, 2])[:, None]
    X = np.random.default_rng(seed).normal(size=(5, 5, width))

    def added(X, real):
        of_heads = single(real).repeat_interleave(h, 0)[:, None].expand(-1, 5, -1)
        return called(layer, X, X, X, attn_mask=of_heads)

    def right(X, real):
        return called(layer, X, X, X, key_padding_mask=~torch.as_tensor(real))

    assert hides_padding(right, X, real)
    assert not hides_padding(added, X, real)


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        (
            "in float32 or float64",  # in half precision the check refuses what is right
            "symptoms/scale symptoms/steps symptoms/rotation how-to/fold-a-norm",
        ),
        ("call `eval()`", "symptoms/grouped-heads symptoms/padding-leaks symptoms/index"),
    ],
)
def test_a_page_asks_for_what_its_check_needs(words, pages):
    for page in pages.split():
        assert words in (ROOT / "docs" / f"{page}.md").read_text(), page


# Sinks and a cap


@torch.no_grad()
def test_key_heads_are_named_beside_a_sink():
    """As in gpt-oss, with 64 heads and 8 key heads, by its own function."""
    library = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    key_heads_used = check("symptoms/grouped-heads", "key_heads_used")
    module = torch.nn.Module().eval()
    module.sinks, module.num_key_value_groups = torch.ones(64), 8

    def attend(Q, K, V):
        found = library.eager_attention_forward(module, *map(single, (Q, K, V)), None, scaling=0.5)
        return found[0].transpose(1, 2).numpy()

    assert key_heads_used(attend, 64, 8) == [i // 8 for i in range(64)]
