"""What pages say in a sentence, and what is no matter of one library: run on PyTorch."""

import numpy as np
import pytest
from arrays import E, H, called, close, loaded, torch_layer

from qkv import MultiHead, example, softmax


@pytest.mark.usefixtures("gradients")
def test_torch_heads_that_start_equal_stay_equal(torch, rng, x):
    """Heads that start equal, with equal parts of W_O, stay equal. If only W_O differs, they part.

    Covers: PyTorch's layer with two heads and without biases, five steps of SGD and of Adam.
    """
    words, wanted = torch.from_numpy(x), torch.from_numpy(rng.normal(size=x.shape))
    for optimiser in torch.optim.SGD, torch.optim.Adam:
        for equal in True, False:
            layer = torch_layer(rng, bias=False).requires_grad_(True)
            heads = layer.in_proj_weight.data.view(3, H, E // H, E)
            heads[:, 1] = heads[:, 0]
            if equal:
                parts = layer.out_proj.weight.data.view(E, H, E // H)
                parts[:, 1] = parts[:, 0]
            steps = optimiser(layer.parameters(), lr=0.01)
            for _ in range(5):
                steps.zero_grad()
                ((layer(words, words, words)[0] - wanted) ** 2).sum().backward()
                steps.step()
            assert close(heads[:, 1], heads[:, 0], 1e-9) == equal


def test_a_head_is_blind_to_448_of_512_directions_and_writes_into_64(torch):
    """A map from 512 numbers to 64 is blind to 448 directions; its part of W_O writes into 64."""
    mh = MultiHead.random(d_model=512, h=8)
    for W in (mh.W_Q[0], mh.W_K[0], mh.W_V[0], mh.W_O[0]):
        assert torch.linalg.matrix_rank(torch.tensor(W)) == 64 == 512 - 448


def test_a_softmax_over_queries_leaks_under_a_causal_mask(torch, rng):
    """Under a causal mask a softmax over queries has zeros in place, and later queries count."""
    scores, past = torch.from_numpy(rng.normal(size=(5, 5))), torch.ones(5, 5).tril().bool()
    other = scores.clone()
    other[4] += torch.from_numpy(rng.normal(size=5))  # another last query
    hidden, of_other = (each.masked_fill(~past, -torch.inf) for each in (scores, other))
    wrong, changed = hidden.softmax(dim=0), of_other.softmax(dim=0)
    right = hidden.softmax(dim=1)
    assert not wrong[~past].any()
    assert not right[~past].any()
    assert (wrong[:4] - changed[:4]).abs().max() > 0.01
    assert close(right[:4], of_other.softmax(dim=1)[:4])
    assert right.T[0, 4] > 0


def test_tensordot_pairs_each_sample_with_each(torch, rng):
    """`np.dot` and `tensordot` pair each sample with each; only equal ones are meant."""
    q, k = rng.normal(size=(2, 3, 5, 4))  # 3 samples of 5 words
    paired = np.dot(q, k.swapaxes(1, 2))
    assert paired.shape == (3, 5, 3, 5)
    in_torch = torch.tensordot(torch.from_numpy(q), torch.from_numpy(k), dims=([2], [2]))
    assert close(paired, np.tensordot(q, k, axes=([2], [2])))
    assert close(paired, in_torch)
    assert close(np.einsum("bqbk->bqk", paired), q @ k.swapaxes(1, 2))


def test_keys_are_no_basis_in_which_scores_are_coordinates(torch):
    """Five keys of 3 numbers are no basis, so a query's scores are no coordinates."""
    Q, K = torch.tensor(example.Q[0]), torch.tensor(example.K[0])
    products = K @ K.T
    assert not close(products, torch.diag(torch.diag(products)), 0.1)
    assert torch.linalg.matrix_rank(K) == 3 < len(K)
    assert not close(Q @ K.T @ K, Q, 0.1)


def test_a_gaussian_kernel_gives_the_weights_of_a_distance_and_maps_make_it_asymmetric(torch):
    """Nadaraya-Watson with a Gaussian kernel has the weights of distances; W_Q and W_K skew it."""
    Q, K, X = (torch.tensor(each) for each in (example.Q[0], example.K[0], example.X))
    apart = torch.cdist(Q, K) ** 2
    kernel = torch.exp(-apart / 2 / 3**0.5)
    assert close(kernel / kernel.sum(dim=1, keepdim=True), (-apart / 2 / 3**0.5).softmax(dim=1))
    assert not close(kernel, kernel.T, 0.1)
    assert close(torch.cdist(X, X), torch.cdist(X, X).T)


def test_added_positions_give_a_score_four_terms_and_values_theirs(torch, rng, x):
    """With words as rows and positions p added, a score has four terms.

    Covers: PyTorch's layer without biases.
    """
    layer = torch_layer(rng, bias=False)
    mh, p = loaded(layer), rng.normal(size=x.shape)
    Q, K, _ = mh.project(x + p)
    W_QK, x_, p_ = mh.W_Q @ mh.W_K.swapaxes(1, 2), x[:, None], p[:, None]
    terms = sum(a @ W_QK @ b.swapaxes(-1, -2) for a in (x_, p_) for b in (x_, p_))
    assert close(terms, Q @ K.swapaxes(-1, -2))
    whole, without = (called(layer, x + p, x + p, values)[0] for values in (x + p, x))
    left_out = (softmax(terms / mh.d_k**0.5) @ p_ @ mh.W_V @ mh.W_O).sum(axis=1)
    assert close(whole - without, left_out)


def test_graph_attention_gives_each_query_the_same_order_of_keys(torch, rng):
    """In GAT's score each query has the keys in one order; with tanh before v it need not.

    Covers: five random words.
    """
    words = torch.from_numpy(rng.normal(size=(5, 10)))  # after the one map for both sides
    asks, answers = (words @ torch.from_numpy(part) for part in rng.normal(size=(2, 10)))
    gat = torch.nn.functional.leaky_relu(asks[:, None] + answers, 0.2)
    additive = torch.tanh(words[:, None] + words) @ torch.from_numpy(rng.normal(size=10))
    assert len({*map(str, gat.argsort(dim=1))}) == 1
    assert len({*map(str, additive.argsort(dim=1))}) > 1


@pytest.mark.usefixtures("gradients")
def test_three_adapters_of_rank_r_are_one_of_rank_3r(torch, rng):
    """Three LoRA adapters of rank r in a fused weight are one of rank 3r, with B block-diagonal."""
    A, B = (torch.from_numpy(rng.normal(size=size)) for size in ((3, 2, 6), (3, 4, 2)))
    blocks, stacked = torch.block_diag(*B), A.reshape(6, 6)
    assert close(blocks @ stacked, (B @ A).reshape(12, 6))
    assert torch.linalg.matrix_rank(blocks @ stacked) == 3 * 2
    wanted = torch.from_numpy(rng.normal(size=(12, 6)))
    for start, moves in (0.0, False), (1.0, True):
        down, up = (stacked * start).requires_grad_(), (0 * blocks).requires_grad_()
        ((up @ down - wanted) ** 2).sum().backward()
        assert bool(up.grad.any()) == moves
        assert not down.grad.any()


@pytest.mark.parametrize(("order", "right"), [("head by head", True), ("in thirds", False)])
def test_an_even_cut_of_rows_that_are_head_by_head_keeps_heads_whole(torch, order, right):
    """The first half of (h, 3, d_k) is whole heads; of (3, h, d_k) it is queries and keys."""
    rows = torch.arange(12).view(3, 4)  # part, head
    first, _ = (rows.T if order == "head by head" else rows).reshape(12).chunk(2)
    assert ({*first.tolist()} == {*rows[:, :2].reshape(6).tolist()}) == right


def test_a_norm_over_all_heads_needs_the_squares_of_all_devices(torch, rng):
    """An RMS norm over all heads, cut over two devices, divides by the squares of both halves."""
    q = torch.from_numpy(rng.normal(size=8))
    normed, halves = torch.nn.functional.rms_norm(q, (8,), eps=0.0), q.chunk(2)
    squares = sum((half**2).sum() for half in halves)
    assert close(torch.cat([half / (squares / 8).sqrt() for half in halves]), normed)
    alone = [torch.nn.functional.rms_norm(half, (4,), eps=0.0) for half in halves]
    assert not close(torch.cat(alone), normed, 1e-3)
