"""What tests of the real libraries share.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import numpy as np
import pytest
from arrays import N_K, N_Q, E, torch_layer
from real_layers import keras_library


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def torch():
    """PyTorch with the seed 0, and without gradients."""
    library = pytest.importorskip("torch")
    library.manual_seed(0)
    with library.no_grad():
        yield library


@pytest.fixture
def gradients(torch):
    """For tests that train."""
    with torch.enable_grad():
        yield


@pytest.fixture
def keras():
    return keras_library()


@pytest.fixture
def x(rng) -> np.ndarray:
    """The source of the queries."""
    return rng.normal(size=(1, N_Q, E))


@pytest.fixture
def y(rng) -> np.ndarray:
    """The source of keys and values."""
    return rng.normal(size=(1, N_K, E))


@pytest.fixture
def mha(torch, rng):
    """nn.MultiheadAttention with random weights in float64."""
    return torch_layer(rng)
