"""What a formula or a line of code is: the readings that stand at the top, as cards."""

from itertools import pairwise

from qkv.reading._data import DATA, MESSAGES
from qkv.reading._fit import World, fit, numpy
from qkv.reading._letters import (
    BEHIND,
    MEANING,
    is_indexed,
    is_packed,
    number,
    plain,
    shape_of,
    usual,
)
from qkv.reading._patterns import findall, search, sub
from qkv.reading._reading import Reading, told_of
from qkv.reading._shapes import listed
from qkv.reading._tables import tables
from qkv.reading._tree import bare, leaves, parse, turned, walk

CARDS = 3
OURS = ("attention", "fused", "multihead", "score")  # functions of attention
CUT = ("cut", "behind", "inside", "thirds", "wide", "view", "words")  # said where heads are cut
PAGES = {reason: page for page, reasons in DATA["page"].items() for reason in reasons.split()}


def formulas(typed: str) -> tuple[list, list, str]:
    """The readings, the likeliest first, what was not read, and why there is none."""
    other = [said for pattern, said in DATA["elsewhere"].items() if search(pattern, typed)]
    if other:
        return [], [], _refused(typed, {}, [], [], other)
    lines, shown, left, code = parse(typed)
    known, names = tables(), [it for it in shown if it[-1] != "√"]
    names = [lines[0][1]] if [it[0] for it in lines] == ["leaf"] else names
    sizes = ["h" if it == "h|" and names[1:] else number(it) for it in names]
    size = sizes[0] if sizes and "d|" not in names and all(sizes) else ""
    if size in known["base"] and typed[-6:] != ".shape":
        said = shown.get(names[0], typed)
        its = said, known["role"][size][MEANING], known["base"][size]
        reading = Reading("formula", DATA["which"]["size"].format(*its), "size", page=PAGES["size"])
        return [reading] if len(typed) > 1 else [], left, ""
    if code and len(lines) > 1:  # what computes with other things only is none of attention's
        every, lines, made = lines, [], []
        for line in every:
            read = leaves(line[-1])
            if _is_known(line[-1]) or any(it in made for it in read):
                lines, made = [*lines, line], made + leaves(line[1])
            else:
                left += [shown[it] for it in read if it in shown]
    told = told_of(typed)
    worlds = fit(lines, shown, code) if any(map(_is_known, lines)) else []
    found = search(DATA["axes"]["code" if code else "formula"], typed)
    for name in [it for it in ("wide", "alone") if code and search(DATA["axes"][it], typed)]:
        for world in [it for it in worlds if "QKV" in " ".join(it.role_of.values())]:
            world.remark(name)
    for world in worlds if code and search(DATA["axes"]["kept"], typed) else []:
        if "one" not in world.said() or ".T" in typed:  # K @ q has one query
            world.remark("kept")
    for world in worlds if found else []:  # along the first axis columns are right, and K Qᵀ is
        first = found[2] not in ("1", "-1")
        if code:
            seen = any(it.role == "S[i]" and it.out for it in world.results)
            world.remark("softmax" if seen else "over", found[1])
            world.steps += 1
        elif first and "keys" in world.said():
            world.forget("keys")
        elif not world.faults and first != world.columns:
            world.remark("softmax", found[1])
    free = [shown[it] for it, role in worlds[0].role_of.items() if not role] if worlds else []
    strange = [it for it in dict.fromkeys([*left, *free]) if search(r"\w|[^\x00-\x7f]", it)]
    lost = any(it in left for it in strange) and not code and worlds
    lost = lost and (worlds[0].loose or worlds[0].faults)
    if not worlds or lost or not _is_attention(worlds[0]):
        parts = _parts(lines) if strange and not code else []
        first = fit(parts, shown, code)[0] if parts else None
        if first and not (first.faults or first.loose):
            return [_card(first, told, False, parts)], strange, ""
        return [], strange, _refused(typed, shown, worlds, strange, told)
    kept, first = {}, worlds[0]
    for world in [first] if first.faults else worlds:
        roles = " ".join(map(bare, world.role_of.values()))
        if roles in kept and kept[roles].key[:-1] == world.key[:-1]:
            kept[roles].open = True
            kept[roles].names += world.names
        if len(kept) < CARDS:
            kept.setdefault(roles, world)
    first, *others = [_card(world, told, not strange) for world in kept.values()]
    return [first, *(it for it in others if it.line)], strange, ""


