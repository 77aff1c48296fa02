"""The array: operators, properties, conversions, assignment."""

import copy
import pickle

import numpy as np
import pytest
from conftest import values

import millstream as ms

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_is_numpys_of_the_same_name(name):
    own, other = getattr(ms, name), np.dtype(name)
    assert np.dtype(own) == other
    assert own == other and own == name and own == other.type
    assert (own.name, own.kind, own.itemsize, own.type) == (name, other.kind, other.itemsize, other.type)
    assert ms.zeros(2, dtype=other).dtype == own and ms.zeros(2, dtype=other.str).dtype == own
    assert pickle.loads(pickle.dumps(own)) is own
    assert len({own, getattr(ms, name)}) == 1


@pytest.mark.parametrize("name", DTYPES)
def test_lists_of_numbers_become_arrays_and_come_back(name):
    x = ms.asarray([[1, 0, 1], [0, 1, 1]], dtype=name)
    assert x.shape == (2, 3) and x.dtype == name
    assert x.tolist() == np.asarray([[1, 0, 1], [0, 1, 1]], dtype=name).tolist()
    assert np.array_equal(values(x), np.asarray([[1, 0, 1], [0, 1, 1]], dtype=name))
    assert np.array_equal(values(pickle.loads(pickle.dumps(x))), values(x))


def test_dtypes_of_python_numbers():
    assert ms.asarray([True]).dtype == ms.bool
    assert ms.asarray([1, True]).dtype == ms.int64
    assert ms.asarray([1, 2.5]).dtype == ms.float32
    assert ms.asarray(1j).dtype == ms.complex64
    assert ms.asarray(2**63).dtype == ms.uint64
    assert ms.asarray([]).dtype == ms.float32 and ms.asarray([[], []]).shape == (2, 0)
    assert ms.asarray(np.arange(3.0)).dtype == ms.float64
    assert ms.asarray([ms.ones(2), ms.zeros(2)]).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_what_is_no_array_is_refused():
    for wrong in ["text", object(), [[1, 2], [3]], [1, [2]], ["a"], {1: 2}]:
        with pytest.raises((TypeError, ValueError)):
            ms.asarray(wrong)
    with pytest.raises(OverflowError):
        ms.asarray([300], dtype=ms.int8)
    with pytest.raises(OverflowError):
        ms.asarray(2**70)
    with pytest.raises(TypeError):
        ms.zeros(2, dtype="float33")


