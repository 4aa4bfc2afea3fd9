"""Which row of a fused weight is what, for each order in use: made from the layouts' data."""

from dataclasses import dataclass, field

from qkv.layouts import Layout, Stored, layouts
from qkv_site.figures import Figure
from qkv_site.markdown.tables import fitting
from qkv_site.tables import libraries, slices

SIZES = slices.SIZES | {"h_kv": 2}  # 8 heads of queries, over 2 where an order has groups
_ROLES = {"q": "query", "k": "key", "v": "value"}
_SEVERAL = {"q": "queries", "k": "keys", "v": "values"}
_OUTER = {"h": "head after head", "h_kv": "group after group", "4": "block after block"}


@dataclass(frozen=True)
class Order:
    """One way in which maps follow each other along an axis of a stored array.

    Attributes:
        sizes: The sizes that share the axis, the last one running fastest.
        stored: One of the arrays; the order is the same in all.
        arrays: Who stores it so: the layout, what is stored, and in which case.
    """

    sizes: tuple[str, ...]
    stored: Stored
    arrays: list[tuple[Layout, Stored, str]] = field(default_factory=list)

    @property
    def known(self) -> set[tuple[str, str]]:
        """The names of the arrays and of their layouts."""
        return {(layout.name, stored.name) for layout, stored, _ in self.arrays}

    @property
    def letters(self) -> list[str]:
        """What the parts are called in code: q, k and v, in their order."""
        return [_letter(part) for part in self.stored.parts]

    @property
    def name(self) -> str:
        """The sizes of the axis, as people write them: (h, 3, d_k)."""
        return f"({', '.join(map(_python, self.sizes))})"

    @property
    def in_words(self) -> str:
        """What follows what: "head after head: query, key, value"."""
        split, axis = self.stored.split, self.sizes.index(self.stored.split)
        if axis == 0:
            return ", then ".join(f"all {_SEVERAL[letter]}" for letter in self.letters)
        each = self.sizes[axis + 1] == "d_k"  # no axis of heads inside a part
        counts = split.split("+") if "+" in split else ["1" if each else "h"] * len(self.letters)
        parts = (
            (_ROLES if count == "1" else _SEVERAL)[letter]
            for letter, count in zip(self.letters, counts, strict=True)
        )
        return f"{_OUTER[self.sizes[0]]}: {', '.join(parts)}"

    @property
    def cut(self) -> str:
        """A line of PyTorch that takes the maps out of `W`, whose rows are outputs."""
        split, axis = self.stored.split, self.sizes.index(self.stored.split)
        view = f"W.view({', '.join(map(_python, self.sizes))}, E)"
        if "+" in split:
            taken = f"split([{', '.join(map(_python, split.split('+')))}], {axis})"
        else:
            taken = f"unbind({axis})"
        return f"{', '.join(self.letters)} = {view}.{taken}"


def orders() -> list[Order]:
    """The orders of maps that share an array, over all layouts and forms; the most used first."""
    found: dict[tuple, Order] = {}
    for layout in layouts().values():
        for form in layout.forms:
            for stored in form.without_biases:
                if len(stored.parts) > 1:
                    sizes = stored.axes[slices.axis_of_heads(stored)]
                    order = found.setdefault((sizes, stored.parts), Order(sizes, stored))
                    if (layout.name, stored.name) not in order.known:
                        first = form is layout.forms[0]
                        order.arrays.append((layout, stored, "" if first else f", {form.when}"))
    return sorted(found.values(), key=lambda order: -len(order.arrays))


def strips() -> str:
    """Each order as a strip of 8 heads; print it in a block with `html="on"`."""
    return "".join(map(str, map(Strip, orders())))


@dataclass(frozen=True)
class Strip(Figure):
    """An order as a strip: which head of which map each row belongs to."""

    order: Order

    def html(self) -> str:
        """The strip, above its name and who stores it so."""
        cells = "".join(
            f'<span class="role-{_ROLES[piece[0]]}">{piece}</span>' for piece in self._pieces()
        )
        return (
            '<figure class="wq-strip">'
            f'<div aria-hidden="true">{cells}</div>'
            f"<figcaption><code>{self.order.name}</code> {', '.join(_names(self.order))}"
            "</figcaption></figure>"
        )

    def words(self) -> str:
        """The same, in words."""
        stored = ", ".join(_names(self.order))
        return f"`{self.order.name}`, {stored}: {' '.join(self._pieces())}."

    def _pieces(self) -> list[str]:
        cut = slices.cut(self.order.stored, SIZES)
        return [f"{_letter(part)}{head + 1}" for part, head in cut]


def table() -> str:
    """For each order who stores it, the order in words, and the line that cuts it."""
    rows = (
        (
            "<br>".join(_who(*each) for each in order.arrays),
            f"{order.in_words}<br>" + "`<br>`.".join(f"`{order.cut}`".rsplit(".", 1)),
        )
        for order in orders()
    )
    return fitting(("who stores it so", "the order of the rows, and the cut"), rows)


def _who(layout: Layout, stored: Stored, case: str) -> str:
    first = "" if stored.axes[-1] == ("d_model",) else ": `W` is its transpose"
    page = f"../libraries/{libraries.address(layout.name)}"
    return f"[{layout.name}]({page}) `{stored.name}`{case}{first}"


def _names(order: Order) -> list[str]:
    return [layout.name + case for layout, _, case in order.arrays]


def _letter(part: str) -> str:
    return part[-1].lower()


def _python(size: str) -> str:
    """A size of a layout as Python; terms that are equal are counted."""
    terms = size.split("+")
    ones = terms.count("1") if len(terms) > 1 else 0
    named = [term for term in dict.fromkeys(terms) if not (ones and term == "1")]
    counted = [f"{terms.count(term)} * {term}" if terms.count(term) > 1 else term for term in named]
    return " + ".join(counted + [str(ones)] * bool(ones)).replace("/", " // ")
