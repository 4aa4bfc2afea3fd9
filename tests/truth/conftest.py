"""What tests of the real libraries share."""

import numpy as np
import pytest
from real_layers import keras_library


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def keras():
    return keras_library()
