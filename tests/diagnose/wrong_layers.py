"""Wrong layers as readers write them in PyTorch; nothing here is taken from `qkv.mistakes`.

`WRONG` maps the name of a mix-up to a function of a layer's parameters, its sources and a mask.
Where such code stops with an error, the mix-up does not exist at these sizes.
"""

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as PyTorch users call it


@dataclass
class Layer:
    """Parameters in PyTorch's manner, (out, in), and the steps, each of which may be wrong."""

    w: dict
    b: dict
    h: int
    h_kv: int
    d_k: int
    d_v: int

    @classmethod
    def of(cls, mh):
        def packed(letter):
            per_head = torch.from_numpy(getattr(mh, f"W_{letter}").copy())
            if letter == "O":
                return per_head.flatten(0, 1).T.contiguous()
            return torch.cat([*per_head], dim=1).T.contiguous()

        def bias(letter):
            b = getattr(mh, f"b_{letter}")
            return None if b is None else torch.from_numpy(b.copy()).flatten()

        letters = "QKVO"
        w, b = {x: packed(x) for x in letters}, {x: bias(x) for x in letters}
        return cls(w, b, mh.h, mh.h_kv, mh.d_k, mh.d_v)

    def but(self, w=(), b=()):
        return replace(self, w={**self.w, **dict(w)}, b={**self.b, **dict(b)})

    def linear(self, letter, x):
        return F.linear(x, self.w[letter], self.b[letter])

    def heads(self, letter):
        return self.h if letter == "Q" else self.h_kv


def split(x, h):
    return x.unflatten(-1, (h, -1)).transpose(-3, -2)


def merge(x):
    return x.transpose(-3, -2).flatten(-2)


def hide(s, mask):
    return s if mask is None else s.masked_fill(~mask, -torch.inf)


def run(p, xs, mask, **other):
    """Multi-head attention, in which some steps are other ones."""
    step = STEPS | other
    xs = step["sources"](xs)
    q, k, v = (step["project"](p, letter, x) for letter, x in zip("QKV", xs, strict=True))
    q, k, v = (step[f"split_{x}"](t, p.heads(x)) for x, t in zip("QKV", (q, k, v), strict=True))
    k, v = step["group"](p, k, v)
    s = step["scores"](q, k)
    s = step["scale"](s, q)
    a = step["weights"](s, step["allowed"](mask) if mask is not None else None)
    return step["out"](p, step["merge"](step["sum"](a, v)), xs)


