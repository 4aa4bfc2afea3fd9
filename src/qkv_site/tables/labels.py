"""What each role is, and its shape in each source: what the label of a letter says, as data."""

import json
from functools import cache, partial

from qkv import notation
from qkv.notation import Role
from qkv_site.markdown.mathml import to_mathml
from qkv_site.parts import formulas


@cache
def labels() -> str:
    """JSON: of each role its meaning, its group, and its shapes, each with its sources."""
    said = {
        role.key: {"meaning": role.meaning, "group": role.group, "shapes": _shapes(role)}
        for role in notation.roles()
    }
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _shapes(role: Role) -> list[tuple[str, str]]:
    if not role.shape:
        return []
    shapes = formulas.alike(partial(notation.shape, role.key))
    return [(to_mathml(latex), sources) for latex, sources in shapes.items()]
