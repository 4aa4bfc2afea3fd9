"""How the site is built, in three rooms: Markdown extensions, generated data, MkDocs' hooks."""

import os

# Before NumPy is imported: with one thread, small products are faster, and the last digits that a
# page prints do not depend on how many cores a machine has.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
