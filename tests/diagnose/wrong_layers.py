"""Wrong layers as readers write them in PyTorch, and what each has to be named as.

They were written before a look at the mistakes that `qkv.diagnose` knows, and nothing here is taken
from there: whoever adds a mistake may add a layer, and no layer is bent to what is found.
"""

import inspect
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as PyTorch users call it

from qkv import MultiHead

WRONG = {}  # of each layer, by the names of its mistakes: its function, its mask and its sizes


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


def wrong(*named, layer, mask=None, **sizes):
    """A layer that has to be named so: the names of its mistakes, then what it is tried with."""
    WRONG[" and ".join(named)] = (layer, named, mask, {"d_model": 16, "h": 4} | sizes)


def tried(name):
    """What `diagnose` is asked about a layer, and its mistakes."""
    layer, named, mask, sizes = WRONG[name]
    torch.manual_seed(0)
    L, shape = Linears(**sizes), (2, 7, sizes["d_model"])
    _, *names = inspect.signature(layer).parameters
    sources = [torch.randn(shape, dtype=torch.float64) for _ in names]
    with torch.no_grad():
        output = layer(L, *sources).numpy()
    given = (L.multi_head(), output, *(X.numpy() for X in sources))
    return given, None if mask is None else mask(sources[0]).numpy(), named


# The steps of a layer, each right where nothing else is given


def split(x, h):
    return x.view(*x.shape[:2], h, -1).transpose(1, 2)


def join(heads):
    return heads.transpose(1, 2).flatten(2)


def heads_of(L, x, memory=None, apply=lambda linear, x: linear(x)):
    """Queries, keys and values; `apply` is how a source meets a map."""
    memory = x if memory is None else memory
    maps = (L.q, x, L.h), (L.k, memory, L.h_kv), (L.v, memory, L.h_kv)
    return [split(apply(linear, source), h) for linear, source, h in maps]


def attend(L, q, k, v, mask=None, *, root=None, weigh=lambda s: s.softmax(-1), join=join, out=None):
    """The output: `root` divides scores, `weigh` makes weights of them, `out` is the last map."""
    s = q @ k.transpose(-2, -1) / (root or math.sqrt(L.d_k))
    s = s if mask is None else s.masked_fill(~mask, -1e9)
    return (out or L.o)(join(weigh(s) @ v))


def layer(L, x, mask=None, **steps):
    return attend(L, *heads_of(L, x), mask, **steps)


def grouped(L, x, repeated, mask=None, **steps):
    q, k, v = heads_of(L, x)
    return attend(L, q, repeated(k), repeated(v), mask, **steps)


def tiled(t):
    return t.repeat(1, 4, 1, 1)


def by_view(L, x):
    b, n, _ = x.shape
    return [m(x).view(b, L.h, n, L.d_k) for m in (L.q, L.k, L.v)]


def heads_last(L, x):
    b, n, _ = x.shape
    return [m(x).view(b, n, L.d_k, L.h).permute(0, 3, 1, 2) for m in (L.q, L.k, L.v)]


def fused(L, x):
    return x @ torch.cat([L.q.weight, L.k.weight, L.v.weight]).T


def thirds_as_k_q_v(L, x):
    k, q, v = (split(t, L.h) for t in fused(L, x).chunk(3, dim=-1))
    return attend(L, q, k, v)


def thirds_per_head(L, x):
    b, n, _ = x.shape
    return attend(L, *fused(L, x).view(b, n, L.h, 3, L.d_k).permute(3, 0, 2, 1, 4))


def one_head(L, x):
    return attend(L, L.q(x), L.k(x), L.v(x), root=math.sqrt(L.d_model), join=unchanged)


def values_from(L, v, x, memory):
    q, k, _ = heads_of(L, x, memory)
    return attend(L, q, k, v)


def unchanged(x):
    return x


def turned(linear, x):
    return x @ linear.weight


def unbiased(linear, x):
    return x @ linear.weight.T


def over_queries(s):
    return F.softmax(s, dim=-2)


def causal(x):
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()


def one_ahead(x):
    return ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(diagonal=2)


def padding(x):
    keep = torch.ones(x.shape[0], 1, 1, x.shape[1], dtype=torch.bool)
    keep[0, ..., -2:] = False
    keep[1, ..., -3:] = False
    return keep


def masked_after(mask):
    return lambda s: s.softmax(-1) * mask


# One mistake: the softmax, the scale, the mask

