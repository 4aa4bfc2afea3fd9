"""Shapes: what an array may be, and whether several fit, as Q, K and V or in a row."""

from itertools import pairwise
from math import prod

from qkv.reading._data import MESSAGES
from qkv.reading._letters import roles_of
from qkv.reading._others import card
from qkv.reading._patterns import cut, findall, fullmatch, search, sub
from qkv.reading._reading import Reading
from qkv.reading._tables import tables
from qkv.reading._tree import RefusedError
from qkv.shapes.rules import per_letters

SHAPE, FIT, NAME = MESSAGES["shape"], MESSAGES["fit"], MESSAGES["name"]
ITEM = SHAPE["label"] + "(" + SHAPE["one"] + "|" + SHAPE["letters"] + ")"
SIZES = {name: key for key, names in SHAPE["names"].items() for name in names.split()}
LETTERS = {name: letter for letter, names in FIT["letters"].items() for name in names.split()}
FILLER = SHAPE["filler"].split()
AXES, SYMBOL, WHAT, CONVENTION, QUESTION = 0, 1, 2, 3, 4  # of a rule


def shapes(typed: str) -> Reading | None:
    """What arrays of these shapes may be, and whether they fit."""
    text, given = typed, {}
    for pattern, said in SHAPE["spelling"].items():
        text = sub(pattern, said, text)
    multiplied = lambda it: sub(r"(?<=\w) *\* *(?=\w)|(?<=\b\d)(?=[A-Za-z])", "·", it[0])  # noqa: E731
    text = sub(r"[(\[][^()]*,[^()]*[)\]]", multiplied, text)  # an axis may be a product: 3C
    for called, value, also, name_behind in findall(SHAPE["sizes"], text):
        size = called or name_behind
        given[SIZES.get(size, size)] = int(value or also)
    text = sub(SHAPE["sizes"], " ", text)
    text, *behind = cut(SHAPE["arrow"], text)
    found, rest = findall(ITEM, text), sub(ITEM, " ", text)
    labels = ["" if label in FILLER else label for label, _ in found]
    words = [*dict.fromkeys([*labels, *findall(r"[^\W\d]\w*", rest)])]
    words = [it for it in words if it and it not in FILLER]
    signs = rest + "".join(labels).replace("^", "")
    if not found or search(SHAPE["signs"], signs):
        return None
    if len(found) == 1 and len(words) > 1 and all(it.lower() in LETTERS for it in words):
        labels, found = words, [found[0] for _ in words]  # Q, K, V: (2, 5, 512)
    letters = [LETTERS.get(label.lower(), "") for label in labels]
    ours = all(letters) and 1 < len({*letters}) == len(letters)
    named = len(labels) > 1 and all(labels)
    numbers = (len(words) < 3 or named) and all(fullmatch(SHAPE["one"], it) for _, it in found)
    sizes = findall(r"[A-Za-z]\w*", sub(SHAPE["between"], ",", " ".join(it for _, it in found)))
    told = search(r"[:=]|\b(is|has|of|shape)\b", typed) if any(labels) else not words
    told = told and sizes and not any(isinstance(it, str) for it in _numbers(sizes))  # by names
    row = fullmatch("[ @]*@ *", rest)
    if not (ours or numbers or row or told):
        return None
    axes = [axes_of(it) for _, it in found]
    made = [axes_of(it) for _, it in findall(ITEM, " ".join(behind))]
    steps = bool(made) or "then" in typed
    if made and len(axes) == 1:
        axes, labels = [*axes, *made], [*labels, *("" for _ in made)]
    if "@" in rest or (named and not ours):
        fits = len(axes) > 1 and min(map(len, axes)) > 1
        product = _product(axes, labels, made) if fits else None
        kinds = [roles_of(it)[:1] for it in labels]  # weights, or a mask, do not stand in a row
        arrays = sum(it[0][0] == "W" for it in kinds if it) < 2 and ["mask"] not in kinds
        if "@" in rest or (product and arrays and not product.wrong):
            return product
    if ours or (len(axes) == 3 and min(map(len, axes)) > 2 and not (any(labels) or steps)):
        of = dict(zip(letters if ours else "QKV", axes, strict=True))
        return _attention(of, FIT["misfit" if ours else "unnamed"])
    one, two = [*axes, axes[0]][:2]
    if len(axes) == 2 and one[2:] and one[:-2] == two[:-2] and one[-1] == two[-2] != one[-2]:
        return _product(axes, labels, made)  # Q, and K transposed
    says = [] if any(labels) or made else _row(axes)
    if _is_file(axes) and not (any(labels) or steps):
        labels, often = ["W_Q", "W_K", "W_V", "W_O"][: len(axes)], times(axes[0][0], axes[1][0])
        shared = [NAME["grouped"].format(axes[0][0], often)] if often not in (0, 1) else []
        says = [SHAPE["weights"], *shared]
    return _arrays(axes, given, labels, "Linear(" in typed, says)