STEPS = {
    "sources": lambda xs: xs,
    "project": lambda p, letter, x: p.linear(letter, x),
    "split_Q": split,
    "split_K": split,
    "split_V": split,
    "group": lambda p, k, v: (
        k.repeat_interleave(p.h // p.h_kv, dim=-3),
        v.repeat_interleave(p.h // p.h_kv, dim=-3),
    ),
    "scores": lambda q, k: q @ k.mT,
    "scale": lambda s, q: s / math.sqrt(q.shape[-1]),
    "allowed": lambda m: m,
    "weights": lambda s, m: hide(s, m).softmax(-1),
    "sum": lambda a, v: a @ v,
    "merge": merge,
    "out": lambda p, o, xs: p.linear("O", o),
}
WRONG = {}


def wrong(name, **steps):
    """A layer that has these steps."""
    WRONG[name] = lambda p, xs, mask: run(p, xs, mask, **steps)


def layer(name):
    """A layer that is written out."""

    def add(function):
        WRONG[name] = function
        return function

    return add


def parameters(name, change):
    """A right layer with other parameters."""
    WRONG[name] = lambda p, xs, mask: run(change(p), xs, mask)


def refuse_mask(m):
    if m is not None and not m.all():
        raise ValueError("this code knows no mask")


def square(w):
    if w.shape[0] != w.shape[1]:
        raise ValueError("not square")
    return w


def turned(letters):
    return lambda p: p.but(w={x: square(p.w[x]).T for x in letters})


# Weights and biases

for letters in ("Q", "K", "V", "O", "QKV", "QKVO"):
    parameters("-and-".join(f"W_{x}" for x in letters) + "-turned", turned(letters))
for letters in ("Q", "V", "O", "QKV", "QKVO"):  # b_K changes nothing
    parameters(
        "-and-".join(f"b_{x}" for x in letters) + "-left-out",
        lambda p, letters=letters: p.but(b=dict.fromkeys(letters)),
    )


def reshaped(letter):
    def change(p):
        w = p.w[letter]
        if w.shape[0] == w.shape[1]:
            raise ValueError("square")
        return p.but(w={letter: w.reshape(w.shape[1], w.shape[0]).T})

    return change


for x in "QKVO":
    parameters(f"W_{x}-reshaped-to-fit", reshaped(x))
for used, instead in itertools.permutations("QKV", 2):
    parameters(
        f"W_{used}-used-for-{instead}",
        lambda p, used=used, instead=instead: p.but(w={instead: p.w[used]}, b={instead: p.b[used]}),
    )


def biased(p):
    if p.b["Q"] is None:
        raise ValueError("no biases")
    return p


def chunked(order):
    """One fused Linear, whose output is cut into chunks that have these names."""

    def fused(p, xs, mask):
        weight = torch.cat([p.w[x] for x in "QKV"])
        bias = None if p.b["Q"] is None else torch.cat([p.b[x] for x in "QKV"])
        ws = dict(zip(order, weight.chunk(3), strict=True))
        bs = dict.fromkeys("QKV") if bias is None else dict(zip(order, bias.chunk(3), strict=True))
        return run(p.but(w=ws, b=bs), xs, mask)

    return fused


for order in ("KQV", "QVK", "VKQ", "KVQ", "VQK"):
    WRONG[f"thirds-read-as-{'-'.join(order.lower())}"] = chunked(order)
for one, two in ("QK", "KV", "QV"):
    parameters(
        f"W_{one}-and-W_{two}-exchanged-without-biases",
        lambda p, one=one, two=two: biased(p).but(w={one: p.w[two], two: p.w[one]}),
    )
    parameters(
        f"b_{one}-and-b_{two}-exchanged",
        lambda p, one=one, two=two: p.but(b={one: p.b[two], two: p.b[one]}),
    )


def fused(letters, stored, read):
    """A fused weight, stored with its output axes in one order and read in another."""

    def misread(p):
        h = p.heads(letters[-1])
        sizes = {"x": len(letters), "h": h, "d": p.w["K"].shape[0] // h}

        def again(arrays):
            stack = torch.stack([a.unflatten(0, (h, -1)) for a in arrays])  # x h d ...
            stack = stack.permute(*("xhd".index(axis) for axis in stored), *range(3, stack.ndim))
            packed = stack.flatten(0, 2)
            cut = packed.unflatten(0, tuple(sizes[axis] for axis in read))
            cut = cut.permute(*(read.index(axis) for axis in "xhd"), *range(3, cut.ndim))
            return dict(zip(letters, cut.flatten(1, 2), strict=True))

        b = {} if p.b["K"] is None else again([p.b[x] for x in letters])
        return p.but(w=again([p.w[x] for x in letters]), b=b)

    return misread


for letters, part in (("QKV", "thirds"), ("KV", "halves")):
    parameters(f"{part}-read-head-by-head", fused(letters, "xhd", "hxd"))
    parameters(f"head-by-head-read-as-{part}", fused(letters, "hxd", "xhd"))
    for read in ("dxh", "dhx", "hdx"):
        said = "-".join(read.replace("x", str(len(letters))))
        parameters(f"{part}-read-as-{said}", fused(letters, "xhd", read))


def per_head(cut):
    """W_Q, W_K and W_V as (in, heads · width), cut into heads in some way."""

    def project(p, letter, x):
        w, h = p.w[letter].T.contiguous(), p.heads(letter)
        projected = torch.cat([x @ cut(w, h)[i] for i in range(h)], dim=-1)
        return projected if p.b[letter] is None else projected + p.b[letter]

    return project


wrong("weights-reshaped-into-heads", project=per_head(lambda w, h: w.reshape(h, len(w), -1)))


@layer("weights-reshaped-out-of-heads")
def _(p, xs, mask):
    ws = {}
    for letter in "QKV":
        w = p.w[letter]  # (heads · width, in)
        stacked = w.unflatten(0, (p.heads(letter), -1)).mT.contiguous()  # heads, in, width
        ws[letter] = stacked.reshape(w.shape[1], w.shape[0]).T
    return run(p.but(w=ws), xs, mask)


@layer("first-W_O-used-for-all")
def _(p, xs, mask):
    return run(p.but(w={"O": p.w["O"][:, : p.d_v].repeat(1, p.h)}), xs, mask)


def first(x, h):
    return split(x, h)[..., [0] * h, :, :]


wrong("first-head-used-for-all-queries", split_Q=first)
wrong("first-head-used-for-all-keys", split_K=first)
wrong("first-head-used-for-all-values", split_V=first)
wrong("first-head-used-for-all", split_Q=first, split_K=first, split_V=first)


@layer("b_O-added-by-each-head")
def _(p, xs, mask):
    def out(p, o, xs):
        w = p.w["O"].split(p.d_v, dim=1)
        return sum(F.linear(o.split(p.d_v, -1)[i], w[i], p.b["O"]) for i in range(p.h))

    return run(p, xs, mask, out=out)


@layer("b_Q-added-after-scaling")
def _(p, xs, mask):
    def project(p, letter, x):
        if letter != "Q":
            return p.linear(letter, x)
        return x @ p.w["Q"].T / math.sqrt(p.d_k) + p.b["Q"]

    return run(p, xs, mask, project=project, scale=lambda s, q: s)


def again(letters):
    return lambda p: p.but(b={x: p.b[x] + p.b[x] for x in letters})


parameters("b_Q-and-b_K-and-b_V-added-twice", again("QKV"))
parameters("b_O-added-twice", again("O"))

# Sources and projections

wrong("X_K-and-X_V-exchanged", sources=lambda xs: (xs[0], xs[2], xs[1]))
wrong("X_Q-and-X_K-exchanged", sources=lambda xs: (xs[1], xs[0], xs[2]))
wrong("X_Q-and-the-others-exchanged", sources=lambda xs: (xs[1], xs[0], xs[0]))
wrong("X_Q-used-for-X_K", sources=lambda xs: (xs[0], xs[0], xs[2]))
wrong("X_Q-used-for-X_V", sources=lambda xs: (xs[0], xs[1], xs[0]))
wrong("X_Q-used-for-X_K-and-X_V", sources=lambda xs: (xs[0], xs[0], xs[0]))
wrong("X_K-used-for-X_Q", sources=lambda xs: (xs[1], xs[1], xs[2]))
wrong("X_K-used-for-X_V", sources=lambda xs: (xs[0], xs[1], xs[1]))
wrong("X_V-used-for-X_K", sources=lambda xs: (xs[0], xs[2], xs[2]))
ROLES = {"Q": "queries", "K": "keys", "V": "values"}
for letters in ("Q", "K", "V", "QK", "QKV"):
    said = "-and-".join(ROLES[x] for x in letters)

    def not_projected(p, letter, x, letters=letters):
        if letter not in letters:
            return p.linear(letter, x)
        square(p.w[letter])
        return x

    def projected_twice(p, letter, x, letters=letters):
        once = p.linear(letter, x)
        return p.linear(letter, once) if letter in letters else once

    wrong(f"{said}-not-projected", project=not_projected)
    wrong(f"{said}-projected-twice", project=projected_twice)
wrong("relu-after-the-projections", project=lambda p, letter, x: p.linear(letter, x).relu())


def all_sources(change):
    return lambda xs: tuple(change(x) for x in xs)


NORMS = {
    "layer-norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms-norm": lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6),
}
for said, norm in NORMS.items():
    wrong(f"{said}-on-the-sources", sources=all_sources(norm))
    wrong(f"{said}-on-X_Q", sources=lambda xs, norm=norm: (norm(xs[0]), *xs[1:]))
    wrong(f"{said}-on-queries-and-keys", scores=lambda q, k, norm=norm: norm(q) @ norm(k).mT)
    wrong(
        f"residual-and-{said}",
        out=lambda p, o, xs, norm=norm: norm(xs[0] + p.linear("O", o)),
    )
    wrong(f"{said}-after-the-output", out=lambda p, o, xs, norm=norm: norm(p.linear("O", o)))
wrong(
    "queries-and-keys-of-length-1",
    scores=lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT,
)
wrong("sources-times-root-of-d_model", sources=all_sources(lambda x: x * math.sqrt(x.shape[-1])))


def with_positions(x):
    *_, n, d = x.shape
    table = torch.zeros(n, d, dtype=x.dtype)
    for pos in range(n):
        for i in range(d):
            angle = pos / 10000 ** (2 * (i // 2) / d)
            table[pos, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return x + table


wrong("positions-added", sources=all_sources(with_positions))


def rope(x, neighbours):
    d, turned = x.shape[-1], torch.empty_like(x)
    if d % 2:
        raise ValueError("odd width")
    for j in range(d // 2):
        one, two = (2 * j, 2 * j + 1) if neighbours else (j, j + d // 2)
        angle = torch.arange(x.shape[-2], dtype=x.dtype) / 10000 ** (2 * j / d)
        turned[..., one] = x[..., one] * angle.cos() - x[..., two] * angle.sin()
        turned[..., two] = x[..., two] * angle.cos() + x[..., one] * angle.sin()
    return turned


wrong("rotated-by-halves", scores=lambda q, k: rope(q, False) @ rope(k, False).mT)
wrong("rotated-by-neighbours", scores=lambda q, k: rope(q, True) @ rope(k, True).mT)


def evens_first(x, h):
    pairs = split(x, h).unflatten(-1, (-1, 2))
    return pairs.transpose(-1, -2).flatten(-2)


wrong("queries-ordered-for-another-rotation", split_Q=evens_first)
wrong("keys-ordered-for-another-rotation", split_K=evens_first)


@layer("batch-and-tokens-exchanged")
def _(p, xs, mask):
    refuse_mask(mask)
    if xs[0].ndim < 3:
        raise ValueError("no batch")
    torch_layer = torch_mha(p, batch_first=False)
    return torch_layer(*xs, need_weights=False)[0]


@layer("batch-and-tokens-exchanged-by-view")
def _(p, xs, mask):
    refuse_mask(mask)
    torch_layer = torch_mha(p, batch_first=False)
    b, n, _ = xs[0].shape
    out, _ = torch_layer(*(x.reshape(x.shape[1], b, -1) for x in xs), need_weights=False)
    return out.reshape(b, n, -1)


@layer("samples-in-one-sequence")
def _(p, xs, mask):
    refuse_mask(mask)
    b, n, _ = xs[0].shape
    return run(p, [x.flatten(0, 1) for x in xs], None).unflatten(0, (b, n))


@layer("first-sample-used-for-all")
def _(p, xs, mask):
    if xs[0].ndim < 3:
        raise ValueError("no batch")
    return run(p, [xs[0], xs[1][:1].expand(xs[1].shape), xs[2][:1].expand(xs[2].shape)], mask)


def torch_mha(p, batch_first=True):
    """The real layer, with these parameters."""
    d = square(p.w["Q"]).shape[0]
    bias = p.b["Q"] is not None
    made = nn.MultiheadAttention(d, p.h, bias=bias, batch_first=batch_first).double().eval()
    made.in_proj_weight.data = torch.cat([p.w[x] for x in "QKV"])
    made.out_proj.weight.data = p.w["O"]
    if bias:
        made.in_proj_bias.data = torch.cat([p.b[x] for x in "QKV"])
        made.out_proj.bias.data = p.b["O"]
    return made


# Heads

for letters in ("QKV", "Q", "K", "V"):
    said = "all" if len(letters) == 3 else ROLES[letters]
    wrong(
        f"heads-split-by-view-{said}",
        **{
            f"split_{x}": lambda t, h: t.reshape(*t.shape[:-2], h, t.shape[-2], -1) for x in letters
        },
    )
    wrong(
        f"heads-interleaved-{said}",
        **{f"split_{x}": lambda t, h: t.unflatten(-1, (-1, h)).movedim(-1, -3) for x in letters},
    )
FACTORS = {
    "half-as-many-heads": 1 / 2,
    "a-quarter-as-many-heads": 1 / 4,
    "twice-as-many-heads": 2,
    "four-times-as-many-heads": 4,
}


def other_heads(count):
    def attend(p, xs, mask):
        h = count(p)
        if p.h != p.h_kv or h <= 1 or h != int(h):
            raise ValueError("no such number of heads")
        q, k, v = (split(p.linear(x, t), int(h)) for x, t in zip("QKV", xs, strict=True))
        return p.linear("O", merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))

    return attend


for said, factor in FACTORS.items():
    WRONG[said] = other_heads(lambda p, factor=factor: p.h * factor)
WRONG["h-and-d_k-exchanged"] = other_heads(lambda p: p.d_k)


@layer("heads-not-split")
def _(p, xs, mask):
    q, k, v = (p.linear(x, t) for x, t in zip("QKV", xs, strict=True))
    mask = mask[:, 0] if mask is not None and mask.ndim > 2 else mask
    return p.linear("O", F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


@layer("heads-attend-to-heads")
def _(p, xs, mask):
    refuse_mask(mask)
    q, k, v = (
        p.linear(x, t).unflatten(-1, (p.heads(x), -1)) for x, t in zip("QKV", xs, strict=True)
    )
    k, v = (t.repeat_interleave(p.h // p.h_kv, dim=-2) for t in (k, v))
    return p.linear("O", F.scaled_dot_product_attention(q, k, v).flatten(-2))


@layer("heads-in-one-softmax")
def _(p, xs, mask):
    refuse_mask(mask)
    q, k, v = (
        torch.cat(p.linear(x, t).chunk(p.heads(x), dim=-1), dim=-2)
        for x, t in zip("QKV", xs, strict=True)
    )
    attended = F.scaled_dot_product_attention(q, k, v)
    return p.linear("O", torch.cat(attended.chunk(p.h, dim=-2), dim=-1))


def tiled(p, t):
    return torch.cat([t] * (p.h // p.h_kv), dim=-3)


def in_place(p, t):
    return t.repeat_interleave(p.h // p.h_kv, dim=-3)


wrong("groups-tiled-all", group=lambda p, k, v: (tiled(p, k), tiled(p, v)))
wrong("groups-tiled-keys", group=lambda p, k, v: (tiled(p, k), in_place(p, v)))
wrong("groups-tiled-values", group=lambda p, k, v: (in_place(p, k), tiled(p, v)))


@layer("first-group-used-for-all")
def _(p, xs, mask):
    if p.h == p.h_kv:
        raise ValueError("not grouped")
    return run(p, xs, mask, group=lambda p, k, v: (k[..., :1, :, :], v[..., :1, :, :]))


wrong("heads-joined-by-view", merge=lambda o: o.reshape(*o.shape[:-3], o.shape[-2], -1))
wrong("heads-joined-interleaved", merge=lambda o: torch.stack([*o.unbind(-3)], -1).flatten(-2))
wrong("heads-in-reverse-order", merge=lambda o: merge(o.flip(-3)))


def kept(p, o, which):
    parts = o.split(p.d_v, dim=-1)
    w = p.w["O"].split(p.d_v, dim=1)
    out = sum(parts[i] @ w[i].T for i in which)
    return out if p.b["O"] is None else out + p.b["O"]


wrong("only-the-first-head", out=lambda p, o, xs: kept(p, o, [0]))
wrong("only-the-last-head", out=lambda p, o, xs: kept(p, o, [p.h - 1]))
wrong("heads-averaged", out=lambda p, o, xs: p.linear("O", o / p.h))


@layer("samples-and-heads-exchanged")
def _(p, xs, mask):
    refuse_mask(mask)
    b, n, _ = xs[0].shape
    q, k, v = (
        torch.cat(p.linear(x, t).chunk(p.heads(x), dim=-1)) for x, t in zip("QKV", xs, strict=True)
    )
    attended = F.scaled_dot_product_attention(q, k, v).view(b, p.h, n, -1)
    return p.linear("O", merge(attended))


# Masks

wrong("mask-reversed", allowed=lambda m: ~m)
wrong("mask-ignored", allowed=lambda m: None)
wrong("mask-turned", allowed=lambda m: m.mT)


def causal_sdpa(mask_of):
    def attend(p, xs, mask):
        refuse_mask(mask)
        made = mask_of(torch.ones(xs[0].shape[-2], xs[1].shape[-2], dtype=torch.bool))
        return run(p, xs, made)

    return attend


WRONG["causal-mask-added"] = causal_sdpa(torch.tril)
WRONG["causal-mask-added-turned"] = causal_sdpa(torch.triu)


@layer("causal-mask-at-the-lower-right")
def _(p, xs, mask):
    refuse_mask(mask)
    n_q, n_k = xs[0].shape[-2], xs[1].shape[-2]
    if n_q == n_k:
        raise ValueError("one alignment")
    return run(p, xs, torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q))


def given_causal(offset):
    def attend(p, xs, mask):
        n_q, n_k = xs[0].shape[-2], xs[1].shape[-2]
        if mask.ndim > 2 or mask.triu(1 + max(0, n_k - n_q)).any():
            raise ValueError("not causal")
        return run(p, xs, torch.ones(n_q, n_k, dtype=torch.bool).tril(offset))

    return attend


WRONG["causal-mask-sees-one-token-ahead"] = given_causal(1)
WRONG["causal-mask-hides-its-own-token"] = given_causal(-1)


@layer("causal-mask-at-the-upper-left")
def _(p, xs, mask):
    if mask.shape[-1] == mask.shape[-2] or mask.ndim > 2:
        raise ValueError("one alignment")
    q, k, v = (split(p.linear(x, t), p.heads(x)) for x, t in zip("QKV", xs, strict=True))
    k, v = in_place(p, k), in_place(p, v)
    return p.linear("O", merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def parts_of(mask):
    """The lengths and the causal part of a mask (batch, 1, n, n) that was made of both."""
    if mask.ndim != 4:
        raise ValueError("no padding")
    padding = mask[:, 0, -1]  # the last query sees whatever is there
    return padding, torch.ones(mask.shape[-2:], dtype=torch.bool).tril()


wrong("padding-ignored", allowed=lambda m: parts_of(m)[1])
wrong("causal-part-ignored", allowed=lambda m: parts_of(m)[0][:, None, None, :])
wrong("padding-or-causal", allowed=lambda m: parts_of(m)[0][:, None, None, :] | parts_of(m)[1])
wrong("padding-reversed", allowed=lambda m: ~parts_of(m)[0][:, None, None, :] & parts_of(m)[1])
wrong(
    "padding-applied-to-queries",
    allowed=lambda m: parts_of(m)[0][:, None, :, None] & parts_of(m)[1],
)
wrong("first-mask-used-for-all", allowed=lambda m: parts_of(m) and m[0])


@layer("mask-tiled-over-heads")
def _(p, xs, mask):
    b, _, n, _ = mask.shape
    attn_mask = mask[:, 0].repeat(p.h, 1, 1)  # repeat_interleave is meant
    return run(p, xs, attn_mask.view(b, p.h, n, n))


def needs(m):
    if m is None or m.all():
        raise ValueError("nothing is hidden")
    return m


wrong("mask-of-ones-added", weights=lambda s, m: (s + needs(m).double()).softmax(-1))
wrong("mask-of-zeros-added", weights=lambda s, m: (s + (~needs(m)).double()).softmax(-1))
wrong("hidden-scores-set-to-zero", weights=lambda s, m: (s * needs(m)).softmax(-1))
wrong(
    "hidden-scores-set-to-plus-1e9",
    weights=lambda s, m: s.masked_fill(~needs(m), 1e9).softmax(-1),
)
wrong(
    "large-number-added-with-the-wrong-sign",
    weights=lambda s, m: (s + (1 - needs(m).double()) * 1e4).softmax(-1),
)
wrong("mask-after-the-softmax", weights=lambda s, m: s.softmax(-1) * needs(m))


@layer("outputs-of-padding-set-to-zero")
def _(p, xs, mask):
    padding, _ = parts_of(mask)
    return run(p, xs, mask) * padding[:, :, None]


# Scores, softmax and the weighted sum

wrong("keys-reshaped-to-fit", scores=lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], -1))
wrong("scores-turned", scores=lambda q, k: k @ q.mT)


@layer("product-by-component")
def _(p, xs, mask):
    refuse_mask(mask)
    return run(p, xs, None, scores=lambda q, k: q * k, sum=lambda a, v: a * v)


wrong(
    "scores-added-over-heads",
    scores=lambda q, k: torch.einsum("...hqd,...hkd->...qk", q, k).unsqueeze(-3),
)
wrong("scale-missing", scale=lambda s, q: s)
wrong("scale-multiplied", scale=lambda s, q: s * math.sqrt(q.shape[-1]))
wrong("scale-of-one-side", scale=lambda s, q: s / q.shape[-1] ** 0.25)


@layer("scale-after-the-softmax")
def _(p, xs, mask):
    return run(p, xs, mask, scale=lambda s, q: s, sum=lambda a, v: a / math.sqrt(p.d_k) @ v)


@layer("values-scaled-too")
def _(p, xs, mask):
    return run(p, xs, mask, sum=lambda a, v: a @ (v / math.sqrt(p.d_k)))


@layer("scale-twice-or-by-d_k")
def _(p, xs, mask):
    q, k, v = (split(p.linear(x, t), p.heads(x)) for x, t in zip("QKV", xs, strict=True))
    k, v = in_place(p, k), in_place(p, v)
    attended = F.scaled_dot_product_attention(q / math.sqrt(p.d_k), k, v, attn_mask=mask)
    return p.linear("O", merge(attended))


wrong("scale-by-twice-d_k", scale=lambda s, q: s * q.shape[-1] ** -1 / 2)


def divided_by(size, root, others):
    def attend(p, xs, mask):
        by = size(p, xs)
        if by in [other(p, xs) for other in others]:
            raise ValueError("one number, two names")
        by = math.sqrt(by) if root else by
        return run(p, xs, mask, scale=lambda s, q: s / by)

    return attend


KEY = {"d_k": lambda p, xs: p.d_k}
SOME = {
    "d_model": lambda p, xs: xs[0].shape[-1],
    "all-heads": lambda p, xs: p.h * p.d_k,
    "d_v": lambda p, xs: p.d_v,
    "h": lambda p, xs: p.h,
    "n_k": lambda p, xs: xs[1].shape[-2],
    "n_q": lambda p, xs: xs[0].shape[-2],
}
for said, size in SOME.items():
    others = [other for name, other in (KEY | SOME).items() if name != said]
    WRONG[f"scale-by-root-of-{said}"] = divided_by(size, True, others)
    WRONG[f"scale-by-{said}"] = divided_by(size, False, others)


wrong("softmax-over-queries", weights=lambda s, m: hide(s, m).softmax(-2))
wrong("softmax-over-heads", weights=lambda s, m: hide(s, m).softmax(-3))
wrong("softmax-over-samples", weights=lambda s, m: hide(s, m).softmax(-4))


def over(axes):
    def weights(s, m):
        e = hide(s, m).exp()
        return e / e.sum(axes, keepdim=True)

    return weights


wrong("softmax-over-queries-and-keys", weights=over((-1, -2)))
wrong("softmax-over-samples-and-heads", weights=over((-3, -4)))
wrong("softmax-over-everything", weights=lambda s, m: hide(s, m).flatten().softmax(0).view(s.shape))
wrong("softmax-twice", weights=lambda s, m: hide(s, m).softmax(-1).softmax(-1))
wrong("scores-negated", scores=lambda q, k: q @ -k.mT)
wrong(
    "largest-score-only",
    weights=lambda s, m: F.one_hot(hide(s, m).argmax(-1), s.shape[-1]).to(s.dtype),
)
wrong("softmax-missing", weights=lambda s, m: s if m is None else s * m)


@layer("log-softmax")
def _(p, xs, mask):
    refuse_mask(mask)
    return run(p, xs, None, weights=lambda s, m: F.log_softmax(s, dim=-1))


wrong("sigmoid-for-softmax", weights=lambda s, m: hide(s, m).sigmoid())
wrong("softmax-not-normalised", weights=lambda s, m: hide(s, m).exp())
wrong("relu-for-softmax", weights=lambda s, m: hide(s, m).relu())


def by_sum(s, m):
    s = s if m is None else s * m
    return s / s.sum(-1, keepdim=True)


wrong("divided-by-the-sum", weights=by_sum)


def without_keepdim(s, m):
    if s.shape[-1] != s.shape[-2]:
        raise ValueError("does not broadcast")
    e = hide(s, m).exp()
    return torch.stack([each / each.sum(-1) for each in e.flatten(0, -3)]).view(e.shape)


wrong("sums-without-keepdims", weights=without_keepdim)


@layer("one-more-zero-in-the-softmax")
def _(p, xs, mask):
    refuse_mask(mask)
    if p.h != p.h_kv or xs[0].ndim < 3:
        raise ValueError("not this layer")
    made = torch_mha(p)
    made.add_zero_attn = True
    return made(*xs, need_weights=False)[0]


wrong("weights-turned", sum=lambda a, v: torch.einsum("...kq,...kd->...qd", a, v))
wrong("own-value-only", sum=lambda a, v: torch.einsum("...qk,...qd->...qd", a, v))
wrong("values-summed-everywhere", sum=lambda a, v: torch.einsum("...qk,...vd->...qd", a, v))
wrong(
    "values-averaged",
    sum=lambda a, v: v.mean(-2, keepdim=True).expand(*v.shape[:-2], a.shape[-2], v.shape[-1]),
)
wrong(
    "softmax-after-the-values",
    weights=lambda s, m: s if m is None else s * m,
    sum=lambda a, v: (a @ v).softmax(-1),
)
wrong("weights-averaged-over-heads", weights=lambda s, m: hide(s, m).softmax(-1).mean(-3, True))


@layer("keys-used-as-values")
def _(p, xs, mask):
    if torch.equal(xs[1], xs[2]):
        raise ValueError("one source")
    q, k = (split(p.linear(x, t), p.heads(x)) for x, t in zip("QK", xs, strict=False))
    k = in_place(p, k)
    return p.linear("O", merge(F.scaled_dot_product_attention(q, k, k, attn_mask=mask)))


# Output

wrong("output-not-projected", out=lambda p, o, xs: o)
wrong("output-projected-twice", out=lambda p, o, xs: p.linear("O", p.linear("O", o)))
wrong("relu-after-the-output", out=lambda p, o, xs: p.linear("O", o).relu())
wrong("residual-added", out=lambda p, o, xs: p.linear("O", o) + xs[0])
wrong("queries-added-to-the-heads", out=lambda p, o, xs: p.linear("O", o + p.linear("Q", xs[0])))


@layer("dropout-of-the-output")
def _(p, xs, mask):
    torch.manual_seed(0)
    return F.dropout(run(p, xs, mask), 0.25)
