"""Times whole programs in NumPy, by the names that `millstream bench` gives them.

Usage: python programs.py [--threads N] [--seconds S] gpt2_f32_200 heatroll_f32_1024x1024 kmeans_f32_20000x16x32 ...
Needs numpy.
"""

import argparse
import json
import os
import re
import statistics
import time

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=0.7)
parser.add_argument("cases", nargs="+")
args = parser.parse_args()
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(args.threads)

import numpy as np

rng = np.random.default_rng(1)
f32 = np.float32
RATE = f32(0.1)


def median_ms(call):
    call()
    times, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def normal(*shape):
    return rng.standard_normal(shape, dtype=f32)


def spread(up, down, left, right, u):
    return u + (up + down + left + right - u * f32(4)) * RATE


def shifted(x):
    return x[:-2, 1:-1], x[2:, 1:-1], x[1:-1, :-2], x[1:-1, 2:], x[1:-1, 1:-1]


def life(x):
    near = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)]
    around = sum(np.roll(x, step, (0, 1)) for step in near)
    return ((around == 3) | ((around == 2) & (x == 1))).astype(np.uint8)


def kmeans(points, centres):
    distances = np.square(points[:, None] - centres).sum(-1)
    members = (distances.argmin(1)[:, None] == np.arange(len(centres))).astype(f32)
    return members.T @ points / members.sum(0)[:, None]


def train(x, target, w1, w2):
    w1, w2 = w1.copy(), w2.copy()
    for _ in range(10):
        hidden = np.tanh(x @ w1)
        off = hidden @ w2 - target
        float(np.square(off).mean())
        slope = off * f32(2 / len(x))
        before = slope @ w2.T * (1 - np.square(hidden))
        w2 -= hidden.T @ slope * f32(0.05)
        w1 -= x.T @ before * f32(0.05)
    return w1


class Block:
    def __init__(self, width, heads):
        def linear(a, b):
            return (rng.random((a, b), dtype=f32) * 2 - 1) * f32((3 / a) ** 0.5), normal(b) * f32(0.1)

        self.heads, self.past = heads, None
        self.before, self.between = (normal(width), normal(width)), (normal(width), normal(width))
        self.three, self.joined = linear(width, 3 * width), linear(width, width)
        self.wide, self.narrow = linear(width, 4 * width), linear(4 * width, width)

    def __call__(self, x):
        width = x.shape[1]
        d = width // self.heads
        three = (norm(x, *self.before) @ self.three[0] + self.three[1]).reshape(1, 3, self.heads, d)
        q, k, v = (three[:, i].transpose(1, 0, 2) for i in range(3))
        if self.past is not None:
            k, v = (np.concatenate([old, new], 1) for old, new in zip(self.past, (k, v)))
        self.past = k, v
        scores = q @ k.transpose(0, 2, 1) / f32(d**0.5)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(1, width)
        x = x + (seen @ self.joined[0] + self.joined[1])
        wide = norm(x, *self.between) @ self.wide[0] + self.wide[1]
        wide = wide * f32(0.5) * (np.tanh((wide + wide * wide * wide * f32(0.044715)) * f32((2 / np.pi) ** 0.5)) + 1)
        return x + (wide @ self.narrow[0] + self.narrow[1])


def norm(x, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + f32(1e-5)) * scale + shift


def gpt2(tokens):
    """The median time of a token, the first ten left out."""
    width, words = 768, 50257
    blocks = [Block(width, 12) for _ in range(12)]
    last, table, places = (normal(width), normal(width)), normal(words, width) * f32(0.1), normal(tokens, width) * f32(0.1)
    times = []
    for _ in range(2):
        word = 1
        for block in blocks:
            block.past = None
        for t in range(tokens):
            begin = time.perf_counter()
            x = table[word : word + 1] + places[t : t + 1]
            for block in blocks:
                x = block(x)
            word = int((norm(x, *last) @ table.T).argmax())
            if t >= 10:
                times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def case(op, sizes):
    if op == "gpt2":
        return gpt2(*sizes)
    if op == "kmeans":
        n, d, k = sizes
        points, centres = normal(n, d), normal(k, d)
        return median_ms(lambda: kmeans(points, centres))
    if op == "train":
        b, i, h = sizes
        given = normal(b, i), normal(b, 1), normal(i, h) / f32(i**0.5), normal(h, 1) / f32(h**0.5)
        return median_ms(lambda: train(*given))
    if op == "life":
        field = rng.integers(0, 2, sizes, dtype=np.uint8)
        return median_ms(lambda: life(field))
    x = normal(*sizes)
    rolls = [(1, 0), (-1, 0), (1, 1), (-1, 1)]
    ways = {
        "heatslices": lambda: spread(*shifted(x)),
        "heatroll": lambda: spread(*(np.roll(x, *r) for r in rolls), x),
        "heatpad": lambda: spread(*shifted(np.pad(x, 1))),
    }
    return median_ms(ways[op]) if op in ways else None


for name in args.cases:
    op, _, sizes = name.split("_", 2)
    ms = case(op, [int(n) for n in re.findall(r"\d+", sizes)])
    if ms is not None:
        row = {"case": name, "peer": "numpy", "device": "cpu", "threads": args.threads, "ms": ms}
        print(json.dumps(row), flush=True)
