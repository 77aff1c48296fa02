"""Times sorting, running sums, lookups, random numbers, pooling and products of bytes in PyTorch and NumPy, by the names that
`millstream bench` gives them.

Usage: python moves.py [--threads N] [--seconds S] sort_f32_1x1048576 take_f32_262144x64x262144 ...
Needs torch and numpy.
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
import torch
import torch.nn.functional as F

torch.set_num_threads(args.threads)
torch.manual_seed(1)
rng = np.random.default_rng(1)


def median_ms(call):
    call()
    times, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def normal(*shape):
    x = torch.randn(*shape)
    return x, x.numpy()


def indices(below, *shape):
    x = torch.randint(0, below, shape)
    return x, x.numpy()


def peers(op, dtype, sizes):
    """The ways to compute a case, by peer; of several ways of one peer the fastest counts."""
    if op == "matmul" and dtype == "i8":
        m, k, n = sizes
        a = torch.randint(-127, 128, (m, k), dtype=torch.int8)
        b = torch.randint(-127, 128, (k, n), dtype=torch.int8)
        return {"torch": [lambda: torch._int_mm(a, b)]}
    if op == "bmm":
        b, m, k, n = sizes
        (x, nx), (y, ny) = normal(b, m, k), normal(b, k, n)
        out = torch.empty(b, m, n)
        return {"torch": [lambda: torch.bmm(x, y, out=out)], "numpy": [lambda: nx @ ny]}
    if op in ("cumsum", "colcumsum"):
        x, nx = normal(*sizes)
        axis = 1 if op == "cumsum" else 0
        return {"torch": [lambda: x.cumsum(axis)], "numpy": [lambda: np.cumsum(nx, axis)]}
    if op == "sort":
        x, nx = normal(*sizes)
        return {"torch": [lambda: x.sort(1)], "numpy": [lambda: np.sort(nx, 1)]}
    if op == "argsort":
        x, nx = normal(*sizes)
        return {"torch": [lambda: x.argsort(1)], "numpy": [lambda: np.argsort(nx, 1)]}
    if op == "topk":
        r, c, k = sizes
        x, nx = normal(r, c)
        return {"torch": [lambda: x.topk(k, 1)], "numpy": [lambda: np.sort(np.partition(nx, c - k, 1)[:, c - k :], 1)]}
    if op == "argmax":
        x, nx = normal(*sizes)
        return {"torch": [lambda: x.argmax(1)], "numpy": [lambda: nx.argmax(1)]}
    if op == "take":
        r, c, n = sizes
        (x, nx), (i, ni) = normal(r, c), indices(r, n)
        return {
            "torch": [lambda: x.index_select(0, i), lambda: F.embedding(i, x)],
            "numpy": [lambda: nx.take(ni, 0)],
        }
    if op == "gather":
        (x, nx), (i, ni) = normal(*sizes), indices(sizes[1], *sizes)
        return {"torch": [lambda: x.gather(1, i)], "numpy": [lambda: np.take_along_axis(nx, ni, 1)]}
    if op == "scatteradd":
        (n,) = sizes
        (x, _), (y, _), (i, _) = normal(n), normal(n), indices(n, n)
        return {"torch": [lambda: x.scatter_add(0, i, y), lambda: x.index_add(0, i, y)]}
    if op == "mask":
        x, nx = normal(*sizes)
        return {"torch": [lambda: x[x > 0]], "numpy": [lambda: nx[nx > 0]]}
    if op == "uniform":
        (n,) = sizes
        return {"torch": [lambda: torch.rand(n)], "numpy": [lambda: rng.random(n, dtype=np.float32)]}
    if op == "normal":
        (n,) = sizes
        return {"torch": [lambda: torch.randn(n)], "numpy": [lambda: rng.standard_normal(n, dtype=np.float32)]}
    if op == "integers":
        (n,) = sizes
        return {"torch": [lambda: torch.randint(0, 1000, (n,))], "numpy": [lambda: rng.integers(0, 1000, n)]}
    if op in ("maxpool", "avgpool"):
        *shape, k, s, p = sizes
        x, _ = normal(*shape)
        last = x.to(memory_format=torch.channels_last)
        pool = F.max_pool2d if op == "maxpool" else F.avg_pool2d
        # With channels last it is another kernel; the input is given so, which flatters the peer.
        return {"torch": [lambda: pool(x, k, s, p), lambda: pool(last, k, s, p)]}
    raise SystemExit(f"there is no case {op}_{dtype}")


for case in args.cases:
    op, dtype, sizes = case.split("_", 2)
    sizes = [int(n) for n in re.findall(r"\d+", sizes)]
    with torch.inference_mode():
        for peer, ways in peers(op, dtype, sizes).items():
            ms = min(median_ms(way) for way in ways)
            row = {"case": case, "peer": peer, "device": "cpu", "threads": args.threads, "ms": ms}
            print(json.dumps(row), flush=True)
