"""Times a network of ResNet-50's shape (random weights, batch normalisation folded) in ONNX Runtime and PyTorch.

The same graph as millstream/examples/resnet50. Usage: python resnet50.py [--batch N] [--threads N]
Needs onnx, onnxruntime, torch and numpy.
"""

import argparse
import json
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()
rng = np.random.default_rng(1)


def layers():
    """Name, input channels, output channels, window, stride."""
    yield "stem", 3, 64, 7, 2
    channels = 64
    for stage, (count, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for i in range(count):
            stride = 2 if i == 0 and stage > 0 else 1
            name = f"b{stage}_{i}"
            yield f"{name}_a", channels, width, 1, 1
            yield f"{name}_b", width, width, 3, stride
            yield f"{name}_c", width, 4 * width, 1, 1
            if i == 0:
                yield f"{name}_around", channels, 4 * width, 1, stride
            channels = 4 * width


weights = {}
for name, c, k, r, stride in layers():
    scale = (3.0 / (c * r * r)) ** 0.5
    weights[name] = (
        (rng.random((k, c, r, r), np.float32) * 2 - 1) * np.float32(scale),
        (rng.random(k, np.float32) * 2 - 1) * np.float32(0.1),
        stride,
        r // 2,
    )
last = (rng.random((2048, 1000), np.float32) * 2 - 1) * np.float32(0.03)
last_bias = (rng.random(1000, np.float32) * 2 - 1) * np.float32(0.1)
x = rng.random((args.batch, 3, 224, 224), np.float32) * 2 - 1


def forward(x, conv, relu, pool, add, head):
    x = pool(relu(conv(x, "stem")))
    for stage, count in enumerate([3, 4, 6, 3]):
        for i in range(count):
            name = f"b{stage}_{i}"
            around = conv(x, f"{name}_around") if i == 0 else x
            y = relu(conv(x, f"{name}_a"))
            y = relu(conv(y, f"{name}_b"))
            x = relu(add(conv(y, f"{name}_c"), around))
    return head(x)


def median_ms(fn):
    for _ in range(3):
        fn()
    times = []
    for _ in range(15):
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def emit(peer, ms):
    case = f"resnet50_f32_{args.batch}"
    print(json.dumps({"case": case, "peer": peer, "device": "cpu", "threads": args.threads, "ms": ms}), flush=True)


def onnx_runtime():
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    nodes, inits = [], []

    def node(op, inputs, **attributes):
        out = f"t{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def conv(t, name):
        w, b, stride, pad = weights[name]
        inits.extend([numpy_helper.from_array(w, name + "_w"), numpy_helper.from_array(b, name + "_bias")])
        return node("Conv", [t, name + "_w", name + "_bias"], strides=[stride] * 2, pads=[pad] * 4, kernel_shape=list(w.shape[2:]))

    def head(t):
        inits.extend([numpy_helper.from_array(last, "last"), numpy_helper.from_array(last_bias, "last_bias")])
        return node("Gemm", [node("Flatten", [node("GlobalAveragePool", [t])]), "last", "last_bias"])

    out = forward(
        "x",
        conv,
        lambda t: node("Relu", [t]),
        lambda t: node("MaxPool", [t], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        lambda a, b: node("Add", [a, b]),
        head,
    )
    graph = helper.make_graph(
        nodes,
        "resnet50",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
        inits,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    emit("onnxruntime", median_ms(lambda: session.run(None, {"x": x})))


def torch_eager():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(args.threads)
    tensors = {n: (torch.from_numpy(w), torch.from_numpy(b), s, p) for n, (w, b, s, p) in weights.items()}
    head_w, head_b, t = torch.from_numpy(last), torch.from_numpy(last_bias), torch.from_numpy(x)

    def run():
        return forward(
            t,
            lambda t, n: F.conv2d(t, tensors[n][0], tensors[n][1], tensors[n][2], tensors[n][3]),
            F.relu,
            lambda t: F.max_pool2d(t, 3, 2, 1),
            lambda a, b: a + b,
            lambda t: t.mean((2, 3)) @ head_w + head_b,
        )

    with torch.inference_mode():
        emit("torch", median_ms(run))


onnx_runtime()
torch_eager()
