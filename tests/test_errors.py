"""Every refusal quotes the name, what came and what was expected, and names a known mistake."""

import dataclasses

import numpy as np
import pytest

from qkv import MultiHead, attention, dump, fold, load, merge, softmax, w_qk, w_vo
from qkv.between import Clip, Rotation, SoftCap
from qkv.costs import degrees_of_freedom
from qkv.maps import factor, gauge
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

Q, K, V = np.ones((3, 2)), np.ones((5, 2)), np.ones((5, 7))
X = np.ones((5, 6))
ROTATION = Rotation.of(1e4, 2)
LAYER = MultiHead.random(6, 2, d_k=3, d_v=5, bias=True)


@pytest.mark.parametrize(
    ("array", "parts"),
    [
        (np.ones((3, 2), complex), ["dtype is complex128"]),
        (np.array([["a", "b"]]), ["dtype is <U1"]),
        (np.array([[None, None]]), ["dtype is object"]),
        (np.ones((3, 2), bool), ["dtype is bool"]),
        (np.ones((3, 2), int), ["dtype is int64", "Token ids have to be embedded first"]),
        ([[1.0], [1.0, 2.0]], ["array of shape (..., n_q, d_k)"]),
        (None, ["array of shape (..., n_q, d_k), but is None"]),
        ("Q", ["array of shape (..., n_q, d_k), but is 'Q'"]),
        ({"Q": 1.0}, ["array of shape (..., n_q, d_k), but is a dict"]),
    ],
)
def test_only_floating_point_numbers(array, parts):
    with refuses("Q must", *parts, error=TypeError):
        attention(array, K, V)


def test_dtype_is_checked_everywhere():
    ids = np.arange(5).reshape(1, 5)
    with refuses("K must hold floating-point numbers … int64", error=TypeError):
        attention(Q, ids, V)
    with refuses("V must hold floating-point numbers … int64", error=TypeError):
        attention(Q, K, ids)
    with refuses("X_Q must hold floating-point numbers … Token ids", error=TypeError):
        LAYER(ids)
    with refuses("W_K must hold floating-point numbers … complex128", error=TypeError):
        dataclasses.replace(LAYER, W_K=LAYER.W_K.astype(complex))
    with refuses("scores must hold floating-point numbers … int64", error=TypeError):
        softmax(ids)
    with refuses("second must hold floating-point numbers … int64", error=TypeError):
        merge(np.ones((2, 3)), np.ones((3, 5), int))


def test_what_numbers_are_is_said_of_their_own_kind():
    """Token ids are a mistake of sources, a quantisation or a module one of weights."""
    with refuses("P_Q must hold … int64. Turn whole numbers into floats", error=TypeError):
        fold(LAYER, P_Q=np.eye(6, dtype=int))
    with refuses("W_Q must hold … int8. Such numbers are quantised", error=TypeError):
        dataclasses.replace(LAYER, W_Q=LAYER.W_Q.astype(np.int8))
    with pytest.raises(TypeError, match=r"complex128\.$"):
        LAYER(X.astype(complex))
    torch = pytest.importorskip("torch")
    with refuses("P_Q must be an array … is a Linear. Pass its weight:  … .T", error=TypeError):
        fold(LAYER, P_Q=torch.nn.Linear(6, 6))
    with refuses("X_Q must be … NumPy has no bfloat16 … call .float()", error=TypeError):
        LAYER(torch.ones(5, 6, dtype=torch.bfloat16))
    with refuses("X_Q must be … device meta has a shape and no numbers", error=TypeError):
        LAYER(torch.ones(5, 6, device="meta"))


