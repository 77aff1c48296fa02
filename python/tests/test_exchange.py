"""Memory that is shared with other libraries: by address, written by either side, and let go in every order."""

import array
import copy
import ctypes
import gc
import itertools
import threading
import weakref

import millstream as ms
import pytest

np = pytest.importorskip("numpy")

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


def address(x):
    """Where an array of NumPy lies."""
    return x.__array_interface__["data"][0]


def lies_at(x):
    """Where an array of Millstream lies, by DLPack's own words."""
    return describe(x.__dlpack__(max_version=(1, 1)))[0]


# ---------------------------------------------------------------------------------------------------------------------
# DLPack in ctypes: a library of its own, so that both sides of the exchange are seen.


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("owner", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", DELETER),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p), ("from_object", ctypes.c_void_p), ("to_object", ctypes.c_void_p),
        ("view_object", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    ]  # fmt: skip


python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
# As a destructor calls it, with an object that is about to go.
raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
UNVERSIONED, VERSIONED, TABLE = b"dltensor", b"dltensor_versioned", b"dlpack_exchange_api"


def held(capsule):
    if b"versioned" in repr(capsule).encode():
        return Versioned.from_address(python.PyCapsule_GetPointer(capsule, VERSIONED))
    return Unversioned.from_address(python.PyCapsule_GetPointer(capsule, UNVERSIONED))


def describe(capsule):
    """Address, shape, strides, flags."""
    structure = held(capsule)
    tensor = structure.tensor
    shape, strides = [list(a[: tensor.ndim]) for a in (tensor.shape, tensor.strides)]
    return (tensor.data or 0) + tensor.byte_offset, shape, strides, getattr(structure, "flags", None)


class Producer:
    """An array of another library over memory that it owns, and the capsules that it gives."""

    def __init__(self, values, *, flags=0, versioned=True, strides=True, kind=1, major=1, code=2, ndim=None):
        self.memory = (ctypes.c_float * len(values))(*values)
        self.shape = (ctypes.c_int64 * 1)(len(values))
        self.strides = (ctypes.c_int64 * 1)(1)
        self.deleted = 0
        self.kind = kind
        tensor = Tensor(
            ctypes.addressof(self.memory), kind, 0, 1 if ndim is None else ndim, code, 32, 1, self.shape,
            self.strides if strides else None, 0,
        )  # fmt: skip
        self.delete = DELETER(self._delete)
        if versioned:
            self.structure = Versioned(major, 0, None, self.delete, flags, tensor)
        else:
            self.structure = Unversioned(tensor, None, self.delete)
        self.name = VERSIONED if versioned else UNVERSIONED
        self.destroy = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._destroy)
        self.asked = None

    def _delete(self, _):
        self.deleted += 1

    def _destroy(self, capsule):
        if python.PyCapsule_IsValid(capsule, self.name):
            self._delete(None)

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __dlpack__(self, **asked):
        self.asked = asked
        return python.PyCapsule_New(ctypes.addressof(self.structure), self.name, ctypes.cast(self.destroy, ctypes.c_void_p))

    def fill(self, value):
        for i in range(len(self.memory)):
            self.memory[i] = value


