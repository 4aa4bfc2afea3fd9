"""Mix-ups of the heads: how they are split, grouped, and joined again."""

import numpy as np

from qkv.mistakes._layer import ROLES, CannotApplyError, join, no_mask, split
from qkv.mistakes._mix_up import MixUp


def _packed(s, letter):
    return getattr(s, f"{letter}_packed")


def _by_view(letter):
    def viewed(s, step):
        packed = _packed(s, letter)
        return packed.reshape(len(packed), s.h if letter == "Q" else s.h_kv, packed.shape[1], -1)

    return viewed


def _interleaved(letter):
    def interleaved(s, step):
        packed = _packed(s, letter)
        h = s.h if letter == "Q" else s.h_kv
        return np.moveaxis(packed.reshape(*packed.shape[:2], -1, h), -1, 1)

    return interleaved


def _ways_to_split():
    for letters in ("QKV", "Q", "K", "V"):
        whose = "queries, keys and values" if len(letters) == 3 else ROLES[letters]
        name = "all" if len(letters) == 3 else ROLES[letters]
        first = letters[0]
        yield MixUp(
            f"heads-split-by-view-{name}",
            f"the {whose} are split into heads by view or reshape alone, without a transposition",
            who="who reshapes (batch, n, h·d_k) straight to (batch, h, n, d_k)",
            seen_as="heads-mixed",
            symptom="Shapes fit. A head holds numbers that belong to other heads.",
            cure="Reshape to (batch, n, h, d_k), then exchange axes 1 and 2.",
            right=f"{first} = {first}.reshape(batch, n, h, d_k).swapaxes(1, 2)",
            wrong=f"{first} = {first}.reshape(batch, h, n, d_k)",
            planted={letter: _by_view(letter) for letter in letters},
            rare=len(letters) == 1,
        )
        yield MixUp(
            f"heads-interleaved-{name}",
            f"the {whose} are split so that the head's number runs fastest, (d_k, h) for (h, d_k)",
            who="who writes the axes of a reshape or an einops pattern in the other order",
            seen_as="heads-mixed",
            symptom="Shapes fit. A head holds components of several heads.",
            cure="Reshape to (batch, n, h, d_k).",
            right=f"{first} = {first}.reshape(batch, n, h, d_k)",
            wrong=f"{first} = {first}.reshape(batch, n, d_k, h)",
            planted={letter: _interleaved(letter) for letter in letters},
            rare=len(letters) == 1,
        )


def _whole(letter):
    return lambda s, step: _packed(s, letter)[:, None]


def _no_heads(s, step):
    if s.h == 1:
        raise CannotApplyError("there is one head")
    return step(s)[:, :1]


def _swapped(s, step):
    return step(s).swapaxes(1, 2)


def _in_one_row(s, step):
    heads = step(s)
    return heads.reshape(len(heads), 1, -1, heads.shape[-1])


def _ways_to_attend():
    one_head = {
        "Q": _whole("Q"),
        "K_repeated": _whole("K"),
        "V_repeated": _whole("V"),
        "mask": _no_heads,
        "joined": lambda s, step: s.heads[:, 0],
    }
    yield MixUp(
        "heads-not-split",
        "the heads are not split: one head as wide as all attends, scaled by its own width",
        who="who calls scaled_dot_product_attention on (batch, n, d_model), or writes one head",
        seen_as="heads-mixed",
        symptom="Shapes fit if there are as many heads of keys as of queries. There is one set of "
        "weights for all heads.",
        cure="Split queries, keys and values into heads first.",
        right="attention(split(Q), split(K), split(V))",
        wrong="attention(Q, K, V)",
        planted=one_head,
    )
    yield MixUp(
        "heads-attend-to-heads",
        "the axes of heads and tokens were not exchanged, so each token's heads attend to each "
        "other",
        who="who passes (batch, n, h, d_k) to scaled_dot_product_attention",
        seen_as="heads-mixed",
        symptom="Shapes fit if there are as many queries as keys. A token's output does not depend "
        "on other tokens.",
        cure="Exchange axes 1 and 2 before the attention, and after it.",
        right="attention(Q.swapaxes(1, 2), K.swapaxes(1, 2), V.swapaxes(1, 2))",
        wrong="attention(Q, K, V)",
        planted={
            **dict.fromkeys(("Q", "K_repeated", "V_repeated", "heads"), _swapped),
            "mask": no_mask,
        },
        mixes=frozenset({"queries"}),
    )
    yield MixUp(
        "heads-in-one-softmax",
        "the heads are put one after the other along the tokens, so each attends to all of them",
        who="who joins the heads' chunks along the axis of the tokens, not of the batch",
        seen_as="heads-mixed",
        symptom="The weights have h·n rows and columns.",
        cure="Give the heads an axis of their own, or put them into the batch.",
        right="Q = np.concatenate(np.split(Q, h, axis=-1), axis=0)",
        wrong="Q = np.concatenate(np.split(Q, h, axis=-1), axis=1)",
        planted={
            **dict.fromkeys(("Q", "K_repeated", "V_repeated"), _in_one_row),
            "mask": no_mask,
            "heads": lambda s, step: step(s).reshape(s.X_Q.shape[0], s.h, -1, s.d_v),
        },
        mixes=frozenset({"queries"}),
    )


