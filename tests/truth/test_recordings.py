"""The same layers where no library is installed: replayed from recordings, with NumPy alone."""

import numpy as np
import pytest
from real_layers import CASES, ONCE, RAN_ONCE, Case
from record import RECORDINGS, read


def test_every_layer_is_recorded_and_nothing_else_is():
    assert {path.stem for path in RECORDINGS.iterdir()} == {*CASES, *ONCE}


@pytest.mark.parametrize("case", (CASES | ONCE).values(), ids=CASES | ONCE)
def test_a_recorded_layer_is_computed_with_numpy_alone(case: Case):
    recorded = read(case)
    mh = case.load(recorded["weights"])
    for form in case.problems():
        recording = recorded[form]
        sources = (recording.get(name) for name in ("X_Q", "X_K", "X_V"))
        output = mh(*sources, mask=recording.get("mask"))
        np.testing.assert_allclose(output, recording["output"], rtol=0, atol=1e-12, err_msg=form)


@pytest.mark.parametrize("case", ONCE.values(), ids=ONCE)
def test_what_ran_once_was_recorded_with_the_version_that_pages_name(case: Case):
    [(library, version)] = read(case)["made with"].items()
    assert RAN_ONCE[case.layout].startswith(f"{library} {version} with ")
