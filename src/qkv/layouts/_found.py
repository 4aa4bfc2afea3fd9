r"""An attention layer that was found in a model: what its names and shapes tell of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from qkv._arrays import Bool, check_sizes, quote
from qkv.between import Unknown
from qkv.layouts._between import Between, read_between
from qkv.layouts._config import Known
from qkv.layouts._load import load
from qkv.layouts._registry import layouts
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
        prefix: What its names begin with.
        layouts: The layouts that it may have.
        sizes: The sizes that are known, such as "d_model" and, where heads are packed, the widths
            of all together, "h·d_k" and "h_kv·d_k".
        heads: Every `(h, h_kv, d_k)` that the shapes allow, and what was said of the heads.
        biases: The biases that it stores, if a layout fits.
        refused: Why it cannot be loaded; empty where it can.
        arrays: What it stores but `steps`, by name.
        known: What was known of it beforehand.
        steps: The arrays of what stands between its maps, such as the gains of a norm.
    """

    prefix: str
    layouts: tuple[str, ...]
    sizes: Mapping[str, int]
    heads: tuple[Heads, ...]
    biases: tuple[str, ...]
    refused: str
    arrays: Mapping[str, Any] = field(repr=False)
    known: Known = field(repr=False, default=Known({}))
    steps: Mapping[str, Any] = field(repr=False, default_factory=dict)

    def load(
        self, *, h: int | None = None, h_kv: int | None = None, layout: str | None = None
    ) -> MultiHead:
        """Read the layer's weights as one matrix per head, as `qkv.load` does.

        What stands between its maps (a rotation, a norm, a cap, ...) and its scale are those of the
        configuration, if it has a `model_type`. If not, a layer of a layout whose models as a
        rule rotate refuses to be called; a rotation in another layout, ALiBi, a cap of the scores,
        another scale (except T5's) and T5's bias in layers that share the first one's are not
        noticed.

        Args:
            h: The number of heads; it may be left out where it was told, or follows from the
                shapes.
            h_kv: The number of heads of keys and values; it follows from `h` and the shapes.
            layout: Which of `layouts`; it may be left out where there is one.

        Returns:
            The layer.

        Raises:
            TypeError: If the arrays do not hold floating-point numbers.
            ValueError: If the layer is refused, or an argument is needed or does not fit.

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
        if self.known.kind is None:
            return mh
        sizes = {"h": mh.h, "h_kv": mh.h_kv, "d_k": mh.d_k}
        between = self._between(sizes, mh.scale)
        return replace(mh, between=between.all_steps, scale=between.scale)

    @property
    def between(self) -> Between | None:
        """What its configuration says of it beside its heads; None where that is not known."""
        if self.known.kind is None or self.refused or len(self.heads) != 1:
            return None
        return self._between(self.heads[0]._asdict(), layouts()[self.layouts[0]].scale)

    def _between(self, sizes: Mapping[str, int], scale: float | None) -> Between:
        return read_between(
            self.known.config, self.known.kind, self.prefix, self.steps, sizes, scale
        )

    def mask(self, n_q: int, n_k: int | None = None) -> Bool[np.ndarray, "n_q n_k"]:
        """The mask that the model itself applies to these tokens, without padding.

        With `is_decoder=True` in the configuration, self-attention is causal, unless it has
        `is_causal=False`, also for a type of model that does not read the first option. In types
        with an encoder and a decoder, the prefix says it instead.

        Args:
            n_q: Number of queries.
            n_k: Number of keys; `n_q` where None. In self-attention the last keys are the
                queries' own tokens.

        Returns:
            True where a query may attend to a key, (n_q, n_k).

        Raises:
            ValueError: If the configuration does not tell all, or a number is no positive whole
                number.
        """
        if self.known.kind is None or not self.heads:
            raise ValueError(
                f"Names and shapes do not tell which keys a query of the layer with prefix "
                f"{self.prefix!r} may see: pass config, of a type of model that a layout knows."
            )
        n_k = n_q if n_k is None else n_k
        check_sizes(n_q=n_q, n_k=n_k)
        between = self._between(self.heads[0]._asdict(), None)
        if unknown := [step for step in between.all_steps if isinstance(step, Unknown)]:
            raise ValueError(f"The mask is not known. {unknown[0].why}")
        return between.mask(n_q, n_k)

    def _given_or_only(self, here: str, name: str, given: int | None, counts: set[int]) -> int:
        """A number of heads that was given, or the one that there can be."""
        if given is not None:
            return given
        if len(counts) > 1:
            raise ValueError(
                f"{here} has packed heads, and {name} cannot be told from their widths. Pass "
                f"{name}, one of {', '.join(map(str, sorted(counts)))}; "
                + ("config does not say it." if self.known.asked else "config.json says it.")
            )
        return counts.pop()
