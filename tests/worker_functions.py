"""Functions that workers can import, with little else."""

from vbsvm.base.workers import CACHE_LINE


class Held:
    """A function that holds an array, and tells where and how that lies, and a number of it."""

    def __init__(self, array):
        self.array = array

    def __call__(self, number):
        return self.array.ctypes.data % CACHE_LINE, self.array.strides, float(self.array[number])


class OddError(Exception):
    """An error that can be sent and not be made again."""

    def __init__(self, one, other):
        super().__init__(one + other)


def raise_odd_error(question):
    """Raise it."""
    raise OddError("one", "other")
