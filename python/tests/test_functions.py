"""The functions of the namespace beside NumPy's of the same name."""

import numpy as np
import pytest
from conftest import values

import millstream as ms

RENAMED = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh", "atan2": "arctan2",
    "bitwise_invert": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip


def numpys(name):
    return getattr(np, RENAMED.get(name, name))


@pytest.mark.parametrize(
    "name",
    "abs acos angle asin asinh atan atanh cbrt ceil conj cos cosh deg2rad exp exp2 expm1 floor imag isfinite isinf isnan negative positive "
    "rad2deg real sign signbit sin sinh square tan tanh trunc round".split(),
)
def test_functions_of_any_number(name):
    a = np.asarray([[0.3, -0.7, 0.0], [0.99, -0.05, 0.5]], dtype=np.float32)
    made, wanted = getattr(ms, name)(ms.asarray(a)), numpys(name)(a)
    assert made.dtype == wanted.dtype and np.allclose(values(made), wanted, rtol=1e-6)
    assert np.array_equal(values(getattr(ms, name)(a)), values(made))


@pytest.mark.parametrize("name", "acosh log log10 log1p log2 reciprocal sqrt".split())
def test_functions_of_positive_numbers(name):
    a = np.asarray([1.0, 2.5, 100.0], dtype=np.float64)
    assert np.allclose(values(getattr(ms, name)(ms.asarray(a))), numpys(name)(a), rtol=1e-14)


@pytest.mark.parametrize(
    "name",
    "add atan2 copysign divide equal floor_divide fmod greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract".split(),
)
def test_functions_of_two_numbers(name):
    a, b = np.asarray([[0.3], [2.5]], dtype=np.float64), np.asarray([1.5, 0.3, 2.0], dtype=np.float64)
    wanted = numpys(name)(a, b)
    for made in [getattr(ms, name)(ms.asarray(a), ms.asarray(b)), getattr(ms, name)(ms.asarray(a), b), getattr(ms, name)(a, ms.asarray(b))]:
        assert made.shape == wanted.shape and made.dtype == wanted.dtype and np.allclose(values(made), wanted, rtol=1e-14)
    assert np.allclose(values(getattr(ms, name)(ms.asarray(b), 2.0)), numpys(name)(b, 2.0))
    assert np.allclose(values(getattr(ms, name)(2.0, ms.asarray(b))), numpys(name)(2.0, b))


@pytest.mark.parametrize(
    "made, wanted",
    [
        (lambda: ms.arange(5), np.arange(5)), (lambda: ms.arange(2, 11, 3), np.arange(2, 11, 3)), (lambda: ms.arange(5, -5, -4), np.arange(5, -5, -4)),
        (lambda: ms.arange(0.0, 1.0, 0.25, dtype="float64"), np.arange(0.0, 1.0, 0.25)), (lambda: ms.arange(3, dtype=ms.uint8), np.arange(3, dtype="u1")),
        (lambda: ms.arange(2**63, 2**63 + 3, dtype="uint64"), np.arange(2**63, 2**63 + 3, dtype="uint64")), (lambda: ms.arange(5, 2), np.arange(5, 2)),
        (lambda: ms.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype="f4")), (lambda: ms.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False, dtype="f4")),
        (lambda: ms.linspace(1j, 3, 3), np.linspace(1j, 3, 3).astype("c8")), (lambda: ms.eye(3, 4, k=1), np.eye(3, 4, k=1, dtype="f4")),
        (lambda: ms.full([2, 2], 7), np.full([2, 2], 7)), (lambda: ms.full(3, 1.5), np.full(3, 1.5, dtype="f4")), (lambda: ms.ones((), dtype=bool), np.ones((), dtype=bool)),
        (lambda: ms.zeros_like(ms.arange(3)), np.zeros(3, dtype="i8")), (lambda: ms.full_like(ms.ones(2), 3), np.full(2, 3, dtype="f4")),
        (lambda: ms.tril(ms.ones((3, 3)), k=-1), np.tril(np.ones((3, 3), "f4"), k=-1)), (lambda: ms.meshgrid(ms.arange(2), ms.arange(3))[1], np.meshgrid(np.arange(2), np.arange(3))[1]),
    ],
)  # fmt: skip
def test_arrays_from_numbers(made, wanted):
    made = made()
    assert made.shape == wanted.shape and made.dtype == wanted.dtype and np.allclose(values(made), wanted, rtol=1e-6)


