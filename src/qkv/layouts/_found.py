r"""An attention layer that was found in a model: what its names and shapes tell of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from qkv._arrays import quote
from qkv.layouts._load import load
from qkv.multi_head import MultiHead


class Heads(NamedTuple):
    """Numbers and widths of heads that a layer's shapes allow together."""

    h: int
    h_kv: int
    d_k: int


@dataclass(frozen=True, eq=False)
class FoundLayer:
    """An attention layer in a model's weights, and what names and shapes tell of it.

    Args:
        prefix: What its names begin with; it tells an encoder's layer from a decoder's, and
            self-attention from cross-attention.
        layouts: The layouts that its names and shapes fit; none where it is refused.
        sizes: What the shapes tell: "d_model", and "h", "h_kv" and "d_k" or, where heads are
            packed, the widths of all together, "h·d_k" and "h_kv·d_k".
        heads: Every `(h, h_kv, d_k)` that the shapes allow, and what was said of the heads.
        biases: The biases that it stores.
        refused: Why it cannot be loaded; empty where it can.
        arrays: What it stores, names to arrays.
        rotates: Whether the model rotates queries and keys, where its configuration tells; None
            where it does not, and the layout decides.
    """

    prefix: str
    layouts: tuple[str, ...]
    sizes: Mapping[str, int]
    heads: tuple[Heads, ...]
    biases: tuple[str, ...]
    refused: str
    arrays: Mapping[str, Any] = field(repr=False)
    rotates: bool | None = None

    def load(
        self, *, h: int | None = None, h_kv: int | None = None, layout: str | None = None
    ) -> MultiHead:
        """Read the layer's weights as one matrix per head, as `qkv.load` does.

        Args:
            h: The number of heads; it may be left out where it was told, or follows from the
                shapes.
            h_kv: The number of heads of keys and values; it follows from `h` and the shapes.
            layout: Which of `layouts`; it may be left out where there is one.

        Returns:
            The layer.

        Raises:
            TypeError: If the arrays do not hold floating-point numbers.
            ValueError: If the layer is refused, or `h` or the layout has to be said.

        Examples:
            >>> from qkv import dump, find_layers
            >>> weights = dump(MultiHead.random(6, 2), "pytorch", prefix="layers.0.attn.")
            >>> [layer] = find_layers(weights)
            >>> layer.load(h=2)
            MultiHead(h=2, d_model=6, d_k=3, d_v=3)
        """
        here = f"The layer with prefix {self.prefix!r}"
        if self.refused:
            raise ValueError(f"{here} is refused. {self.refused}")
        if layout is None and len(self.layouts) > 1:
            raise ValueError(
                f"{here} fits the layouts {quote(self.layouts)}. They may order the numbers in "
                "other ways, which shapes do not show: pass layout, the one of the model's library."
            )
        layout = self.layouts[0] if layout is None else layout
        h = self._given_or_only(here, "h", h, {heads.h for heads in self.heads})
        counts = {heads.h_kv for heads in self.heads if heads.h == h}
        h_kv = self._given_or_only(here, "h_kv", h_kv, counts or {h})
        mh = load(self.arrays, layout, h=h, h_kv=h_kv, prefix=self.prefix)
        return mh if self.rotates is None else replace(mh, rotary=self.rotates)

    def _given_or_only(self, here: str, name: str, given: int | None, counts: set[int]) -> int:
        """A number of heads that was given, or the one that there can be."""
        if given is not None:
            return given
        if len(counts) > 1:
            raise ValueError(
                f"{here} has packed heads, and {name} cannot be told from their widths. Pass "
                f"{name}, one of {', '.join(map(str, sorted(counts)))}; a model's config.json "
                "says it."
            )
        return counts.pop()
