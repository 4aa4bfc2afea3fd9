"""A weight's name, and the message of an error."""

from math import prod

from qkv.reading._data import MESSAGES
from qkv.reading._letters import roles_of
from qkv.reading._patterns import cut, findall, fullmatch, search, sub
from qkv.reading._reading import Reading, filled, told_of
from qkv.reading._tables import tables


def card(kind: str, title: str, says: list, wrong: list, letters: dict, page: str) -> Reading:
    """A reading of what is no formula."""
    return Reading(kind, title, letters=letters, wrong=tuple(wrong), says=tuple(says), page=page)


def error(typed: str) -> Reading | None:
    """What a message means, with its numbers put in."""
    line = " ".join(typed.split())
    for pattern, page, *says in MESSAGES["message"]:
        found = search(pattern, line, case=False)
        if found:
            sizes = [int(it) for it in findall(r"\d+", found[0])]
            if search("invalid for", found[0]) and prod(sizes) == sizes[-1] * sizes[-1]:
                says = [MESSAGES["words"]["fits"]]  # the last is the product of the others
            title, *more = (filled(said, found) for said in says)
            if search("^1 heads", title):
                title, whole = sub("^1 heads", "1 head", title), MESSAGES["words"]["whole"]
                more = more if int(found[5]) % int(found[4]) else [filled(whole, found)]
            if search(r"^\d+\.", title):  # so many heads there are not
                title = MESSAGES["words"]["odd"]
            return card("error", title, more, [], {}, page)
    return None


def name(typed: str) -> Reading | None:
    """Which weight a library stores under this name, or several, with their shapes or without."""
    said = MESSAGES["name"]
    lines = cut(said["apart"], sub(said["row"], "\\1\n", typed))
    lines = [line for line in lines if line.strip()]
    lines = findall(r"[\w.]*[_.]\w+\b(?! *=)", typed) if fullmatch(said["list"], typed) else lines
    found = [_stored(line) for line in lines]
    if len(found) < 2:
        return found[0]
    pairs = zip(found, lines, strict=True)
    if not any(found) or not all(it or fullmatch(said["line"], line) for it, line in pairs):
        return None
    found = [it for it in found if it]
    its = [[*cut(" ", it.title), *it.says[:2]] for it in found]
    letters = {called: " ".join(more) for called, *more in its}
    return card("name", said["several"], [], [], letters, found[0].page)