def test_arrays_in_other_shapes():
    a = np.arange(24).reshape(2, 3, 4)
    x = ms.asarray(a)
    for made, wanted in [
        (ms.concat([x, x], axis=1), np.concat([a, a], axis=1)), (ms.concat([x, x], axis=None), np.concat([a, a], axis=None)),
        (ms.stack([x, x], axis=-1), np.stack([a, a], axis=-1)), (ms.expand_dims(x, axis=(0, 2)), np.expand_dims(a, (0, 2))), (ms.flip(x), np.flip(a)),
        (ms.flip(x, axis=(0, 2)), np.flip(a, (0, 2))), (ms.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1)), (ms.moveaxis(x, (0, 1), (2, 0)), np.moveaxis(a, (0, 1), (2, 0))),
        (ms.permute_dims(x, (2, 0, 1)), np.permute_dims(a, (2, 0, 1))), (ms.repeat(x, 2), np.repeat(a, 2)), (ms.repeat(x, ms.asarray([1, 0, 2]), axis=1), np.repeat(a, [1, 0, 2], axis=1)),
        (ms.roll(x, 5), np.roll(a, 5)), (ms.roll(x, (1, 2), axis=(0, 1)), np.roll(a, (1, 2), axis=(0, 1))), (ms.roll(x, 2, axis=(1, 1)), np.roll(a, 2, axis=(1, 1))),
        (ms.tile(x, (2, 1, 1, 2)), np.tile(a, (2, 1, 1, 2))), (ms.broadcast_to(x, (2, 2, 3, 4)), np.broadcast_to(a, (2, 2, 3, 4))), (ms.unstack(x, axis=1)[2], a[:, 2]),
        (ms.take(x, ms.asarray([2, 0]), axis=1), np.take(a, [2, 0], axis=1)), (ms.take_along_axis(x, ms.argsort(-x), axis=-1), -np.sort(-a)),
        (ms.where(x > 5, x, -1), np.where(a > 5, a, -1)), (ms.diff(x, n=2), np.diff(a, n=2)), (ms.clip(x, 3, None), np.clip(a, 3, None)),
        (ms.pad(x, 1), np.pad(a, 1)), (ms.pad(x, ((0, 0), (1, 2), (2, 1)), mode="reflect"), np.pad(a, ((0, 0), (1, 2), (2, 1)), mode="reflect")),
        (ms.sort(x, axis=0, descending=True), -np.sort(-a, axis=0)), (ms.searchsorted(ms.arange(9), ms.asarray([3, 10])), np.searchsorted(np.arange(9), [3, 10])),
        (ms.isin(x, ms.asarray([3, 5]), invert=True), np.isin(a, [3, 5], invert=True)), (ms.cumulative_sum(x, axis=1, include_initial=True), np.cumulative_sum(a, axis=1, include_initial=True)),
        (ms.tensordot(x, x, axes=((1, 2), (1, 2))), np.tensordot(a, a, axes=((1, 2), (1, 2)))), (ms.einsum("ijk,ljk->il", x, x), np.einsum("ijk,ljk->il", a, a)),
        (ms.vecdot(x, x), np.vecdot(a, a)), (ms.count_nonzero(x, axis=0), np.count_nonzero(a, axis=0)), (ms.nonzero(x)[2], np.nonzero(a)[2]),
    ]:  # fmt: skip
        assert made.shape == wanted.shape and np.array_equal(values(made), wanted)
    assert ms.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert ms.broadcast_arrays(ms.ones((2, 1)), ms.ones(3))[0].shape == (2, 3)


def test_sets():
    x = ms.asarray([3, 1, 3, 2])
    made = ms.unique_all(x)
    assert [part.tolist() for part in made] == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]
    assert made.values.tolist() == ms.unique_values(x).tolist() == ms.unique_counts(x).values.tolist()
    assert ms.unique_inverse(x).inverse_indices.tolist() == [2, 0, 2, 1]


def test_dtypes_meet_as_the_standard_says():
    assert ms.result_type(ms.int8, ms.uint8) == ms.int16
    assert ms.result_type(ms.ones(1, dtype="int8"), 1.5) == ms.float32
    assert ms.result_type(1, ms.float64, ms.ones(1)) == ms.float64
    assert ms.can_cast(ms.int8, ms.int32) and not ms.can_cast(ms.int32, ms.int8) and not ms.can_cast(ms.float32, ms.int64)
    assert ms.isdtype(ms.float32, "real floating") and ms.isdtype("int8", ("integral", "bool")) and not ms.isdtype(ms.bool, "numeric")
    assert (ms.finfo(ms.float32).eps, ms.finfo("complex128").bits, ms.iinfo(ms.int8).min, ms.iinfo("uint64").max) == (2**-23, 64, -128, 2**64 - 1)
    with pytest.raises(TypeError):
        ms.result_type(ms.uint64, ms.int64)
    with pytest.raises(TypeError):
        ms.finfo(ms.int8)


