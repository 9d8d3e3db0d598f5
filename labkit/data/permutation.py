"""A keyed shuffle of any number of things that is computed, never stored.

A Feistel network permutes the numbers below a power of four; walking along its cycles until a number below n comes up
makes it a permutation of n (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002): fewer than four steps on
average.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

ROUNDS = 8


def permuted(index: NDArray[np.int64], n: int, *key: int) -> NDArray[np.int64]:
    """Where the permutation of ``range(n)`` that belongs to `key` sends each index. A bijection for any n and key."""
    return _walked(index, n, _round_keys(key)[:, None])


def permuted_each(
    index: NDArray[np.int64], n: int, seed: int, first: int, epochs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where the permutation of the key (seed, first + epoch) sends each index; `epochs` ascend from 0."""
    last = int(epochs[-1]) if len(epochs) else 0
    keys = np.stack([_round_keys((seed, first + epoch)) for epoch in range(last + 1)], axis=1)
    return _walked(index, n, keys[:, epochs] if last else keys)


def _walked(index: NDArray[np.int64], n: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Round after round until the number is below n, each index by its column of keys, or all by the only one."""
    half = np.uint64(max(1, (max(n - 1, 1).bit_length() + 1) // 2))
    out = index.astype(np.uint64)
    columns = np.broadcast_to(keys, (ROUNDS, len(out)))
    walking = np.ones(len(out), dtype=np.bool_)
    while walking.any():
        out[walking] = _feistel(out[walking], half, columns[:, walking] if keys.shape[1] > 1 else keys)
        walking = out >= np.uint64(n)
    return out.astype(np.int64)


def _feistel(x: NDArray[np.uint64], half: np.uint64, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """x = left · 2^half + right; a round makes (left, right) into (right, left ⊕ mix(right ⊕ key))."""
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = x >> half, x & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right ^ key) & mask)
    return (left << half) | right


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer (Steele, Lea and Flood, 2014): every bit of the input moves half of the output's."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _round_keys(key: tuple[int, ...]) -> NDArray[np.uint64]:
    name = ",".join(map(str, key)).encode()
    return np.frombuffer(hashlib.blake2b(name, digest_size=8 * ROUNDS, person=b"labkit windows").digest(), "<u8")
