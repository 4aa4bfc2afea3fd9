"""What tests of the real libraries share."""

import numpy as np
import pytest
from arrays import N_K, N_Q, E, torch_layer
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
