"""Wrong layers as readers write them in PyTorch, and what each has to be named as.

They were written before a look at the mistakes that `qkv.diagnose` knows, and nothing here is taken
from there: whoever adds a mistake may add a layer, and no layer is bent to what is found.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as PyTorch users call it

from qkv import MultiHead

WRONG = {}  # name of a layer to its function, its sizes, its mask and its mistakes


class Linears(nn.Module):
    """The four maps as a reader stores them."""

    def __init__(self, d_model, h, *, d_k=None, h_kv=None, bias=False):
        super().__init__()
        self.h, self.h_kv, self.d_k, self.d_model = h, h_kv or h, d_k or d_model // h, d_model
        self.q = nn.Linear(d_model, h * self.d_k, bias=bias)
        self.k = nn.Linear(d_model, self.h_kv * self.d_k, bias=bias)
        self.v = nn.Linear(d_model, self.h_kv * self.d_k, bias=bias)
        self.o = nn.Linear(h * self.d_k, d_model, bias=bias)
        for parameter in self.double().parameters():
            nn.init.normal_(parameter, std=1.3 * d_model**-0.5)

    def multi_head(self):
        """The same weights as qkv has them."""
        numbers = {name: each.detach().numpy() for name, each in self.named_parameters()}
        parts = {}
        for letter, h in (("Q", self.h), ("K", self.h_kv), ("V", self.h_kv)):
            name = letter.lower()
            cut = numbers[f"{name}.weight"].reshape(h, self.d_k, -1)
            parts[f"W_{letter}"] = np.ascontiguousarray(cut.swapaxes(1, 2))
            if f"{name}.bias" in numbers:
                parts[f"b_{letter}"] = numbers[f"{name}.bias"].reshape(h, -1)
        parts["W_O"] = numbers["o.weight"].T.reshape(self.h, self.d_k, -1)
        return MultiHead(**parts, b_O=numbers.get("o.bias"))


def wrong(*named, cross=False, mask=None, **sizes):
    """A layer that has to be named so: the names of its mistakes, then what it is tried with."""

    def register(layer):
        WRONG[layer.__name__] = (layer, named, cross, mask, sizes)
        return layer

    return register


def tried(name):
    """What `diagnose` is asked about a layer, and its mistakes."""
    layer, named, cross, mask, sizes = WRONG[name]
    sizes = {"n": 7, "batch": 2} | sizes
    shape = (sizes.pop("batch"), sizes.pop("n"), sizes["d_model"])
    torch.manual_seed(0)
    L = Linears(**sizes)
    sources = [torch.randn(shape, dtype=torch.float64) for _ in range(1 + cross)]
    with torch.no_grad():
        output = layer(L, *sources).numpy()
    given = (L.multi_head(), output, *(X.numpy() for X in sources))
    return given, None if mask is None else mask(sources[0]).numpy(), named


def split(x, h):
    return x.view(*x.shape[:2], h, -1).transpose(1, 2)


def join(x):
    return x.transpose(1, 2).flatten(2)


def qkv_of(L, x, memory=None):
    memory = x if memory is None else memory
    return split(L.q(x), L.h), split(L.k(memory), L.h_kv), split(L.v(memory), L.h_kv)


def attended(L, q, k, v, mask=None):
    """The joined heads, where nothing up to here is wrong but what is given."""
    s = q @ k.transpose(-2, -1) / math.sqrt(L.d_k)
    s = s if mask is None else s.masked_fill(~mask, -1e9)
    return join(s.softmax(-1) @ v)


def causal(x):
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()


def padding(x):
    keep = torch.ones(x.shape[0], 1, 1, x.shape[1], dtype=torch.bool)
    keep[0, ..., -2:] = False
    keep[1, ..., -3:] = False
    return keep


# One mistake


@wrong("softmax-over-queries", d_model=16, h=4)
def softmax_rows(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) / math.sqrt(L.d_k)
    return L.o(join(F.softmax(s, dim=-2) @ v))


@wrong("scale-missing", d_model=32, h=4, mask=causal)
def no_scale(L, x):
    q, k, v = qkv_of(L, x)
    s = (q @ k.transpose(-2, -1)).masked_fill(~causal(x), -torch.inf)
    return L.o(join(s.softmax(-1) @ v))


@wrong("scale-by-root-of-d_model", d_model=16, h=2)
def scale_d_model(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) * L.d_model**-0.5
    return L.o(join(s.softmax(-1) @ v))


@wrong("scale-twice-or-by-d_k", d_model=64, h=8, n=10)
def scale_d_k(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) / L.d_k
    return L.o(join(s.softmax(-1) @ v))


@wrong("softmax-twice", d_model=16, h=4)
def softmax_twice(L, x):
    q, k, v = qkv_of(L, x)
    a = (q @ k.transpose(-2, -1) / math.sqrt(L.d_k)).softmax(-1)
    return L.o(join(F.softmax(a, dim=-1) @ v))


@wrong("heads-split-by-view", d_model=16, h=4, n=6)
def split_by_view(L, x):
    b, n, _ = x.shape
    q, k, v = (m(x).view(b, L.h, n, L.d_k) for m in (L.q, L.k, L.v))
    return L.o(attended(L, q, k, v))


@wrong("heads-joined-by-view", d_model=24, h=4, n=9, mask=causal)
def join_by_view(L, x):
    q, k, v = qkv_of(L, x)
    s = (q @ k.transpose(-2, -1) / math.sqrt(L.d_k)).masked_fill(~causal(x), -1e9)
    return L.o((s.softmax(-1) @ v).reshape(x.shape[0], x.shape[1], -1))


@wrong("heads-interleaved", d_model=20, h=4)
def heads_last(L, x):
    b, n, _ = x.shape
    q, k, v = (m(x).view(b, n, L.d_k, L.h).permute(0, 3, 1, 2) for m in (L.q, L.k, L.v))
    return L.o(attended(L, q, k, v))


@wrong("heads-not-split", d_model=16, h=4)
def one_head(L, x):
    q, k, v = L.q(x), L.k(x), L.v(x)
    s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return L.o(s.softmax(-1) @ v)


@wrong("mask-reversed", d_model=16, h=4, mask=padding)
def mask_inverted(L, x):
    q, k, v = qkv_of(L, x)
    return L.o(attended(L, q, k, v, ~padding(x)))  # True hides there


@wrong("mask-after-the-softmax", d_model=32, h=4, mask=causal)
def mask_after(L, x):
    q, k, v = qkv_of(L, x)
    a = (q @ k.transpose(-2, -1) / math.sqrt(L.d_k)).softmax(-1)
    return L.o(join(a * causal(x) @ v))


@wrong("mask-ignored", d_model=48, h=6, h_kv=2, mask=causal)
def mask_forgotten(L, x):
    q, k, v = qkv_of(L, x)
    k, v = (t.repeat_interleave(L.h // L.h_kv, dim=1) for t in (k, v))
    return L.o(attended(L, q, k, v))


@wrong("mask-of-ones-added", d_model=16, h=2, mask=causal)
def mask_added(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) / math.sqrt(L.d_k) + causal(x).to(x.dtype)
    return L.o(join(s.softmax(-1) @ v))


@wrong("causal-mask-sees-one-token-ahead", d_model=16, h=4, bias=True, mask=causal)
def causal_off_by_one(L, x):
    q, k, v = qkv_of(L, x)
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(diagonal=2)
    return L.o(attended(L, q, k, v, ~future))


@wrong("mask-turned", d_model=16, h=4, mask=padding)
def mask_rows(L, x):
    q, k, v = qkv_of(L, x)
    return L.o(attended(L, q, k, v, padding(x).transpose(-2, -1)))


@wrong("thirds-read-as-k-q-v", d_model=24, h=4)
def fused_order(L, x):
    fused = torch.cat([L.q.weight, L.k.weight, L.v.weight])
    k, q, v = (split(t, L.h) for t in (x @ fused.T).chunk(3, dim=-1))
    return L.o(attended(L, q, k, v))


@wrong("thirds-read-head-by-head", d_model=24, h=4)
def fused_per_head(L, x):
    fused = torch.cat([L.q.weight, L.k.weight, L.v.weight])
    b, n, _ = x.shape
    q, k, v = (x @ fused.T).view(b, n, L.h, 3, L.d_k).permute(3, 0, 2, 1, 4)
    return L.o(attended(L, q, k, v))


@wrong("W_K-used-for-V", d_model=16, h=2)
def v_from_wk(L, x):
    q, k, v = split(L.q(x), L.h), split(L.k(x), L.h), split(L.k(x), L.h)
    return L.o(attended(L, q, k, v))


@wrong("output-not-projected", d_model=32, h=8)
def no_output_map(L, x):
    q, k, v = qkv_of(L, x)
    return attended(L, q, k, v)


@wrong("W_O-turned", d_model=16, h=4)
def output_transposed(L, x):
    q, k, v = qkv_of(L, x)
    return attended(L, q, k, v) @ L.o.weight


@wrong("W_Q-and-W_K-and-W_V-turned", d_model=32, h=4)
def stored_transposed(L, x):
    q, k, v = (split(x @ m.weight, L.h) for m in (L.q, L.k, L.v))
    return L.o(attended(L, q, k, v))


@wrong("b_Q-and-b_K-and-b_V-left-out", d_model=24, h=4, bias=True)
def no_biases(L, x):
    q, k, v = (split(x @ m.weight.T, L.h) for m in (L.q, L.k, L.v))
    return L.o(attended(L, q, k, v))


@wrong("b_O-left-out", d_model=24, h=4, bias=True, mask=causal)
def no_output_bias(L, x):
    q, k, v = qkv_of(L, x)
    return attended(L, q, k, v, causal(x)) @ L.o.weight.T


@wrong("groups-tiled", d_model=32, h=8, h_kv=2)
def grouped_tiled(L, x):
    q, k, v = qkv_of(L, x)
    k, v = (t.repeat(1, L.h // L.h_kv, 1, 1) for t in (k, v))
    return L.o(attended(L, q, k, v))


@wrong("X_Q-used-for-X_V", d_model=16, h=4, cross=True)
def values_from_target(L, x, memory):
    q, k, v = split(L.q(x), L.h), split(L.k(memory), L.h), split(L.v(x), L.h)
    return L.o(attended(L, q, k, v))


@wrong("X_Q-and-the-others-exchanged", d_model=24, h=3, cross=True)
def sources_exchanged(L, x, memory):
    q, k, v = qkv_of(L, memory, x)
    return L.o(attended(L, q, k, v))


@wrong("queries-and-keys-and-values-projected-twice", d_model=16, h=4)
def projected_twice(L, x):
    q, k, v = (split(m(m(x)), L.h) for m in (L.q, L.k, L.v))
    return L.o(attended(L, q, k, v))


@wrong("residual-added", d_model=16, h=4, bias=True)
def residual(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) / math.sqrt(L.d_k)
    return x + L.o(join(s.softmax(-1) @ v))


@wrong("layer-norm-on-the-sources", d_model=32, h=4)
def norm_before(L, x):
    q, k, v = qkv_of(L, F.layer_norm(x, (L.d_model,)))
    return L.o(attended(L, q, k, v))


@wrong("dropout", d_model=32, h=4, n=12)  # it differs from call to call: it is only asked about
def dropout_on(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) / math.sqrt(L.d_k)
    return L.o(join(F.dropout(s.softmax(-1), 0.1) @ v))


# Two common ones


@wrong("scale-missing", "mask-ignored", d_model=16, h=4, mask=causal)
def two_scale_mask(L, x):
    q, k, v = qkv_of(L, x)
    return L.o(join((q @ k.transpose(-2, -1)).softmax(-1) @ v))


@wrong("softmax-over-queries", "scale-by-root-of-d_model", d_model=32, h=4)
def two_axis_scale(L, x):
    q, k, v = qkv_of(L, x)
    s = q @ k.transpose(-2, -1) / math.sqrt(L.d_model)
    return L.o(join(F.softmax(s, dim=-2) @ v))


@wrong("heads-split-by-view", "output-not-projected", d_model=24, h=4)
def two_split_output(L, x):
    b, n, _ = x.shape
    q, k, v = (m(x).view(b, L.h, n, L.d_k) for m in (L.q, L.k, L.v))
    return attended(L, q, k, v)


@wrong("mask-reversed", "heads-joined-by-view", d_model=16, h=2, mask=padding)
def two_mask_join(L, x):
    q, k, v = qkv_of(L, x)
    s = (q @ k.transpose(-2, -1) / math.sqrt(L.d_k)).masked_fill(padding(x), -torch.inf)
    return L.o((s.softmax(-1) @ v).reshape(x.shape))


@wrong("W_Q-and-W_K-and-W_V-turned", "b_O-left-out", d_model=16, h=4, bias=True)
def two_transposed_bias(L, x):
    q, k, v = (split(x @ m.weight + m.bias, L.h) for m in (L.q, L.k, L.v))
    return attended(L, q, k, v) @ L.o.weight.T


@wrong("groups-tiled", "mask-after-the-softmax", d_model=32, h=8, h_kv=2, mask=causal)
def two_tiled_mask(L, x):
    q, k, v = qkv_of(L, x)
    k, v = (t.repeat(1, L.h // L.h_kv, 1, 1) for t in (k, v))
    a = (q @ k.transpose(-2, -1) / math.sqrt(L.d_k)).softmax(-1)
    return L.o(join(a * causal(x) @ v))