def test_operators_are_numpys():
    a, b = np.asarray([[7, -3], [2, 5]], dtype=np.int32), np.asarray([2, -4], dtype=np.int32)
    x, y = ms.asarray(a), ms.asarray(b)
    for made, wanted in [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x // y, a // b), (x % y, a % b), (x & y, a & b), (x | y, a | b),
        (x ^ y, a ^ b), (x << 1, a << 1), (x >> 1, a >> 1), (x @ y, a @ b), (x**2, a**2), (-x, -a), (+x, a), (~x, ~a), (abs(x), abs(a)),
        (x == y, a == b), (x != y, a != b), (x < y, a < b), (x <= y, a <= b), (x > y, a > b), (x >= y, a >= b),
        (3 - x, 3 - a), (3 + x, 3 + a), (3 * x, 3 * a), (7 // x, 7 // a), (7 % x, 7 % a), (2 ** abs(x), 2 ** abs(a)), (6 & x, 6 & a),
    ]:  # fmt: skip
        assert np.array_equal(values(made), wanted) and made.dtype == wanted.dtype
    assert np.allclose(values(x / y), a / b) and (x / y).dtype == ms.float32
    assert np.allclose(values(1 / y), 1 / b)


def test_operands_of_numpy_stand_on_both_sides():
    a = np.arange(3, dtype=np.float32)
    x = ms.asarray([1.0, 2.0, 3.0])
    for made in [x + a, a + x, x + np.float32(0) + a, x + np.asarray(0.0, dtype=np.float32) + a]:
        assert isinstance(made, ms.Array) and made.tolist() == [1.0, 3.0, 5.0]
    assert isinstance(np.float64(2) * x, ms.Array) and (2.0 * x).dtype == ms.float32
    assert ms.full(2, np.int64(3)).tolist() == [3, 3] and ms.full((2,), np.asarray(1.5)).dtype == ms.float64
    assert (a < x).tolist() == [True, True, True]


def test_numbers_take_the_arrays_dtype():
    assert (ms.ones(1, dtype="int8") + 1).dtype == ms.int8
    assert (ms.ones(1, dtype="float16") + 1.5).dtype == ms.float16
    assert (ms.ones(1, dtype="int8") + 1.5).dtype == ms.float32
    assert (ms.ones(1, dtype="float64") * 1j).dtype == ms.complex128
    assert (ms.ones(1, dtype="bool") + 1).dtype == ms.int64


def test_operations_in_place_change_one_array_alone():
    x = ms.asarray([1.0, 2.0, 3.0])
    same, view, made = x, x[1:], x * 2
    x += 1
    x *= ms.asarray([1.0, 2.0, 3.0])
    assert x is same and x.tolist() == [2.0, 6.0, 12.0]
    assert view.tolist() == [2.0, 3.0] and made.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(TypeError):
        y = ms.asarray([1, 2])
        y += 1.5
    with pytest.raises(ValueError):
        x += ms.ones((2, 3))


def test_numbers_of_python_come_out():
    x = ms.asarray([[2.5]])
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and complex(x) == 2.5 and x.item() == 2.5
    assert isinstance(ms.asarray(3).item(), int) and isinstance(ms.asarray(True).item(), bool)
    assert range(5)[ms.asarray(3)] == 3 and f"{ms.asarray(2.5):.2f}" == "2.50"
    assert ms.asarray([1, 2, 3]).item(1) == 2 and ms.asarray([[1, 2], [3, 4]]).item(3) == 4 and ms.asarray([[1, 2], [3, 4]]).item(1, 0) == 3
    assert complex(ms.asarray(1 + 2j)) == 1 + 2j
    for wrong in [lambda: bool(ms.ones(2)), lambda: float(ms.asarray(1j)), lambda: range(5)[ms.asarray(1.0)], lambda: int(ms.ones(2))]:
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert int(ms.asarray(2**63, dtype="uint64")) == 2**63


def test_an_array_is_a_sequence_of_its_slices():
    x = ms.asarray([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3 and [row.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    first, *_ = x
    assert first.tolist() == [1, 2] and 4 in x and 7 not in x
    for wrong in [len, iter]:
        with pytest.raises(TypeError):
            wrong(ms.asarray(1))
    with pytest.raises(TypeError):
        hash(x)


def test_properties():
    x = ms.zeros((2, 3, 4), dtype="float64")
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes, x.dtype) == ((2, 3, 4), 3, 24, 8, 192, ms.float64)
    assert x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3) and ms.ones(3).T.shape == (3,)
    assert x.device == "cpu" and x.device == ms.device("cpu") and str(x.device) == "cpu"
    z = ms.asarray([1 + 2j, 3 - 4j])
    assert z.real.tolist() == [1.0, 3.0] and z.imag.tolist() == [2.0, -4.0] and z.conj().imag.tolist() == [-2.0, 4.0]


def test_printing_is_numpys():
    a = np.arange(6, dtype=np.float32).reshape(2, 3) / 2
    assert str(ms.asarray(a)) == str(a)
    assert repr(ms.asarray(a)) == "Array([[0.  0.5 1. ]\n       [1.5 2.  2.5]])"
    assert repr(ms.asarray([1], dtype="int8")) == "Array([1], dtype=int8)"
    html = ms.ones((2, 3))._repr_html_()
    assert "2 \u00d7 3" in html and "float32" in html and "cpu" in html


def test_copies_are_arrays_of_their_own():
    x = ms.asarray([1, 2, 3])
    for other in [x.copy(), copy.copy(x), copy.deepcopy(x), ms.asarray(x, copy=True), ms.array(x), x.astype(x.dtype)]:
        other[0] = 9
        assert x.tolist() == [1, 2, 3] and other.tolist() == [9, 2, 3]
    assert ms.asarray(x) is x
    with pytest.raises(ValueError):
        ms.asarray([1, 2], copy=False)
    with pytest.raises(ValueError):
        ms.asarray(x, dtype="float32", copy=False)


def test_methods_take_arguments_as_numpys_do():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = ms.asarray(a)
    for made, wanted in [
        (x.sum(axis=0, keepdims=True), a.sum(axis=0, keepdims=True)), (x.sum(), a.sum()), (x.sum(1), a.sum(1)), (x.mean((0, 2)), a.mean((0, 2))),
        (x.max(axis=-1), a.max(axis=-1)), (x.std(axis=1), a.std(axis=1)), (x.reshape(2, -1), a.reshape(2, -1)), (x.reshape((4, 6)), a.reshape((4, 6))),
        (x.reshape([24]), a.reshape([24])), (x.transpose(2, 0, 1), a.transpose(2, 0, 1)), (x.transpose(), a.transpose()), (x.ravel(), a.ravel()),
        (x[:, :1].squeeze(1), a[:, :1].squeeze(1)), (x.cumsum(axis=1), a.cumsum(axis=1)), (x.cumsum(), a.cumsum()), (x.clip(3, 9), a.clip(3, 9)),
        (x.argmax(axis=2), a.argmax(axis=2)), (x.swapaxes(0, 2), a.swapaxes(0, 2)), (x.repeat(2, axis=1), a.repeat(2, axis=1)),
        (x.take([2, 0], axis=1), a.take([2, 0], axis=1)), (x.mean(dtype=ms.float64), a.mean(dtype=np.float64)), (x.round(), a.round()),
        (x.any(axis=0), a.any(axis=0)), (x.all(), a.all()), (x.prod(axis=0, dtype="float64"), a.prod(axis=0, dtype="float64")),
    ]:  # fmt: skip
        assert made.shape == wanted.shape and np.allclose(values(made), wanted), wanted
    assert x.mean(dtype="float64").dtype == ms.float64 and x.astype("int32").dtype == ms.int32 and x.sum(dtype=np.float64).dtype == ms.float64
