r"""Why a layer that runs gives other numbers: the known mistakes as data, and `diagnose`.

A layer is a dictionary of steps, each a line of NumPy (`_layer`). Most mistakes replace one or a
few (`Mistake`); six files hold what is known, one for each part of a layer. `diagnose` takes
weights, inputs and an output. It makes each mistake in a plain layer, alone, and then common ones
two at a time (`_search`). It says which of them give that output, what would tell them apart
(`_deciding`), and where arrays on the way first differ (`_intermediates`).
"""

from qkv.mistakes._diagnose import Diagnosis, Explanation, diagnose
from qkv.mistakes._known import Mistake, known, parts, symptoms

__all__ = ["Diagnosis", "Explanation", "Mistake", "diagnose", "known", "parts", "symptoms"]
