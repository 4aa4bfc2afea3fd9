"""Mix-ups of the stored weights and biases: turned, exchanged, cut in another order, left out."""

import itertools

import numpy as np

from qkv.mistakes._layer import ROLES, CannotApplyError, given, split
from qkv.mistakes._mix_up import MixUp


def _where(letters):
    """Where the numbers are wrong if the weights of these letters are."""
    if set(letters) <= set("QK"):  # one key has the weight 1, whatever its score is
        return "Where a query sees one key, the numbers are right."
    return "The numbers are wrong everywhere."


def _turn(s, step):
    W = step(s)
    if W.shape[0] != W.shape[1]:
        raise CannotApplyError("a weight that is not square does not fit if it is turned")
    return W.T


def _reshape(s, step):
    W = step(s)
    if W.shape[0] == W.shape[1]:
        raise CannotApplyError("a square weight is left as it is")
    return W.T.reshape(W.shape)


def _none(names):
    def none(s, step):
        if not all(s.given.arrays[name].any() for name in (names[0], names[-1])):
            raise CannotApplyError("there are no such biases")
        return 0 * step(s)

    return none


def _turned():
    about = {
        "who": "who moves weights between PyTorch, which stores (out, in), and a formula x @ W",
        "seen_as": "square-weight",
        "cure": "Transpose the weight once: nn.Linear computes x @ weight.T.",
    }
    for letters in ("Q", "K", "V", "O", "QKV", "QKVO"):
        names = [f"W_{letter}" for letter in letters]
        turned, are = "-and-".join(names), "is" if len(names) == 1 else "are"
        said = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        lines = f"X_{letters[0]} @ W_{letters[0]}" if letters != "O" else "joined @ W_O"
        yield MixUp(
            f"{turned}-turned",
            f"{said} {are} turned (transposed)",
            **about,
            symptom=f"Shapes fit, because the weight is square. {_where(letters)}",
            right=lines,
            wrong=f"{lines}.T",
            planted=dict.fromkeys(names, _turn),
        )
    for letter in "QKVO":
        yield MixUp(
            f"W_{letter}-reshaped-to-fit",
            f"W_{letter} is reshaped where it has to be transposed",
            who="who gets an error about shapes and repairs it with reshape or view",
            seen_as="square-weight",
            symptom=f"Shapes fit. {_where(letter)}",
            cure="Transpose: reshape keeps the order of the numbers.",
            right=f"W_{letter} = weight.T",
            wrong=f"W_{letter} = weight.reshape(weight.T.shape)",
            planted={f"W_{letter}": _reshape},
            rare=True,
        )


def _used_for_another():
    for used, instead_of in itertools.permutations("QKV", 2):
        yield MixUp(
            f"W_{used}-used-for-{instead_of}",
            f"the weight of the {ROLES[used]} projects the {ROLES[instead_of]} too",
            who="who copies a line and changes its name on one side only",
            seen_as="idle",
            symptom="No error if both have one shape. One weight never changes anything.",
            cure="Give queries, keys and values their own weights.",
            right=f"{instead_of} = X_{instead_of} @ W_{instead_of}",
            wrong=f"{instead_of} = X_{instead_of} @ W_{used}",
            planted={
                f"W_{instead_of}": given(f"W_{used}"),
                f"b_{instead_of}": given(f"b_{used}"),
            },
        )


