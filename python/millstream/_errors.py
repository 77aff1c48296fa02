"""The exceptions that Python does not have already."""


class DeviceError(RuntimeError):
    """A device is not there, cannot do what it is asked to do, or failed."""


class AxisError(ValueError, IndexError):
    """An array does not have this axis."""


DeviceError.__module__ = AxisError.__module__ = "millstream"