def _another_number(count):
    """Cut into another number of heads, where all have keys and values of their own."""

    def cut(letter):
        def cut_anew(s, step):
            h, width = count(s), _packed(s, letter).shape[-1]
            if s.h != s.h_kv or h in (1, s.h) or h != int(h) or width % int(h):
                raise CannotApplyError("there is no such number of heads")
            return split(_packed(s, letter), int(h))

        return cut_anew

    return {
        **{letter: cut(letter) for letter in "QKV"},
        "mask": lambda s, step: step(s)[:, :1],
    }


def _numbers_of_heads():
    for name, said, wrong, count in (
        ("half-as-many-heads", "h/2 heads", "h // 2", lambda s: s.h / 2),
        ("a-quarter-as-many-heads", "h/4 heads", "h // 4", lambda s: s.h / 4),
        ("twice-as-many-heads", "2·h heads", "h * 2", lambda s: s.h * 2),
        ("four-times-as-many-heads", "4·h heads", "h * 4", lambda s: s.h * 4),
        ("h-and-d_k-exchanged", "d_k heads of width h", "d_k", lambda s: s.d_k),
    ):
        yield MixUp(
            name,
            f"the projections are split into {said}, and scaled by the width of those",
            who="who takes another configuration's number of heads",
            seen_as="heads-mixed",
            symptom="Shapes fit: packed weights do not show how many heads they hold.",
            cure="Look up the number of heads in the model's configuration.",
            right="Q = Q.reshape(batch, n, h, -1)",
            wrong=f"Q = Q.reshape(batch, n, {wrong}, -1)",
            planted=_another_number(count),
            rare=True,
        )