def _in_another_order():
    for order in ("KQV", "QVK", "VKQ", "KVQ", "VQK"):
        name = "-".join(order.lower())
        # The first third holds the weight of the queries; the reader takes it for another.
        taken = {read: stored for read, stored in zip(order, "QKV", strict=True) if read != stored}
        yield MixUp(
            f"thirds-read-as-{name}",
            f"a packed weight that holds q, k, v is read as {', '.join(order.lower())}, or "
            f"weights are exchanged so",
            who="who loads another code base's packed weight",
            seen_as="first-third",
            symptom=f"Each shape fits if the exchanged parts are equally wide. {_where(taken)}",
            cure="Cut the packed weight in the order in which it was written.",
            right="Q, K, V = np.split(packed, 3, axis=-1)",
            wrong=f"{', '.join(order)} = np.split(packed, 3, axis=-1)",
            planted={
                f"{kind}_{read}": given(f"{kind}_{stored}")
                for read, stored in taken.items()
                for kind in "Wb"
            },
        )
    for one, two in ("QK", "KV", "QV"):
        yield MixUp(
            f"W_{one}-and-W_{two}-exchanged-without-biases",
            f"W_{one} and W_{two} are exchanged, and their biases are not",
            who="who copies weights and biases by hand",
            seen_as="first-third",
            symptom=f"No error if both have one shape. {_where(one + two)}",
            cure="Copy each weight to its own name.",
            right=f"{one} = X_{one} @ W_{one} + b_{one}",
            wrong=f"{one} = X_{one} @ W_{two} + b_{one}",
            planted={
                f"W_{one}": _if_biased(f"W_{two}"),
                f"W_{two}": _if_biased(f"W_{one}"),
            },
            rare=True,
        )


def _if_biased(name):
    def other(s, step):
        biases = (s.given.arrays[f"b_{letter}"] for letter in "QKV")
        if not any(b.any() for b in biases):
            raise CannotApplyError("without biases this is another order of the thirds")
        return s.given.arrays[name]

    return other


