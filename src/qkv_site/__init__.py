"""How the site is built, in three rooms: Markdown extensions, generated data, MkDocs' hooks."""

import os

# Before NumPy is imported: with one thread, the last digits that a page prints are the same whatever
# number of cores a machine has, and small products are faster.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