def axes_of(typed: str) -> list:
    """The sizes of a shape: a number, a name, or None where it is open."""
    axes = findall(r"-?[\w·]+|\?", sub(SHAPE["between"], ",", typed))
    for n, axis in enumerate(axes):
        if fullmatch(r"-?\d+", axis) and not 0 < int(axis) < 10**9:
            raise RefusedError(SHAPE["wrong"].format(typed.strip(), n, axis))
    numbers = [fullmatch(r"\d+(·\d+)*", it) and prod([*map(int, cut("·", it))]) for it in axes]
    return [a or (None if it in ("None", "?") else it) for a, it in zip(numbers, axes, strict=True)]


def said_of(shape: list) -> str:
    """A shape, as Python writes it."""
    said = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({said},)" if len(shape) == 1 else f"({said})"


def listed(names: list) -> str:
    """Names in a row, with "and" before the last."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _attention(of: dict, misfit: str) -> Reading:
    """Whether Q, K and V fit, with their axes in the order in which most does."""
    names, ranks, tried = listed([*of]), [*dict.fromkeys(map(len, of.values()))], []
    misfit = misfit.format(names)
    for order in FIT["orders"].get(str(ranks[0]), []) if len(ranks) == 1 else []:
        ordered = {letter: [shape[axis] for axis in order] for letter, shape in of.items()}
        tried.append((order, *_fits(ordered)))
    if not tried:
        wrong = FIT["axes"].format(names, listed([str(it) for it in ranks]))
        return card("shape", misfit, [], [wrong], {}, FIT["page"])
    # Without Q, any axis may be the words: what is told is the usual order, or that of the letters.
    named = ranks == [4] and all(_is_length(shape[1]) for shape in of.values())
    tried = tried if named or "Q" in of else tried[:1]
    best = min(tried, key=lambda it: [len(it[1]), named and it == tried[0], it[2]])
    order, wrong, _, says, (scores, output), page = best
    letters = {letter: said_of(shape) for letter, shape in of.items()}
    if wrong:
        return card("shape", misfit, [], wrong, letters, FIT["page"])
    title, says = says[0], says[1:]
    if best != tried[0]:
        title = f"{FIT['turned'][len(order) - 2]} {title}"
        says += [FIT["else"].format(it) for it in tried[0][1]]
        output = [output[axis] for axis in order]
    elif best[2] > 1 and tried[1:]:  # it would be odd: the other is told as well
        says += [f"{FIT['turned'][len(order) - 2]} {it}" for it in tried[1][1]]
    if "Q" in of:
        letters |= {"scores": said_of(scores)}
        letters |= {"output": said_of(output)} if "V" in of else {}
    return card("shape", title, says, [], letters, page)


def _fits(of: dict) -> tuple:
    """What does not fit, whether it would be odd, what it is, and the shapes that come out."""
    k = of.get("K", of.get("V"))
    q, wrong, more, only = of.get("Q", k), [], [], []
    if q[-1] == k[-2] != k[-1]:
        more = [FIT["transposed"].format(said_of(k))]
        k = [*k[:-2], k[-1], k[-2]]
    v, kind = of.get("V", k), "pairs" if "Q" not in of else "self" if q[-2] == k[-2] else "cross"
    for said, a, b in (("width", q[-1], k[-1]), ("values", k[-2], v[-2])):
        if a != b and sub("[qkv]$", "", str(a)) == sub("[qkv]$", "", str(b)):  # names may be equal
            only.append(FIT["if"].format(a, b))
        elif a != b:
            wrong.append(FIT[said].format(a, b))
    says, page = [FIT[kind].format(q[-2], k[-2]), *more, *only], FIT["pages"][kind]
    for n, a in enumerate(q[:-2]):
        often = times(a, k[n])
        if a != k[n] and n == 1 and often:
            says, page = [FIT["grouped"].format(a, k[n], often), *says], FIT["pages"]["grouped"]
        elif a != k[n]:
            wrong.append(FIT["lead"].format(n, "Q", a, "K", k[n]))
        if k[n] != v[n]:
            wrong.append(FIT["lead"].format(n, "K", k[n], "V", v[n]))
    # More heads than words, and other words on each side: then the words come first.
    many = [size for size in [*q[1:-2], k[-2]] if isinstance(size, int)]
    odd = 2 if kind == "cross" and len(many) == 2 and many[0] > many[1] else len(more)
    return wrong, odd, says, ([*q[:-1], k[-2]], [*q[:-1], v[-1]]), page


def times(a: int | str | None, b: int | str | None) -> int | str:
    """How often a size has another; names of sizes divide each other, an unknown one is none."""
    if isinstance(a, int) and isinstance(b, int):
        return 0 if a % b else a // b
    return f"{a}/{b}" if a and b else 0


def _product(axes: list, labels: list, result: list) -> Reading:
    """What a product of these gives, or where it breaks, or that another result was told."""
    names = [f"{label} {said_of(it)}".strip() for label, it in zip(labels, axes, strict=True)]
    made = axes[0]
    for n, right in enumerate(axes[1:]):
        wrong = []
        if made[-1] != right[-2]:
            its = FIT["of"].format(names[n + 1]) if right[2:] else names[n + 1]
            wrong = [FIT["inner"].format(names[n], made[-1], its, right[-2])]
            turned = said_of([*made[:-1], right[-2]])
            wrong += [FIT["turn"].format(turned)] if made[-1] == right[-1] else []
            changed = said_of([*made[:-2], right[-2], made[-1]])
            wrong += [FIT["exchange"].format(changed)] if made[-2] == right[-1] else []
        for axis, (a, b) in enumerate(zip(made[:-2], right[:-2], strict=False)):
            if a != b and 1 not in (a, b):
                wrong.append(FIT["axis"].format(axis, a, b))
                wrong += [FIT["repeat"].format(times(a, b))] if times(a, b) else []
        if wrong:
            title = FIT["broken"].format(" @ ".join(names))
            return card("shape", title, [], wrong, {}, FIT["page"])
        made = [*max(made[:-2], right[:-2], key=len), made[-2], right[-1]]
    title = FIT["product"].format(" @ ".join(names), said_of(made))
    ends = [(it, zip(it[::-1], made[::-1], strict=False)) for it in result]  # without a batch
    wrong = [FIT["other"].format(said_of(it)) for it, both in ends if any(a != b for a, b in both)]
    return card("shape", title, [], wrong, {}, FIT["page"])


def _arrays(found: list, given: dict, labels: list, layer: bool, says: list) -> Reading:
    """What one array may be, or several in a row, at sizes that were given or that a model has."""
    named = [*zip(map(_numbers, found), map(roles_of, labels), strict=True)]
    h = [shape[1] for shape, roles in named if "S" in roles and len(shape) == 4]
    width = [shape[-1] for shape, roles in named if "X" in roles or "Y" in roles]
    if h and width and h[0] and width[0]:  # what names tell of sizes
        given = {"h": h[0], "d_model": width[0]} | given
    shown, (taken, model) = [said_of(it) for it in found], _sizes(named, given)
    if not taken and search(r"q, \w+k\)$", shown[0]):  # queries by keys of any layer
        taken = next(iter(MESSAGES["model"].values()))
    may = [candidates(*each, taken) if taken else [] for each in named]
    if layer:  # nn.Linear has a weight
        may = [[rule for rule in rules if "(out, in)" in rule[CONVENTION]] for rules in may]
    if found[0][3:] and found[0][-2] == found[0][-1]:  # by chance of queries, always of own scores
        may[0] = sorted(may[0], key=lambda rule: rule[SYMBOL][0] != "S")
    letters, first = {}, next(iter(may[0]), None)
    if len(found) > 1 and taken:
        for label, said, rules in zip(labels, shown, may, strict=True):
            its = dict.fromkeys(rule[SYMBOL] for rule in rules[:3])
            letters[f"{label} {said}".strip()] = "; ".join(its)
    elif len(found) < 2 and first:
        many = "may" if may[0][1:] else "alone"
        says = [SHAPE[many].format(shown[0], first[SYMBOL], first[WHAT])]
        either = first[AXES] == "batch n d_model"
        tokens = either and _is_length(found[0][0])
        says += _by_axis(found[0], ["n", "batch", "d_model"] if tokens else first[AXES].split())
        says += [SHAPE["named" if tokens else "first"]] if either else []
        middle = [it for it in found[0][1:3] if isinstance(it, int) and it > 1]
        if len({*middle}) > 1 and fullmatch(r"batch \S+ \S+ d_k", first[AXES]) and "h" not in given:
            says.append(SHAPE["order"].format(*middle))
        for rule in may[0][:6]:
            its = f"{rule[SYMBOL]} {rule[CONVENTION]}".strip()
            letters[its] = letters.get(its, rule[QUESTION])  # of two orders that which is said
    says = says or [SHAPE["each"] if letters else SHAPE["unknown"].format(shown[0])]
    if taken and letters and not any(isinstance(it, str) for it in found[0]):
        sizes = ", ".join(f"{key} = {size}" for key, size in taken.items() if size)
        says.append(SHAPE["taken"].format(sizes, f", as in {model}" if model else ""))
    return card("shape", says[0], says[1:], [], letters, SHAPE["page"])


def _is_length(axis: int | str | None) -> bool:
    """Whether an axis has a letter that is usual for a number of words."""
    return bool(search(SHAPE["length"], str(axis)))


def _numbers(shape: list) -> list:
    """A shape in which names of sizes are numbers: of words any, and others the base model's."""
    known = lambda it: SIZES.get(it[0].lower(), it[0])  # noqa: E731
    its = [sub(r"[A-Za-z]\w*", known, str(axis)) for axis in shape]
    its = [sub(r"^h·d$", "h·d_k", sub(r"^(d_\w+)·(3|h)$", r"\2·\1", it)) for it in its]
    base = SHAPE["base"] | tables()["base"] | {"d": 64 if "h" in its else 512}
    return [base.get(it, axis) for it, axis in zip(its, shape, strict=True)]


