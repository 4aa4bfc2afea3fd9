"""What a page may hold: the kinds of fences, one module each, and how a page is written.

A module has a subclass of `qkv_site.page.Fence`, which says how its fence begins, which options it
takes, what can be wrong with it, and how it is written. Nothing else names it: a new kind of fence
is a new module.

**Blocks of Python.** The blocks of one page share their names. One that a page shows begins with
`python exec="on" source="above" result="text"`. It ends in an assertion and prints what it found;
output is never pasted. With `html="on"` it prints Markdown or a drawing, such as those of
`qkv_site.markdown.heat_maps`. A number that follows from the page's names is computed in the
sentence: `{{= 3 * P_Q.size }}`, a shape `{{= W_Q.shape }}`, a text `{{= f"{ratio:.2f}" }}`. A word
that the build tests is `{{= said("smaller", pair.size, one.size) }}`, or where a block made
`cancels = {"query": False, "key": True}`, `{{= said("key", cancels) }}`. So is, where it can be,
the word that carries a short answer, a cell of a table or the answer of an exercise. Facts that
only sentences use stand in a block with `exec="on"` alone, each word beside one that somebody could
write instead; a notebook leaves it out. Numbers come from `qkv.example` where they can: five words,
and no two sizes are equal.

**Claims.** A block that proves a statement has `claim="six-times-seven"` and `title="..."`, the
statement, which stands above it and at the page's foot; `cite="who, where"` names a source and
`covers="..."` says over what the check runs. A claim is *computed* by its block; or *run*,
`run="test_name"`, by a test in `tests/truth/` on the library; or *read*, `read="file, line,
commit"`. A statement without a block is an entry of `read` in the front matter, with `id`,
`statement` and `source`. What `qkv.load` and `qkv.dump` do is no evidence about a library. A link
to a test is `claims.md#test-name`; the build leads it to the page that the test stands on.

**A block of a library** begins with `python library="keras"`, a layout's name;
`tests/truth/record.py` runs it and records what it prints. A check in several frameworks has a tab
for each: `=== "NumPy"`, `=== "PyTorch"`, `=== "Keras"`, `=== "Flax"`.

**Formulas** are lines of NumPy, in a fence `formula` or in a sentence, `{{W_Q[i]}}`; `qkv.notation`
has the grammar. Each is parsed once, run on arrays of prime sizes, and written in the letters of
each source. Lines of one fence are about one layer. `in="paper-eq1 paper-3-2-2"` shows a fence in
these notations alone, `{{paper-3-2-2: X_Q @ W_Q[i]}}` ties a symbol to one. Other mathematics is
LaTeX between dollar signs. In a sentence all follows the letters that a reader chose:

- "takes 512 numbers to 64" is true for rows and for columns;
- `{{shape(W_Q[i], d_model=512, d_k=64)}}` is a shape, in numbers or in letters;
- `{{2 * d_model * d_k - d_k**2}}` is arithmetic of sizes;
- `{{"rows"}}`, `{{"side by side"}}` is a word of side, as it is with tokens as rows.

**A diagram** draws formulas to scale: `diagram sizes="n_q=5 d_model=16 d_k=4"`. A line that begins
with `==` goes on with the one before it; what follows `#` is a note. `heads="apart"` gives each
head a rectangle, `kept="K[i] V[i]"` a thick edge to what a cache keeps, and
`sizes="grouped: h_kv=2; multi-query: h_kv=1"` draws the formulas once for each title.

**The map** of the layer is a fence `map` without lines: `state="sound"` shows the two videos first,
`state="code"` the packed array. A line `map: W_Q[i] Q[i]` in the front matter puts the small map
beside the short answer.

**The live layer** is a fence `live` without lines on its own page; elsewhere
`live state="step=query&second=two"` is a small window on one step. Its lines are in `live.py`, what
it says in `live.toml`.

**The path** is a fence `path` without lines: on the home page it lists the pages of the menu's
first section, on each of these it says which one it is, and leads to the next.

**What people type** to get to a heading is a fence `asked` at the end of its section. A heading
that someone would link to has an explicit id, `## The two Q's { #the-two-qs }`; a line of
`docs/questions.md` is `- [Question?](page.md#id) Answer.` A term that pages do not explain each
time has a line under `abbr` in `mkdocs.yml`.
"""
