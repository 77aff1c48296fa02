"""A program that type checkers read: see test_typing.py."""

import millstream as ms


def normalize(x: ms.Array, eps: float = 1e-5) -> ms.Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / ms.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)


class Layer:
    weight: ms.Array

    def __init__(self, inputs: int, outputs: int, generator: ms.random.Generator) -> None:
        self.weight = generator.normal(0.0, inputs**-0.5, (outputs, inputs)).keep()

    def __call__(self, x: ms.Array) -> ms.Array:
        return ms.nn.gelu(ms.nn.linear(normalize(x), self.weight))


@ms.compile
def distance(x: ms.Array, y: ms.Array) -> ms.Array:
    return ms.linalg.vector_norm(x - y, axis=-1)


def main() -> float:
    layer = Layer(4, 3, ms.random.default_rng(1))
    with ms.device("cpu") as device, ms.profile() as p:
        x = ms.asarray([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]], dtype=ms.float32, device=device)
        x[0, 1:3] = 0
        x += 1
        made = distance(layer(x), ms.zeros((2, 3)))
    rows: list[float] = made.tolist()
    values, indices = ms.topk(made, 1)
    u, s, vh = ms.linalg.svd(x, full_matrices=False)
    back = (u * s[None, :]) @ vh
    shape: tuple[int, ...] = back.shape
    inside: ms.Array = (x > 0) & (x < 3)
    assert bool(ms.allclose(back, x, atol=1e-4)) and shape == (2, 4) and len(rows) == 2 and inside.dtype == ms.bool
    assert p.records()[0]["seconds"] >= 0 and indices.dtype.name == "int64"
    return float(values[0]) + ms.finfo(ms.float32).eps + int(x.argmax()) + float(ms.fft.rfft(x).real.sum()) * 0


if __name__ == "__main__":
    print(main())