def _own(rules: list, roles: list) -> list:
    """Those rules whose arrays a name may mean, with these alone."""
    every = [cut(", | or ", rule[SYMBOL]) for rule in rules]
    found = [[it for it in its if sub(r"^a |\[i\]$", "", it) in roles] for its in every]
    named = zip(rules, found, strict=True)
    return [[rule[AXES], " or ".join(its), *rule[WHAT:]] for rule, its in named if its]


def _by_axis(shape: list, axes: list) -> list:
    """What each axis is; and of queries with heads, the scores."""
    pairs = zip(["?" if it is None else it for it in shape], axes, strict=True)
    words = [f"{it} {SHAPE['axis'].get(axis, f'= {axis}')}" for it, axis in pairs]
    said = [SHAPE["axes"].format("; ".join(words))]
    if axes[-3:] == ["h", "n", "d_k"]:  # of queries, or of queries, keys and values
        each = shape[1:] if axes[0] == "3" else shape
        said.append(SHAPE["makes"].format(said_of([*each[:-1], each[-2]])))
    return said


def candidates(shape: list, roles: list, given: dict) -> list:
    """The rules of `qkv.which` that a shape fits, the likeliest first; of a name its own."""
    h, width = given["h"], given["d_model"]
    layer = {"h_kv": h, "d_k": width // h} | given
    if h % layer["h_kv"] or ("d_k" not in given and width % h):
        return []
    sizes = {
        symbol: sum(term[0] * prod([layer[it] for it in term[1:]]) for term in terms)
        for symbol, terms in tables()["sizes"].items()
    }
    rules = [
        [*each, *rule[WHAT:]]
        for rule in tables()["rules"]
        for each in per_letters(rule[AXES], rule[SYMBOL], layer["h_kv"] < h)
    ]
    fits = [rule for rule in rules if _is_like(rule[AXES].split(), shape, sizes)]
    known = roles[:1] and (shape[3:] or roles[0][:2] == "W_")
    return _own(fits, roles) or ([] if known and _own(rules, roles) else fits)


def _is_like(axes: list, shape: list, sizes: dict) -> bool:
    known = [int(axis) if axis.isdigit() else sizes.get(axis) for axis in axes]
    return len(axes) == len(shape) and all(
        size == axis
        if isinstance(size, str)
        else its in (None, size) and not (axis == "batch·h" and (size or 0) % sizes["h"])
        for axis, its, size in zip(axes, known, shape, strict=True)
    )


def _sizes(named: list, given: dict) -> tuple:
    """The sizes that were given, or those of the first model that has arrays of these shapes."""
    if "d_model" in given:
        return {"d_model": 0, "h": max(1, given["d_model"] // given.get("d_k", 64))} | given, ""
    best, found, own, models = 0, ({}, ""), _heads(*named[0], given), MESSAGES["model"]
    own = {"": own} if own else {}
    for model, its in (own | models if given else models | own).items():
        sizes = its | given
        rules = [next(iter(candidates(*each, sizes)), None) for each in named]
        axes = [it for rule in rules if rule for it in rule[AXES].split()]
        axes = [it for it in axes if it in tables()["sizes"]]
        width = 2 if any("d_" in it for it in axes) else len(axes[:1])
        weights = [bool(rule and rule[CONVENTION]) for rule in rules]
        tells = 4 if all(weights) else 3 if any(weights) else width
        if all(rules) and tells > best:  # what tells most, and of such models the first
            best, found = tells, (sizes, model if sizes["h"] == its["h"] else "")
    return found


def _heads(shape: list, roles: list, given: dict) -> dict:
    """Sizes that an array tells: a head's width comes last, and fewer heads than words before."""
    fused = roles == ["QKV"] and shape[0] == 3 and len(shape) == 5
    middle = shape[2:3] if fused else shape[1:3] if len(shape) == 4 else []
    many = [it for it in middle if isinstance(it, int) and it > 1]
    usual = shape[-1] in SHAPE["widths"] and shape[-1] not in shape[-2:-1] and 1 not in middle[:1]
    told = search("^[QKV]", "".join(roles)) or (usual and "mask" not in roles)
    if not many or not told or not isinstance(shape[-1], int):
        return {}
    h = given.get("h", min(many))
    return {"d_model": h * shape[-1] if fused else 0, "h": h, "d_k": shape[-1]}


def _is_file(axes: list) -> bool:
    """Whether they may be a layer's weights, (out, in): of keys and values of one shape."""
    three = len(axes) in (3, 4) and axes[1] == axes[2] and {*map(len, axes)} == {2}
    return three and axes[0][1] == axes[1][1]


def _row(found: list) -> list:
    """Whether matrices can follow each other, as weights that are applied in this order."""
    shown = [said_of(it) for it in found]
    if len(found) < 2 or any(len(each) != 2 or None in each for each in found):
        return []
    fit, gaps = [], []
    for way in ("in, out", "out, in"):
        maps = found if way == "in, out" else [each[::-1] for each in found]
        names = [", ".join(shown[:-1]), shown[-1], SHAPE[way]]
        gap = next((n for n, (a, b) in enumerate(pairwise(maps)) if a[1] != b[0]), -1)
        one, through = [maps[0][0], maps[-1][1]], [maps[0][0], *(b for _, b in maps)]
        if gap < 0:
            whole = said_of(one if way == "in, out" else one[::-1])
            fit.append(SHAPE["fit"].format(*names, " → ".join(map(str, through)), whole))
        else:
            last, follows = maps[gap][1], maps[gap + 1][0]
            gaps.append(SHAPE["gap"].format(*names, gap + 1, last, gap + 2, follows))
    return [*fit[::-1], *gaps]
