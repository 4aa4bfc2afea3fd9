r"""Which layout each model has, and what its weights do not tell, as Markdown: made from data."""

from collections.abc import Iterator

from qkv.layouts import layouts
from qkv_site.markdown.tables import fitting
from qkv_site.page import PAGE
from qkv_site.tables import libraries

_ONE_WIDTH = ", which takes no other width of a head than d_model / h"
_KEYS = {
    "fewer heads": "Keys and values may have fewer heads (`h_kv`).",
    "one head": "Keys and values have one head (`h_kv=1`).",
}


def models() -> list[dict]:
    """The models of `docs/libraries/models.toml`; one that a test builds with type and layout."""
    written = PAGE.get().site.data("libraries/models.toml")
    usual = {name: {**model, "unseen": ()} for name, model in written.items()}
    entries = {name: usual.get(model.get("like"), {}) | model for name, model in written.items()}
    known = {
        name: {"layout": layout.name} for layout in layouts().values() for name in layout.types
    }
    return [
        model if "read" in model else {"type": name} | known.get(name, {}) | model
        for name, model in entries.items()
    ]


def is_computed(model: dict) -> bool:
    """Whether the loaded layer computes what the model's own layer computes, whole."""
    return any(model.get("type") in layout.types for layout in layouts().values())


def table() -> str:
    """For each model its layout, where a layer begins, and what the layout leaves open."""
    return fitting(
        ("model and layout", "the names of a layer begin with; and what to know"),
        (
            (f"{model['name']}<br>{_layout(model)}", f"`{model['layer']}`<br>{_notes(model)}")
            for model in models()
        ),
    )


def _layout(model: dict) -> str:
    name = _link_to(model["layout"]) if "layout" in model else "none"
    return f"{name}, *computed*" if is_computed(model) else name


def _link_to(layout: str) -> str:
    return f"[{layout}]({libraries.address(layout)})"


def _notes(model: dict) -> str:
    notes = [*(_facts_of(model) if "layout" in model else ())]
    if unseen := model.get("unseen"):
        options = ", ".join(f"{each['what']} (`{each['option']}`)" for each in unseen)
        notes.append(f"Not in the weights: {options}.")
    if saved := model.get("file"):
        notes.append(
            f"In a file the names begin with `{saved['layer']}`, and the layout is "
            f"{_link_to(saved['layout'])}{_ONE_WIDTH * ('width' in model)}."
        )
    if "why" in model:
        notes.append(model["why"])
    if "pairs" in model:
        notes.append(f"A rotation turns {model['pairs']} as pairs.")
    if "read" in model:
        notes.append(f"*Read: {model['read']}.*")
    return " ".join(notes)


def _facts_of(model: dict) -> Iterator[str]:
    known = layouts()[model["layout"]].types.get(model.get("type"))
    for own, renamed in (known.rename if known else model.get("rename", {})).items():
        yield f"Its `{own.strip('.')}` is the layout's `{renamed.strip('.')}`."
    biases = model.get("biases", "").split()
    if len(biases) == 4:
        yield "All four maps have biases."
    else:
        yield f"Biases: {', '.join(f'`{bias}`' for bias in biases)}." if biases else "No biases."
    if "keys" in model:
        yield _KEYS[model["keys"]]
    if "width" in model:
        yield f"`{model['width']}` sets how wide a head is."
    if steps := model.get("between", "").split():
        yield f"Between the maps: {', '.join(f'`{step}`' for step in steps)}."
    if known and known.pairs == "neighbours" and "Rotation" in steps:
        yield "The rotation turns neighbours as pairs."
