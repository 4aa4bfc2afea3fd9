"""How fast `qkv.attention` is beside the textbook and PyTorch, and what memory it takes.

python tests/benchmarks/attention_speed.py

The last line of each table says what is expected of it.
"""

import os

# NumPy's and PyTorch's matrix products read it when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch

from qkv import _tiled, attention
from qkv._tiled import attention_in_tiles

ROUNDS = 15
HEADS, D_K = 8, 64


def textbook(Q, K, V):
    """Equation (1), with a softmax that does not overflow, in NumPy's plainest words."""
    S = Q @ K.swapaxes(-1, -2) / math.sqrt(Q.shape[-1])
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True) @ V


def in_tiles(Q, K, V):
    """What `attention` does where scores are many, whatever their number."""
    return attention_in_tiles(Q, K, V, None, Q.shape[-1] ** -0.5, False)


def plainly(Q, K, V):
    """What `attention` does where scores are few, whatever their number."""
    at_once, _tiled.SCORES_AT_ONCE = _tiled.SCORES_AT_ONCE, math.inf
    try:
        return attention(Q, K, V)
    finally:
        _tiled.SCORES_AT_ONCE = at_once


def in_torch(Q, K, V):
    """The same by `scaled_dot_product_attention`, which wants a batch axis for its fast path."""
    batch = (torch.from_numpy(array)[None] for array in (Q, K, V))
    return torch.nn.functional.scaled_dot_product_attention(*batch)[0].numpy()


def medians(functions: dict[str, Callable], *arrays: np.ndarray) -> dict[str, float]:
    """Seconds of the processor each function takes, called in turn on the same machine."""
    seconds = {name: [] for name in functions}
    names = list(functions)
    for _ in range(ROUNDS if arrays[0].shape[-2] > 100 else 100 * ROUNDS):
        names = names[1:] + names[:1]  # so that each has been called after each
        for name in names:
            start = time.process_time()
            functions[name](*arrays)
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def inputs(n: int) -> np.ndarray:
    """Q, K and V of all heads for n tokens."""
    return np.random.default_rng(0).normal(size=(3, HEADS, n, D_K)).astype(np.float32)


def compare(n: int, expected: str) -> None:
    """Print the times at n tokens and their ratios to that of `attention`."""
    arrays = inputs(n)
    functions = {
        "attention": attention,
        "plain path": plainly,
        "tiles": in_tiles,
        "textbook": textbook,
        "torch": in_torch,
    }
    for function in functions.values():
        np.testing.assert_allclose(function(*arrays), attention(*arrays), rtol=1e-3, atol=1e-5)
    seconds = medians(functions, *arrays)
    threads = torch.get_num_threads()
    print(f"{HEADS} heads, n = {n}, d_k = {D_K}, float32, threads: {threads}")
    for name, time_taken in seconds.items():
        ratio = time_taken / seconds["attention"]
        print(f"  {name:<10} {time_taken * 1e3:9.3f} ms   {ratio:5.2f} times attention's")
    print(f"  expected: {expected}")


def measure_memory(n: int) -> None:
    """Print the memory `attention` takes above its inputs at n tokens, and that of all scores."""
    arrays = inputs(n)
    tracemalloc.start()
    attention(*arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{HEADS} heads, n = {n}, d_k = {D_K}, float32, memory above the inputs")
    print(f"  attention  {peak / 2**20:7.1f} MiB, the output among it")
    print(f"  all scores {HEADS * n**2 * 4 / 2**20:7.1f} MiB")
    print("  expected: attention under 64 MiB")


if __name__ == "__main__":
    compare(n=10, expected="attention no slower than the plain path")
    compare(n=2048, expected="textbook at least 1.4, torch at least 0.5")
    measure_memory(n=16384)
