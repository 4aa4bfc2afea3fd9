"""How fast `qkv.attention` is beside the textbook and PyTorch, and what memory it takes.

python tests/benchmarks/attention_speed.py
"""

import os

# NumPy's and PyTorch's matrix products read it when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import statistics
import time
import tracemalloc

import numpy as np
import torch

from qkv import attention


def textbook(Q, K, V):
    """Equation (1), with a softmax that does not overflow, in NumPy's plainest words."""
    S = Q @ K.swapaxes(-1, -2) / math.sqrt(Q.shape[-1])
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True) @ V


def in_torch(Q, K, V):
    """The same by `scaled_dot_product_attention`, which wants a batch axis for its fast path."""
    batch = (torch.from_numpy(array)[None] for array in (Q, K, V))
    return torch.nn.functional.scaled_dot_product_attention(*batch)[0].numpy()


def inputs(n):
    """Q, K and V of 8 heads, 64 wide, for n tokens."""
    return np.random.default_rng(0).normal(size=(3, 8, n, 64)).astype(np.float32)


def compare(n, calls, expected):
    """Print the median time of each, called in turn, and its ratio to that of `attention`."""
    seconds = {function: [] for function in (attention, textbook, in_torch)}
    for _ in range(calls):
        for function, times in seconds.items():
            start = time.process_time()
            function(*inputs_of[n])
            times.append(time.process_time() - start)
    print(f"n = {n}; expected: {expected}")
    least = statistics.median(seconds[attention])
    for function, times in seconds.items():
        median = statistics.median(times)
        print(f"  {function.__name__:<10} {median * 1e3:9.3f} ms   {median / least:5.2f}")


inputs_of = {n: inputs(n) for n in (10, 2048, 16384)}
compare(10, 1500, "attention no slower than before a change")
compare(2048, 15, "textbook at least 1.4, torch at least 0.5")
tracemalloc.start()
attention(*inputs_of[16384])
print(f"n = 16384: {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB; expected: under 64")
