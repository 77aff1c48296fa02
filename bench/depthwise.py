"""Times convolutions in groups in ONNX Runtime and PyTorch, by the names that `millstream bench` gives them.

Usage: python depthwise.py [--threads N] conv_f32_1x32x112x112_32x3x3_s1p1_g32 ...
Needs onnx, onnxruntime, torch and numpy.
"""

import argparse
import json
import re
import statistics
import time

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("cases", nargs="+")
args = parser.parse_args()
torch.set_num_threads(args.threads)
rng = np.random.default_rng(1)


def median_ms(call, seconds=0.4):
    for _ in range(3):
        call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


for case in args.cases:
    sizes = re.fullmatch(r"conv_f32_(\d+)x(\d+)x(\d+)x(\d+)_(\d+)x(\d+)x(\d+)_s(\d+)p(\d+)_g(\d+)", case)
    n, c, h, w, k, r, s, stride, padding, groups = map(int, sizes.groups())
    x = rng.standard_normal((n, c, h, w), np.float32)
    f = rng.standard_normal((k, c // groups, r, s), np.float32)
    out = [(size + 2 * padding - window) // stride + 1 for size, window in ((h, r), (w, s))]
    # Elements inside the image that the windows of an axis have in all: products with the zeros around it do not count.
    taps = [
        sum(max(0, min(i * stride + window, size + padding) - max(i * stride, padding)) for i in range(pixels))
        for size, window, pixels in ((h, r, out[0]), (w, s, out[1]))
    ]
    flop = 2 * n * k * (c // groups) * taps[0] * taps[1]
    node = helper.make_node(
        "Conv", ["x", "f"], ["y"], strides=[stride] * 2, pads=[padding] * 4, group=groups, kernel_shape=[r, s]
    )
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, k, *out])],
        [numpy_helper.from_array(f, "f")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    tx, tf = torch.from_numpy(x), torch.from_numpy(f)
    with torch.inference_mode():
        peers = {
            "torch": lambda: torch.nn.functional.conv2d(tx, tf, stride=stride, padding=padding, groups=groups),
            "onnxruntime": lambda: session.run(None, {"x": x}),
        }
        for peer, call in peers.items():
            ms = median_ms(call)
            row = {"case": case, "peer": peer, "device": "cpu", "threads": args.threads, "ms": ms}
            print(json.dumps({**row, "gflops": flop / ms / 1e6}))
