"""What a call costs beside its arithmetic, beside NumPy and, where it is installed, PyTorch.

    python python/bench/calls.py [--json] [--seconds S]

All libraries use one thread. Rounds of the libraries alternate, and the least time of a round counts, so that what else runs on the
machine disturbs little. Times are nanoseconds for one call.
"""

import argparse
import json
import os
import subprocess
import sys
import time

for variable in ("MILLSTREAM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def libraries():
    """Each library with a function that makes its array of float32, and one that computes what waits."""
    import numpy as np

    import millstream as ms

    found = {
        "millstream": (lambda values: ms.asarray(values, dtype=ms.float32), lambda x: x.eval(), ms.compile, ms),
        "numpy": (lambda values: np.asarray(values, dtype=np.float32), lambda x: x, None, np),
    }
    try:
        import torch

        torch.set_num_threads(1)
        found["torch"] = (lambda values: torch.tensor(values, dtype=torch.float32), lambda x: x, None, torch)
    except ImportError:
        pass
    return found


def ten(x, y):
    """Ten operations."""
    z = x * y
    z = z + x
    z = z - y
    z = z * 2.0
    z = z + 1.0
    z = z / y
    z = z * z
    z = z - x
    z = z + y
    return z * x


def cases(make, compute, compiler):
    """The calls of one library by name."""
    x, y = make([1.0, 2.0, 3.0, 4.0]), make([5.0, 6.0, 7.0, 8.0])
    compute(x), compute(y)
    found = {
        "x + y": lambda: compute(x + y),
        "x + 2.0": lambda: compute(x + 2.0),
        "ten operations and a read": lambda: ten(x, y).tolist(),
    }
    if compiler is not None:
        compiled = compiler(ten)
        found["x + y, not computed"] = lambda: x + y
        found["x + 2.0, not computed"] = lambda: x + 2.0
        found["ten operations and a read, compiled"] = lambda: compiled(x, y).tolist()
    return found


def least(call, seconds):
    """The least nanoseconds of a call: the fastest of many short rounds."""
    for _ in range(200):
        call()
    best, end = float("inf"), time.perf_counter() + seconds
    rounds = range(200)
    while time.perf_counter() < end:
        begin = time.perf_counter_ns()
        for _ in rounds:
            call()
        best = min(best, (time.perf_counter_ns() - begin) / len(rounds))
    return best


def start(program):
    """The least milliseconds of a new interpreter that runs a line, over one that runs none, and its resident MB."""
    def once(line):
        begin = time.perf_counter()
        ran = subprocess.run([sys.executable, "-c", line], check=True, capture_output=True, text=True)
        return time.perf_counter() - begin, ran.stdout

    # What the kernel says of this program alone; getrusage counts what ran in the process before it, too.
    memory = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    bare = min(once("pass")[0] for _ in range(10))
    full = min(once(program)[0] for _ in range(10))
    known = os.path.exists("/proc/self/status")
    peak = int(once(f"{program}; {memory}")[1]) / 1024 if known else float("nan")
    return {"milliseconds": (full - bare) * 1e3, "resident_mb": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each round of a case")
    options = parser.parse_args()
    figures = {}
    measured = {name: cases(*parts[:3]) for name, parts in libraries().items()}
    for _ in range(5):
        for name, calls in measured.items():
            for case, call in calls.items():
                old = figures.get((case, name), float("inf"))
                figures[case, name] = min(old, least(call, options.seconds))
    for (case, name), nanoseconds in sorted(figures.items()):
        if options.json:
            print(json.dumps({"case": case, "library": name, "ns": round(nanoseconds, 1)}))
        else:
            print(f"{case:40} {name:12} {nanoseconds:10.0f} ns")
    for name in measured:
        found = start(f"import {name}")
        if options.json:
            print(json.dumps({"case": "import", "library": name, **{k: round(v, 1) for k, v in found.items()}}))
        else:
            print(f"{'import':40} {name:12} {found['milliseconds']:10.1f} ms {found['resident_mb']:8.1f} MB resident")


if __name__ == "__main__":
    main()
