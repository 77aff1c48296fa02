"""Times a forward pass of a network of MobileNetV2's shape in ONNX Runtime: the graph of `millstream/examples/mobilenet`.

Usage: python mobilenet.py [--threads N] [--batch N]
Needs onnx, onnxruntime and numpy.
"""

import argparse
import json
import statistics
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--batch", type=int, default=1)
args = parser.parse_args()
rng = np.random.default_rng(1)
nodes, weights = [], []

STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def add(kind, inputs, **attributes):
    name = f"v{len(nodes)}"
    nodes.append(helper.make_node(kind, inputs, [name], **attributes))
    return name


def constant(values):
    name = f"w{len(weights)}"
    weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
    return name


def median_ms(fn):
    times = []
    for _ in range(41):
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def emit(peer, ms):
    case = f"mobilenet_f32_{args.batch}"
    print(json.dumps({"case": case, "peer": peer, "device": "cpu", "threads": args.threads, "ms": ms}), flush=True)


LOW, HIGH = constant(0.0), constant(6.0)


def conv(x, channels, to, size, stride, groups, activate=True):
    scale = (3.0 / (channels // groups * size * size)) ** 0.5
    w = constant(rng.uniform(-scale, scale, (to, channels // groups, size, size)))
    b = constant(rng.uniform(-0.1, 0.1, to))
    pads, strides = [size // 2] * 4, [stride] * 2
    y = add("Conv", [x, w, b], kernel_shape=[size] * 2, strides=strides, pads=pads, group=groups)
    return add("Clip", [y, LOW, HIGH]) if activate else y


x = conv("x", 3, 32, 3, 2, 1)
channels = 32
for times, to, count, first in STAGES:
    for i in range(count):
        wide, stride = channels * times, first if i == 0 else 1
        y = x if times == 1 else conv(x, channels, wide, 1, 1, 1)
        y = conv(conv(y, wide, wide, 3, stride, wide), wide, to, 1, 1, 1, False)
        x = add("Add", [y, x]) if stride == 1 and channels == to else y
        channels = to
x = add("Flatten", [add("GlobalAveragePool", [conv(x, channels, 1280, 1, 1, 1)])])
out = add("MatMul", [x, constant(rng.uniform(-0.03, 0.03, (1280, 1000)))])
graph = helper.make_graph(
    nodes,
    "mobilenet",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [args.batch, 3, 224, 224])],
    [helper.make_tensor_value_info(out, TensorProto.FLOAT, [args.batch, 1000])],
    weights,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = args.threads
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
x = rng.uniform(-1, 1, (args.batch, 3, 224, 224)).astype(np.float32)
emit("onnxruntime", median_ms(lambda: session.run(None, {"x": x})))
