"""SciPy's names for sparse matrices: ``linalg`` has equations and exponentials; matrices themselves are SciPy's, or `agrad.sparse`'s."""

from agrad.core import names as _names
from agrad.scipy.sparse import linalg as linalg

__all__ = ["linalg"]

__getattr__, __dir__ = _names.of(__name__)