class Old(Producer):
    """From before version 1: it takes no arguments but the stream."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__()


# ---------------------------------------------------------------------------------------------------------------------
# Taking over


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("take", [ms.asarray, ms.from_dlpack])
def test_arrays_of_numpy_are_seen_where_they_lie(dtype, take):
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for view in (a, a.T, a[:, ::-1, 1:3], a[1, 1], a[..., :0], a.reshape(-1)[::5]):
        x = take(view)
        assert x.dtype == dtype and x.shape == view.shape
        assert x.tolist() == view.tolist()
        if view.size:
            assert lies_at(x) == address(view)
            assert address(np.asarray(x)) == address(np.from_dlpack(x)) == address(view)
            assert np.asarray(x).strides == view.strides
        assert ms.all(x == view)


def test_asarray_copies_when_told_to():
    a = np.arange(6.0)
    x = ms.asarray(a, copy=True)
    assert lies_at(x) != address(a)
    assert lies_at(ms.array(a)) != address(a)
    assert lies_at(ms.asarray(a, copy=False)) == address(a)
    assert lies_at(ms.asarray(a, dtype=ms.float64, copy=False)) == address(a)
    a[:] = 0
    assert x.tolist() == list(range(6))
    with pytest.raises(ValueError):
        ms.asarray(a, dtype=ms.float32, copy=False)
    with pytest.raises(ValueError):
        ms.asarray([1.0, 2.0], copy=False)
    with pytest.raises(ValueError):
        ms.asarray(np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])["b"], copy=False)


def test_what_cannot_be_shared_is_converted():
    big = np.arange(5, dtype=">f4")
    assert ms.asarray(big).tolist() == big.tolist()
    parts = np.zeros(4, dtype=[("a", "i1"), ("b", "f4")])
    parts["b"] = [1, 2, 3, 4]
    assert ms.asarray(parts["b"]).tolist() == [1, 2, 3, 4]
    assert ms.asarray(np.float32(2.5)).item() == 2.5
    assert ms.asarray([np.float32(1), np.arange(1)[0]]).shape == (2,)
    with pytest.raises(TypeError):
        ms.asarray(np.array(["text"]))
    with pytest.raises(TypeError):
        ms.asarray(np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(TypeError):
        ms.asarray(np.zeros(2, dtype=np.longdouble))
    with pytest.raises(TypeError):
        ms.asarray(object())


def test_bytes_of_bool_are_true_or_false():
    odd = np.array([0, 1, 2, 255], dtype="u1").view(bool)
    for mask in (odd, ms.asarray(odd)):
        assert ms.where(mask, 1, 0).tolist() == [0, 1, 1, 1]
    assert ms.asarray(odd).tolist() == [False, True, True, True]


def test_other_buffers_are_seen_where_they_lie():
    numbers = array.array("d", [1, 2, 3])
    x = ms.asarray(numbers)
    assert lies_at(x) == numbers.buffer_info()[0] and x.tolist() == [1, 2, 3]
    numbers[0] = 9
    assert x.tolist() == [9, 2, 3]
    with pytest.raises(BufferError):
        numbers.append(4)
    del x
    numbers.append(4)
    text = b"abc"
    assert ms.asarray(text).tolist() == list(text)
    view = memoryview(bytearray(range(12))).cast("B", (3, 4))
    assert ms.asarray(view).tolist() == view.tolist()
    assert ms.asarray(memoryview(b"abcdef")[::-2]).tolist() == [102, 100, 98]


class Interface:
    """An array that describes its memory in a dictionary."""

    def __init__(self, a, **changes):
        self.a = a
        self.__array_interface__ = {**a.__array_interface__, **changes}


class OnlyArray:
    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return self.a


def test_other_protocols_are_asked():
    a = np.arange(6.0).reshape(2, 3)
    for given in (Interface(a), OnlyArray(a), Interface(a.T)):
        x = ms.asarray(given)
        assert lies_at(x) == address(a)
        y = x + 1
        a += 10
        assert ms.all(y == np.asarray(x) - 9)
    with pytest.raises(TypeError):
        ms.asarray(Interface(a, mask=a))
    # The object is kept by the array.
    given = Interface(np.ones(3))
    gone = weakref.ref(given)
    x = ms.asarray(given)
    del given
    assert x.sum().item() == 3 and gone() is not None
    del x
    gc.collect()
    assert gone() is None


def test_what_a_cuda_array_describes_needs_a_cuda_device():
    class OnGpu:
        __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}

    if not any(name.startswith("cuda") for name in ms.devices()):
        with pytest.raises(ms.DeviceError):
            ms.asarray(OnGpu())
    assert not hasattr(ms.ones(2), "__cuda_array_interface__")
    OnGpu.__cuda_array_interface__["stream"] = 7
    with pytest.raises(BufferError):
        ms.asarray(OnGpu())


# ---------------------------------------------------------------------------------------------------------------------
# DLPack


@pytest.mark.parametrize("versioned", [False, True])
def test_capsules_of_others_are_taken_and_let_go_once(versioned):
    p = Producer([1, 2, 3], versioned=versioned)
    x = ms.from_dlpack(p)
    assert p.asked["max_version"] >= (1, 0)
    assert lies_at(x) == ctypes.addressof(p.memory)
    y = x + 1
    view = x[1:]
    p.fill(7)
    assert y.tolist() == [2, 3, 4] and view.tolist() == [7, 7]
    del x
    assert p.deleted == 0
    del view
    assert p.deleted == 1
    assert y.tolist() == [2, 3, 4]
    # Through Python's own tools, too.
    again = ms.asarray(p)
    assert lies_at(again) == ctypes.addressof(p.memory)
    del again
    assert p.deleted == 2


def test_capsules_say_what_may_be_done_with_them():
    for flags, waits in ((0, False), (1, True), (2, True)):
        p = Producer([1, 2], flags=flags)
        x = ms.from_dlpack(p)
        y = x + 1
        p.fill(5)
        # What nobody writes to is read when it is needed: here somebody lied.
        assert y.tolist() == ([6, 6] if waits else [2, 3])
        # What is read-only stays it on the way out.
        assert describe(x.__dlpack__(max_version=(1, 0)))[3] == (1 if waits else 0)


def test_old_and_odd_producers():
    assert ms.from_dlpack(Old([1, 2], versioned=False)).tolist() == [1, 2]
    assert ms.from_dlpack(Producer([1, 2], strides=False, versioned=False)).tolist() == [1, 2]
    for wrong in (Producer([1], major=2), Producer([1], code=7), Producer([1], ndim=-1), Producer([1], kind=9)):
        with pytest.raises(BufferError):
            ms.from_dlpack(wrong)
        assert wrong.deleted == 1
    with pytest.raises(TypeError):
        ms.from_dlpack([1, 2])
    with pytest.raises((ValueError, ms.DeviceError)):
        ms.from_dlpack(Producer([1]), device="sideways:0")


def test_consumers_get_what_they_ask_for():
    x = ms.arange(6.0)
    assert x.__dlpack_device__() == (1, 0)
    old, new = x.__dlpack__(), x.__dlpack__(max_version=(1, 0))
    assert "versioned" not in repr(old) and "versioned" in repr(new)
    assert describe(old)[0] == describe(new)[0]
    own = x.__dlpack__(max_version=(1, 0), copy=True)
    assert describe(own)[0] != describe(new)[0] and describe(own)[3] == 2
    assert describe(x.__dlpack__(dl_device=(1, 0)))[0] == describe(new)[0]
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError):
        x.__dlpack__(stream=5)
    x.__dlpack__(stream=-1)
    assert describe(ms.zeros((0, 3)).__dlpack__())[1] == [0, 3]
    assert describe(ms.asarray(2.0).__dlpack__(max_version=(1, 0)))[1] == []
    assert describe(ms.ones((2, 3), dtype=ms.bfloat16).__dlpack__(max_version=(1, 0)))[1] == [2, 3]


def test_memory_is_lent_for_writing_only_where_nobody_else_has_the_value():
    x = ms.arange(6.0)
    n = np.from_dlpack(x)
    assert n.flags.writeable
    n[:] = 5
    assert x.tolist() == [5] * 6
    del n
    view = x[1:]
    for n in (np.from_dlpack(x), np.asarray(x), np.from_dlpack(x.T), np.asarray(view)):
        assert not n.flags.writeable
    assert address(np.from_dlpack(view)) == address(np.from_dlpack(x)) + 4
    del n
    # Who cannot be told gets memory of the array's own.
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    before = lies_at(x)
    capsule = x.__dlpack__()
    assert describe(capsule)[0] != before
    ctypes.c_float.from_address(describe(capsule)[0]).value = -1
    assert x[0].item() == -1 and view.tolist() == [5] * 5


def test_what_waits_is_not_changed_by_who_writes_later():
    x = ms.arange(4.0)
    waiting = x + 1
    n = np.array(x, copy=None) if int(np.__version__[0]) > 1 else np.asarray(x)
    assert not n.flags.writeable
    del n
    assert waiting.tolist() == [1, 2, 3, 4]
    n = np.from_dlpack(x)
    after = x * 10
    n[:] = 7
    assert after.tolist() == [0, 10, 20, 30] and x.tolist() == [7] * 4


def test_tables_of_functions_are_used_both_ways():
    table = Table.from_address(python.PyCapsule_GetPointer(ms.Array.__dlpack_c_exchange_api__, TABLE))
    assert table.major == 1
    from_object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))(table.from_object)
    to_object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))(table.to_object)
    x = ms.arange(5.0)
    out = ctypes.c_void_p()
    assert from_object(x, ctypes.byref(out)) == 0
    given = Versioned.from_address(out.value)
    assert list(given.tensor.shape[:1]) == [5]
    made = ctypes.py_object()
    assert to_object(out.value, ctypes.byref(made)) == 0
    y = made.value
    assert isinstance(y, ms.Array) and y.tolist() == x.tolist() and lies_at(y) == lies_at(x)
    with pytest.raises(TypeError):
        from_object([1], ctypes.byref(out))
    # Tensors that are made for somebody else.
    told = []
    tell_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    tell = tell_type(lambda _, kind, message: told.append((kind, message)))
    allocate = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, tell_type
    )(table.allocate)
    like = given_tensor = Tensor(None, 1, 0, 1, 2, 32, 1, (ctypes.c_int64 * 1)(3), None, 0)
    assert allocate(ctypes.byref(like), ctypes.byref(out), None, tell) == 0
    given = Versioned.from_address(out.value)
    assert given.flags == 2 and given.tensor.shape[0] == 3
    given.deleter(out.value)
    given_tensor.code = 99
    assert allocate(ctypes.byref(like), ctypes.byref(out), None, tell) == -1
    assert told[0][0] == b"BufferError"

    # The other way around: a library that has such a table is asked through it.
    calls = []

    class Quick(Producer):
        pass

    def give(obj, place):
        calls.append(obj)
        place[0] = ctypes.addressof(obj.structure)
        return 0

    give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))(give)
    theirs = Table(1, 1, None, None, ctypes.cast(give, ctypes.c_void_p), None, None, None)
    Quick.__dlpack_c_exchange_api__ = python.PyCapsule_New(ctypes.addressof(theirs), TABLE, None)
    q = Quick([4, 5])
    z = ms.from_dlpack(q)
    assert calls == [q] and q.asked is None and z.tolist() == [4, 5]
    calls.clear()
    del z
    assert q.deleted == 1


# ---------------------------------------------------------------------------------------------------------------------
# Laziness


def test_what_is_computed_is_not_changed_by_who_writes_later():
    a = np.arange(16.0).reshape(4, 4) + np.eye(4) * 20
    expected = a.copy()
    x = ms.asarray(a)
    y = ms.ones((4, 4), dtype=ms.float64)
    z = ms.zeros((4, 4), dtype=ms.float64)
    z[1] = x[1]
    z[2:] = a[2:]
    whole = ms.zeros((4, 4), dtype=ms.float64)
    whole[...] = x
    inplace = ms.ones((4, 4), dtype=ms.float64)
    inplace += x
    results = {
        "x + 1": (x + 1, expected + 1),
        "a + y": (y + a, expected + 1),
        "sum": (x.sum(axis=0), expected.sum(axis=0)),
        "exp": (ms.exp(x), np.exp(expected)),
        "matmul": (x @ x, expected @ expected),
        "copy": (copy.copy(x), expected),
        "deepcopy": (copy.deepcopy(x), expected),
        "asarray": (ms.asarray(x, copy=True), expected),
        "plus": (+x, expected),
        "copied": (x.copy(), expected),
        "astype": (x.astype(ms.float64), expected),
        "where": (ms.where(x > 3, x, 0), np.where(expected > 3, expected, 0)),
        "sort": (ms.sort(x, axis=1), np.sort(expected, axis=1)),
        "inv": (ms.linalg.inv(x), np.linalg.inv(expected)),
        "fft": (ms.abs(ms.fft.fft(ms.astype(x, ms.complex128))), np.abs(np.fft.fft(expected))),
        "rows": (z[1:], np.vstack([expected[1:2], expected[2:]])),
        "whole": (whole, expected),
        "in place": (inplace, expected + 1),
        "index": (x[np.array([2, 0])], expected[[2, 0]]),
        "mask": (x[x > 3], expected[expected > 3]),
        "large": (ms.ones((200, 200)) + np.ones((200, 200), dtype="f4"), np.full((200, 200), 2.0)),
    }
    a[:] = -1
    for name, (got, want) in results.items():
        np.testing.assert_allclose(np.asarray(got), want, err_msg=name)
    assert ms.all(x == -1) and ms.all(x[1:].T == -1)


def test_results_with_the_same_values_are_not_the_memory_itself():
    a = np.arange(5)
    x = ms.asarray(a)
    results = [ms.floor(x), ms.ceil(x), ms.round(x), ms.trunc(x), ms.positive(x), ms.clip(x), x.copy()]
    a[:] = 9
    assert all(r.tolist() == [0, 1, 2, 3, 4] for r in results)


def test_assignment_never_writes_to_memory_of_others():
    a = np.arange(5.0)
    x = ms.asarray(a)
    x[0] = 7
    x += 1
    assert a.tolist() == [0, 1, 2, 3, 4] and x.tolist() == [8, 2, 3, 4, 5]
    # Nor to what was lent.
    y = ms.arange(5.0)
    n = np.asarray(y)
    y[:] = 0
    y += 1
    assert n.tolist() == [0, 1, 2, 3, 4] and y.tolist() == [1] * 5


def test_only_memory_that_nobody_writes_stays_unread():
    # Through a view that is read-only, whose owner writes.
    a = np.arange(4.0)
    view = a[:]
    view.flags.writeable = False
    for take in (ms.asarray, ms.from_dlpack, lambda v: ms.asarray(memoryview(v))):
        a[:] = 1
        b = take(view) + 1
        a[:] = 5
        assert b.tolist() == [2] * 4
    data = bytearray(4)
    b = ms.asarray(memoryview(data).toreadonly()) + ms.asarray(np.uint8(1))
    data[:] = b"\x07" * 4
    assert b.tolist() == [1] * 4


# ---------------------------------------------------------------------------------------------------------------------
# The buffer protocol and NumPy


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_buffers(dtype):
    x = ms.asarray(np.arange(6).reshape(2, 3).astype(dtype), copy=True)
    view = memoryview(x)
    assert view.shape == (2, 3) and view.itemsize == np.dtype(dtype).itemsize and not view.readonly
    n = np.asarray(view)
    assert n.dtype == dtype and n.tolist() == x.tolist() and address(n) == lies_at(x)
    assert view.tobytes() == x.tobytes()
    flipped = x[::-1].T
    assert np.asarray(flipped).tolist() == flipped.tolist()
    assert np.asarray(flipped).strides == np.asarray(x)[::-1].T.strides
    with pytest.raises(BufferError):
        python.PyObject_GetBuffer(ctypes.py_object(flipped), ctypes.create_string_buffer(200), 0)


def test_buffers_that_are_refused():
    with pytest.raises(BufferError):
        memoryview(ms.ones(3, dtype=ms.bfloat16))
    # Filled from outside: the array's own memory, and nobody else's.
    x = ms.zeros(8, dtype=ms.uint8)
    other = x[2:]
    import io

    assert io.BytesIO(b"abcdefgh").readinto(x) == 8
    assert bytes(memoryview(x)) == b"abcdefgh" and other.tolist() == [0] * 6


def test_numpy_converts_as_it_wants():
    x = ms.arange(4.0)
    assert np.asarray(x, dtype="f8").dtype == "f8"
    assert x.__array__().dtype == "f4" and x.__array__("f8").dtype == "f8"
    assert address(x.__array__(copy=True)) != lies_at(x)
    assert address(x.__array__(copy=False)) == lies_at(x)
    with pytest.raises(ValueError):
        x.__array__("f8", copy=False)
    assert np.array(x).flags.owndata
    assert (np.ones(4, dtype="f4") + x).tolist() == [1, 2, 3, 4]
    assert np.asarray(ms.asarray(3)).shape == ()
    ones = ms.ones((3, 4))
    assert np.asarray(ones).tolist() == [[1] * 4] * 3 and np.from_dlpack(ones).shape == (3, 4)


# ---------------------------------------------------------------------------------------------------------------------
# Lifetimes


def last(x):
    return float(np.asarray(x).reshape(-1)[-1])


def test_memory_lives_as_long_as_anybody_has_it_in_every_order():
    class Owner(np.ndarray):
        pass

    for order in itertools.permutations(range(5)):
        a = np.arange(1000.0).view(Owner)
        gone = weakref.ref(a)
        x = ms.asarray(a)
        things = [a, x, x[10:], memoryview(x), np.from_dlpack(x)]
        del a, x
        for i in order[:-1]:
            things[i] = None
            assert last(next(t for t in things if t is not None)) == 999
        assert gone() is not None
        things.clear()
        gc.collect()
        assert gone() is None, order
    # Of our own memory.
    for order in itertools.permutations(range(4)):
        x = ms.arange(1000.0) + 1
        things = [x, np.from_dlpack(x), memoryview(x), x.__dlpack__(max_version=(1, 0))]
        del x
        for i in order:
            things[i] = None
            # Somebody who would take the memory if it were free.
            ms.zeros(1000).__add__(-1.0).eval()
            assert all(last(t) == 1000 for t in things if t is not None and "PyCapsule" not in repr(type(t)))


def test_capsules_that_nobody_takes_are_let_go():
    p = Producer([1, 2, 3])
    x = ms.from_dlpack(p)
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), x.__dlpack__(max_version=(1, 0), copy=True)]
    del x
    assert p.deleted == 0
    capsules.pop(1)
    assert p.deleted == 0
    capsules.clear()
    assert p.deleted == 1


def test_threads_let_go_of_memory_of_others():
    owners = [Producer([float(i)] * 100) for i in range(50)]

    def work(part):
        for p in part:
            x = ms.from_dlpack(p)
            y = (x + 1).sum()
            n = np.from_dlpack(x)
            del x
            assert n[0] == p.memory[0]
            del n
            p.fill(-1)
            assert y.item() > 0

    threads = [threading.Thread(target=work, args=(owners[i::4],)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    ms.ones(1).eval()
    assert [p.deleted for p in owners] == [1] * 50


def test_a_gigabyte_is_shared_at_once():
    a = np.empty(1 << 27, dtype=np.float64)
    from time import perf_counter

    def fastest(f):
        times = []
        for _ in range(20):
            start = perf_counter()
            made = f()
            times.append(perf_counter() - start)
            del made
        return min(times)

    x = ms.asarray(a)
    assert fastest(lambda: ms.asarray(a)) < 1e-4
    assert fastest(lambda: ms.from_dlpack(a)) < 1e-4
    assert fastest(lambda: np.asarray(x)) < 1e-4
    assert fastest(lambda: np.from_dlpack(x)) < 1e-4


def test_arrays_of_other_devices_come_to_the_host_by_copies():
    name = next((n for n in ms.devices() if n.startswith("vulkan")), None)
    if name is None:
        pytest.skip("no Vulkan device")
    a = np.arange(1000.0, dtype="f4")
    x = ms.asarray(a, device=name)
    y = ms.ones(1000, device=name) + a
    z = ms.from_dlpack(a, device=name) * 2
    a[:] = -1
    assert str(x.device) == str(y.device) == str(z.device) == name
    for got, want in ((x, 0), (y, 1), (z, 0)):
        n = np.asarray(got)
        assert n.flags.writeable and n[0] == want
        n[:] = 9
        assert got[0].item() == want
    with pytest.raises(BufferError):
        x.__dlpack_device__()
    with pytest.raises(BufferError):
        x.__dlpack__()
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    assert describe(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))[3] == 2
    with pytest.raises(ValueError):
        ms.from_dlpack(a, device=name, copy=False)


def test_an_array_has_numpys_dtype():
    for name in ["float32", "int8", "bool", "complex128"]:
        x = ms.zeros(2, dtype=getattr(ms, name))
        assert x.__numpy_dtype__ == np.dtype(name)
        if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
            assert np.result_type(x) == np.dtype(name)


def test_elements_that_pytorch_changes_when_they_are_read_are_refused():
    torch = pytest.importorskip("torch")
    z = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    for lazily in [z.conj(), z.conj().imag]:
        for take in [ms.from_dlpack, ms.asarray, ms.sum]:
            with pytest.raises(BufferError, match="resolve"):
                take(lazily)
        with pytest.raises(TypeError):
            ms.ones(2) + lazily
    assert ms.asarray(z.conj().resolve_conj()).tolist() == [1 - 3j, 2 - 4j]
    assert ms.asarray(z.conj().imag.resolve_neg()).tolist() == [-3.0, -4.0]
    assert ms.asarray(z.imag).tolist() == [3.0, 4.0]


def test_pytorch_shares_memory_in_both_directions():
    torch = pytest.importorskip("torch")
    for dtype in [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.uint16, torch.bool, torch.complex64]:
        t = (torch.arange(24).reshape(2, 3, 4) % 7).to(dtype)
        for view in [t, t.permute(2, 0, 1), t[:, ::2], t[1], t[0, 0, 0], t[:0]]:
            x = ms.from_dlpack(view)
            assert x.tolist() == view.tolist() and ms.asarray(view).tolist() == view.tolist()
            back = torch.from_dlpack(x)
            assert back.dtype == dtype and torch.equal(back, view)
            assert back.numel() == 0 or back.data_ptr() == view.data_ptr()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_memory_that_pytorch_shares_lives_as_long_as_anybody_holds_it(order):
    torch = pytest.importorskip("torch")
    t = torch.arange(1 << 16, dtype=torch.float32)
    x = ms.from_dlpack(t)
    held = [t, x, torch.from_dlpack(x)]
    y = ms.arange(1 << 16, dtype=ms.float32) + 0.0
    u = torch.from_dlpack(y)
    given = [y, u, ms.from_dlpack(u)]
    del t, x, y, u
    for at in order:
        held[at] = given[at] = None
        gc.collect()
        junk = [torch.full((1 << 16,), 7.0) for _ in range(4)] + [ms.full(1 << 16, 7.0).eval() for _ in range(4)]
        assert all(float(r[12345]) == 12345.0 for r in held + given if r is not None)
        del junk


def test_jax_shares_memory_in_both_directions():
    jnp = pytest.importorskip("jax.numpy")
    for name in ["float32", "int32", "uint8", "bool", "float16", "bfloat16", "complex64"]:
        j = jnp.arange(12).reshape(3, 4).astype(name)
        x = ms.from_dlpack(j)
        assert x.tolist() == j.tolist() and ms.asarray(j).tolist() == j.tolist()
        k = jnp.from_dlpack(x)
        assert k.dtype == j.dtype and k.tolist() == j.tolist()
    # Arrays of JAX never change.
    j = jnp.zeros(1000)
    x = ms.from_dlpack(j)
    x[:] = 1
    assert float(j.sum()) == 0
    assert jnp.asarray(ms.ones((2, 3))).tolist() == [[1.0] * 3] * 2