def test_tensors_that_require_their_gradient_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    linear, given = torch.nn.Linear(6, 6).double(), torch.ones(5, 6, dtype=torch.float64)
    folded = fold(LAYER, P_Q=linear.weight.T, c_Q=linear.bias)
    given.requires_grad_()
    np.testing.assert_allclose(folded(given), LAYER(linear(given), given, given), rtol=1e-12)
    W_Q, W_K, W_V = (torch.nn.Parameter(torch.tensor(W)) for W in (LAYER.W_Q, LAYER.W_K, LAYER.W_V))
    assert dataclasses.replace(LAYER, W_Q=W_Q, W_K=W_K, W_V=W_V) == LAYER
    grouped = MultiHead.random(6, 4, h_kv=2, d_k=5)  # its keys are repeated
    vectors = [torch.tensor(each, requires_grad=True) for each in grouped.project(X)]
    np.testing.assert_array_equal(attention(*vectors), attention(*grouped.project(X)))


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ((Q[0], K, V), "Q must have shape (..., n_q, d_k), but has shape (2,)"),
        ((Q[:0], K, V), "Q must have … (0, 2): an empty sequence"),
        ((Q, K[:0], V[:0]), "K must have … (0, 2): an empty sequence"),
        (
            (np.ones((3, 6)), K, V),
            "agree in d_k … Q has 6 (shape (3, 6)) … K has 2 (shape (5, 2)) … W_Q[i]",
        ),
        ((Q, K.T, V), "agree in d_k … (2, 5) … K looks transposed … (..., n_k, d_k)"),
        ((Q, K, V[:4]), "agree in n_k … K has 5 … V has 4 (shape (4, 7))"),
        (
            (np.ones((2, 3, 2)), np.ones((3, 5, 2)), V),
            "batch axes … broadcast … Q (2, 3, 2), K (3, 5, 2), V (5, 7)",
        ),
    ],
)
def test_shapes_of_equation_1(arrays, parts):
    with refuses(parts):
        attention(*arrays)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "place"), [("Q", (2, 1)), ("K", (4, 0)), ("V", (3, 6))])
def test_nan_and_infinity_are_traced_to_their_array(name, place, bad):
    arrays = {"Q": Q.copy(), "K": K.copy(), "V": V.copy()}
    arrays[name][place] = bad
    with refuses(f"{name} must be finite", f"{name}{list(place)} is {bad}", "has shape"):
        attention(**arrays)


@pytest.mark.parametrize("name", ["X_Q", "X_K", "X_V"])
def test_nan_in_a_source_of_a_layer(name):
    sources = {"X_Q": X, "X_K": X, "X_V": X}
    sources[name] = X.copy()
    sources[name][1, 2] = np.nan
    with refuses(f"{name} must be finite, but {name}[1, 2] is nan"):
        LAYER(**sources)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mask", [None, np.ones((3, 5), bool)])
@pytest.mark.parametrize(("dtype", "large"), [(np.float16, 3e4), (np.float32, 1e38)])
def test_scores_that_overflow(dtype, large, mask, sign):
    with refuses("scores must be finite", f"dtype is {dtype.__name__}", "overflowed"):
        attention(np.full((3, 2), sign * large, dtype), np.full((5, 2), large, dtype), V, mask=mask)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("mask", [None, np.ones((3, 5), bool)])
def test_scores_that_are_not_finite(bad, mask):
    scores = np.zeros((3, 5))
    scores[1, 2] = bad
    with refuses("scores must be finite … NaN or infinity"):
        softmax(scores, mask=mask)
    hidden = np.ones((3, 5), bool)
    hidden[1, 2] = False
    assert softmax(scores, mask=hidden)[1, 2] == 0


@pytest.mark.parametrize("scale", [0, -1.0, np.nan, np.inf])
def test_a_scale_is_positive(scale):
    """Of equation (1) alone as of a layer."""
    for call in (attention, lambda *arrays, scale: dataclasses.replace(LAYER, scale=scale)):
        with refuses("scale must be a positive number, but is"):
            call(Q, K, V, scale=scale)


def test_softmax_needs_scores():
    with refuses("scores must have shape (..., n_k), but has shape ()"):
        softmax(np.float64(1))
    with refuses("scores … (3, 0)"):
        softmax(np.ones((3, 0)))


@pytest.mark.parametrize(
    ("mask", "error", "parts"),
    [
        (np.ones((3, 5), int), TypeError, "int64 … mask.astype(bool) … mask == 0"),
        (np.zeros((3, 5)), TypeError, "float64 … additive mask … mask == 0"),
        (np.full((3, 5), "x"), TypeError, "mask must be boolean … <U1"),
        (
            np.ones((5, 3), bool),
            ValueError,
            "mask must broadcast to the scores' shape (3, 5), but has shape (5, 3)",
        ),
    ],
)
def test_masks_are_boolean_and_fit(mask, error, parts):
    with refuses(parts, error=error):
        attention(Q, K, V, mask=mask)
    with refuses(parts, error=error):
        softmax(np.ones((3, 5)), mask=mask)


