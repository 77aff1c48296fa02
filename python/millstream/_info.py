"""What the namespace can do, and what its dtypes hold."""

from . import _millstream as _m

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]

_MORE = {"real floating": ("float16", "bfloat16"), "numeric": ("float16", "bfloat16")}


class _Info:
    """What ``__array_namespace_info__`` gives."""

    def capabilities(self):
        """What may be used although the standard leaves it open."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self):
        """The device on which arrays are made."""
        return _m.default_device()

    def default_dtypes(self, *, device=None):
        """The dtypes of arrays of Python's numbers and of indices."""
        return {
            "real floating": _m.float32,
            "complex floating": _m.complex64,
            "integral": _m.int64,
            "indexing": _m.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        """The dtypes of the standard of one or several kinds, by name."""
        if kind is None:
            kinds = ("bool", "numeric")
        elif isinstance(kind, tuple):
            kinds = kind
        else:
            kinds = (kind,)
        found = {}
        for one in kinds:
            if one not in _KINDS:
                raise ValueError(f"kind={one!r}\n  try: {', '.join(_KINDS)}")
            found.update({name: getattr(_m, name) for name in _KINDS[one]})
        return found

    def devices(self):
        """The devices of this machine."""
        return tuple(_m.device(name) for name in _m.devices())


def __array_namespace_info__():
    """What this namespace can do."""
    return _Info()


class finfo:
    """The limits of a float dtype, or of the parts of a complex one."""

    def __init__(self, type, /):
        dtype = _m._dtype(getattr(type, "dtype", type) if isinstance(type, _m.Array) else type)
        if not isdtype(dtype, ("real floating", "complex floating")):
            raise TypeError(f"{dtype} is no float dtype\n  try: iinfo")
        self.min, self.max, self.eps, self.smallest_normal = _m._limits(dtype)
        self.tiny = self.smallest_normal
        self.dtype = {"complex64": _m.float32, "complex128": _m.float64}.get(dtype.name, dtype)
        self.bits = self.dtype.itemsize * 8

    def __repr__(self):
        return f"finfo(bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type, /):
        dtype = _m._dtype(getattr(type, "dtype", type) if isinstance(type, _m.Array) else type)
        if not isdtype(dtype, "integral"):
            raise TypeError(f"{dtype} is no integer dtype\n  try: finfo")
        self.dtype = dtype
        self.bits = dtype.itemsize * 8
        signed = dtype.kind == "i"
        self.min = -(1 << (self.bits - 1)) if signed else 0
        self.max = (1 << (self.bits - 1 if signed else self.bits)) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: a name, a dtype, or several of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    name = _m._dtype(dtype).name
    if isinstance(kind, str) and kind in _KINDS:
        return name in _KINDS[kind] or name in _MORE.get(kind, ())
    if isinstance(kind, str):
        raise ValueError(f"kind={kind!r}\n  try: {', '.join(_KINDS)}")
    return name == _m._dtype(kind).name
