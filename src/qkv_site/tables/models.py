r"""Which layout each model has, and what its weights do not tell, as Markdown: made from data."""

import tomllib
from collections.abc import Iterator

from qkv.layouts import layouts
from qkv_site.page import PAGE
from qkv_site.tables import libraries

_KEYS = {
    "fewer heads": "Keys and values may have fewer heads (`h_kv`).",
    "one head": "Keys and values have one head (`h_kv=1`).",
}


def models() -> list[dict]:
    """The models of `docs/libraries/models.toml`."""
    return tomllib.loads((PAGE.get().site.docs / "libraries/models.toml").read_text())["model"]


def table() -> str:
    """For each model its layout, where a layer begins, and what the layout leaves open."""
    return libraries.fitting(
        ("model and layout", "the names of a layer begin with; and what to know"),
        (
            (f"{model['name']}<br>{_layout(model)}", f"`{model['layer']}`<br>{_told(model)}")
            for model in models()
        ),
    )


def _layout(model: dict) -> str:
    return f"[{model['layout']}]({model['layout']}.md)" if "layout" in model else "none"


def _told(model: dict) -> str:
    said = [*(_of_layer(model) if "layout" in model else ())]
    if unseen := model.get("unseen"):
        options = ", ".join(f"{each['what']} (`{each['option']}`)" for each in unseen)
        said.append(f"Not in the weights: {options}.")
    if saved := model.get("file"):
        said.append(
            f"In a file the names begin with `{saved['layer']}`, and the layout is "
            f"[{saved['layout']}]({saved['layout']}.md)."
        )
    if "why" in model:
        said.append(model["why"])
    if "pairs" in model:
        said.append(f"A rotation turns {model['pairs']} as pairs.")
    if "read" in model:
        said.append(f"*Read: {model['read']}.*")
    return " ".join(said)


def _of_layer(model: dict) -> Iterator[str]:
    for own, known in model.get("rename", {}).items():
        yield f"Its `{own}` is the layout's `{known}`."
    biases = model.get("biases", "").split()
    if len(biases) == 4:
        yield "All four maps have biases."
    else:
        yield f"Biases: {', '.join(f'`{bias}`' for bias in biases)}." if biases else "No biases."
    if "keys" in model:
        yield _KEYS[model["keys"]]
    if "width" in model:
        yield f"`{model['width']}` sets how wide a head is."
    if "left_out" in model:
        names = " and ".join(f"`{name}`" for name in model["left_out"])
        over = f", which belong to norms over {model['over']}" if "over" in model else ""
        yield f"Leave out {names}{over}."
    if "scale" in model:
        yield f"The scale is `{model['scale']}`."
    if (rotary := layouts()[model["layout"]].rotary) != model.get("rotates", rotary):
        yield f"It {'does not rotate' if rotary else 'rotates'}."