def test_mask_of_a_layer_names_the_scores_of_all_heads():
    with refuses("scores' shape (2, 5, 5), but has shape (5, 3)"):
        LAYER(X, mask=np.ones((5, 3), bool))
    with refuses("mask must be boolean … int64", error=TypeError):
        LAYER(X, mask=np.ones((5, 5), int))


def test_mask_that_reads_two_ways():
    with refuses("(n_q, n_k) = (5, 5) … = (2, 5, 5) … shape (5,)"):
        LAYER(X, mask=np.ones(5, bool))
    batch = np.ones((2, 5, 6))
    with refuses("(2, 2, 5, 5) … but has shape (2, 5, 5) … pass mask[:, None]"):
        LAYER(batch, mask=np.ones((2, 5, 5), bool))


def test_a_padding_mask_without_axes_for_heads_and_queries():
    mh = MultiHead.random(6, 2)
    X_Q, X_K = np.ones((3, 5, 6)), np.ones((3, 7, 6))
    padding = np.arange(7) < np.array([[7], [4], [2]])
    parts = "(3, 2, 5, 7), but has shape (3, 7)", "from all queries alike", "pass "
    with refuses(*parts, "mask[:, None, None, :]."):
        mh(X_Q, X_K, mask=padding)
    assert mh(X_Q, X_K, mask=padding[:, None, None, :]).shape == (3, 5, 6)
    with refuses("(3, 5, 7), but has shape (3, 7) … pass mask[:, None, :]."):
        attention(X_Q, X_K, X_K, mask=padding)
    assert attention(X_Q, X_K, X_K, mask=padding[:, None, :]).shape == (3, 5, 6)
    with refuses("(5, 7), but has shape (3, 7)."):
        attention(X_Q[0], X_K[0], X_K[0], mask=padding)


def test_a_padding_mask_that_fits_by_accident_is_read_as_queries_and_keys():
    """Where batch is n_q, (batch, n_k) is (n_q, n_k), and nothing can tell."""
    mh = MultiHead.random(6, 2)
    X_Q, X_K = np.random.default_rng(0).normal(size=(2, 3, 7, 6))
    X_Q = X_Q[:, :3]
    padding = np.arange(7) < np.array([[7], [4], [2]])
    by_accident = mh(X_Q, X_K, mask=padding)
    np.testing.assert_array_equal(by_accident, mh(X_Q, X_K, mask=padding[None, None]))
    assert not np.allclose(by_accident, mh(X_Q, X_K, mask=padding[:, None, None, :]))


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ({"d_model": 7, "h": 2}, "d_model = 7 … h = 2 … Pass d_k"),
        ({"d_model": 6, "h": 3, "h_kv": 2}, "h_kv must divide h … h_kv = 2 and h = 3"),
        ({"d_model": 0, "h": 2}, "d_model must be a positive whole number, but is 0"),
        ({"d_model": 6, "h": -2}, "h must be … but is -2"),
        ({"d_model": 6, "h": 2.0}, "h must be … but is 2.0"),
        ({"d_model": 6, "h": 2, "d_k": 0}, "d_k must be … but is 0"),
        ({"d_model": 6, "h": 2, "d_v": 1.5}, "d_v must be … but is 1.5"),
        ({"d_model": 6, "h": 2, "h_kv": 0}, "h_kv must be … is 0"),
    ],
)
def test_sizes_of_a_random_layer(sizes, parts):
    with refuses(parts):
        MultiHead.random(**sizes)


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V"])
def test_packed_weight_where_per_head_is_due(name):
    mh = MultiHead.random(6, 2)
    per_head = getattr(mh, name)
    packed = np.concatenate(list(per_head), axis=-1)
    heads, width = {
        "W_Q": ("h", "d_model"),
        "W_K": ("h_kv", "d_source_k"),
        "W_V": ("h_kv", "d_source_v"),
    }[name]
    repacked = f"{name}.reshape({width}, {heads}, -1).swapaxes(0, 1)"
    with refuses(f"{name} must have shape", "(6, 6)", "packed weight", repacked):
        dataclasses.replace(mh, **{name: packed})
    advised = eval(repacked, {name: packed, width: 6, heads: 2})
    np.testing.assert_array_equal(advised, per_head)