def _stored(line: str) -> Reading | None:
    """The weight whose name stands in a line, by itself, beside its shape, or as a layer's."""
    said, told = MESSAGES["name"], told_of(line)
    its = sub(said["aside"], "", line).strip()
    made, layer = fullmatch(said["made_so"], its), search(said["layer"], its)
    sized = None if made else search(said["shape"], its)
    if layer or made:
        its = f"{layer[1]}.weight" if layer else made[1] or made[2]
    elif sized and not search(r"[@(){}*+]|=.*\w", sub(said["shape"], "", its)):
        its = sub(said["shape"], " ", its)
    words = [it for it in findall(said["word"], its) if not sized or search("[_./]", it)]
    found = [it for it in map(_named, words) if it] if sized or [its] == words else []
    if not found or (sized and search("cache", found[0][0])):  # an array, with its shape
        return None
    called, title, ways, page, more = found[0]
    for path in [it for it in said["paths"] if search(it, called)]:
        ways = [[sub(said["paths"][path], "", it).strip(", "), *its] for it, *its in ways]
    behind = "" if made else [*line.split(called), ""][1]
    sized = search(said["shape"], behind) or sized
    sizes = [layer[3], layer[2]] if layer else findall(r"\d+", sized[0]) if sized else []
    shape = [int(it) for it in sizes if it.isdigit()]
    while shape[2:] and shape[-1] == 1:
        shape.pop()
    suits = lambda form: _widths(form, shape) or _axes(form, shape)  # noqa: E731
    fits = [way for way in ways if way[0] and suits(way[1])]
    ways = [] if layer else fits or ways
    letters = {f"as in {it}": _cut_out(form, line) for it, form, line in ways if it}
    says = [said["linear"].format(layer[2], layer[3])] if layer and not fits else []
    says += [said["together"]] if says and ("*" in layer[3] or layer[2] == layer[3]) else []
    says = [sub(r"\b(self|config|args)\.", "", it) for it in says]
    if shape[2:] and fits:
        says = [said["axes"].format(_axes(fits[0][1], shape))]
    elif len(shape) == 2 and not says and "bias" not in title:
        first = search(r"^blk\.|kernel$", called)  # GGUF, Keras and Flax list the inputs first
        to, of = shape[::-1] if first else shape
        form = said["inputs" if first else "way"]
        says = [form.format(of, to)]
        if fits:
            of, to, axis = _widths(fits[0][1], shape)
            says = [said["sized"].format(of, axis, to)]
            if "+" in axis:
                says.append(said["rest"].format(of, to - of, (to - of) // 2))
        crosses = said["cross"] in more  # another source has another width
        if search(r"for (keys|values)\.$", title) and to < of and not (of % to or crosses):
            says.append(said["grouped"].format(of, of // to))
    more = [it for it in more if not (says or told) or it != said["unstored"]]
    return card("name", title.format(called), [*says, *told, *more], [], letters, page)


def _named(typed: str) -> tuple | None:
    """What is known of a name: of those that it may mean, the longest."""
    said, known = MESSAGES["name"], sub(r"^[\x22':.]+|(:\d+)?[\x22':.]*$", "", typed)
    if fullmatch(r"[A-Za-z]_\w{1,2}(\[\w\])?", known) or search(said["others"], known):
        return None
    if not search("[./]|cache", known) and any(it[0] != "W" for it in roles_of(known)):
        return None  # attn_output by itself is an array
    dotted = "." + sub(r"[\[\]\x22':/]+", ".", known).strip(".")
    forms = [dotted]
    if dotted.endswith("bias"):
        forms += [sub("bias$", it, dotted) for it in ("weight", "kernel")]
    found = [
        [stored, holds, *its]
        for holds, names in tables()["names"].items()
        for called, *its in names
        for stored in cut(" ", called)
        if _is_meant(stored, its[3], forms)
    ]
    if not found:
        return None
    _, title, page, ways, more, _ = max(found, key=lambda each: len(each[0]))
    if forms[1:]:
        title, ways = title.replace("weights for", "biases for"), []
        title = title.replace("the weight after", "the bias after")
        page = said["biases"]
    crosses = [said["cross"]] if search(said["crosses"], dotted, case=False) else []
    page = said["else"] if crosses else page
    return known, title, ways, page, [*more, *crosses]


def _is_meant(stored: str, has_parts: int, forms: list) -> bool:
    """Whether a name ends as a library's does, or one with parts stands in it."""
    own = stored.replace("/", ".")
    short, ends = sub("[.]?[^.]*$", "", own), [f".{own}"]
    ends += [f".{short}"] if len(short) > 3 else []
    found = any(form.endswith(end) for form in forms for end in ends)
    return found or bool(has_parts and f".{own}." in f"{forms[0]}.")


def _widths(form: str, shape: list) -> list:
    """Of a weight stored so, d_model, the other size and its name, if a layer may have these."""
    axes = cut(", ", form[1:-1])
    if len(shape) != 2 or len(axes) != 2 or "d_model" not in axes:
        return []
    n = axes.index("d_model")
    of, to, axis = shape[n], shape[1 - n], axes[1 - n]
    often, rest = MESSAGES["name"]["often"].get(axis, 0), of < to <= 3 * of  # as wide as heads
    fits = to == often * of if often else rest if "+" in axis else of % to == 0
    return [of, to, axis] if fits else []


def _axes(form: str, shape: list) -> str:
    """Of a weight with an axis of heads, its axes with their numbers, if there are as many."""
    axes = cut(", ", form[1:-1])
    if len(axes) != len(shape) or not shape[2:]:
        return ""
    pairs = [*zip(axes, shape, strict=True)]
    fits = all(not axis.isdigit() or int(axis) == size for axis, size in pairs)
    return ", ".join(f"{axis} = {size}" for axis, size in pairs) if fits else ""


def _cut_out(form: str, line: str) -> str:
    """How a weight is stored, and how a head's is cut out; of a fused one with its parts."""
    parts = "".join(findall(r"\b[23]\b", form)[:1])
    return f"{form}, head i: {line}{MESSAGES['name']['parts'].get(parts, '')}" if line else form


def unknown_name(typed: str) -> str:
    """What to say of what looks like a weight's name, and is none that is known."""
    said = MESSAGES["name"]
    typed = sub(said["shape"], "", sub(said["aside"], "", typed)).strip(" :\"'")
    if not fullmatch(said["like"], typed):
        return ""
    names = [name for its in tables()["names"].values() for name, *_ in its]
    known = [*dict.fromkeys(cut("[./ ]", " ".join(names)))]
    strange = [part for part in cut("[./]", typed) if part not in known]
    longest = sorted(known, key=lambda it: -len(it))
    return " ".join([said["unknown"].format(typed), *alike(strange, longest)])


def alike(words: list, known: list) -> list:
    """Of each word the first that is known and one slip away, as a question."""
    strange = [word for word in words if word.lower() not in known]
    found = [(word, next((it for it in known if _slip(word, it)), "")) for word in strange]
    return [MESSAGES["words"]["near"].format(word, it) for word, it in found if it]


def _slip(a: str, b: str) -> bool:
    """Whether words differ by a letter: another one, one too many, or two that changed places."""
    one, two, n = a.lower(), b.lower(), 0
    short = min(len(one), len(two))
    while n < short and one[n] == two[n]:
        n += 1
    other = one[n + 1 :] in (two[n:], two[n + 1 :]) or one[n:] == two[n + 1 :]
    turned = "".join([two[n + 1 : n + 2], two[n : n + 1], two[n + 2 :]])
    return short > 3 and (other or one[n:] == turned)