def _parts(lines: list) -> list:
    """Lines of known letters, of others products of a source and a weight; if one makes queries."""
    found, letters = [], []
    for line in lines:
        if line[0] == "eq" and all(usual(it)[0] or usual(it)[2] for it in leaves(line)):
            found.append(line)
            letters += [usual(it)[1] for it in leaves(line)]
            continue
        rows = [node[1:] for node in walk(line) if node[0] in ("mul", "dot")]
        for pair in [pair for row in rows for pair in pairwise(row)]:
            meant = [usual(it[1]) for it in pair if it[0] == "leaf"]
            its = [letter for kind, letter, _ in meant if kind == "weight"]
            if its and any("X" in may for _, _, may in meant) and ("mul", *pair) not in found:
                found.append(("mul", *pair))
                letters += its
    return found if "Q" in letters else []


def _refused(typed: str, shown: dict, worlds: list, strange: list, told: list) -> str:
    """What is said of a formula that is not read: whether it has letters of attention."""
    refused = DATA["refused"]
    why = refused["whole" if worlds and worlds[0].steps else "steps"]
    why = refused["strange"].format(", ".join(strange)) if strange else why
    ours = any(_is_ours(("leaf", leaf)) for leaf in shown)
    kind = "told" if told else "partly" if ours else "formula"
    return " ".join([refused[kind].format(typed, why), *told])


def _is_ours(node: tuple) -> bool:
    """Whether a letter or a function is of attention alone."""
    if node[0] != "leaf":
        return node[0] == "fn" and node[1] in OURS
    return bool(search(DATA["ours"]["letters"], node[1]) or usual(node[1])[0])


def _is_known(line: tuple) -> bool:
    """Whether a letter of attention or a function of it stands in a line."""
    return any(_is_ours(it) or (it[0] == "leaf" and any(usual(it[1]))) for it in walk(line))