def test_packed_output_weight():
    packed = np.concatenate(list(LAYER.W_O))
    repacked = "W_O.reshape(h, d_v, -1)"
    with refuses("W_O must have shape", "(10, 6)", "packed weight", repacked):
        dataclasses.replace(LAYER, W_O=packed)
    advised = eval(repacked, {"W_O": packed, "h": 2, "d_v": 5})
    np.testing.assert_array_equal(advised, LAYER.W_O)


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V", "W_O"])
def test_transposed_weight(name):
    transposed = getattr(LAYER, name).swapaxes(-1, -2)
    with refuses("must agree in", "transposed: rows are tokens", f"{name} is (h"):
        dataclasses.replace(LAYER, **{name: transposed})


def test_all_weights_transposed_show_with_the_first_source():
    turned = {name: getattr(LAYER, name).swapaxes(-1, -2) for name in ["W_Q", "W_K", "W_V", "W_O"]}
    mh = MultiHead(**turned)
    with refuses("X_Q must have … (..., n_q, 3) … (5, 6) … W_Q is transposed"):
        mh(X)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"W_Q": np.ones((2, 6, 7))}, "agree in d_k … W_Q has 7 … W_K has 3"),
        ({"W_V": np.ones((1, 6, 5))}, "agree in h_kv, the number of heads … W_K has 2 … W_V has 1"),
        ({"W_O": np.ones((3, 5, 6))}, "agree in h, the number of heads … W_Q has 2 … W_O has 3"),
        (
            {"W_Q": np.ones((3, 6, 3)), "W_O": np.ones((3, 5, 6)), "b_Q": None},
            "h_kv must divide h … h_kv = 2 and h = 3",
        ),
        ({"W_Q": np.ones(6)}, "W_Q must have shape (h, d_model, d_k), but has shape (6,)"),
        ({"b_Q": np.ones(6)}, "b_Q must have shape (h, d_k), but has shape (6,)"),
        ({"b_K": np.ones((2, 5))}, "agree in d_k … W_Q has 3 … b_K has 5 (shape (2, 5))."),
        ({"b_O": np.ones(5)}, "agree in d_out … W_O has 6 … b_O has 5 (shape (5,))."),
        ({"scale": 0.0}, "scale must be a positive number, but is 0.0"),
        ({"scale": float("nan")}, "scale must be a positive number, but is nan"),
    ],
)
def test_parts_of_a_layer_fit_each_other(parts, message):
    with refuses(message):
        dataclasses.replace(LAYER, **parts)


@pytest.mark.parametrize(
    ("sources", "parts"),
    [
        (
            (np.ones((5, 3)),),
            "X_Q … (..., n_q, 6) … (5, 3) … width of one head … projected already",
        ),
        ((X, np.ones((5, 3))), "X_K … (..., n_k, 6) … (5, 3) … width of one head"),
        ((np.ones((6, 7)),), "X_Q … (..., n_q, 6) … W_Q has shape (2, 6, 3) … transposed"),
        ((X, X, np.ones((5, 7))), "X_V must have shape (..., n_k, 6) … but has shape (5, 7)."),
        ((X, X, np.ones((4, 6))), "X_K and X_V must agree in n_k … X_V has 4"),
        ((np.ones((0, 6)),), "X_Q … (0, 6): an empty sequence"),
        ((np.ones(6),), "X_Q must have shape (..., n_q, d_model), but has shape (6,)"),
    ],
)
def test_sources_of_a_layer(sources, parts):
    with refuses(parts):
        LAYER(*sources)


def test_a_layer_of_which_a_step_is_not_known_is_not_called():
    with refuses("RoPE … of mh = load(...): dataclasses.replace(mh, between=()) if nothing does."):
        rotated = dataclasses.replace(MultiHead.random(6, 2), between=(ROTATION,))
        load(dump(rotated, "llama"), "llama", h=2)(X)