def _tiled(letter):
    return lambda s, step: np.tile(getattr(s, letter), (1, s.h // s.h_kv, 1, 1))


def _first(s, step):
    if s.h_kv == s.h:
        raise CannotApplyError("heads are not grouped")
    return np.broadcast_to(step(s)[:, :1], step(s).shape)


def _groups():
    about = {
        "who": "who writes grouped-query attention by hand",
        "cure": "Repeat each head of keys and values h // h_kv times in place: repeat_interleave.",
    }
    for letters in ("KV", "K", "V"):
        whose = "keys and values" if len(letters) == 2 else ROLES[letters]
        name = "all" if len(letters) == 2 else ROLES[letters]
        yield MixUp(
            f"groups-tiled-{name}",
            f"the heads of {whose} are repeated as a whole (0, 1, 0, 1), not one by one "
            "(0, 0, 1, 1)",
            **about,
            seen_as="grouped-heads",
            symptom="Shapes fit. The numbers are right if h_kv is h or 1.",
            right=f"{letters[0]} = np.repeat({letters[0]}, h // h_kv, axis=1)",
            wrong=f"{letters[0]} = np.tile({letters[0]}, (1, h // h_kv, 1, 1))",
            planted={f"{letter}_repeated": _tiled(letter) for letter in letters},
            rare=len(letters) == 1,
        )
    yield MixUp(
        "first-group-used-for-all",
        "each head uses the first head of keys and values",
        **about,
        seen_as="grouped-heads",
        symptom="Shapes fit. The numbers are right if h_kv is 1.",
        right="K = np.repeat(K, h // h_kv, axis=1)",
        wrong="K = np.broadcast_to(K[:, :1], (batch, h, n_k, d_k))",
        planted=dict.fromkeys(("K_repeated", "V_repeated"), _first),
    )


def _samples_mixed(s, step):
    heads = s.heads
    if len(heads) == 1:
        raise CannotApplyError("there is one sample")
    return join(heads.swapaxes(0, 1).reshape(heads.shape))


def _only(index):
    def only(s, step):
        kept = np.zeros_like(s.heads)
        kept[:, index] = s.heads[:, index]
        return join(kept)

    return only


def _ways_to_join():
    yield MixUp(
        "heads-joined-by-view",
        "the heads are joined by view or reshape alone, without transposing back",
        who="who reshapes (batch, h, n, d_v) straight to (batch, n, h·d_v)",
        seen_as="heads-mixed",
        symptom="Shapes fit. An output holds parts of several tokens.",
        cure="Exchange axes 1 and 2 first, then reshape.",
        right="joined = heads.swapaxes(1, 2).reshape(batch, n, h * d_v)",
        wrong="joined = heads.reshape(batch, n, h * d_v)",
        planted={"joined": lambda s, step: s.heads.reshape(len(s.heads), s.heads.shape[2], -1)},
        mixes=frozenset({"queries"}),
    )
    yield MixUp(
        "heads-joined-interleaved",
        "the heads are joined so that the head's number runs fastest, (d_v, h) for (h, d_v)",
        who="who moves the wrong axis to the end before a reshape, or stacks heads on the last "
        "axis",
        seen_as="heads-mixed",
        symptom="Shapes fit. W_O meets the components in another order.",
        cure="Put the heads side by side: (batch, n, h, d_v), then reshape.",
        right="joined = heads.transpose(0, 2, 1, 3).reshape(batch, n, h * d_v)",
        wrong="joined = heads.transpose(0, 2, 3, 1).reshape(batch, n, h * d_v)",
        planted={
            "joined": lambda s, step: np.moveaxis(s.heads, 1, -1).reshape(
                len(s.heads), s.heads.shape[2], -1
            )
        },
    )
    yield MixUp(
        "heads-in-reverse-order",
        "the heads are joined from the last to the first",
        who="who puts each new head in front of the others",
        seen_as="heads-mixed",
        symptom="Shapes fit. W_O meets the components in another order.",
        cure="Append each head behind the others.",
        right="joined = np.concatenate([*heads], axis=-1)",
        wrong="joined = np.concatenate([*heads][::-1], axis=-1)",
        planted={"joined": lambda s, step: join(s.heads[:, ::-1])},
        rare=True,
    )
    yield MixUp(
        "heads-averaged",
        "the heads are averaged, where they have to be added up",
        who="who writes mean over the heads",
        seen_as="scale",
        symptom="Without b_O, outputs are the right ones divided by h.",
        cure="Add up the heads after W_O.",
        right="output = (heads @ W_O).sum(axis=1)",
        wrong="output = (heads @ W_O).mean(axis=1)",
        planted={"joined": lambda s, step: step(s) / s.h},
    )
    for name, index in (("first", 0), ("last", -1)):
        yield MixUp(
            f"only-the-{name}-head",
            f"only the {name} head reaches the output",
            who="who overwrites the output in a loop over the heads, or returns inside it",
            seen_as="idle",
            symptom="The other heads' weights change nothing.",
            cure="Add up all heads.",
            right="output += heads[i] @ W_O[i]",
            wrong="output = heads[i] @ W_O[i]",
            planted={"joined": _only(index)},
            rare=True,
        )
    yield MixUp(
        "samples-and-heads-exchanged",
        "heads are put into the batch in one order, and taken out in the other",
        who="who joins chunks along the batch, and takes them apart with view",
        seen_as="only-batches",
        symptom="One sample is right, and a batch is not.",
        cure="Take the heads out of the batch in the order in which they went in.",
        right="heads.reshape(h, batch, n, d_v).swapaxes(0, 1)",
        wrong="heads.reshape(batch, h, n, d_v)",
        planted={"joined": _samples_mixed},
        mixes=frozenset({"samples"}),
    )


MIX_UPS = (
    *_ways_to_split(),
    *_numbers_of_heads(),
    *_ways_to_attend(),
    *_groups(),
    *_ways_to_join(),
)
