"""What a formula or a line of code is: the readings that stand at the top, as cards."""

import re

from qkv.reading._data import DATA
from qkv.reading._fit import BASE, World, bare, fit, size_of, tables
from qkv.reading._reading import Reading
from qkv.reading._tree import parse

_MOST = 3
_OURS = re.compile(r"(^|_)[QKV](\[i\]|$)|QKV|^W\[i\]$|^[WC]_.*[QKVO]")
_QS = [(kind, form.format(letter)) for letter in "QKV" for kind, form in
       (("source", "X_{}"), ("head", "{}[i]"), ("packed", "{}"))]  # fmt: skip
_KINDS = [*_QS, ("fused", "QKV"), ("latent", "C_Q"), ("latent", "C_KV"), ("source", "X")]


def formulas(typed: str) -> tuple[list[Reading], list[str]]:
    """The readings of a formula, the likeliest first, and what was not read."""
    lines, shown, left, code = parse(typed)
    if len(lines) == 1 and lines[0][0] == "leaf" and (size := size_of(lines[0])):
        return [_size(shown[lines[0][1]], size)], left
    worlds = fit(lines, shown, code) if lines else []
    if not worlds or not _is_attention(worlds[0]):
        return [], left
    first, kept = worlds[0], {}
    for world in worlds:
        roles = tuple(map(bare, world.role_of.values()))
        if kept and first.faults:
            break
        if roles in kept and kept[roles].key[:-1] == world.key[:-1]:
            kept[roles].open = True
        if len(kept) < _MOST:
            kept.setdefault(roles, world)
    cards = [_card(world, shown) for world in kept.values()]
    return cards, left + [shown[leaf] for leaf, role in first.role_of.items() if not role]


def _is_attention(world: World) -> bool:
    """Whether a letter or a step is attention's own, and most letters are known."""
    roles = [bare(role) for role in world.role_of.values() if role]
    unknown, faults = len(world.role_of) - len(roles), [*world.faults.values()]
    ours = any(map(_OURS.search, [*roles, *(bare(role) for role, _ in world.results)]))
    ours = ours or re.search(r"(attention|multihead|softmax)\(", " ".join(world.lines))
    steps = world.steps or world.near or "view" in faults or not (world.loose or faults)
    known = unknown <= (len(roles) // 2 if world.steps and not faults else 0)
    return bool(steps and known and (ours or "toy" in world.notes.values()))


def _size(letter: str, size: str) -> Reading:
    said = DATA["which"]["size"].format(letter, tables()["role"][size]["meaning"], BASE[size])
    return Reading("formula", said, "size", page=DATA["page"]["size"])


def _letter(leaf: str, role: str) -> str:
    """What a letter is, in words; of a weight also which head's."""
    said, heads = tables()["role"][role]["says"], re.findall(r"\d", leaf.split("|")[1])
    return (
        said.replace("one head's", f"head {heads[0]}'s")
        if len(heads) == 1 and role[0] == "W"
        else said
    )


def _card(world: World, shown: dict[str, str]) -> Reading:
    said, known = DATA["which"], tables()["role"]
    roles = {leaf: bare(role) for leaf, role in world.role_of.items()}
    which, leaf = next(
        ((kind, leaf) for kind, role in _KINDS for leaf, has in roles.items() if has == role),
        next(
            (("weight", leaf) for leaf, role in roles.items() if role and role[0] in "WPM"),
            ("none", ""),
        ),
    )
    letter = shown.get(leaf, "")
    result = bare(world.results[-1][0])
    gives = known[result]["meaning"] if result in known and result not in roles.values() else ""
    title = said[which].format(letter, **BASE)
    if roles.get(leaf) == "X" and gives:
        title, gives = said["made"].format(letter, gives), ""
    if roles.get(leaf, "")[:3] == "W_O":
        title = said["output"].format(letter)
    inputs = {leaf.split("|")[0]: shown[leaf] for leaf, role in roles.items() if role == "X"}
    two = [DATA["notes"]["two"].format(*inputs.values())] if len(inputs) == 2 else []
    tokens = "open" if world.open else "columns" if world.columns else "rows"
    remarks = [DATA["remark"][name] for name in world.names if name in DATA["remark"]]
    says = ([said["result"].format(gives)] if gives else []) + [
        said[tokens],
        *world.notes,
        *two,
        *remarks,
    ]
    reasons = [*world.faults.values(), *world.notes.values(), *world.names, *roles.values(), which]
    return Reading(
        "formula",
        title,
        which,
        tokens,
        tuple(tables()["texts"][name]["where"] for name in world.names),
        {shown[leaf]: _letter(leaf, role) for leaf, role in roles.items() if role},
        tuple(world.faults),
        tuple(says),
        "" if world.faults or two else "; ".join(world.lines),
        next(DATA["page"][reason] for reason in reasons if reason in DATA["page"]),
    )
