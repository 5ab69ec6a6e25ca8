"""Weights computed from parameters at every read: normalised by length, or by largest singular value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.materialize import carry
from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.nn.containers import ModuleDict, ModuleList
from agrad.nn.functional import normalize
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import sqrt, square
from agrad.ops.manipulation import moveaxis, reshape
from agrad.ops.statistical import sum
from agrad.random import randn

__all__ = ["spectral_norm", "weight_norm"]


def _compute(module: Any, name: str, make: Callable[[Parameter], tuple[_Parametrization, list[Parameter]]]) -> Module:
    """Compute an attribute with a module from parameters that replace it, named as in PyTorch."""
    held = getattr(module, name, None)
    if not isinstance(held, Parameter):
        raise ValueError(  # noqa: TRY004 (PyTorch's)
            f"Module '{type(module).__name__}' does not have a parameter with name '{name}'{called()}"
        )
    function, parts = make(held)
    found = ModuleList([function])
    for each, part in zip(function.originals, parts, strict=True):
        setattr(found, each, part)
    delattr(module, name)
    if "parametrizations" not in vars(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[name] = found
    own, names = getattr(module, "_computed", (type(module), ()))
    module.__class__ = _parametrized(own, (*names, name))
    plain: Module = module
    return plain


def _parametrized(own: type[Module], names: tuple[str, ...]) -> Any:
    """Return a class for one module, with properties for the computed attributes of these names."""
    made: dict[str, Any] = {name: property(partial(_value, name)) for name in names}
    made |= {"__module__": own.__module__, "__reduce_ex__": _reduced, "_computed": (own, names)}
    return type("Parametrized" + own.__name__, (own,), made)


def _value(name: str, module: Any) -> Tensor:
    """Return a computed attribute."""
    held = module.parametrizations[name]
    result: Tensor = held[0](*(getattr(held, each) for each in held[0].originals))
    return result


def _reduced(module: Any, _: int) -> tuple[Any, ...]:
    """Return the recipe for a copy; pickle would look up the class by its name."""
    return _empty, module._computed, vars(module)


def _empty(own: type[Module], names: tuple[str, ...]) -> Any:
    kind = _parametrized(own, names)
    return kind.__new__(kind)


class _Parametrization(Module):
    """Computes an attribute from parameters."""

    #: The names of the parameters.
    originals: tuple[str, ...]


class _WeightNorm(_Parametrization):
    """A direction, with a length for each entry of an axis."""

    originals = ("original0", "original1")

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, length: Tensor, direction: Tensor) -> Tensor:
        return direction * (length / self.length_of(direction))

    def length_of(self, weight: Tensor) -> Tensor:
        """Return the length of each entry of the axis, or of all."""
        if self.dim is None:
            return sqrt(sum(square(weight)))
        others = tuple(axis for axis in range(weight.ndim) if axis != self.dim % weight.ndim)
        return sqrt(sum(square(weight), axis=others, keepdims=True))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the length and the direction of a weight separately (Salimans & Kingma 2016).

    dim : int, optional
        The axis whose entries have one length each; None for a single length.
    Returns: The same module; its parameters ``original0`` and ``original1`` are the lengths and the directions.
    ValueError: If it has no such parameter.

    >>> layer = ag.nn.utils.parametrizations.weight_norm(ag.nn.Linear(3, 2))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """

    def make(held: Parameter) -> tuple[_Parametrization, list[Parameter]]:
        function = _WeightNorm(None if dim == -1 else dim)  # PyTorch's -1 is None
        with no_grad:
            return function, [Parameter(function.length_of(held), held.requires_grad), held]

    return _compute(module, name, make)


class _SpectralNorm(_Parametrization):
    """A weight over its largest singular value, found by iteration each time it is read in training."""

    originals = ("original",)
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            for name, length in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = randn(length, dtype=weight.dtype, device=weight.device)
                self.register_buffer(name, normalize(drawn, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return reshape(moveaxis(weight, self.dim, 0), (weight.shape[self.dim], -1))

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad:
            for _ in range(count):
                self._u.copy_(normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(normalize(matrix.T @ self._u, dim=0, eps=self.eps))
        if self._u._spec.backend.is_lazy:
            carry(self._u)
            carry(self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # clones: a later pass changes the buffers, maybe before this one is differentiated
        return weight / sum(self._u.clone() * (matrix @ self._v.clone()))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018).

    n_power_iterations : int, optional
        Steps of the power iteration at each read of the weight in training.
    eps : float, optional
        The smallest length by which its vectors are divided.
    dim : int, optional
        The axis of the weight's rows. Default: 1 for transposed convolutions, 0 for others.
    Returns: The same module; its parameter ``original`` is the weight, its buffers ``_u`` and ``_v`` are the vectors.
    ValueError: If it has no such parameter, or `n_power_iterations` is not positive.
    IndexError: If there is no such axis.

    >>> layer = ag.nn.utils.parametrizations.spectral_norm(ag.nn.Linear(3, 2)).eval()
    >>> bool(ag.abs(ag.linalg.matrix_norm(layer.weight, ord=2) - 1) < 0.01)
    True
    """
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}{called()}"
        )

    def make(held: Parameter) -> tuple[_Parametrization, list[Parameter]]:
        axis = dim if dim is not None else 1 if "ConvTranspose" in type(module).__name__ else 0
        if not -held.ndim <= axis < held.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{held.ndim}, {held.ndim - 1}] but got {axis})"
                + called()
            )
        return _SpectralNorm(held, n_power_iterations, axis % held.ndim, eps), [held]

    return _compute(module, name, make)


_complete(globals(), {"module": "Module\n    The module.", "name": "str, optional\n    Its parameter."})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