wrong("softmax-over-queries", layer=lambda L, x: layer(L, x, weigh=over_queries))
wrong("softmax-twice", layer=lambda L, x: layer(L, x, weigh=lambda s: s.softmax(-1).softmax(-1)))
wrong("scale-missing", layer=lambda L, x: layer(L, x, causal(x), root=1), mask=causal)
wrong("scale-by-root-of-d_model", layer=lambda L, x: layer(L, x, root=L.d_model**0.5), h=2)
wrong("scale-twice-or-by-d_k", layer=lambda L, x: layer(L, x, root=L.d_k), d_model=64, h=8)
wrong("mask-reversed", layer=lambda L, x: layer(L, x, ~padding(x)), mask=padding)
wrong("mask-turned", layer=lambda L, x: layer(L, x, padding(x).transpose(-2, -1)), mask=padding)
wrong("causal-mask-sees-one-token-ahead", layer=lambda L, x: layer(L, x, one_ahead(x)), mask=causal)
wrong(
    "mask-after-the-softmax",
    layer=lambda L, x: layer(L, x, weigh=masked_after(causal(x))),
    mask=causal,
)
wrong(
    "mask-of-ones-added",
    layer=lambda L, x: layer(L, x, weigh=lambda s: (s + causal(x).to(x.dtype)).softmax(-1)),
    mask=causal,
    h=2,
)
wrong(
    "mask-ignored",
    layer=lambda L, x: grouped(L, x, lambda t: t.repeat_interleave(3, dim=1)),
    mask=causal,
    d_model=48,
    h=6,
    h_kv=2,
)

# The heads and the stored weights

wrong("heads-split-by-view", layer=lambda L, x: attend(L, *by_view(L, x)))
wrong("heads-interleaved", layer=lambda L, x: attend(L, *heads_last(L, x)))
wrong("heads-not-split", layer=one_head)
wrong(
    "heads-joined-by-view",
    layer=lambda L, x: layer(L, x, causal(x), join=lambda heads: heads.reshape(x.shape)),
    mask=causal,
)
wrong("thirds-read-as-k-q-v", layer=thirds_as_k_q_v)
wrong("thirds-read-head-by-head", layer=thirds_per_head)
wrong("groups-tiled", layer=lambda L, x: grouped(L, x, tiled), d_model=32, h=8, h_kv=2)
wrong("W_K-used-for-V", layer=lambda L, x: values_from(L, split(L.k(x), L.h), x, x), h=2)
wrong("W_O-turned", layer=lambda L, x: layer(L, x, out=lambda heads: heads @ L.o.weight))
wrong("output-not-projected", layer=lambda L, x: layer(L, x, out=unchanged), h=8)
wrong("W_Q-and-W_K-and-W_V-turned", layer=lambda L, x: attend(L, *heads_of(L, x, apply=turned)))
wrong(
    "b_Q-and-b_K-and-b_V-left-out",
    layer=lambda L, x: attend(L, *heads_of(L, x, apply=unbiased)),
    bias=True,
)
wrong(
    "b_O-left-out",
    layer=lambda L, x: layer(L, x, causal(x), out=lambda heads: unbiased(L.o, heads)),
    mask=causal,
    bias=True,
)

# The sources

wrong("X_Q-used-for-X_V", layer=lambda L, x, y: values_from(L, split(L.v(x), L.h), x, y))
wrong("X_Q-and-the-others-exchanged", layer=lambda L, x, y: attend(L, *heads_of(L, y, x)))
wrong(
    "queries-and-keys-and-values-projected-twice",
    layer=lambda L, x: attend(L, *heads_of(L, x, apply=lambda linear, x: linear(linear(x)))),
)
wrong("residual-added", layer=lambda L, x: x + layer(L, x), bias=True)
wrong("layer-norm-on-the-sources", layer=lambda L, x: layer(L, F.layer_norm(x, (L.d_model,))))
# It differs from call to call, so it is only asked about.
wrong("dropout", layer=lambda L, x: layer(L, x, weigh=lambda s: F.dropout(s.softmax(-1), 0.1)))

# Two common ones

wrong("scale-missing", "mask-ignored", layer=lambda L, x: layer(L, x, root=1), mask=causal)
wrong(
    "softmax-over-queries",
    "scale-by-root-of-d_model",
    layer=lambda L, x: layer(L, x, weigh=over_queries, root=L.d_model**0.5),
)
wrong(
    "heads-split-by-view",
    "output-not-projected",
    layer=lambda L, x: attend(L, *by_view(L, x), out=unchanged),
)
wrong(
    "mask-reversed",
    "heads-joined-by-view",
    layer=lambda L, x: layer(L, x, ~padding(x), join=lambda heads: heads.reshape(x.shape)),
    mask=padding,
    h=2,
)
wrong(
    "W_Q-and-W_K-and-W_V-turned",
    "b_O-left-out",
    layer=lambda L, x: attend(
        L,
        *heads_of(L, x, apply=lambda linear, x: turned(linear, x) + linear.bias),
        out=lambda heads: unbiased(L.o, heads),
    ),
    bias=True,
)
wrong(
    "groups-tiled",
    "mask-after-the-softmax",
    layer=lambda L, x: grouped(L, x, tiled, weigh=masked_after(causal(x))),
    mask=causal,
    h=8,
    h_kv=2,
)
