"""Indexing, for reading and for writing, against NumPy's."""

import numpy as np
import pytest
from conftest import values
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import millstream as ms

A = np.arange(60).reshape(3, 4, 5)

KEYS = [
    0, -1, (1, 2), (1, 2, 3), (), ..., None, slice(None), slice(1, None), slice(None, None, -1), slice(-1, None, -2), slice(10, 20),
    slice(None, -1), slice(3, 0, -1), (slice(None), 1), (..., 0), (0, ..., 1), (None, 0, None), (slice(None), None, slice(1, 3)),
    [0, 2], ([0, 2], [1, 3]), ([0, 2], slice(None), [1, 4]), (slice(None), [1, -1]), (slice(None), [[0, 1], [2, 3]]), np.asarray([2, 0]),
    (0, np.asarray([1, 2])), (np.asarray([[0], [2]]), np.asarray([1, 3])), A > 30, np.asarray([True, False, True]),
    (slice(None), np.asarray([True, False, True, False])), (0, A[0] % 3 == 0), True, False, np.int64(2), (np.int32(1), slice(None)),
    (slice(0, 0),), [], ([0, 1], None, [1, 2]), (slice(None, None, 2), slice(None, None, -2), -1),
]  # fmt: skip


def own(key):
    """The index with arrays of this package instead of NumPy's."""
    if isinstance(key, tuple):
        return tuple(own(part) for part in key)
    return ms.asarray(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k)[:40].replace("\n", ""))
def test_reading(key):
    wanted = A[key]
    for made in [ms.asarray(A)[key], ms.asarray(A)[own(key)]]:
        assert made.shape == np.shape(wanted) and np.array_equal(values(made), wanted)


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k)[:40].replace("\n", ""))
def test_writing(key):
    for value in ["number", "array"]:
        wanted, x = A.copy(), ms.asarray(A)
        before, view = x.copy(), x[1:]
        number = 7 if value == "number" else -np.arange(A[key].size).reshape(np.shape(A[key]))
        wanted[key] = number
        x[own(key)] = number if value == "number" else ms.asarray(number)
        assert np.array_equal(values(x), wanted)
        assert np.array_equal(values(before), A) and np.array_equal(values(view), A[1:])


@pytest.mark.parametrize("key", [3, -4, (0, 4), (0, 0, 0, 0), (..., ...), "a", 1.5, (slice(None, None, 0)), np.asarray([True, False]), np.asarray([0.5])])
def test_what_is_no_index_is_refused(key):
    with pytest.raises((IndexError, ValueError, TypeError)):
        ms.asarray(A)[key]
    with pytest.raises((IndexError, ValueError, TypeError)):
        ms.asarray(A)[key] = 1


def test_an_integer_out_of_range_is_an_index_error():
    with pytest.raises(IndexError, match="out of range"):
        ms.asarray(A)[3]
    with pytest.raises(IndexError):
        ms.asarray(A)[3] = 1


def test_a_value_that_does_not_fit_is_refused():
    x = ms.asarray(A)
    with pytest.raises(ValueError):
        x[0] = ms.ones((3, 3))
    assert np.array_equal(values(x), A)
    x[0, 0, 0] = 2.9
    assert x[0, 0, 0].item() == 2


def test_a_view_of_itself_can_be_assigned():
    x, a = ms.arange(10), np.arange(10)
    x[1:] = x[:-1]
    a[1:] = a[:-1].copy()
    assert np.array_equal(values(x), a)
    x[:] = x[::-1]
    assert np.array_equal(values(x), a[::-1])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_any_basic_index_is_numpys(data):
    a = np.arange(np.prod(shape := data.draw(hnp.array_shapes(max_dims=4, max_side=5)))).reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    made = ms.asarray(a)[key]
    assert made.shape == np.shape(a[key]) and np.array_equal(values(made), a[key])
    x = ms.asarray(a)
    b = a.copy()
    x[key] = -1
    b[key] = -1
    assert np.array_equal(values(x), b)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_integer_index_is_numpys(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=5))
    a = np.arange(np.prod(shape)).reshape(shape)
    key = data.draw(hnp.integer_array_indices(shape))
    assert np.array_equal(values(ms.asarray(a)[own(key)]), a[key])


