"""What is written, as LaTeX, and the legend that explains it."""

from collections.abc import Callable
from dataclasses import dataclass

from qkv.notation import tree
from qkv.notation._roles import Role
from qkv.notation.tree import ATOM, LEVELS, POWER, PRODUCT, SUM, Expression, Glyph, Written, letters

# Takes a letter's role (None for a function), its LaTeX and whether it is borrowed; gives LaTeX.
Mark = Callable[[Role | None, str, bool], str]


@dataclass(frozen=True)
class Entry:
    r"""A letter of a formula, explained.

    Attributes:
        role: The role that it stands for.
        latex: The letter, of a head in general.
        shape: LaTeX for its shape; empty for a size.
        borrowed: Whether the source has no letter for this role, so that this site's stands.
    """

    role: Role
    latex: str
    shape: str
    borrowed: bool


def unmarked(role: Role | None, latex: str, borrowed: bool) -> str:
    """The letter as it is."""
    return latex


def line(written: Written, mark: Mark = unmarked) -> str:
    """A line; sides that are written alike are written once."""
    first = {latex(side): side for side in reversed(written.sides)}
    return " = ".join(latex(first[side], mark) for side in dict.fromkeys(map(latex, written.sides)))


def latex(node: Expression, mark: Mark = unmarked) -> str:
    """An expression."""
    return _Printer(mark).latex(node)


def sum_sign(node: tree.Added, mark: Mark = unmarked) -> str:
    """The sign for a sum over all heads."""
    return _Printer(mark).sum_sign(node)


def entries(
    written: tuple[Written, ...], shape: Callable[[Glyph], str], mark: Mark
) -> tuple[Entry, ...]:
    """Explain each letter of some lines once, in order; a sum's number of heads after its terms."""
    glyphs = {}
    for side in (side for each in written for side in each.sides):
        for glyph in letters(side):
            glyphs.setdefault((glyph.role.key, glyph.general), glyph)
    return tuple(
        Entry(
            glyph.role,
            mark(glyph.role, glyph.general, glyph.borrowed),
            shape(glyph),
            glyph.borrowed,
        )
        for glyph in glyphs.values()
    )


@dataclass(frozen=True)
class _Printer:
    mark: Mark

    def latex(self, node: Expression, place: int = SUM) -> str:
        """LaTeX of an expression, in brackets if it is looser than its place."""
        text, level = self._print(node)
        return text if level >= place else brackets(text)

    def _print(self, node: Expression) -> tuple[str, int]:
        match node:
            case tree.Number(value):
                return str(value), ATOM
            case tree.OwnSize(latex):
                return latex, PRODUCT
            case tree.Spread(of):
                return rf"{self.latex(of, PRODUCT)} \mathbf{{1}}^\top", PRODUCT
            case Glyph(spelled=None):
                return self._letter(node)
            case Glyph():
                spelled = self._print(node.spelled)
                return self._turned(*spelled) if node.turned else spelled
            case tree.Arithmetic():
                return self._arithmetic(node)
            case tree.Root(of):
                return rf"\sqrt{{{self.latex(of)}}}", ATOM
            case tree.Product(left, right):
                return f"{self.latex(left, PRODUCT)} {self.latex(right, PRODUCT)}", PRODUCT
            case tree.Bracketed(of):
                return brackets(self.latex(of)), ATOM
            case tree.Sum(left, right):
                return f"{self.latex(left)} + {self.latex(right)}", SUM
            case tree.OverRoot(above, size):
                return rf"\frac{{{self.latex(above)}}}{{\sqrt{{{self.latex(size)}}}}}", PRODUCT
            case tree.Transpose(of):
                return self._turned(*self._print(of))
            case tree.Applied():
                arguments = ", ".join(map(self.latex, node.arguments))
                called = self.mark(None, node.latex, node.borrowed)
                return called + brackets(arguments, node.square), ATOM
            case tree.Added(each):
                return f"{self.sum_sign(node)} {self.latex(each, PRODUCT)}", SUM
            case tree.Joined():
                return self._joined(node), ATOM
        raise TypeError(f"{node!r} cannot be written.")

    def _letter(self, glyph: Glyph) -> tuple[str, int]:
        # A letter with a superscript takes no second one.
        level = PRODUCT if "^" in glyph.latex and not glyph.is_size else ATOM
        text = self.mark(glyph.role, glyph.latex, glyph.borrowed)
        return self._turned(text, level) if glyph.turned else (text, level)

    def _turned(self, text: str, level: int) -> tuple[str, int]:
        return rf"{text if level >= ATOM else brackets(text)}^\top", PRODUCT

    def sum_sign(self, node: tree.Added) -> str:
        first = rf"\sum_{{{node.index}=1}}"
        return rf"{first}^{{{self.latex(node.last)}}}" if node.last else rf"\sum_{node.index}"

    def _joined(self, node: tree.Joined) -> str:
        items = [self.latex(each) for each in (node.first, node.second) if each]
        dots = r"\vdots" if node.vertical else r"\ldots"
        items += [dots, self.latex(node.last)] if node.last else [dots]
        if node.vertical:
            return r"\begin{bmatrix}" + r" \\ ".join(items) + r"\end{bmatrix}"
        return self.mark(None, node.latex, node.borrowed) + brackets(", ".join(items))

    def _arithmetic(self, node: tree.Arithmetic) -> tuple[str, int]:
        level = LEVELS[node.operator]
        if node.operator == "**":
            base = self.latex(node.left, ATOM)
            if "^" in base and not base.startswith("("):
                base = brackets(base)
            return f"{base}^{{{self.latex(node.right)}}}", POWER
        left = self.latex(node.left, level)
        right = self.latex(node.right, level + (node.operator in "-/"))
        between = {"*": r" \, ", "/": " / "}.get(node.operator, f" {node.operator} ")
        if node.operator == "*" and isinstance(node.right, tree.Number):
            between = r" \cdot "
        return left + between + right, level


def brackets(text: str, square: bool = False) -> str:
    """LaTeX in brackets, as tall as what they hold."""
    tall = any(part in text for part in (r"\frac", r"\sum", r"\begin"))
    left, right = "[]" if square else "()"
    return rf"\left{left}{text}\right{right}" if tall else f"{left}{text}{right}"