@pytest.mark.parametrize(
    ("shapes", "parts"),
    [
        (((2, 3), (7, 5)), "agree in d_mid … first has 3 … second has 7 (shape (7, 5))"),
        (((2, 3), (5, 3)), "second looks transposed … (..., d_mid, d_out) … nn.Linear"),
        (((3, 2), (3, 5)), "first looks transposed … (..., d_in, d_mid) … nn.Linear"),
        (((3,), (3, 5)), "first must have shape (..., d_in, d_mid), but has shape (3,)"),
        (((2, 3, 5), (3, 5, 7)), "head axes … first (2, 3, 5), second (3, 5, 7)"),
        (((2, 3), (3, 5), (5,), None), "agree in d_mid … first has 3 … b_first has 5"),
        (
            ((2, 3), (3, 5), None, (3,)),
            "agree in d_out … second has 5 … b_second has 3 (shape (3,)).",
        ),
        (((7, 2, 3), (7, 3, 5), (6, 3), None), "head axes … first (7, 2, 3) … b_first (6, 3)"),
    ],
)
def test_maps_that_do_not_meet(shapes, parts):
    first, second, b_first, b_second = (
        None if shape is None else np.ones(shape) for shape in (*shapes, None, None)[:4]
    )
    with refuses(parts):
        merge(first, second, b_first=b_first, b_second=b_second)


@pytest.mark.parametrize(
    ("maps", "parts"),
    [
        (
            {"P_Q": np.ones((6, 7))},
            "P_Q must have shape (d_in, 6) … (2, 6, 3) … (6, 7) … P_Q looks",
        ),
        ({"P_K": np.ones((5, 7))}, "P_K must have shape (d_in_k, 6) … W_K … (2, 6, 3) … (5, 7)"),
        ({"P_V": np.ones((2, 6, 6))}, "P_V must have shape (d_in_v, d_source_v) … (2, 6, 6)"),
        ({"P_Q": np.ones(6)}, "shape (d_in, d_model) … (6,). If it is a gain … P_Q=np.diag(gain)."),
        ({"P_Q": np.ones((6, 1))}, "has shape (6, 1). If it is a gain … P_Q=np.diag(gain)."),
        ({"c_V": np.ones(7)}, "c_V must have shape (6,) … W_V has shape (2, 6, 5) … (7,)"),
    ],
)
def test_projections_that_do_not_fold(maps, parts):
    with refuses(parts):
        fold(LAYER, **maps)


def test_bilinear_forms_of_affine_or_rotated_layers():
    with refuses("adds b_Q after W_Q … constant=True"):
        w_qk(LAYER)
    with refuses("adds b_V after W_V … constant=True"):
        w_vo(LAYER)
    rotated = dataclasses.replace(MultiHead.random(6, 2), between=(ROTATION,))
    for refusing in (w_qk, degrees_of_freedom, lambda mh: gauge(mh, A=np.eye(3))):
        with refuses("Rotation(angles (1,),  …  stands between "):
            refusing(rotated)
    with refuses("SoftCap(c=2.0) stands between the maps … whether b_K and b_V are free"):
        degrees_of_freedom(dataclasses.replace(LAYER, between=(SoftCap(2.0),)))
    with refuses("Clip(c=8.0) stands between W_V and W_O"):
        w_vo(dataclasses.replace(rotated, between=(Clip(8.0),)))


@pytest.mark.parametrize("rank", [0, 4, 2.0, True])
def test_rank_of_factors(rank):
    with refuses("rank must be a whole number from 1 to 3", "(3, 5)", f"is {rank}."):
        factor(np.ones((3, 5)), rank)


@pytest.mark.parametrize(
    ("matrices", "error", "parts"),
    [
        ({"A": np.ones((3, 3))}, ValueError, "A must be invertible"),
        ({"A": np.eye(5)}, ValueError, "A must have shape (3, 3) … W_Q has shape … (5, 5)"),
        ({"B": np.eye(3)}, ValueError, "B must have shape (5, 5) … W_V has shape … (3, 3)"),
        ({"B": np.ones((3, 5, 5))}, ValueError, "B must have shape (2, 5, 5) … W_K … (3, 5, 5)"),
        ({"A": np.ones((3, 5))}, ValueError, "A must have shape (3, 3) … (3, 5)"),
        (
            {"A": np.eye(3)[0]},
            ValueError,
            "A must have shape (h_kv, d_k, d_k) or (d_k, d_k), but has shape (3,)",
        ),
        ({"A": np.eye(3, dtype=int)}, TypeError, "A must hold floating-point numbers … int64"),
    ],
)
def test_matrices_of_a_gauge(matrices, error, parts):
    with refuses(parts, error=error):
        gauge(LAYER, **matrices)