def _is_attention(world: World) -> bool:
    """Whether a letter or a step is attention's own, and most letters are known."""
    roles = [bare(role) for role in world.role_of.values() if role]
    faults, unknown = [*world.faults.values()], len(world.role_of) - len(roles)
    named = [it for it in [*world.role_of, *world.made] if search(DATA["ours"]["letters"], it)]
    ours = named or [it for it in roles if search(DATA["ours"]["roles"], it)]
    ours = ours or any(it in OURS for it in world.kinds)
    ours = ours or ("concat" in world.kinds and search(r"\bhead", " ".join(world.role_of)))
    toy = "toy" in world.notes.values() and not world.loose
    ours = ours or toy or any(it in ("cut", "together") for it in world.notes.values())
    steps = world.steps or any(it not in ("meet", "equal", "scores") for it in faults)
    steps = steps or not (world.loose or faults)
    unread = "exp" in world.kinds and not world.code  # over no sum
    told = world.code or "fn" in world.kinds  # k q / r² has more readings
    known = unknown <= (len(roles) // 2 if told and world.steps and not faults else 0)
    some = world.results[-1].role or faults or world.code
    return bool(ours and steps and known and not unread and some)


def is_cut(world: World) -> bool:
    """Whether code shows, or a name says, that heads are cut out."""
    named = any(map(is_packed, world.role_of))
    return named or any(it in CUT for it in world.said())


def _meaning(world: World, role: str) -> str:
    share = role == "Y" and "sum" not in world.kinds  # one head's part of it, or the sum of all
    share = share and "W_O[i]" in map(bare, world.role_of.values())
    return DATA["says"]["share"] if share else tables()["role"][role.replace("!", "")][MEANING]


def _letters(world: World, several: bool) -> dict:
    """What each letter is, in words; of a weight also which head's, of several sources whose."""
    said, told = {}, world.said()
    for leaf, role in [*world.role_of.items(), *((it, its.role) for it, its in world.made.items())]:
        known = tables()["role"].get(bare(role).replace("!", ""))
        heads = findall(r"\d", leaf.split("|")[1])
        other = bare(role) == "A[i]" and ("softmax" in told or "over" in told)
        other = other or ("axes" in told and bare(role) in ("S[i]", "A[i]", "head[i]"))
        other = other or ("alone" in told and role in ("Q", "K", "V"))
        other = other or ("order" in told and role[:2] == "X_")  # what it is called
        other = other or (leaf[-3:] == "()|" and f"{leaf[:-3]}|" in world.role_of)  # key(key)
        if known and not other:
            head = f"head {heads[0]}'s" if len(heads) == 1 and role[0] == "W" else "one head's"
            its, shown = _meaning(world, bare(role)).replace("one head's", head), world.shown[leaf]
            weight = role[:1] in "WP"
            stored = weight and role[-2:] == ".T" and not world.columns
            if world.plain and (weight or bare(role) in ("Q", "K", "V", "QKV")):
                whole = weight and is_cut(world)
                its = its if whole else sub(DATA["shares"], "", its)
            else:
                its += known[BEHIND]
            its += DATA["says"]["stored"] if stored else ""
            again = world.made.get(leaf) and said.get(shown, its) != its  # q = W(q)
            then = DATA["says"]["end" if leaf in world.again else "left"]
            said[shown] = then.format(said[shown], its) if again else its
        uses = world.uses.get(world.shown[leaf], {})
        uses = uses if several or world.code or [*uses] == ["V"] else {}
        alone = role == "X" and world.code and "W_QKV" not in world.role_of.values()
        if role[:1] == "X" and (uses or alone):
            of = DATA["says"]["source" if uses else "alone"]
            letters = listed([MESSAGES["name"][it] for it in uses] or [""])
            said[world.shown[leaf]] = of.format(letters, tables()["base"]["d_model"])
    return said


def _apart(out: tuple, uses: dict) -> tuple:
    """A tree in which each source has the letter of what it is used for."""
    if out[-1] in uses:
        return ("role", out[1].replace("X", f"X_{min(uses[out[-1]])}"))
    return tuple(_apart(it, uses) if isinstance(it, tuple) else it for it in out)


def _which(world: World, roles: dict) -> tuple[str, str, str]:
    """The letter that tells which Q it is, its role, and which Q that is."""
    weights = [(role, "weight") for role in roles.values() if role and role[0] in "WPM"]
    kinds = [*DATA["kinds"].items(), *weights]
    wanted, which = next((it for it in kinds if it[0] in roles.values()), ("", "none"))
    leaf = next((leaf for leaf, role in roles.items() if wanted and role == wanted), "")
    letter, made = world.shown.get(leaf, leaf), world.made.get(leaf)
    letter += ", right of =," if made and wanted[0] == "X" != made.role[:1] else ""
    return letter, wanted, "fused" if "alone" in world.said() else which


def _shape(world: World, last: str) -> str:
    """The shape of the last result as it was typed; of code with a batch or heads, theirs first.

    A formula of small letters is of single words, whose numbers are not those of a table.
    """
    if not (world.large or world.code):
        return ""
    shape = shape_of(turned(last) if world.turned else last)
    axes = world.results[-1].axes if shape and world.code else ""
    if axes[2:]:
        shape = [shape[int(it) - 1] if it.isdigit() else "…" for it in axes]
    return " × ".join(shape).replace(" * ", "·")


def _card(world: World, told: list, complete: bool, parts: list | None = None) -> Reading:
    said, known = DATA["which"], tables()["role"]
    roles = {leaf: bare(role) for leaf, role in world.role_of.items()}
    results = zip(parts or [], world.results, strict=False)
    made = {it.typed: bare(it.role) for part, it in results if part[0] == "mul"}
    letter, wanted, which = _which(world, roles | made)
    keys = [it for it, role in roles.items() if search("^W_[KV]", role)]
    own = any(role[:3] == "W_Q" and is_indexed(it) for it, role in roles.items())
    if own and keys and not any(map(is_indexed, keys)):  # all heads have these
        world.remark("shared", listed([world.shown[it] for it in keys]))
        complete = False
    counted = {  # of each letter of a head its number
        it: sub("[QKVqkv]", "", it.split("|")[1])
        for it, role in roles.items()
        if search("^(W_)?[QKV]", role) and it[0] not in "qkv" and is_indexed(it)
    }
    queries = [it for it in counted if "Q" in roles[it]]
    numbers = [counted[it] for it in queries]
    others = [it for it, its in counted.items() if its not in numbers]
    if queries and others and "dot" not in world.kinds:  # Q_i K_j^T
        world.forget("heads")  # of tiles a sum is none of heads
        world.remark("tiles", world.shown[queries[0]], world.shown[others[0]])
        complete = False
    last = bare(world.results[-1].role).replace("!", "")
    seen = not world.open and world.columns == world.turned  # as it was typed
    one = len({*world.last}) < 2  # and not several results, such as q and k
    whole = complete and one and world.single and not (world.faults or world.loose)
    named = whole and last in known and last not in roles.values()
    named = named and not any(it in ("over", "alone") for it in world.said())
    named = named and (seen or last != "S[i]")  # q · k is one score
    gives, shape = _meaning(world, last) if named else "", _shape(world, last) if seen else ""
    which = "head" if which == "packed" and world.narrow else which
    title = said[which].format(letter, **tables()["base"])
    plainly = which == "packed" and world.plain and not is_cut(world)
    if plainly or wanted[:3] == "W_O":
        title = said["plain" if plainly else "output"].format(letter)
    if wanted in ("W_QK[i]", "W_VO[i]"):
        title = f"{letter} is {known[wanted][MEANING]}."
    kinds = {role[:2] for role in roles.values()}
    if wanted[:2] == "X_" and "P_" in kinds:
        title = said["twice"].format(letter)
    if wanted == "X" and gives:
        its = [MESSAGES["name"][it] for it in world.uses.get(letter, {})]
        of = f" of the {listed(its)}" if its and len(world.uses) > 1 else ""
        title, gives = said["made"].format(letter, of, gives), ""
    sources = [it for it, role in roles.items() if role == "X"]
    inputs = {it if search("^[A-Z]", it) else plain(it): world.shown[it] for it in sources}
    uses = {world.shown[it]: [*world.uses.get(world.shown[it], {})] for it in sources}
    scored = "toy" in world.said() or "W_QK[i]" in roles.values()  # h_t and h_s, without a map each
    valued = any("V" in it for it in uses.values())  # and whether keys have another source
    apart = valued and any(("K" in it) != ("V" in it) for it in uses.values())
    every = [*(uses if scored else inputs.values())]
    called = any(it in world.kinds for it in ("attention", "fused", "multihead"))  # by places
    name = "three" if apart or len(inputs) > 2 else "two"
    if len(every) > 1:
        world.remark("apart" if apart and not called else name, listed(every))
    turned_in = any(it.role in ("Q.T", "Q[i].T") for it in world.made.values())  # Q = W @ X.T
    tokens = "columns" if world.columns or turned_in else "rows"
    sided = any(it in world.kinds for it in ("mul", "dot", "inner", "t", "axis"))
    if world.code:  # of scores alone it is not seen
        sided = any(role[:1] not in ("S", "A", "") for role in roles.values())
    sided = "shape" in world.kinds or (sided and world.steps)
    single = any(it in world.kinds for it in ("dot", "sum"))  # vectors, as in Σ_j α_ij v_j
    single = single and not (world.large or world.code or "W_" in kinds or "P_" in kinds)
    tokens = tokens if sided and not (world.open or single) else "open"
    result = [said["shaped" if shape else "result"].format(gives, shape)] if gives else []
    result += [said["lead"]] if gives and "…" in shape else []
    of = "".join(leaf.split("|")[1] for leaf, role in roles.items() if role[1:] == "[i]")
    its = of if single else "".join(leaf.split("|")[1] for leaf in sources)
    sides = [] if "sides" in world.said() else [said[tokens]]
    signs = [it for it in "ijmnst" if it in of and it in its]
    result += [said["counts"].format(listed(signs))] if signs else []
    weights = [it for it, role in roles.items() if it[:2] == "Q|" and role[:2] == "W_"]
    result += [said["named"].format(world.shown[it]) for it in weights[:1]]
    grouped = is_cut(world) and any("are grouped" in it for it in told)
    trees = [] if grouped or world.faults or not complete else world.trees()  # h_kv is not h
    own = trees and world.steps and "scale" not in world.said() and "score" not in world.kinds
    names = world.names if own else []  # a source has a formula only if all of it is read
    shown = " ".join(world.shown.values())
    below, above = search(r"\b[xqkv]_", shown), "<" in shown  # Ng's alone write ⟨3⟩ of a word
    texts = [it for it in names if not (below if it[:3] == "ng-" else above)]
    remarks = [DATA["says"][it] for it in texts if it in DATA["says"] and "X_" in kinds]
    beside = "X_" in kinds and "P_" not in kinds  # a source whose letter tells what it is of
    if len(inputs) > 1 or beside:  # each has the letter of the queries, or of keys and values
        apart = all(it and ("Q" not in it or len(it) == 1) for it in uses.values())
        trees = [_apart(it, uses) for it in trees] if apart and len(inputs) < 3 else []
    other = {"behind": "cut" in world.said(), "one": signs}  # what is told already
    notes = [it for it, name in world.notes.items() if not other.get(name)]
    reasons = ["told" for it in told if "Luong" in it]
    reasons += ["output"] if wanted[:3] == "W_O" else []
    reasons += [*world.faults.values(), *world.notes.values(), *texts, *roles.values(), which]
    letters = _letters(world, sum(role[:1] == "X" for role in roles.values()) > 1)
    letters |= {it: known[role][MEANING] for it, role in made.items()}
    numbers = search(r"\d\d", " ".join(letters.values())) and "base model" not in title
    return Reading(
        kind="formula",
        title=title,
        which=which,
        tokens=tokens,
        texts=tuple(tables()["texts"][name]["where"] for name in texts),
        letters=letters,
        wrong=tuple(world.faults),
        says=(*result, *sides, *notes, *told, *remarks, *([said["numbers"]] if numbers else [])),
        line="; ".join(map(numpy, trees)),
        page=next(PAGES[reason] for reason in reasons if reason in PAGES),
        trees=tuple(trees),
    )