def _repacked(letters, stored, read):
    """Weights that are stored in one order of axes, and read in another.

    An axis is "3" (which of the weights), "h" or "d".
    """

    def repack(kind, letter):
        def repacked(s, step):
            arrays = [s.given.arrays[f"{kind}_{each}"] for each in letters]
            if len({array.shape for array in arrays}) > 1:
                raise CannotApplyError("weights of several shapes are not packed so")
            heads = s.h if "Q" in letters else s.h_kv
            if arrays[0].shape[-1] % heads:
                return step(s)  # the zero of a bias that there is not
            sizes = {"3": len(arrays), "h": heads, "d": arrays[0].shape[-1] // heads}
            packed = np.stack([a.reshape(-1, heads, sizes["d"]) for a in arrays])  # 3 in h d
            moved = packed.transpose(1, *("3.hd".index(axis) for axis in stored))
            flat = moved.reshape(len(moved), -1)
            cut = flat.reshape(-1, *(sizes[axis] for axis in read))
            cut = cut.transpose(1 + read.index("3"), 0, 1 + read.index("h"), 1 + read.index("d"))
            return cut[letters.index(letter)].reshape(step(s).shape)

        return repacked

    return {f"{kind}_{letter}": repack(kind, letter) for letter in letters for kind in "Wb"}


def _packed_per_head():
    about = {
        "who": "who moves weights between GPT-NeoX or BLOOM, which pack head by head, "
        "and code that packs queries, keys and values",
        "seen_as": "first-third",
        "symptom": "Each shape fits if the parts are equally wide. The numbers are wrong "
        "everywhere.",
        "cure": "Reshape the packed axis in the order in which it was written.",
    }
    for letters, count in (("QKV", 3), ("KV", 2)):
        what = "queries, keys and values" if count == 3 else "keys and values"
        thirds = "thirds" if count == 3 else "halves"
        yield MixUp(
            f"{thirds}-read-head-by-head",
            f"a weight that packs {what} one after the other is read head by head",
            **about,
            right=f"packed.reshape(batch, n, {count}, h, d_k)",
            wrong=f"packed.reshape(batch, n, h, {count}, d_k)",
            planted=_repacked(letters, "3hd", "h3d"),
            rare=letters == "KV",
        )
        yield MixUp(
            f"head-by-head-read-as-{thirds}",
            f"a weight that packs {what} head by head is read as {thirds}",
            **about,
            right=f"packed.reshape(batch, n, h, {count}, d_k)",
            wrong=f"packed.reshape(batch, n, {count}, h, d_k)",
            planted=_repacked(letters, "h3d", "3hd"),
            rare=letters == "KV",
        )
        for read in ("d3h", "dh3", "hd3"):
            axes = ", ".join({"3": str(count), "h": "h", "d": "d_k"}[axis] for axis in read)
            yield MixUp(
                f"{thirds}-read-as-{'-'.join(read.replace('3', str(count)))}",
                f"a weight that packs {what} one after the other is read with the axes ({axes})",
                **about,
                right=f"packed.reshape(batch, n, {count}, h, d_k)",
                wrong=f"packed.reshape(batch, n, {axes})",
                planted=_repacked(letters, "3hd", read),
                rare=True,
            )


def _reshaped_into_heads(heads):
    def reshaped(s, step):
        W = step(s)
        return np.concatenate(W.reshape(getattr(s, heads), len(W), -1), axis=1)

    return reshaped


def _reshaped_out_of_heads(heads):
    def reshaped(s, step):
        W = step(s)
        return split(W[None], getattr(s, heads))[0].reshape(W.shape)

    return reshaped


def _first_head(s, step):
    each = step(s)
    return np.broadcast_to(each[:, :1], each.shape)


def _per_head():
    heads = {"W_Q": "h", "W_K": "h_kv", "W_V": "h_kv"}
    yield MixUp(
        "weights-reshaped-into-heads",
        "W_Q, W_K and W_V, of shape (d_model, h·d_k), are reshaped to (h, d_model, d_k) without a "
        "transposition",
        who="who cuts a packed weight into one matrix per head",
        seen_as="square-weight",
        symptom="Each shape fits. The numbers are wrong everywhere.",
        cure="Reshape to (d_model, h, d_k), then move the axis of the heads to the front.",
        right="W_Q.reshape(d_model, h, d_k).swapaxes(0, 1)",
        wrong="W_Q.reshape(h, d_model, d_k)",
        planted={name: _reshaped_into_heads(each) for name, each in heads.items()},
    )
    yield MixUp(
        "weights-reshaped-out-of-heads",
        "weights of shape (h, d_model, d_k) are reshaped to (d_model, h·d_k) without a "
        "transposition",
        who="who packs one matrix per head into one weight",
        seen_as="square-weight",
        symptom="Each shape fits. The numbers are wrong everywhere.",
        cure="Move the axis of the heads behind d_model, then reshape.",
        right="W_Q.swapaxes(0, 1).reshape(d_model, h * d_k)",
        wrong="W_Q.reshape(d_model, h * d_k)",
        planted={name: _reshaped_out_of_heads(each) for name, each in heads.items()},
        rare=True,
    )
    yield MixUp(
        "first-W_O-used-for-all",
        "each head meets the rows of W_O that belong to the first",
        who="who writes a loop over the heads and forgets the index",
        seen_as="idle",
        symptom="Shapes fit. The order of the heads does not matter.",
        cure="Head i meets the rows i·d_v to (i + 1)·d_v of W_O.",
        right="output += heads[i] @ W_O[i]",
        wrong="output += heads[i] @ W_O[0]",
        planted={"W_O": lambda s, step: np.tile(step(s)[: s.d_v], (s.h, 1))},
        rare=True,
    )
    for letters in ("QKV", "Q", "K", "V"):
        whose = "queries, keys and values" if len(letters) == 3 else ROLES[letters]
        first = letters[0]
        yield MixUp(
            f"first-head-used-for-all-{'' if len(letters) == 3 else ROLES[letters]}".rstrip("-"),
            f"each head uses the first head's {whose}",
            who="who writes a loop over the heads and forgets the index, or broadcasts one head",
            seen_as="idle",
            symptom="Heads are more alike than they should be.",
            cure="Index the weights by the head.",
            right=f"{first}[i] = X_{first} @ W_{first}[i]",
            wrong=f"{first}[i] = X_{first} @ W_{first}[0]",
            planted=dict.fromkeys(letters, _first_head),
            rare=len(letters) == 1,
        )


def _biases():
    for letters in ("Q", "K", "V", "O", "QKV", "QKVO"):
        names = [f"b_{letter}" for letter in letters]
        said = (
            f"biases {', '.join(names[:-1])} and {names[-1]}"
            if len(names) > 1
            else f"bias {names[0]}"
        )
        line = "joined @ W_O" if letters == "O" else f"X_{letters[0]} @ W_{letters[0]}"
        yield MixUp(
            f"{'-and-'.join(names)}-left-out",
            f"the {said} {'is' if len(names) == 1 else 'are'} left out",
            who="who copies weights and not biases, or writes bias=False",
            seen_as="constant-vector",
            symptom="Outputs are near the right ones if biases are small. Without b_K alone, they "
            "are equal if the scores are those of equation (1).",
            cure="Add the biases. An nn.Linear has one by default.",
            right=f"{line} + {names[0]}",
            wrong=line,
            planted=dict.fromkeys(names, _none(names)),
        )
    for letters, line, bias in [
        ("QKV", "Q = X_Q @ W_Q", "b_Q"),
        ("O", "output = joined @ W_O", "b_O"),
    ]:
        yield MixUp(
            f"{'-and-'.join(f'b_{letter}' for letter in letters)}-added-twice",
            f"the {'bias b_O is' if letters == 'O' else 'biases b_Q, b_K and b_V are'} added twice",
            who="who adds a bias to what a Linear layer with a bias returns",
            seen_as="constant-vector",
            symptom="Outputs are near the right ones if biases are small.",
            cure="Add each bias once.",
            right=f"{line} + {bias}",
            wrong=f"{line} + {bias} + {bias}",
            planted={f"b_{letter}": lambda s, step: 2 * step(s) for letter in letters},
            rare=True,
        )
    for one, two in ("QK", "KV", "QV"):
        yield MixUp(
            f"b_{one}-and-b_{two}-exchanged",
            f"the biases b_{one} and b_{two} are exchanged, and their weights are not",
            who="who copies weights and biases by hand",
            seen_as="constant-vector",
            symptom="Outputs are near the right ones if biases are small.",
            cure="Copy each bias to its own name.",
            right=f"{one} = X_{one} @ W_{one} + b_{one}",
            wrong=f"{one} = X_{one} @ W_{one} + b_{two}",
            planted={f"b_{one}": given(f"b_{two}"), f"b_{two}": given(f"b_{one}")},
            rare=True,
        )
    yield MixUp(
        "b_O-added-by-each-head",
        "the bias b_O is added once for each head",
        who="who adds up heads, each with a Linear layer of its own",
        seen_as="constant-vector",
        symptom="Outputs differ from the right ones by the same vector everywhere.",
        cure="Add b_O once, after the sum over heads.",
        right="output = sum(head @ W_O[i]) + b_O",
        wrong="output = sum(head @ W_O[i] + b_O)",
        planted={"b_O": lambda s, step: s.h * step(s)},
    )
    yield MixUp(
        "b_Q-added-after-scaling",
        "the queries are scaled before b_Q is added",
        who="who scales the queries in place of the scores",
        seen_as="constant-vector",
        symptom="Outputs are near the right ones if biases are small.",
        cure="Scale the queries with their bias, or scale the scores.",
        right="Q = (X_Q @ W_Q + b_Q) * scale",
        wrong="Q = X_Q @ W_Q * scale + b_Q",
        planted={"b_Q": lambda s, step: step(s) / (s.given_scale or s.d_k**-0.5)},
        rare=True,
    )


MIX_UPS = (
    *_turned(),
    *_used_for_another(),
    *_in_another_order(),
    *_packed_per_head(),
    *_per_head(),
    *_biases(),
)
