"""Mix-ups of the mask: its meaning, its axes, a causal part too much, how it is applied."""

import numpy as np

from qkv.mistakes._layer import CannotApplyError
from qkv.mistakes._mix_up import MixUp


def _tri(mask, offset=0):
    return np.tri(*mask.shape[-2:], offset, dtype=bool)


def _is_causal(mask):
    """Whether no query sees a later key, aligned at the first tokens or at the last."""
    n_q, n_k = mask.shape[-2:]
    return any(not (mask & ~_tri(mask, offset)).any() for offset in (0, n_k - n_q))


def _padding(mask):
    """What a mask hides from each query; of a causal mask, what the last queries do not see."""
    if not _is_causal(mask):
        return mask
    return np.broadcast_to(mask.any(axis=-2, keepdims=True), mask.shape)


def _two_parts(mask):
    if not _is_causal(mask) or _padding(mask).all():
        raise CannotApplyError("the mask is not both causal and for padding")
    return _padding(mask), _tri(mask)


def _causal(offset):
    return lambda s, step: _padding(step(s)) & _tri(step(s), offset)


def _lower_right(s, step):
    n_q, n_k = step(s).shape[-2:]
    if n_q == n_k:
        raise CannotApplyError("there is one alignment")
    return _padding(step(s)) & _tri(step(s), n_k - n_q)


def _upper_left(s, step):
    n_q, n_k = step(s).shape[-2:]
    if n_q == n_k or not _is_causal(step(s)):
        raise CannotApplyError("there is one alignment, or no causal mask")
    return _padding(step(s)) & _tri(step(s))


def _turned(s, step):
    mask = step(s)
    if mask.shape[-1] != mask.shape[-2]:
        raise CannotApplyError("the mask would not fit")
    return mask.swapaxes(-1, -2)


def _looks_back(s, step):
    if not step(s).all():
        raise CannotApplyError("there is a mask, which would be turned")
    return ~_tri(step(s), -1) & step(s)


def _causal_part(s, step):
    return _two_parts(step(s))[1] & True


def _padding_part(s, step):
    return _two_parts(step(s))[0]


def _padding_reversed(s, step):
    padding, causal = _two_parts(step(s))
    return ~padding & causal


def _either_part(s, step):
    padding, causal = _two_parts(step(s))
    return padding | causal


def _padding_of_queries(s, step):
    padding, causal = _two_parts(step(s))
    return _turned(s, lambda s: padding) & causal


def _reversed(s, step):
    if step(s).all():
        raise CannotApplyError("there is no mask")
    return ~step(s)


def _all(s, step):
    return np.ones_like(step(s))


def _meaning():
    yield MixUp(
        "mask-reversed",
        "the mask's meaning is reversed",
        who="who passes a mask in which True means may attend to nn.MultiheadAttention",
        seen_as="hidden-tokens",
        symptom="A query attends to what it may not see, or gives NaN.",
        cure="In nn.MultiheadAttention, True forbids. Pass ~mask.",
        right="S = where(mask, S, -inf)",
        wrong="S = where(mask, -inf, S)",
        planted={"mask": _reversed},
    )
    yield MixUp(
        "mask-ignored",
        "the mask is not applied",
        who="who forgets to pass the mask on, or passes it to Keras in fourth place",
        seen_as="hidden-tokens",
        symptom="Hidden tokens change the output.",
        cure="Pass the mask by name, and change a hidden token as a test.",
        right="S = where(mask, S, -inf)",
        wrong="S = S",
        planted={"mask": _all},
    )
    yield MixUp(
        "mask-turned",
        "the mask's axes of queries and keys are exchanged",
        who="who applies a padding mask to queries, or takes triu for tril",
        seen_as="hidden-tokens",
        symptom="Padded keys are seen, or a query sees the future and not the past.",
        cure="The last axis of a mask is the keys: padding[:, None, None, :].",
        right="mask[..., query, key]",
        wrong="mask[..., key, query]",
        planted={"mask": _turned},
    )
    yield MixUp(
        "causal-mask-added",
        "the layer is causal, and the mask that was given is not",
        who="who compares with GPT-2, or with is_causal=True",
        seen_as="hidden-tokens",
        symptom="The last token's output is right, with as many queries as keys.",
        cure="Give both sides the causal mask, np.tri(n, dtype=bool), or none.",
        right="attention(Q, K, V)",
        wrong="attention(Q, K, V, is_causal=True)",
        planted={"mask": lambda s, step: step(s) & _tri(step(s))},
    )
    yield MixUp(
        "causal-mask-added-turned",
        "a query sees itself and later keys only, and no mask was given",
        who="who takes triu for tril",
        seen_as="hidden-tokens",
        symptom="The first token's output is right.",
        cure="A causal mask is True on the diagonal and below it.",
        right="attention(Q, K, V)",
        wrong="attention(Q, K, V, mask=np.triu(...))",
        planted={"mask": _looks_back},
    )
    for offset, name, said, who in (
        (1, "sees-one-token-ahead", "each query also sees the next key", "k=1 for k=0 in tril"),
        (-1, "hides-its-own-token", "each query does not see its own key", "k=0 for k=1 in triu"),
    ):
        yield MixUp(
            f"causal-mask-{name}",
            f"the causal mask is off by one: {said}",
            who=f"who takes {who}",
            seen_as="hidden-tokens" if offset == 1 else "nan",
            symptom="Training finds the answer at once."
            if offset == 1
            else "The first token gives NaN, zeros or a mean.",
            cure="Hidden is np.triu(ones, k=1). Visible is np.tril(ones).",
            right="mask = np.tri(n_q, n_k, dtype=bool)",
            wrong=f"mask = np.tri(n_q, n_k, {offset}, dtype=bool)",
            planted={"mask": _causal(offset)},
        )
    about = {
        "who": "who writes a causal mask for a cache, where queries are fewer than keys",
        "seen_as": "cache",
        "symptom": "Right where there are as many queries as keys.",
        "cure": "Say which alignment is meant: the last query sees all keys (lower right), or the "
        "first query sees one (upper left).",
    }
    yield MixUp(
        "causal-mask-at-the-lower-right",
        "the causal mask is aligned so that the last query sees all keys (lower right)",
        **about,
        right="mask = np.tri(n_q, n_k, dtype=bool)",
        wrong="mask = np.tri(n_q, n_k, n_k - n_q, dtype=bool)",
        planted={"mask": _lower_right},
    )
    yield MixUp(
        "causal-mask-at-the-upper-left",
        "the causal mask is aligned so that the first query sees one key (upper left)",
        **about,
        right="mask = np.tri(n_q, n_k, n_k - n_q, dtype=bool)",
        wrong="mask = np.tri(n_q, n_k, dtype=bool)",
        planted={"mask": _upper_left},
    )


