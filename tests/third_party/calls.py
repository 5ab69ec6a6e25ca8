"""What a line of the tables is, and the operands that most lines share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Call:
    """A function of arrays, of another library.

    Attributes
    ----------
    library, name : str
        Where it stands in the report.
    function : callable
        Takes the operands, as NumPy arrays or as tensors; gives an array or number, or several in a tuple, list or dict.
    operands : tuple of numpy.ndarray
        Differentiated where they are floating-point or complex, kept away from kinks by more than twice `step`.
    constant : bool
        Whether it is piecewise constant.
    step, tolerance : float
        Of the finite differences.
    remark : str
        For the report.
    broken : bool
        Whether the library's own code for other arrays than NumPy's gives another value: that of array-api-strict.
    chunks : dict, optional
        The tensors are over Dask's arrays, in chunks of these sizes, by the number of axes.
    """

    library: str
    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    constant: bool = False
    step: float = 1e-3
    tolerance: float = 1e-6
    remark: str = ""
    broken: bool = False
    chunks: dict[int, tuple[int, ...]] | None = None

    @property
    def full(self) -> str:
        """The name with its library's."""
        return f"{self.library}.{self.name}"


class Section:
    """Writes down the calls of one library.

    Parameters
    ----------
    library : str
        Its name in the report.
    module : module, optional
        Where `each` finds functions by name.
    """

    def __init__(self, library: str, module: Any = None) -> None:
        self.library, self.module = library, module

    def __call__(self, name: str, function: Callable[..., Any], *operands: Any, **options: Any) -> Call:
        """Give one call."""
        return Call(self.library, name, function, tuple(map(np.asarray, operands)), **options)

    def each(
        self,
        names: str,
        *operands: Any,
        by: Callable[..., Any] = lambda f: f,
        called: str = "{}",
        **options: Any,
    ) -> list[Call]:
        """Give a call of each function named, with the same operands; `by` makes what is called of the function."""
        functions = {name: by(getattr(self.module, name)) for name in names.split()}
        return [self(called.format(name), f, *operands, **options) for name, f in functions.items()]


def parts(result: Any, *names: str) -> list[Any]:
    """Give the attributes of a result that is no tuple."""
    return [getattr(result, name) for name in names]


def sample(*shape: int, seed: int, low: float = -2.0, high: float = 2.0) -> Any:
    """Give numbers of a range in random order, at uneven distances: no ties, and no kink nearby."""
    n = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    spaced = low + (high - low) * (np.arange(n) + rng.uniform(0.2, 0.8, n)) / n
    return rng.permutation(spaced).round(4).reshape(shape)


#: Real numbers of both signs, positive ones, and ones between 0 and 1.
X, Y = sample(5, seed=1), sample(5, seed=2, low=-1.8, high=2.3)
P, Q = sample(5, seed=3, low=0.3, high=3.0), sample(5, seed=4, low=0.5, high=2.5)
U, V = sample(5, seed=5, low=0.1, high=0.9), sample(5, seed=6, low=0.15, high=0.85)
#: A longer series, two of them, and a positive one.
LONG, OTHER = sample(12, seed=7), sample(12, seed=8, low=-1.5, high=2.5)
LONG_P = sample(12, seed=9, low=0.4, high=3.0)
#: Matrices.
A, B = sample(3, 4, seed=10), sample(3, 4, seed=11, low=-1.7, high=2.2)
A_P = sample(3, 4, seed=12, low=0.2, high=2.0)
SQUARE = sample(3, 3, seed=13)
POSITIVE_DEFINITE = SQUARE @ SQUARE.T + 2 * np.eye(3)
POINTS, MORE_POINTS = sample(4, 3, seed=14), sample(5, 3, seed=15, low=-1.6, high=2.4)
#: Complex numbers.
Z = sample(4, seed=16) + 1j * sample(4, seed=17)
Z_LONG = sample(8, seed=18) + 1j * sample(8, seed=19)