def test_linear_algebra():
    a = np.random.rand(2, 4, 4)
    spd = a @ a.mT + np.eye(4)
    x, s = ms.asarray(a), ms.asarray(spd)
    near = lambda made, wanted: np.allclose(values(made), wanted, atol=1e-12)  # noqa: E731
    assert near(ms.linalg.cholesky(s), np.linalg.cholesky(spd)) and near(ms.linalg.inv(x), np.linalg.inv(a)) and near(ms.linalg.det(x), np.linalg.det(a))
    assert near(ms.linalg.eigh(s).eigenvalues, np.linalg.eigh(spd).eigenvalues) and near(ms.linalg.solve(x, s), np.linalg.solve(a, spd))
    assert near(ms.linalg.svd(x).S, np.linalg.svd(a).S) and near(ms.linalg.pinv(x), np.linalg.pinv(a)) and near(ms.linalg.slogdet(x).logabsdet, np.linalg.slogdet(a)[1])
    q, r = ms.linalg.qr(x)
    assert near(q @ r, a) and near(ms.linalg.matrix_norm(x), np.linalg.norm(a, axis=(-2, -1))) and near(ms.linalg.vector_norm(x, axis=1), np.linalg.norm(a, axis=1))
    w, v = ms.linalg.eig(x)
    assert near(x.astype("complex128") @ v, values(v * ms.expand_dims(w, axis=-2)))
    assert near(ms.linalg.norm(x, axis=(0, 2), keepdims=True), np.linalg.norm(a, axis=(0, 2), keepdims=True)) and near(ms.linalg.matrix_power(x, 3), a @ a @ a)
    assert ms.linalg.matrix_rank(x, rtol=ms.asarray([1e-9, 1e-9])).tolist() == [4, 4]
    with pytest.raises(ValueError, match="singular"):
        ms.linalg.inv(ms.zeros((2, 2))).eval()


@pytest.mark.parametrize("rows", [(), (1,), (3,), (2, 3)])
def test_rows_without_elements_read_what_belongs_to_the_row(rows):
    x = ms.zeros((*rows, 0))
    # The dot product is held: it may stand in memory when the sums read it.
    dot = ms.vecdot(x, x)
    offset = (ms.arange(int(np.prod(rows))).astype("float32") * 2).reshape(rows).eval()
    made = (x * x).sum(axis=-1) + offset + dot
    assert made.tolist() == offset.tolist() and not np.any(values(dot))
    turned = offset.T
    made = (x * x).sum(axis=-1).reshape(turned.shape) + turned + dot.reshape(turned.shape)
    assert made.tolist() == turned.tolist()


def test_fourier_transforms():
    a = np.random.rand(4, 6)
    x = ms.asarray(a)
    for name in "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftshift ifftshift".split():
        assert np.allclose(values(getattr(ms.fft, name)(x)), getattr(np.fft, name)(a)), name
    assert np.allclose(values(ms.fft.fftfreq(5, d=0.5)), np.fft.fftfreq(5, d=0.5))
    assert np.allclose(values(ms.fft.fft(x, n=8, axis=0, norm="ortho")), np.fft.fft(a, n=8, axis=0, norm="ortho"))