def _parts():
    about = {
        "who": "who combines a causal mask with one for padding",
        "seen_as": "hidden-tokens",
        "symptom": "A sample without padding and the last token tell the two parts apart.",
    }
    yield MixUp(
        "padding-ignored",
        "the causal part of the mask is applied, and the part for padding is not",
        **about,
        cure="Combine both with &: padding[:, None, None, :] & causal.",
        right="mask = padding & causal",
        wrong="mask = causal",
        planted={"mask": _causal_part},
    )
    yield MixUp(
        "causal-part-ignored",
        "the part of the mask for padding is applied, and the causal part is not",
        **about,
        cure="Combine both with &: padding[:, None, None, :] & causal.",
        right="mask = padding & causal",
        wrong="mask = padding",
        planted={"mask": _padding_part},
    )
    yield MixUp(
        "padding-or-causal",
        "a query sees what either part of the mask allows, and not what both allow",
        **about,
        cure="Where True means may attend, combine both with &. Where it means hidden, use |.",
        right="mask = padding & causal",
        wrong="mask = padding | causal",
        planted={"mask": _either_part},
    )
    yield MixUp(
        "padding-reversed",
        "the meaning of the padding in the mask is reversed, and the causal part is right",
        **about,
        cure="key_padding_mask of nn.MultiheadAttention is True where there is padding.",
        right="mask = padding & causal",
        wrong="mask = ~padding & causal",
        planted={"mask": _padding_reversed},
    )
    yield MixUp(
        "padding-applied-to-queries",
        "the padding in the mask hides queries in place of keys, and the causal part is right",
        **about,
        cure="The last axis of a mask is the keys: padding[:, None, None, :].",
        right="mask = padding[:, None, None, :] & causal",
        wrong="mask = padding[:, None, :, None] & causal",
        planted={"mask": _padding_of_queries},
    )


def _first_sample(s, step):
    return np.broadcast_to(step(s)[:1], step(s).shape)


def _repeated_as_a_whole(s, step):
    mask = step(s)
    places = np.arange(len(mask) * s.h)  # sample and head, in one axis
    return mask[places % len(mask), places % s.h].reshape(mask.shape)


