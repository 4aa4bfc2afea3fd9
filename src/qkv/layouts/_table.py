r"""The attention layers of a model as text: one line for layers that are alike but for a number."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap

from qkv._arrays import quote
from qkv.layouts._found import FoundLayer
from qkv.layouts._registry import layouts

_USUAL_WIDTHS = (64, 128)  # of one head, an example where the width is not known
_SAME = {"h_kv": "h", "h_kv·d_k": "h·d_k", "h·d_v": "h·d_k", "d_v": "d_k"} | dict.fromkeys(
    ("d_source", "d_source_k", "d_source_v", "d_out"), "d_model"
)


def table(layers: tuple[FoundLayer, ...], others: tuple[str, ...]) -> str:
    """The layers of a model as a table, and below it what names and shapes do not tell."""
    lines = [("prefix", "layout", "biases", "sizes"), *starmap(_line, _runs(layers))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    wrapped = textwrap.TextWrapper(88, subsequent_indent="  ", break_on_hyphens=False)
    notes = map(wrapped.fill, _notes(layers, others))
    return "\n".join([*rows, *notes])


def _line(prefix: str, layer: FoundLayer) -> tuple[str, str, str, str]:
    if layer.refused:
        return prefix, "refused", "", layer.refused.partition(". ")[0]
    biases = " ".join(layer.biases) or "none"
    return prefix, " or ".join(layer.layouts), biases, _spell(layer.sizes)


def _spell(sizes: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name}={size}" for name, size in sizes.items() if sizes.get(_SAME.get(name)) != size
    )


def _notes(layers: tuple[FoundLayer, ...], others: tuple[str, ...]) -> Iterator[str]:
    yield f"{len(layers)} attention layer{'s' * (len(layers) > 1)}."
    packed = [layer for layer in layers if len({heads.h for heads in layer.heads}) > 1]
    if packed:
        usual = [heads for heads in packed[0].heads[::-1] if heads.d_k in _USUAL_WIDTHS]
        examples = "".join(f" If d_k is {heads.d_k}, h is {heads.h}." for heads in usual)
        yield f"Packed heads do not show their number: pass h, or config.{examples}"
    if several := dict.fromkeys(layer.layouts for layer in layers if len(layer.layouts) > 1):
        names = "; ".join(map(quote, several))
        yield f"Names and shapes do not decide between layouts: pass layout to load ({names})."
    unknown = tuple(layer for layer in layers if layer.rotates is None)
    if rotary := [name for name in _names(unknown) if layouts()[name].rotary]:
        example = ", such as ViT with Llama's names" if "llama" in rotary else ""
        yield (
            f"Most models of layout {quote(rotary)} rotate queries and keys (RoPE), which the "
            f"arrays do not show. For one that does not{example}, "
            "dataclasses.replace(mh, rotary=False)."
        )
    for rotates, layouts_of in ((True, False), (False, True)):
        known = tuple(layer for layer in layers if layer.rotates is rotates)
        if names := [name for name in _names(known) if layouts()[name].rotary is layouts_of]:
            yield (
                f"By its config, this model of layout {quote(names)} "
                + ("rotates" if rotates else "does not rotate")
                + " queries and keys (RoPE)."
            )
    if others:
        yield f"Named like attention, and not read: {quote(others, 4)}."


def _names(layers: tuple[FoundLayer, ...]) -> dict[str, None]:
    return dict.fromkeys(name for layer in layers for name in layer.layouts)


def _runs(layers: Iterable[FoundLayer]) -> Iterator[tuple[str, FoundLayer]]:
    """Layers that are alike but for one number in the prefix, as one: "layers.0-5.attn."."""
    groups = {}
    for layer in layers:
        facts = layer.layouts, tuple(layer.sizes.items()), layer.heads, layer.biases, layer.refused
        groups.setdefault((re.sub(r"\d+", "#", layer.prefix), facts), []).append(layer)
    for same in groups.values():
        cut = [re.split(r"(\d+)", layer.prefix) for layer in same]  # every second is a number
        counting = [at for at, column in enumerate(zip(*cut, strict=True)) if len({*column}) > 1]
        if not counting:
            yield same[0].prefix, same[0]
            continue
        series = {}
        for layer, words in zip(same, cut, strict=True):
            number = int(words.pop(counting[-1]))
            series.setdefault(tuple(words), []).append((number, layer))
        for words, numbered in series.items():
            before, after = words[: counting[-1]], words[counting[-1] :]
            numbers = _ranges([number for number, _ in numbered])
            yield "".join([*before, numbers, *after]), numbered[0][1]


def _ranges(numbers: list[int]) -> str:
    """Write 0, 1, 2, 5 as "0-2,5"."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ",".join(f"{each[0]}-{each[-1]}" if len(each) > 1 else str(each[0]) for each in ranges)
