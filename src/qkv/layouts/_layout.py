r"""What a library stores, as data: names, shapes in the paper's symbols, and conventions."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np

from qkv._arrays import check_groups, check_sizes
from qkv.between import Step, Unknown
from qkv.layouts._patterns import Pattern, names_in, size_of

BIASES = ("b_Q", "b_K", "b_V", "b_O")
# Every size that a stored axis may have, in the order in which they are listed.
SIZES = ("h", "h_kv", "d_model", "d_source", "d_source_k", "d_source_v", "d_k", "d_v", "d_out")
_Axes = tuple[tuple[str, ...], ...]  # for each axis, the sizes that share it


_ROTATION_UNTOLD = Unknown(
    "Most models with such names rotate queries and keys (RoPE), which names and shapes do not "
    "show; find_layers reads it from a config of Transformers."
)


@dataclass(frozen=True)
class Stored:
    r"""One stored array: its name, which of the paper's arrays it holds, and how.

    Args:
        name: The library's name, without the prefix of the layer.
        holds: Parts of `MultiHead`, in order, separated by spaces.
        pattern: The stored axes; sizes in parentheses share one axis, the last one running fastest,
            as in einops. Where the array holds several parts, one size is their number, as the 3
            of PyTorch is, or a sum with a term for each. A term may be a quotient: h/h_kv heads of
            queries share one of keys.

    Raises:
        ValueError: If the pattern has a name that is no size of a layer.

    Examples:
        GPT-NeoX puts heads outermost: with several, the first third of the rows is not the queries.

        >>> stored = Stored("qkv.weight", "W_Q W_K W_V", "(h 3 d_k) d_model")
        >>> stored.shape
        '(h·3·d_k, d_model)'
        >>> parts = stored.unpack(np.ones((42, 5)), stored.solve((42, 5), {"h": 2}))
        >>> parts["W_K"].shape
        (2, 5, 7)
    """

    name: str
    holds: str
    pattern: str

    def __post_init__(self):
        if others := sorted(self.symbols - {*SIZES}):
            raise ValueError(
                f"Pattern {self.pattern!r} has {others[0]!r}, which is no size of a layer: "
                f"expected one of {', '.join(SIZES)}."
            )

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of `MultiHead` it holds, in order."""
        return tuple(self.holds.split())

    @property
    def is_bias(self) -> bool:
        """Whether it holds biases rather than matrices."""
        return self.holds.startswith("b_")

    @property
    def shape(self) -> str:
        """The stored shape in the paper's symbols."""
        return str(self._stored)

    @property
    def axes(self) -> _Axes:
        """The sizes that share each stored axis."""
        return self._stored.axes

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the sizes in its shape."""
        return frozenset(name for axis in self.axes for size in axis for name in names_in(size))

    @property
    def split(self) -> str:
        """The size that tells the parts apart; empty where it holds one part."""
        number = str(len(self.parts))
        shared = (size for axis in self.axes for size in axis if size == number or "+" in size)
        return next(shared) if len(self.parts) > 1 else ""

    def term(self, part: str) -> str:
        """What stands in place of `split` for one part."""
        terms = self.split.split("+") if "+" in self.split else ["1"] * len(self.parts)
        return terms[self.parts.index(part)]

    @property
    def paper_axes(self) -> _Axes:
        """The sizes that share each axis of the parts: heads, what goes in, and what comes out."""
        sizes = _flat(self.axes)
        heads = tuple(size for size in sizes if not size.startswith("d_"))
        of_a_head = [size for size in sizes if size in ("d_k", "d_v")]
        of_tokens = [size for size in sizes if size not in (*heads, *of_a_head)]
        # Three maps take a token and give what a head gets; W_O takes what a head returns.
        widths = of_a_head + of_tokens if self.holds == "W_O" else of_tokens + of_a_head
        return (heads,) * bool(heads) + tuple((width,) for width in widths)

    def axes_of(self, part: str) -> _Axes:
        """`paper_axes` of one part, with its own term in place of `split`."""
        return tuple(
            tuple(self.term(part) if size == self.split else size for size in axis)
            for axis in self.paper_axes
        )

    def part_shape(self, part: str) -> Pattern:
        """The shape of a part."""
        return Pattern(tuple((_product(axis),) for axis in self.axes_of(part)))

    def part_axes(self, part: str) -> tuple[str, ...]:
        """The axes of a part, each as one symbol."""
        return tuple(symbol for (symbol,) in self.part_shape(part).axes)

    @property
    def _stored(self) -> Pattern:
        return Pattern.parse(self.pattern)

    def solve(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes known so far and those that this array's shape adds to them."""
        return self._stored.solve(self.name, shape, sizes)

    def shape_for(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The stored shape in numbers."""
        return _multiplied(self.axes, sizes)

    def unpack(self, array: np.ndarray, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """The parts of `MultiHead` in a stored array."""
        # As einops does it: an axis for each size, in the other order, then those of a part joined.
        stored, paper = _flat(self.axes), _flat(self.paper_axes)
        array = array.reshape([size_of(symbol, sizes) for symbol in stored])
        array = array.transpose([stored.index(symbol) for symbol in paper])
        arrays = [array]
        if self.split:
            # The parts lie one behind the other along the axis of their number, or of their sum.
            ends = np.cumsum([size_of(self.term(part), sizes) for part in self.parts])
            arrays = np.split(array, ends[:-1], axis=paper.index(self.split))
        return {
            part: array.reshape(_multiplied(self.axes_of(part), sizes))
            for part, array in zip(self.parts, arrays, strict=True)
        }

    def pack(self, parts: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
        """The stored array that holds these parts of `MultiHead`."""
        stored, paper = _flat(self.axes), _flat(self.paper_axes)
        arrays = [
            parts[part].reshape([size_of(symbol, sizes) for symbol in _flat(self.axes_of(part))])
            for part in self.parts
        ]
        array = np.concatenate(arrays, paper.index(self.split)) if self.split else arrays[0]
        array = array.transpose([paper.index(symbol) for symbol in stored])
        # A copy in C's order, and no view of the layer's own arrays, which are read-only.
        return np.array(array.reshape(self.shape_for(sizes)), order="C")


def _flat(axes: _Axes) -> list[str]:
    return [symbol for axis in axes for symbol in axis]


def _multiplied(axes: _Axes, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(math.prod(size_of(symbol, sizes) for symbol in axis) for axis in axes)


def _product(sizes: tuple[str, ...]) -> str:
    """Sizes that share an axis, multiplied: h_kv and h/h_kv are h."""
    left = [size.partition("/")[0] for size in sizes if size != "1"]
    for size in sizes:  # what a quotient divides by stands beside it, and cancels
        if divisor := size.partition("/")[2]:
            left.remove(divisor)
    return "·".join(left)


@dataclass(frozen=True)
class Form:
    r"""The arrays that a library stores in one of the cases it distinguishes.

    Args:
        when: The case, in words.
        stored: The arrays, in the order of the layout's file, not always the library's.
        note: What else to know about the arrays or their names.
    """

    when: str
    stored: tuple[Stored, ...]
    note: str = ""

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the sizes in the shapes of its arrays."""
        return frozenset(name for stored in self.stored for name in stored.symbols)

    @property
    def without_biases(self) -> tuple[Stored, ...]:
        """The arrays that hold matrices."""
        return tuple(stored for stored in self.stored if not stored.is_bias)


@dataclass(frozen=True)
class Type:
    """What a type of model does that neither its config nor its arrays say.

    Args:
        mask: Whether queries see later keys: "causal", "none", or "sides", where an encoder's do
            and a decoder's do not.
        rotates: Whether queries and keys are rotated: where the config has a base; "never"; "in
            windows", which is in layers that have one; or "by layer", as `no_rope_layers` says.
        pairs: Which numbers a rotation takes as a pair.
        base: The base where the config has none.
        norm: Which norm the arrays `q_norm` and the like belong to.
        gains_from: What stored gains are added to.
        clip_first: Whether a clip comes before the norm.
        norm_first: Whether the norm comes before the rotation.
        bare_norm: The option that turns on a norm without weights, after a rotation.
        windows: Whether the option for a sliding window acts: where the layer's type says so, or in
            no layer, or in all.
        alibi: Whether there is ALiBi whatever the config says.
        capped: Whether the option for a soft cap acts.
        scaled_bias: Whether a bias is added before the scores are scaled.
        first_bias: Whether the first layer has the table of a bias for all of its stack.
        rename: Parts of names that the model has, and what the layout calls them.
    """

    mask: Literal["causal", "none", "sides"] = "causal"
    rotates: Literal["by config", "never", "in windows", "by layer"] = "by config"
    pairs: Literal["halves", "neighbours"] = "halves"
    base: float | None = None
    norm: Literal["RMSNorm", "LayerNorm"] = "RMSNorm"
    gains_from: float = 0.0
    clip_first: bool = True
    norm_first: bool = True
    bare_norm: str = ""
    windows: Literal["by config", "never", "always"] = "by config"
    alibi: bool = False
    capped: bool = True
    scaled_bias: bool = False
    first_bias: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    r"""How a library stores the weights of multi-head attention: a file of the folder `libraries`.

    Args:
        name: What `load` and `dump` call it.
        title: The library and the class.
        read_in: The file and lines this was read from, with version or commit.
        order: Where it stands among all layouts.
        arguments: The arguments that it is called with, in the library's order; for each the
            sources that it is, such as `"X_K X_V"`, or what else it is. One with "=..." is passed
            by name.
        scaling: What the scores are multiplied by, and where, in sentences.
        forms: What is stored; more than one where the library distinguishes cases.
        call: What is called.
        remark: What to notice in the arguments.
        optional_biases: Whether the library can leave out a form's biases: all of them, or none.
        square: Whether the library fixes $d_{model} = h\,d_k$.
        one_or_all: Whether keys and values have one head or as many as queries, and no number in
            between.
        whole_head: Whether the library stores these arrays too where a single head is as wide as
            the model.
        scale: What `MultiHead.scale` is for these weights.
        rotary: Whether its models rotate queries and keys (RoPE) before the dot product, as a rule.
        types: What Transformers calls the models that store these names, or names that
            `find_layers` takes for these, and what each does between its maps that its config does
            not say.
        in_order: Whether weights may come as a list without names, in the order of `forms`.
        outside: What is stored under the same prefix and is none of the layer's maps or biases,
            such as a causal mask; `load` passes over it. Name, or pattern of names ("*/adam_m"),
            to what it is.
        refused: What takes part between the sources and the output and is none of the maps or
            biases; `load` refuses it. Name to why.
        cannot: What else the library's layer can do that the stored arrays do not show.
        unknown: Forms that the stored arrays do show and that are not among `forms`; `load`
            refuses them, if it is given the model's `h` and `h_kv`.
    """

    name: str
    title: str
    order: int
    read_in: str
    arguments: Mapping[str, str]
    scaling: str
    forms: tuple[Form, ...]
    call: str = "layer"
    remark: str = ""
    optional_biases: bool = False
    square: bool = False
    one_or_all: bool = False
    whole_head: bool = True
    scale: float | None = None
    rotary: bool = False
    types: Mapping[str, Type] = field(default_factory=dict)
    in_order: bool = False
    outside: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    cannot: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def between(self) -> tuple[Step, ...]:
        """What stands between the maps, as far as names and shapes tell."""
        return (_ROTATION_UNTOLD,) if self.rotary else ()

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """The arguments that are sources, and which of X_Q, X_K and X_V each is."""
        return {
            name: tuple(roles.split())
            for name, roles in self.arguments.items()
            if {*roles.split()} <= {"X_Q", "X_K", "X_V"}
        }

    @property
    def convention(self) -> Literal["(out, in)", "(in, out)"]:
        """Whether a stored matrix has the axis of the source last or before its outputs."""
        query = next(stored for stored in self.forms[0].stored if "W_Q" in stored.parts)
        return "(out, in)" if query.axes[-1] == ("d_model",) else "(in, out)"

    @property
    def biases(self) -> Literal["never", "always", "all or none", "by form"]:
        """Whether its `forms` have the biases that their arrays name; "by form" if that depends."""
        if len(self.bias_sets) == 1:
            return "always" if self.bias_sets[0] else "never"
        return "all or none" if len(self.bias_sets) == 2 and () in self.bias_sets else "by form"

    @property
    def bias_sets(self) -> tuple[tuple[str, ...], ...]:
        """Which biases the library may store together, over all forms, the most of them first."""
        stored = (
            {part for each in arrays for part in each.parts} for arrays in self.arrangements()
        )
        found = {tuple(b for b in BIASES if b in parts) for parts in stored}
        return tuple(sorted(found, key=len, reverse=True))

    @property
    def grouped(self) -> bool:
        """Whether keys and values may have fewer heads than queries."""
        return "h_kv" in self.symbols

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the sizes in the shapes of its arrays, over all forms."""
        return frozenset(name for form in self.forms for name in form.symbols)

    def shapes(
        self,
        *,
        d_model: int,
        h: int,
        d_k: int,
        h_kv: int | None = None,
        d_v: int | None = None,
        bias: bool = False,
    ) -> dict[str, tuple[int, ...]]:
        """Tell the shapes that the library stores, without making the arrays.

        Args:
            d_model: Width of the sources and of the output.
            h: Number of heads.
            d_k: Width of one head's queries and keys.
            h_kv: Number of heads of keys and values; `h` where None.
            d_v: Width of one head's values; `d_k` where None.
            bias: Whether to list the biases too, where the library can leave all of them out.
                Elsewhere those of the form are listed.

        Returns:
            Shapes by name, in the order of `Form.stored`, of the first form that has such heads.

        Raises:
            ValueError: If a size is not a positive whole number or does not divide where it has to,
                or if the library has no such layer: its layers have d_model = h·d_k, for example.

        Examples:
            Qwen3-4B has more heads than fit its width.

            >>> from qkv.layouts import layouts
            >>> layouts()["llama"].shapes(d_model=2560, h=32, h_kv=8, d_k=128)["k_proj.weight"]
            (1024, 2560)
        """
        given = {"d_model": d_model, "h": h, "d_k": d_k}
        given |= {"h_kv": h if h_kv is None else h_kv, "d_v": d_k if d_v is None else d_v}
        check_sizes(**given)
        check_groups(h, given["h_kv"])
        self.check_heads(given)
        self.check_layer(given)
        # Of a layer of a model all sources and the output are as wide as the model.
        widths = ("d_out", "d_source", "d_source_k", "d_source_v")
        sizes = given | dict.fromkeys(widths, d_model)
        form = next(form for form in self.forms if h_kv in (None, h) or "h_kv" in form.symbols)
        listed = form.without_biases if self.optional_biases and not bias else form.stored
        return {stored.name: stored.shape_for(sizes) for stored in listed}

    def arrangements(self) -> Iterator[tuple[Stored, ...]]:
        """Every set of arrays that the library may store, with or without biases."""
        for form in self.forms:
            yield form.stored
            if self.optional_biases:
                yield form.without_biases

    def is_outside(self, name: str) -> bool:
        """Whether a stored array is among `outside`."""
        return any(_within(name, known) for known in self.outside)

    def why_refused(self, name: str) -> str | None:
        """Why `load` refuses a stored array that is among `refused`; None for any other."""
        return next((why for known, why in self.refused.items() if _within(name, known)), None)

    def check_layer(self, sizes: Mapping[str, int]) -> None:
        """Raise unless the library's arrays are these for a layer of these sizes."""
        self.check_square(sizes)
        d_model, d_k, d_v = sizes["d_model"], sizes["d_k"], sizes.get("d_v", sizes["d_k"])
        if d_v != d_k and "d_v" not in self.symbols:
            raise ValueError(
                f"Layout {self.name!r} has values as wide as keys, but d_k = {d_k} and d_v = {d_v}."
            )
        if sizes["h"] == 1 and d_k == d_model and not self.whole_head:
            raise ValueError(
                f"Layout {self.name!r} has other arrays if one head is as wide as the model, and "
                f"h = 1 and d_k = d_model = {d_model}."
            )

    def check_heads(self, sizes: Mapping[str, int]) -> None:
        """Raise unless the library has so many heads of keys and values beside those of queries."""
        h, h_kv = sizes["h"], sizes.get("h_kv", sizes["h"])
        if h_kv != h and not self.grouped:
            raise ValueError(
                f"Layout {self.name!r} has as many heads of keys and values as of queries, but "
                f"h = {h} and h_kv = {h_kv}."
            )
        if h_kv not in (1, h) and self.one_or_all:
            raise ValueError(
                f"Layout {self.name!r} has one head of keys and values, or as many as of queries, "
                f"but h = {h} and h_kv = {h_kv}."
            )

    def check_square(self, sizes: Mapping[str, int]) -> None:
        """Raise unless the sizes keep the library's d_model = h·d_k, where it has that."""
        if self.square and sizes["d_model"] != sizes["h"] * sizes["d_k"]:
            raise ValueError(
                f"Layout {self.name!r} has d_model = h·d_k, but the shapes give "
                f"d_model = {sizes['d_model']}, h = {sizes['h']}, d_k = {sizes['d_k']}."
            )


def _within(name: str, known: str) -> bool:
    return fnmatchcase(name, known) or name.startswith((f"{known}.", f"{known}/"))
