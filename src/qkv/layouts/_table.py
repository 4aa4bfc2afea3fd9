r"""The attention layers of a model as text: one line for layers that are alike but for a number."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap

from qkv._arrays import quote
from qkv.layouts._found import FoundLayer

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
        how = "and config does not say it: pass h" if packed[0].known.asked else "pass h, or config"
        yield f"Packed heads do not show their number{',' * ('and' in how) or ':'} {how}.{examples}"
    if several := dict.fromkeys(layer.layouts for layer in layers if len(layer.layouts) > 1):
        names = "; ".join(map(quote, several))
        yield f"Names and shapes do not decide between layouts: pass layout to load ({names})."
    steps = {layer.prefix: _steps(layer) for layer in layers}
    for prefix, layer in _runs(layers, steps):
        if steps[layer.prefix]:
            yield f"{prefix}: {steps[layer.prefix]}"
    unknown = tuple(layer for layer in layers if layer.known.kind is None and not layer.refused)
    if unknown:
        yield (
            "Names and shapes do not tell what stands between the maps (a rotation, a bias of the "
            "scores, a cap), another scale, or the mask: pass config, the model's config.json."
        )
    if others:
        yield f"Named like attention, and not read: {quote(others, 4)}."


def _steps(layer: FoundLayer) -> str:
    """What a layer's config says of it beside its heads."""
    between = layer.between
    if between is None:
        return ""
    facts = [*map(repr, between.all_steps)]
    if between.scale is not None:
        facts.append(f"scale={between.scale:.6g}")
    if between.window is not None:
        facts.append(f"a window of {between.window} keys before")
    if between.chunk is not None:
        facts.append(f"chunks of {between.chunk}")
    return "; ".join([*facts, "causal" if between.causal else "no causal mask"]) + "."


def _runs(
    layers: Iterable[FoundLayer], also: Mapping[str, str] | None = None
) -> Iterator[tuple[str, FoundLayer]]:
    """Layers that are alike but for one number in the prefix, as one: "layers.0-5.attn."."""
    alike = {}
    for layer in layers:
        sizes, more = tuple(layer.sizes.items()), (also or {}).get(layer.prefix)
        why_not = layer.refused.replace(layer.prefix, "")
        same_facts = layer.layouts, sizes, layer.heads, layer.biases, why_not, more
        alike.setdefault((re.sub(r"\d+", "#", layer.prefix), same_facts), []).append(layer)
    for same in alike.values():
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
