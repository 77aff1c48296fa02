"""Time and memory of a forward pass of a transformer in PyTorch: twelve layers, width 768, twelve heads, 256 tokens, f32.

The same graph as millstream/examples/transformer.rs. Usage: python transformer.py [--batch N] [--threads N]

Memory is counted in the first pass, beyond weights and input, in two ways. `peak_allocator_bytes` is the largest sum of
what PyTorch's CPU allocator had given out, from the memory events of torch.profiler, in a process of its own; scratch memory
that oneDNN and MKL take for themselves is not in it. `process_growth_bytes` is the largest resident size less the one
before the pass, without the profiler, after a tiny pass that loads the libraries' code; it has all.
"""

import argparse
import json
import subprocess
import sys
import time

LAYERS, WIDTH, HEADS, TOKENS = 12, 768, 12, 256

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--part", choices=["time", "allocator", "process"], help="what a child process measures")
args = parser.parse_args()


def network():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)

    def random(*shape, scale):
        return (torch.rand(*shape) * 2 - 1) * scale

    def linear(n, m):
        # As PyTorch keeps matrices: [to, from].
        return random(m, n, scale=(3 / n) ** 0.5), random(m, scale=0.1)

    def norm():
        return random(WIDTH, scale=1), random(WIDTH, scale=0.1)

    def block():
        return {
            "before": norm(),
            "three": linear(WIDTH, 3 * WIDTH),
            "joined": linear(WIDTH, WIDTH),
            "between": norm(),
            "wide": linear(WIDTH, 4 * WIDTH),
            "narrow": linear(4 * WIDTH, WIDTH),
        }

    blocks, last = [block() for _ in range(LAYERS)], norm()
    x = random(args.batch, TOKENS, WIDTH, scale=1)

    def attend(x, b):
        three = F.linear(F.layer_norm(x, (WIDTH,), *b["before"]), *b["three"])
        q, k, v = three.view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v)
        return F.linear(seen.transpose(1, 2).reshape(x.shape), *b["joined"])

    def feed(x, b):
        return F.linear(F.gelu(F.linear(F.layer_norm(x, (WIDTH,), *b["between"]), *b["wide"])), *b["narrow"])

    def forward(y=x):
        # Parts are functions of their own, so that their values go when they return.
        for b in blocks:
            y = y + attend(y, b)
            y = y + feed(y, b)
        return F.layer_norm(y, (WIDTH,), *last)

    return torch, forward, x


def status(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name + ":"))


def measure(part):
    torch, forward, x = network()
    with torch.inference_mode():
        if part == "process":
            # What is loaded at the first call of a function is no memory of values: a tiny pass loads it.
            forward(x[:1, :8])
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
            before = status("VmRSS")
            forward()
            return status("VmHWM") - before
        if part == "allocator":
            from torch.profiler import ProfilerActivity, profile

            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
                forward()
            events = [e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
            events.sort(key=lambda e: e.start_ns())
            now = most = 0
            for e in events:
                now += e.nbytes()
                most = max(most, now)
            return most
        times = []
        for _ in range(6):
            start = time.perf_counter()
            forward()
            times.append((time.perf_counter() - start) * 1e3)
        return sorted(times[1:])[2]


if args.part:
    print(measure(args.part))
else:

    def child(part):
        command = [sys.executable, __file__, "--batch", str(args.batch), "--threads", str(args.threads), "--part", part]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])

    row = {
        "case": f"transformer_f32_{args.batch}x{TOKENS}x{WIDTH}",
        "peer": "torch",
        "device": "cpu",
        "threads": args.threads,
        "ms": round(child("time"), 2),
        "peak_allocator_bytes": int(child("allocator")),
        "process_growth_bytes": int(child("process")),
    }
    print(json.dumps(row, separators=(",", ":")))
