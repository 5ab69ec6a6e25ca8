"""The standard's operators and methods of `Tensor`; `torch_methods` has PyTorch's, `numpy.protocol` those that NumPy calls.

In-place operators rebind the tensor to the result; see ``core.buffers.rebind``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agrad import dtypes
from agrad.core import errors, facts
from agrad.core.backend import Device
from agrad.core.buffers import check_leaf, is_storage, rebind
from agrad.core.cpython import is_temporary, references
from agrad.core.entry import make_operator
from agrad.core.op import OPS
from agrad.core.tensor import Tensor, attached
from agrad.numpy.protocol import to_numpy
from agrad.ops import creation, data_type, manipulation, searching, statistical
from agrad.ops.namespace import namespace

# -- operators ------------------------------------------------------------------------------------------------------------


def _operators(names: Mapping[str, str], operands: int) -> dict[str, str]:
    """Return the ops that are Python's operators of these names, by name."""
    ops = {op.facts.symbol: name for name, op in OPS.items() if len(op.array_slots) == operands}
    return {name: ops[symbol] for symbol, name in names.items()}


#: By Python's name of an operator, its op.
BINARY = _operators(facts.BINARY, 2)
COMPARISON = _operators(facts.COMPARISON, 2)
UNARY = _operators(facts.UNARY, 1)


def _in_place(name: str, symbol: str) -> Callable[[Tensor, Any], Tensor]:
    function = getattr(operator, name if name.startswith("__") else f"__{name}__")

    def method(self: Tensor, other: Any, /) -> Tensor:
        check_leaf(self, symbol)
        if self._base is not None and is_temporary(references(self), self):
            self._base = None  # x[i] += v: Python assigns the result to x[i]
        result = function(self, other)
        if not isinstance(result, Tensor):
            return NotImplemented  # the other operand implements it, and Python asks that next
        rebind(self, result, symbol)
        return self

    return method


@attached
class StandardMethods:
    """The standard's members of `Tensor`."""

    def __init__(self: Any, *args: Any, dtype: Any = None, device: Any = None) -> None:
        if all(isinstance(arg, int) and not isinstance(arg, bool) for arg in args):
            made = creation.empty(args, dtype=dtype, device=device)
        elif len(args) == 1:
            made = creation.tensor(args[0], dtype=dtype or dtypes.get_default_dtype(), device=device)
        else:
            raise TypeError("Tensor() takes a shape as integers, or one sequence of numbers")
        self._raw, self._spec, self._node = made._raw, made._spec, None

    @property
    def device(self: Any) -> Any:
        """``"<backend>[:<device>]"``."""
        device = self._spec.device
        return device if isinstance(device, Device) else Device(device)

    def __array_namespace__(self: Any, /, *, api_version: str | None = None) -> Any:
        return namespace(self._spec.device, api_version=api_version)

    def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return the same value on another device or backend, recorded.

        Parameters
        ----------
        device : str
            ``"<backend>[:<device>]"``, as ``"numpy"`` or ``"cupy:0"``.
        stream : object, optional
            Only None: the standard leaves it to the library.

        Returns
        -------
        Tensor
            This tensor itself, if it is already there.

        Raises
        ------
        BackendError
            If the backend is unknown or unusable here.
        ValueError
            If a stream is passed.
        """
        return data_type.to_device(self, device, stream=stream)

    def __dlpack__(
        self: Any, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if self._node is not None or self._is_followed():
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if copy is False:
            raise BufferError(
                "DLPack exports a copy of a tensor: its value may be shared, and most importers write to it. Leave"
                " out copy=False; x.detach().numpy() gives the memory itself, read-only."
            )
        backend = self._spec.backend
        array = (
            to_numpy(self).copy()
            if backend.is_lazy
            else backend.asarray(self._raw, device=self._spec.device, copy=True)
        )
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
        # the array's own method may implement an older version of the standard: pass only the given arguments
        return array.__dlpack__(**{name: value for name, value in asked.items() if value is not None})

    def __dlpack_device__(self: Any, /) -> Any:
        lazy = self._spec.backend.is_lazy
        return (to_numpy(self) if lazy else self._raw).__dlpack_device__()

    def __getitem__(self: Any, key: Any, /) -> Tensor:
        return searching.getitem(self, key)

    def __setitem__(self: Any, key: Any, value: Any, /) -> None:
        if is_temporary(references(self), self) and not is_storage(self):
            raise errors.lost_assignment(
                "an operation (indexing, .T, reshape...)",
                "x[i, j] = value in one step (np.unravel_index gives i, j for places in x.ravel() or x.flat), or name it",
            )
        searching.assign(self, key, value)

    def __iter__(self: Any) -> Iterator[Tensor]:
        if not self._spec.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(manipulation.unstack(self))

    def __contains__(self: Any, item: Any) -> bool:
        return bool(statistical.any(self == item))

    @property
    def T(self: Any) -> Tensor:
        """The transpose of a matrix; vectors and scalars are unchanged, as in NumPy and PyTorch."""
        if self.ndim > 2:
            raise ValueError(f"x.T takes a matrix, not a tensor of shape {self.shape}; use x.mT or agrad.permute_dims")
        if self.ndim == 2:
            return manipulation.matrix_transpose(self)
        return manipulation.permute_dims(self, tuple(range(self.ndim)))

    @property
    def mT(self: Any) -> Tensor:
        """The transpose of the last two axes."""
        return manipulation.matrix_transpose(self)


for _name, _op in BINARY.items():
    setattr(Tensor, f"__{_name}__", make_operator(OPS[_op], f"__{_name}__"))
    setattr(Tensor, f"__r{_name}__", make_operator(OPS[_op], f"__r{_name}__", reflected=True))
    setattr(Tensor, f"__i{_name}__", _in_place(_name, f"an in-place operator (__i{_name}__)"))
for _name, _op in (COMPARISON | UNARY).items():
    setattr(Tensor, f"__{_name}__", make_operator(OPS[_op], f"__{_name}__"))
