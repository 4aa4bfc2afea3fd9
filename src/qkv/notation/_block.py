"""Lines that stand together: checked, typeset and explained as one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from qkv.notation import latex
from qkv.notation._check import Fault, find_faults, size_of
from qkv.notation._roles import Role
from qkv.notation._sources import Source, source
from qkv.notation._written import Glyph, Writer, Written, axes, write
from qkv.notation.latex import Entry, Mark, unmarked
from qkv.notation.settings import Setting
from qkv.notation.tree import Expression, Formula, Number, Symbol, parse

# What is said of the orientation of tokens as rows, and what it is with tokens as columns.
SIDES = {
    "row": "column",
    "rows": "columns",
    "side by side": "one below the other",
    "beside": "below",
    "from the right": "from the left",
    "on the right": "on the left",
}
SIDES |= {other: word for word, other in SIDES.items()}


@dataclass(frozen=True)
class Block:
    """Formulas that stand together. They are read under one setting, which all of them decide.

    Args:
        lines: The lines, as `check` takes them.
        given: How roles are made, where the lines alone do not say it.
    """

    lines: tuple[str, ...]
    given: Setting | None = None

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """The lines, parsed."""
        return tuple(map(parse, self.lines))

    @cached_property
    def setting(self) -> Setting:
        """How the roles of the lines are made."""
        return self.given or Setting.of(self.formulas)

    def setting_in(self, chosen: Source) -> Setting:
        """`setting` for a source: where X_Q and X_K have one letter, they have one length."""
        if not chosen.has_one_source:
            return self.setting
        return replace(self.setting, sizes={**self.setting.sizes, "n_q": "n", "n_k": "n"})

    def faults(self) -> tuple[Fault, ...]:
        """What is wrong with which line."""
        return find_faults(*self.lines)

    def write(self, chosen: str | Source = "site") -> tuple[Written, ...]:
        """The lines as trees, as a source writes them."""
        chosen = _source(chosen)
        return tuple(write(formula, chosen, self.setting) for formula in self.formulas)

    def typeset(self, chosen: str | Source = "site", *, mark: Mark = unmarked) -> tuple[str, ...]:
        """LaTeX of each line."""
        return tuple(latex.line(written, mark) for written in self.write(chosen))

    def legend(self, chosen: str | Source = "site", *, mark: Mark = unmarked) -> tuple[Entry, ...]:
        """Explain the letters of the lines."""
        chosen = _source(chosen)

        def shape(glyph: Glyph) -> str:
            return shape_of(self.setting_in(chosen).define(glyph.role), chosen, mark)

        return latex.entries(self.write(chosen), shape, mark)


def typeset(line: str, source: str | Source = "site", *, mark: Mark = unmarked) -> str:
    r"""Write a formula in a source's letters.

    A role that the source has no letter for is written out by its definition, or has this site's
    letter. Sides that a source writes alike are written once.

    Args:
        line: A formula, a role, or a size: `Q[i] = X_Q @ W_Q[i]`, `X_Q`, `h * d_k`.
        source: A source, or its id.
        mark: Called with each letter's role (None for a function), its LaTeX and whether it is
            borrowed from this site; returns the LaTeX to use.

    Returns:
        LaTeX, without dollar signs.

    Raises:
        ValueError: If the line is no formula, or there is no such source.

    Examples:
        >>> line = "head[i] = attention(Q[i], K[i], V[i])"
        >>> print(typeset(line, "paper-eq1"))
        \operatorname{Attention}(Q, K, V)
        >>> print(typeset(line, "paper-3-2-2"))
        \mathrm{head}_i = \operatorname{Attention}(Q W_i^Q, K W_i^K, V W_i^V)

        With tokens as columns:

        >>> print(typeset("X_Q @ W_Q[i]", "ng-multi-head"))
        W_i^Q q
    """
    (written,) = Block((line,)).typeset(source, mark=mark)
    return written


def legend(line: str, source: str | Source = "site", *, mark: Mark = unmarked) -> tuple[Entry, ...]:
    r"""Explain the letters, except indices, that `typeset` writes for the same arguments.

    Args:
        line: A formula, or one role.
        source: A source, or its id.
        mark: As for `typeset`.

    Returns:
        One `Entry` a role and letter, in the order of appearance; in a sum, the terms
        come before the number of heads.

    Raises:
        ValueError: If the line is no formula, or there is no such source.

    Examples:
        >>> for entry in legend("Q[i] = X_Q @ W_Q[i]"):
        ...     print(entry.latex, entry.role.meaning, entry.shape, sep=" | ")
        Q_i | projected queries of one head | n_q \times d_k
        X_Q | source of the queries | n_q \times d_{\text{model}}
        W_i^Q | one head's weight for queries | d_{\text{model}} \times d_k
    """
    return Block((line,)).legend(source, mark=mark)


def shape(line: str, source: str | Source = "site", *, mark: Mark = unmarked, **sizes: int) -> str:
    r"""Write the shape of a role or an expression, as a source has it.

    Whether the expression can be computed is not asked: `check` does that.

    Args:
        line: A role or an expression without an equality: `W_Q[i]`, `P_Q @ W_Q[i]`.
        source: A source, or its id.
        mark: As for `typeset`.
        **sizes: A number for each size of `Role.shape`; without any, names are written, as the
            source has them. A line without `h_kv` has as many heads of keys as of queries, unless
            `h_kv` is given.

    Returns:
        LaTeX, without dollar signs.

    Raises:
        ValueError: If the line is no such expression, there is no such source, only some of its
            sizes have a number, or two that are one there (`n_q` and `n_k`) have different ones.

    Examples:
        >>> print(shape("W_Q[i]"))
        d_{\text{model}} \times d_k
        >>> print(shape("W_Q[i]", "ng-multi-head", d_model=512, d_k=64))
        64 \times 512
        >>> print(shape("W_K", d_model=4096, h=32, h_kv=8, d_k=128))
        4096 \times 1024
    """
    block, chosen = Block((line,)), _source(source)
    (formula,) = block.formulas
    if len(formula.sides) != 1:
        raise ValueError(f"A shape is one of an expression, but `{line}` is an equality.")
    (expression,) = formula.sides
    setting = block.setting_in(chosen)
    if "h_kv" in sizes:
        equal = {size: it for size, it in setting.sizes.items() if size != "h_kv"}
        setting = replace(setting, sizes=equal)
    for size, same in setting.sizes.items():
        if size in sizes and sizes.setdefault(same, sizes[size]) != sizes[size]:
            raise ValueError(
                f"{size} is {sizes[size]} and {same} is {sizes[same]}, which are one size here: "
                "expected one number."
            )
    if isinstance(expression, Symbol) and not sizes:
        return shape_of(setting.define(expression.role), chosen, mark)
    found = axes(expression, setting)
    if isinstance(expression, Symbol):
        turned = chosen.transposes(expression.role)
    else:
        turned = chosen.tokens == "columns"
    if sizes:
        found = tuple(Number(size_of(size, sizes)) for size in found)
    writer = Writer(chosen, block.setting, transposed=turned)
    return _times(map(writer.write, found[::-1] if turned else found), mark)


def shape_of(role: Role, source: Source, mark: Mark = unmarked) -> str:
    """LaTeX for the shape of what a source writes for a role, in its own letters."""
    sizes = Writer(source, Setting.of(()), transposed=False).shape(role)
    return _times(sizes[::-1] if source.transposes(role) else sizes, mark)


def side(word: str, source: str | Source = "site", role: Role | None = None) -> str:
    """Say where something stands, as a source has it.

    Args:
        word: What is said where tokens are rows: "row", "rows", "side by side", "beside", "from
            the right" or "on the right", or what it becomes where they are columns.
        source: A source, or its id.
        role: The role that it is said of, for sources that do not turn every role.

    Raises:
        ValueError: If there is no such word or source.

    Examples:
        >>> side("rows"), side("rows", "ng-multi-head")
        ('rows', 'columns')
    """
    if word not in SIDES:
        raise ValueError(f"{word!r} is no word of side: expected one of {', '.join(SIDES)}.")
    chosen = _source(source)
    turned = chosen.transposes(role) if role else chosen.tokens == "columns"
    return SIDES[word] if turned else word


def _times(sizes: Iterable[Expression], mark: Mark) -> str:
    return r" \times ".join(latex.latex(size, mark) for size in sizes)


def _source(chosen: str | Source) -> Source:
    return source(chosen) if isinstance(chosen, str) else chosen