def _samples():
    yield MixUp(
        "first-mask-used-for-all",
        "the mask of the first sample is used for all",
        who="who indexes the mask by 0 to get rid of an axis",
        seen_as="only-batches",
        symptom="The first sample is right.",
        cure="Keep the axis of the batch.",
        right="S = where(mask, S, -inf)",
        wrong="S = where(mask[0], S, -inf)",
        planted={"mask": _first_sample},
        mixes=frozenset({"samples"}),
    )
    yield MixUp(
        "mask-tiled-over-heads",
        "masks of samples are repeated as a whole (0, 1, 0, 1) where heads follow each other in "
        "the batch (0, 0, 1, 1)",
        who="who repeats a mask to (batch·h, n, n) for nn.MultiheadAttention",
        seen_as="only-batches",
        symptom="Right if all samples have the same mask.",
        cure="Use repeat_interleave(h, dim=0), or np.repeat.",
        right="attn_mask = mask.repeat_interleave(h, dim=0)",
        wrong="attn_mask = mask.repeat(h, 1, 1)",
        planted={"mask": _repeated_as_a_whole},
        mixes=frozenset({"samples"}),
    )


def _visible(s):
    return s.asked(s.mask)


def _wrong_sign(s, step):
    hidden = ~_visible(s)
    return np.where(hidden | ~hidden.any(axis=-1, keepdims=True), s.scores, -np.inf)


def _zero_padded(s, step):
    padding = _padding(s.given.arrays["mask"])
    if padding.all() or padding.shape[-1] != padding.shape[-2]:
        raise CannotApplyError("there is no padding")
    return step(s) * s.asked(padding[:, 0].swapaxes(-1, -2)[..., :1])


def _ways_to_apply():
    about = {
        "who": "who reads a mask of 0 and 1 as an additive mask",
        "seen_as": "hidden-tokens",
        "symptom": "Hidden tokens change the output.",
        "cure": "Add 0 where a query may attend, and minus infinity where it may not.",
    }
    yield MixUp(
        "mask-of-ones-added",
        "a mask with 1 for may attend is added to the scores, and hides nothing",
        **about,
        right="S = where(mask, S, -inf)",
        wrong="S = S + mask",
        planted={"masked": lambda s, step: s.scores + _visible(s)},
    )
    yield MixUp(
        "mask-of-zeros-added",
        "a mask with 1 for hidden is added to the scores, and hides nothing",
        **about,
        right="S = where(mask, S, -inf)",
        wrong="S = S + ~mask",
        planted={"masked": lambda s, step: s.scores + ~_visible(s)},
    )
    yield MixUp(
        "hidden-scores-set-to-zero",
        "hidden scores become 0 (or 1e-9), where they have to become minus infinity",
        who="who multiplies scores by the mask, or writes 1e-9 for -1e9",
        seen_as="hidden-tokens",
        symptom="Hidden tokens get the weight of a score of 0.",
        cure="Set hidden scores to minus infinity, or to -1e9.",
        right="S = where(mask, S, -1e9)",
        wrong="S = S * mask",
        planted={"masked": lambda s, step: np.where(_visible(s), s.scores, 0)},
    )
    yield MixUp(
        "hidden-scores-set-to-plus-1e9",
        "hidden scores become large and positive",
        who="who forgets the minus in -1e9",
        seen_as="hidden-tokens",
        symptom="A query attends to hidden tokens alone, and to all of them alike.",
        cure="Set hidden scores to minus infinity, or to -1e9.",
        right="S = where(mask, S, -1e9)",
        wrong="S = where(mask, S, 1e9)",
        planted={
            "masked": lambda s, step: np.where(_visible(s), s.scores, s.scores.dtype.type(1e9))
        },
    )
    yield MixUp(
        "large-number-added-with-the-wrong-sign",
        "a large number is added to hidden scores, where it has to be taken away",
        who="who writes (1 - mask) * 1e9",
        seen_as="hidden-tokens",
        symptom="A query from which something is hidden attends to that alone.",
        cure="Add (1 - mask) * -1e9.",
        right="S = S + (1 - mask) * -1e9",
        wrong="S = S + (1 - mask) * 1e9",
        planted={"masked": _wrong_sign},
        rare=True,
    )
    yield MixUp(
        "mask-after-the-softmax",
        "weights are masked after the softmax, and not normalised again",
        who="who multiplies the weights by the mask",
        seen_as="weights-wrong",
        symptom="Weights of a query sum to less than 1.",
        cure="Mask the scores before the softmax.",
        right="A = softmax(where(mask, S, -inf))",
        wrong="A = softmax(S) * mask",
        planted={
            "masked": lambda s, step: s.scores,
            "weights": lambda s, step: step(s) * _visible(s),
        },
    )
    yield MixUp(
        "outputs-of-padding-set-to-zero",
        "the outputs of padded tokens are set to zero",
        who="who multiplies the output by the padding mask",
        seen_as="hidden-tokens",
        symptom="Outputs of tokens that are no padding are right.",
        cure="Compare the outputs of real tokens only.",
        right="output",
        wrong="output * padding[:, :, None]",
        planted={"output": _zero_padded},
        rare=True,
    )


MIX_UPS = (*_meaning(), *_parts(), *_samples(), *_ways_to_apply())