def test_networks():
    x, w = np.random.rand(1, 2, 5, 5).astype("f4"), np.random.rand(3, 2, 3, 3).astype("f4")
    made = ms.nn.conv2d(x, w, ms.ones(3), padding=1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    assert np.allclose(values(made), np.einsum("bcyxij,ocij->boyx", windows, w) + 1, rtol=1e-5)
    row = ms.nn.softmax(ms.asarray([1.0, 2.0, 3.0]))
    assert abs(float(row.sum()) - 1) < 1e-6 and ms.nn.relu(ms.asarray([-1.0, 2.0])).tolist() == [0.0, 2.0]
    normal = ms.nn.layer_norm(ms.asarray(x), axis=(1, 2, 3))
    assert abs(float(normal.mean())) < 1e-5 and ms.nn.max_pool2d(x, 2).shape == (1, 2, 2, 2)
    q = ms.asarray(np.random.rand(1, 2, 4, 8).astype("f4"))
    scores = ms.nn.softmax(q @ q.mT / 8**0.5) @ q
    assert np.allclose(values(ms.nn.attention(q, q, q)), values(scores), rtol=1e-5)
    assert float(ms.nn.cross_entropy(ms.zeros((2, 4)), ms.asarray([0, 3]))) == pytest.approx(np.log(4))


def test_random_numbers_repeat():
    g, h = ms.random.Generator(7), ms.random.default_rng(7)
    x = g.normal(size=1000)
    assert x.tolist() == h.normal(size=1000).tolist() and abs(float(x.mean())) < 0.1 and abs(float(x.std()) - 1) < 0.1
    y = ms.random.uniform(2.0, 3.0, (100, 2))
    assert y.shape == (100, 2) and float(y.min()) >= 2 and float(y.max()) < 3
    assert sorted(ms.random.permutation(10).tolist()) == list(range(10)) and set(ms.random.integers(3, size=100).tolist()) == {0, 1, 2}


def test_compiled_functions():
    calls = []

    @ms.compile
    def f(x, y, scale=2.0):
        calls.append(1)
        return x * scale + y, x - y

    x, y = ms.asarray([1.0, 2.0]), ms.asarray([3.0, 4.0])
    assert [part.tolist() for part in f(x, y)] == [[5.0, 8.0], [-2.0, -2.0]]
    assert f(y, x)[0].tolist() == [7.0, 10.0] and len(calls) == 1 and f.kinds == 1
    assert f(x, y, scale=3.0)[0].tolist() == [6.0, 10.0] and f(x, y, scale=3.0)[1].tolist() == [-2.0, -2.0] and len(calls) == 2
    assert f(x, 1.0)[0].tolist() == [3.0, 5.0]
    with pytest.raises(ZeroDivisionError):
        ms.compile(lambda x: x / (1 // 0))(x)
    with pytest.raises(ValueError, match="value"):
        ms.compile(lambda x: x * x.sum().item())(x)


def test_files(tmp_path):
    x, y = ms.arange(6).reshape(2, 3), ms.asarray([1.5, 2.5])
    ms.save(tmp_path / "x.npy", x)
    assert np.array_equal(np.load(tmp_path / "x.npy"), values(x)) and ms.load(tmp_path / "x.npy", mmap=True).tolist() == x.tolist()
    for name in ["both.npz", "both.safetensors"]:
        ms.save(tmp_path / name, {"x": x, "y": y})
        back = ms.load(str(tmp_path / name))
        assert back["x"].tolist() == x.tolist() and back["y"].tolist() == y.tolist()
    with pytest.raises(FileNotFoundError):
        ms.load(tmp_path / "none.npy")
    with pytest.raises(ValueError):
        ms.save(tmp_path / "x.txt", x)


def test_profiles_and_explanations():
    x = ms.ones(1000)
    with ms.profile() as p:
        (x * 2).eval()
    (x * 3).eval()
    steps = [r for r in p.records() if r["kind"] == "step"]
    assert len(steps) == 1 and steps[0]["device"] == "cpu" and "cpu" in str(p)
    assert "map" in (x + 1).explain() and (x + 1).explain() == ms.explain(x + 1)


def test_numbers_that_an_integer_dtype_does_not_hold():
    x = ms.asarray([0, 5, 255], dtype=ms.uint8)
    for function, wanted in [
        (ms.equal, False), (ms.not_equal, True), (ms.less, False), (ms.less_equal, False), (ms.greater, True), (ms.greater_equal, True),
    ]:  # fmt: skip
        # The number on the left; on the right the answer is that of the opposite comparison.
        assert function(256, x).tolist() == [wanted] * 3, function
    assert ms.less(-1, x).tolist() == [True] * 3 and (256 == x).tolist() == [False] * 3
    assert ms.equal(2**63, ms.asarray([2**63 - 1])).tolist() == [False]
    assert ms.maximum(-1, x).tolist() == [0, 5, 255] and ms.minimum(300, x).tolist() == [0, 5, 255]
    assert ms.logical_and(256, x).tolist() == [False, True, True]
    assert ms.divide(510, x[1:]).tolist() == [102.0, 2.0]
    # Sums and products wrap, whichever side the number is on.
    assert ms.add(300, x).tolist() == ms.add(x, 300).tolist() == [44, 49, 43]
    for refused in [
        lambda: ms.where(x > 3, x, 300), lambda: ms.where(x > 3, -1, x), lambda: ms.floor_divide(300, x), lambda: ms.maximum(300, x),
        lambda: ms.pow(300, x), lambda: 300 % x,
    ]:  # fmt: skip
        with pytest.raises((OverflowError, ValueError), match="does not fit in uint8|does not fit in u8"):
            refused()
    assert ms.isin(x, 256).tolist() == [False] * 3 and ms.isin(x, 5).tolist() == [False, True, False]
    assert not ms.isin(256, x).item() and ms.isin(255, x).item() and not ms.isin(256, x, invert=False).item()
    assert [ms.searchsorted(x, v).item() for v in [-1, 0, 5, 256]] == [0, 0, 1, 3]
    assert ms.isclose(ms.asarray([0, 9], dtype=ms.uint64), -1, atol=1.5).tolist() == [True, False]
    assert not ms.allclose(ms.asarray([0], dtype=ms.uint64), -1) and ms.allclose([1, 2], [1.0, 2.0])


def test_diff_takes_its_arguments_as_numpy_does():
    x = ms.asarray([[1, 4, 9, 16], [2, 3, 5, 7]])
    assert ms.diff(x, 2).tolist() == np.diff(np.asarray(x), 2).tolist() == ms.diff(x, axis=-1, n=2).tolist()
    assert ms.diff(x, 1, 0).tolist() == np.diff(np.asarray(x), 1, 0).tolist()