@st.composite
def mixed_indices(draw, shape):
    """Any mixture of what NumPy takes between the brackets; some of it does not fit."""
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    parts, axis = [], 0
    kinds = ["int", "slice", "array", "list", "mask", "newaxis", "ellipsis", "truth"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=5)):
        left = len(shape) - axis
        if kind == "newaxis":
            parts.append(None)
        elif kind == "truth":
            truth = draw(st.booleans())
            parts.append(draw(st.sampled_from([truth, np.bool_(truth), np.asarray(truth)])))
        elif kind == "ellipsis":
            if not any(part is ... for part in parts):
                skip = draw(st.integers(0, left))
                parts.append(...)
                axis += skip
        elif left == 0 or shape[axis] == 0 and kind in ("array", "list"):
            continue
        elif kind == "mask":
            rank = draw(st.integers(1, min(left, 2)))
            parts.append(draw(hnp.arrays(np.bool_, shape[axis : axis + rank])))
            axis += rank
        else:
            n = shape[axis]
            axis += 1
            if kind == "int":
                at = draw(st.integers(-n, n - 1) if n else st.just(0))
                parts.append(draw(st.sampled_from([at, np.int64(at), np.int8(at)] + ([np.asarray(at)] if n else []))))
            elif kind == "slice":
                parts.append(draw(st.slices(n)))
            else:
                own = tuple(1 if draw(st.booleans()) else size for size in common[draw(st.integers(0, len(common))) :])
                made = draw(hnp.arrays(draw(st.sampled_from([np.int64, np.int32, np.uint8])), own, elements=st.integers(0, n - 1)))
                if made.dtype != np.uint8:
                    made = made - n * draw(hnp.arrays(np.bool_, own)).astype(made.dtype)
                parts.append(made.tolist() if kind == "list" and made.ndim else made)
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


def outcome(work):
    """What it gives, or the exception; a value that depends on indices is computed here."""
    try:
        return work(), None
    except (IndexError, ValueError) as error:
        return None, error


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.data())
def test_any_mixture_of_indices_is_numpys(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    key = data.draw(mixed_indices(shape))
    key = own(key) if data.draw(st.booleans()) else key
    wanted, refused = outcome(lambda: a[theirs(key)])
    made, failed = outcome(lambda: values(ms.asarray(a)[key]))
    assert (refused is None) == (failed is None), (key, refused, failed)
    if refused is None:
        assert made.shape == np.shape(wanted) and np.array_equal(made, wanted), key

    # Values of the shape of the place, or of one that broadcasts to it.
    place = np.shape(wanted) if refused is None else ()
    thin = tuple(1 if data.draw(st.booleans()) else size for size in place)[data.draw(st.integers(0, len(place))) :]
    value = data.draw(st.sampled_from([-1, -np.arange(np.prod(thin, dtype=int)).reshape(thin) - 1]))
    # Where one place is written twice, the last value stays: NumPy says so of lists.
    b, x = a.copy(), ms.asarray(a.copy())
    _, refused = outcome(lambda: b.__setitem__(theirs(key), value))
    made, failed = outcome(lambda: (x.__setitem__(key, value), values(x))[1])
    assert (refused is None) == (failed is None), (key, value, refused, failed)
    if refused is None:
        assert np.array_equal(made, b), (key, value)
    else:
        assert np.array_equal(values(ms.asarray(a)), a)


def theirs(key):
    """The index with NumPy's arrays instead of those of this package."""
    if isinstance(key, tuple):
        return tuple(theirs(part) for part in key)
    return np.asarray(key) if isinstance(key, ms.Array) else key


def test_a_mask_without_dimensions_adds_an_axis():
    for key in [(True, 0), (0, False), (np.asarray(True), slice(None), [0, 2]), ([0, 1], True), (slice(None), False, 1)]:
        wanted = A[key]
        made = ms.asarray(A)[key]
        assert made.shape == wanted.shape and np.array_equal(values(made), wanted)
