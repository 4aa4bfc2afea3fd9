"""What a formula or a line of code is: the readings that stand at the top, as cards."""

import re

from qkv.reading._data import DATA
from qkv.reading._fit import World, fit
from qkv.reading._letters import BASE, bare, number, source_of, tables, usual
from qkv.reading._reading import Reading
from qkv.reading._tree import leaves, parse, walk

_MOST = 3


def formulas(typed: str) -> tuple[list[Reading], list[str], str]:
    """The readings, the likeliest first, what was not read, and why there is none."""
    lines, shown, left, code = parse(typed)
    refused = DATA["refused"]
    if len(lines) == 1 and lines[0][0] == "leaf" and (size := number(lines[0][1])) in BASE:
        return [_size(shown[lines[0][1]], size)] if len(typed) > 1 else [], left, ""
    if code and len(lines) > 1:  # what computes with other things only is none of attention's
        others = [line for line in lines if not _is_known(line[-1])]
        lines = [line for line in lines if line not in others]
        left += [shown[it] for line in others for it in leaves(line[-1]) if it in shown]
    remarks = [said for pattern, said in DATA["calls"].items() if re.search(pattern, typed)]
    worlds = fit(lines, shown, code) if any(map(_is_known, lines)) else []
    strange = (
        [shown[leaf] for leaf, role in worlds[0].role_of.items() if not role] if worlds else []
    )
    strange = [it for it in dict.fromkeys([*left, *strange]) if re.search(r"\w", it)]
    if not worlds or not _is_attention(worlds[0], lines):
        why = refused["strange"].format(", ".join(strange)) if strange else refused["steps"]
        ours = bool(worlds and worlds[0].ours) or any(
            isinstance(usual(leaf), tuple) or re.match(DATA["ours"]["letters"], leaf)
            for leaf in leaves(*lines)
        )
        says = refused["partly" if ours else "formula"].format(typed, why, " ".join(remarks))
        return [], strange, says.strip()
    first, kept = worlds[0], {}
    for world in worlds:
        roles = tuple(map(bare, world.role_of.values()))
        if kept and first.faults:
            break
        if roles in kept and kept[roles].key[:-1] == world.key[:-1]:
            kept[roles].open = True
            kept[roles].names += world.names
        if len(kept) < _MOST:
            kept.setdefault(roles, world)
    cards = [_card(world, remarks, not left) for world in kept.values()]
    once = {(card.title, card.line): card for card in reversed(cards)}
    cards = [card for card in cards if card is cards[0] or (card in once.values() and card.line)]
    return cards, strange, ""


def _is_known(node: tuple) -> bool:
    """Whether a letter of attention or a function of it stands in a line."""
    return any(
        (each[0] == "leaf" and usual(each[1]))
        or each[:2] in (("fn", "attention"), ("fn", "multihead"))
        for each in walk(node)
    )


def _is_attention(world: World, lines: list[tuple]) -> bool:
    """Whether a letter or a step is attention's own, and most letters are known."""
    roles = [bare(role) for role in world.role_of.values() if role]
    unknown, faults = len(world.role_of) - len(roles), [*world.faults.values()]
    made = [bare(it.role) for it in (*world.results, *world.made.values())]
    ours = world.ours or any(re.search(DATA["ours"]["roles"], role) for role in (*roles, *made))
    ours = ours or any(
        re.match(DATA["ours"]["letters"], leaf) for leaf in (*world.role_of, *world.made)
    )
    steps = world.steps or world.near or {*faults} & {"view", "einsum", "swap"}
    steps = steps or not (world.loose or faults)
    unread = any(each[:2] == ("fn", "unread") for line in lines for each in walk(line))
    known = unknown <= (len(roles) // 2 if world.steps and not faults else 0)
    return bool(
        steps
        and known
        and not (unread and faults)
        and (ours or {*world.notes.values()} & {"toy", "cut", "join"})
    )


def _size(letter: str, size: str) -> Reading:
    said = DATA["which"]["size"].format(letter, tables()["role"][size]["meaning"], BASE[size])
    return Reading("formula", said, "size", page=DATA["page"]["size"])


def _letters(world: World) -> dict[str, str]:
    """What each letter is, in words; of a weight also which head's."""
    said: dict[str, str] = {}
    roles = [*world.role_of.items(), *((leaf, it.role) for leaf, it in world.made.items())]
    for leaf, role in roles:
        if bare(role) not in tables()["role"]:
            continue
        words, heads = tables()["role"][bare(role)]["says"], re.findall(r"\d", leaf.split("|")[1])
        if len(heads) == 1 and role[0] == "W":
            words = words.replace("one head's", f"head {heads[0]}'s")
        said[world.shown[leaf]] = words
    return said


def _card(world: World, remarks: list[str], complete: bool) -> Reading:
    said, known = DATA["which"], tables()["role"]
    roles = {leaf: bare(role) for leaf, role in world.role_of.items()}
    kinds = [
        *DATA["kinds"].items(),
        *((role, "weight") for role in roles.values() if role[:1] in [*"WPM"]),
    ]
    wanted, which = next(
        ((role, kind) for role, kind in kinds if role in roles.values()), ("", "none")
    )
    leaf = next((leaf for leaf, role in roles.items() if role == wanted), "")
    letter = world.shown.get(leaf, "")
    last = world.natural(world.results[-1])
    last = last._replace(role=bare(last.role))
    shape = " × ".join(size.replace(" * ", "·") for size in last.shape if "1" not in last.shape)
    gives = (
        known[last.role]["meaning"]
        if last.role in known and last.role not in roles.values()
        else ""
    )
    title = said[which].format(letter, **BASE)
    if wanted == "X" and gives:
        title, gives = said["made"].format(letter, gives), ""
    if wanted[:3] == "W_O":
        title = said["output"].format(letter)
    inputs = {source_of(leaf): world.shown[leaf] for leaf, role in roles.items() if role == "X"}
    two = [DATA["notes"]["two"].format(*inputs.values())] if len(inputs) == 2 else []
    tokens = "open" if world.open else "columns" if world.columns else "rows"
    gives = "" if world.faults else gives
    result = [said["shaped" if shape else "result"].format(gives, shape)] if gives else []
    texts = [DATA["remark"][name] for name in world.names if name in DATA["remark"]]
    lines = world.lines() if complete and not (world.faults or two) else [""]
    reasons = [*world.faults.values(), *world.notes.values(), *world.names, *roles.values(), which]
    return Reading(
        "formula",
        title,
        which,
        tokens,
        # A source has a formula only if all of it is read.
        tuple(tables()["texts"][name]["where"] for name in world.names if all(lines)),
        _letters(world),
        tuple(world.faults),
        (*result, said[tokens], *world.notes, *two, *remarks, *texts),
        "; ".join(lines) if all(lines) else "",
        next(DATA["page"][reason] for reason in reasons if reason in DATA["page"]),
    )
