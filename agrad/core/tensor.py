"""Tensor: a mutable name for an immutable value, with the graph that produced it.

In-place methods rebind the tensor to a new value and never change an array that anything else holds. Methods that
compute are in ``agrad.ops``; this file handles names, gradients and the borders of the graph.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, Self

from agrad.core import errors, mode
from agrad.core.backend import backend_of, numbers_of, plugins
from agrad.core.cpython import assign_all, getframe
from agrad.core.methods import Methods
from agrad.core.node import AccumulateGrad, Node, hooks_of
from agrad.core.port import Port, attaching_to
from agrad.core.spec import Spec

if TYPE_CHECKING:
    from agrad.core.hooks import Handle


_new = object.__new__


class Size(int):
    """A number of elements, as in the standard, that can also be called as PyTorch's ``x.size()`` and ``x.size(0)``."""

    shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def __reduce__(self) -> Any:
        return int, (int(self),)


#: Packages that deep-copy objects in the middle of a computation: there a copy is a step of the graph.
COPIED_AS_VALUES = {"xarray"}


class Tensor(Methods):
    """An array of any backend that records the operations on it.

    Made by `agrad.tensor`, `agrad.asarray` and the creation functions. ``Tensor(3, 5)`` returns an uninitialised tensor
    of that shape and ``Tensor([1, 2])`` one with those elements, both of the default dtype.

    Parameters
    ----------
    *args : int or sequence
        A shape as separate integers, or one nested sequence of numbers.
    dtype, device : optional
        As for `agrad.empty`.

    Raises
    ------
    TypeError
        If the arguments are neither integers nor one sequence.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.Tensor(3, 5).shape
    (3, 5)
    >>> ag.Tensor([1, 2])
    tensor([1., 2.])
    """

    # Every operation reads these three; everything rare is in __dict__. For `_raw` of a tensor that owns its array,
    # see `core.buffers.own`.
    __slots__ = ("__dict__", "__weakref__", "_node", "_raw", "_spec")

    __pandas_priority__ = 5000  # pandas leaves operators to tensors, which refuse its objects, and to ufuncs

    _raw: Any
    _node: Node | None
    _spec: Spec

    _leaf: AccumulateGrad | None = None  # state of a frozen leaf, or of a tensor whose .grad was assigned
    _retained: Retained | None = None
    _tangents: dict[int, Tensor] | None = None
    _base: tuple[Any, ...] | None = None  # what other libraries would make this a view of: see `bases`

    # -- properties known without computing ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, a tuple of int (nan for a length that a lazy backend does not know)."""
        return self._spec.shape

    @property
    def dtype(self) -> Any:
        """The backend's own dtype."""
        return self._spec.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._spec.shape)

    @property
    def size(self) -> Size:
        """The number of elements, None where a lazy backend does not know; when called, PyTorch's ``size()``."""
        size = self._spec.size
        if size != size:  # noqa: PLR0124 (nan: unknown)
            return None  # type: ignore[return-value]
        made = Size(size)
        made.shape = self._spec.shape
        return made

    @property
    def nbytes(self) -> int:
        """The number of bytes of the value."""
        return int(self._spec.backend.nbytes(self._raw))

    def numel(self) -> int:
        """Return the number of elements.

        Returns
        -------
        int
            As `size`.
        """
        return self.size

    def dim(self) -> int:
        """Return the number of axes.

        Returns
        -------
        int
            As `ndim`.
        """
        return len(self._spec.shape)

    def element_size(self) -> int:
        """Return the bytes of one element.

        Returns
        -------
        int
            The bytes.
        """
        bits = "".join(filter(str.isdigit, self._spec.backend.dtype_name(self.dtype)))  # as in "complex64"
        return int(bits or 8) // 8

    def is_floating_point(self) -> bool:
        """Return whether the dtype is real floating point.

        Returns
        -------
        bool
            False for a complex one.
        """
        return self._spec.inexact and not self._spec.is_complex

    def is_complex(self) -> bool:
        """Return whether the dtype is complex.

        Returns
        -------
        bool
            Whether it is.
        """
        return self._spec.is_complex

    # -- the graph ----------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if not isinstance(flag, bool):
            raise RuntimeError("requires_grad must be a bool")  # noqa: TRY004 (PyTorch's type)
        node = self._node
        if node is not None and not isinstance(node, AccumulateGrad):
            if flag:
                return
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a"
                f" subgraph that doesn't require differentiation use var_no_grad = var.detach().{errors.at(node)}"
            )
        if flag and node is None:
            if not self._spec.inexact:
                raise errors.inexact_only(self.dtype)
            leaf = self._leaf or AccumulateGrad(self, self._spec)
            leaf.active = True
            self._node = leaf
        elif not flag and isinstance(node, AccumulateGrad):
            node.active = False
            self._leaf, self._node = node, None

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Start or stop recording operations on this leaf, in place.

        Parameters
        ----------
        requires_grad : bool, optional
            False freezes the leaf: graphs recorded earlier skip it too.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        RuntimeError
            If the dtype is neither real nor complex floating point, or on freezing an operation's result.
        """
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the user made this tensor, rather than a recorded operation."""
        return self._node is None or isinstance(self._node, AccumulateGrad)

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made this tensor, None for a leaf."""
        return None if self.is_leaf or self._node is None else self._node.address()[0]

    @property
    def output_nr(self) -> int:
        """Which result of its operation this tensor is."""
        return 0 if self._node is None else self._node.address()[1]

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a result after `retain_grad`; None before the first backward."""
        if mode.get_mode() is not None:
            mode.note_grad(self, "read")
        node = self._node
        if node is None:
            return self._leaf.grad if self._leaf else None
        if isinstance(node, AccumulateGrad):
            return node.grad
        if self._retained is None:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't"
                " be populated during autograd.backward(). If you indeed want the .grad field to be populated for a"
                f" non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.{errors.at(node)}",
                UserWarning,
                stacklevel=2,
            )
            return None
        return self._retained.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        mode.note_grad(self, "set")
        node = self._node
        if isinstance(node, AccumulateGrad):
            node.grad = value
        elif node is None:
            if self._leaf is not None or value is not None:
                self._state().grad = value
        else:
            if self._retained is None:
                self._retained = Retained()
            self._retained.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.shape != self.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size"
                f" '{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
            )
        if value._spec.device != self._spec.device:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value._spec.device}' to a tensor with"
                f" device type '{self._spec.device}'. Please ensure that the gradient and the tensor are on the same device"
            )
        expected = self.grad_dtype if self.is_leaf else self.dtype
        if expected is not None and value.dtype != expected:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with grad_dtype '{expected}'."
                " The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype)."
                "\n  A leaf's grad_dtype may be set to another dtype, or to None to allow any."
            )

    @property
    def grad_dtype(self) -> Any:
        """The dtype that gradients of this leaf are cast to; None where `grad` may be assigned any dtype.

        The leaf's own dtype unless set otherwise. Hooks and `agrad.grad` see the cast gradient.
        """
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        state = self._node if isinstance(self._node, AccumulateGrad) else self._leaf
        chosen = state.hooks.grad_dtype if state is not None and state.hooks is not None else None
        return self.dtype if chosen is None else chosen[0]

    @grad_dtype.setter
    def grad_dtype(self, dtype: Any) -> None:
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        backend = self._spec.backend
        if dtype is not None:
            dtype = backend.dtype(dtype)
            kinds = ("float", "complex")[self.is_complex() :]
            if backend.kind(dtype) not in kinds:
                raise RuntimeError(
                    f"grad_dtype of a tensor of dtype {self.dtype} must be {' or '.join(kinds)}, not {dtype}"
                )
            if self.grad is not None and self.grad.dtype != dtype:
                raise RuntimeError(
                    f"Cannot set grad_dtype to '{dtype}' because there is already a gradient with dtype"
                    f" '{self.grad.dtype}'. Please clear the gradient (.grad = None) before changing grad_dtype, or"
                    " ensure the new grad_dtype matches the existing gradient's dtype."
                )
        hooks_of(self._state()).grad_dtype = (dtype,)

    def _state(self) -> AccumulateGrad:
        """Return this leaf's state, created if the leaf does not require grad."""
        if isinstance(self._node, AccumulateGrad):
            return self._node
        if self._leaf is None:
            self._leaf = AccumulateGrad(self, self._spec)
            self._leaf.active = False
        return self._leaf

    def retain_grad(self) -> None:
        """Keep `.grad` of this tensor in backward, though it is not a leaf.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad.
        """
        if self._node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.retains_grad and not self.is_leaf:
            self._retained = self._retained or Retained()
            self._retained.active = True
            hooks_of(self._node).retain(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `.grad` of this result will be kept."""
        return self._retained is not None and self._retained.active and not self.is_leaf

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call `hook` with the gradient of this tensor whenever one is computed; its result replaces the gradient.

        Parameters
        ----------
        hook : callable
            ``hook(grad) -> Tensor or None``.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.

        Raises
        ------
        RuntimeError
            If the tensor does not require grad.
        """
        if self._node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        handle: Handle = hooks_of(self._node).add("tensor", hook)
        mode.note_hook(self, handle)
        return handle

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Call ``hook(self)`` after this leaf's `.grad` was updated.

        Such a leaf gets its gradient as soon as it is complete, not when the whole backward pass has succeeded.

        Parameters
        ----------
        hook : callable
            ``hook(self)``; what it returns is ignored.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.

        Raises
        ------
        RuntimeError
            If the tensor is not a leaf that requires grad.
        """
        if self._node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError(
                f"post accumulate grad hooks cannot be registered on non-leaf tensors{errors.at(self._node)}"
            )
        handle: Handle = hooks_of(self._node).add("accumulated", hook)
        mode.note_hook(self, handle)
        return handle

    def detach(self) -> Tensor:
        """Return the same value without history.

        Returns
        -------
        Tensor
            A separate value: changing it in place does not change this tensor.
        """
        recorder = mode.recorder()
        result = wrap(self._raw if recorder is None else recorder.detach(self), self._spec)
        result._base = bases(self)
        return result

    def detach_(self) -> Self:
        """Drop the history of this tensor; a leaf keeps its `.grad` and stops requiring one.

        Returns
        -------
        Tensor
            This tensor.
        """
        if self.is_leaf:
            return self.requires_grad_(False)
        set_history(self, None)
        self._retained = None
        return self

    @property
    def data(self) -> Tensor:
        """The value without history; changing it in place changes this tensor, unrecorded. Assigning to it sets a new value.

        It holds the present value: once the tensor has another one, a change in place is lost, and warns.
        """
        result = self.detach()
        assert result._base is not None
        result._base = Storage.of(result._base, result._raw, self._raw)
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        raw = value._raw if isinstance(value, Tensor) else value
        spec = value._spec if isinstance(value, Tensor) else None
        if spec is None:
            backend = backend_of(raw)
            if backend is None:
                raise TypeError(f"data must be a Tensor or an array, not {type(value).__name__}")
            raw = numbers_of(backend, raw)
            spec = backend.spec(raw)
        if self._node is not None and not spec.inexact:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        if spec.backend is not self._spec.backend and mode.batch_levels.get():
            mode.check_write(self, "x.data = value", mapped=True)
        mode.note_write(self)
        leaf, before = self._node if isinstance(self._node, AccumulateGrad) else self._leaf, self._raw
        if leaf is not None and is_moved(leaf.spec, spec):
            leaf.moved = True
        # nothing is called between these, so no signal handler can run: `before` was read, which ends an ownership
        self._raw, self._spec = raw, spec
        if leaf is not None:
            leaf.spec = spec
        del before

    # -- conversion to Python -----------------------------------------------------------------------------------------

    def _is_followed(self) -> bool:
        """Return whether operations on this tensor are currently differentiated: recorded, or along a tangent."""
        now = mode.current()
        if now is None:
            return self._node is not None
        if not now.grad:
            return False
        return self._node is not None or (
            self._tangents is not None and not self._tangents.keys().isdisjoint(now.levels)
        )

    def _leaves_transform(self, how: str) -> None:
        """Warn where the value leaves the graph within a transform. In PyTorch-style recording this is expected elsewhere."""
        if mode.transforming.get() and self._is_followed():
            errors.warn_leaves(how, "If that is meant, say so: x.detach().")

    def item(self, *index: Any) -> Any:
        """Return the only element as a Python number.

        Parameters
        ----------
        *index : int
            Which element, as in NumPy: counted in row-major order or by one number per axis.

        Returns
        -------
        bool, int, float or complex
            The number, which has no history.

        Raises
        ------
        RuntimeError
            If there is more than one element, or none.

        Warns
        -----
        LeavesGraphWarning
            If a transform of `agrad.func` is differentiating this tensor.
        """
        self._leaves_transform("item()")
        if index:
            place = index[0] if len(index) == 1 else index
            found: Any = self[place] if isinstance(place, tuple) else self.ravel()[place]
            return found._item()
        return self._item()

    def _item(self) -> Any:
        if self.size != 1:
            raise RuntimeError(f"a Tensor with {self.size} elements cannot be converted to Scalar")
        recorder = mode.recorder()
        return self._spec.backend.item(self._computed()) if recorder is None else recorder.item(self)

    def tolist(self) -> Any:
        """Return the value as nested lists of Python numbers.

        Returns
        -------
        list or scalar
            One list per axis; for a 0-d tensor the number.

        Warns
        -----
        LeavesGraphWarning
            As for `item`.
        """
        self._leaves_transform("tolist()")
        return self._spec.backend.tolist(self._computed())

    def _computed(self) -> Any:
        """Return the array for Python to read; a lazy value is computed first and kept in this tensor."""
        recorder = mode.recorder()
        if recorder is not None:
            recorder.export(self)
        if self._spec.backend.is_lazy:
            compute([self])
        return self._raw

    def _number(self, what: str) -> Any:
        if self.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if self._is_followed():
            warnings.warn(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider"
                f" using tensor.detach() first. ({what} gives a Python number: what follows is not differentiated)"
                f"{errors.where_stored(getframe(2))}",
                errors.LeavesGraphWarning,
                stacklevel=3,
            )
        return self._item()

    def __float__(self, /) -> float:
        return float(self._number("float()"))

    def __int__(self, /) -> int:
        return int(self._number("int()"))

    def __round__(self, ndigits: int | None = None, /) -> Any:
        return round(self._number("round()"), ndigits)

    def __complex__(self, /) -> complex:
        return complex(self._number("complex()"))

    def __index__(self, /) -> int:
        if self.size != 1 or self._spec.backend.kind(self.dtype) != "int":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._item())

    def __bool__(self, /) -> bool:
        if self.size != 1:
            raise RuntimeError(
                f"Boolean value of Tensor with {'more than one value' if self.size else 'no values'} is ambiguous"
            )
        recorder = mode.recorder()
        if recorder is not None:
            return bool(recorder.truth(self))
        return self._spec.backend.truth(self._computed())  # a step: it has no derivative to lose

    def __len__(self) -> int:
        if not self._spec.shape:
            raise TypeError("len() of a 0-d tensor")
        length = self._spec.shape[0]
        if length != length:  # noqa: PLR0124 (nan: unknown)
            raise ValueError("len(): how long it is, is known once it is computed: len(x.detach().numpy())")
        return int(length)

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        self._leaves_transform("format()")
        backend, raw = self._spec.backend, self._raw
        if self.ndim == 0 and (spec or (backend.shows(raw) and backend.text_of(raw) is None)):
            return format(self._item(), spec)  # as PyTorch: the number; an uncomputed value is shown as by print
        return object.__format__(self, spec)

    # -- copies -------------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        data = self._raw  # first: reading it ends ownership, and with it the owner class
        made = _new(type(self))
        made._raw, made._spec, made._node = data, self._spec, None
        made.__dict__.update(self._instance_dict())
        if self._node is not None:
            made._node = AccumulateGrad(made, self._spec) if self.is_leaf else self._node
        if self._tangents:
            made._tangents = dict(self._tangents)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        caller = getframe(2).f_globals.get("__name__", "")  # beyond copy.deepcopy
        if caller.partition(".")[0] in COPIED_AS_VALUES:
            copied: Any = self.clone()
            memo[id(self)] = copied
            return copied  # type: ignore[no-any-return]
        if not self.is_leaf:
            assert self._node is not None
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the"
                f" moment.\n  Copy a detached tensor, or the leaves.{errors.at(self._node)}"
            )
        if self._tangents:
            raise RuntimeError("deepcopy of a dual tensor: the copy would lose its tangent. Use copy.copy or clone().")
        if isinstance(self._node, AccumulateGrad) and not self._node.active:  # a name that a transform gave
            self._leaves_transform("deepcopy()")
        data = self._raw  # values are immutable: the copy may share the array
        made = _new(type(self))
        memo[id(self)] = made
        made._raw, made._spec, made._node = data, self._spec, None
        import copy  # noqa: PLC0415 (only here)

        made.__dict__.update(copy.deepcopy(self._instance_dict(), memo))
        if self._node is not None:
            made._node = AccumulateGrad(made, self._spec)
        if self.grad is not None:
            if self.grad.dtype != self.dtype:
                made.grad_dtype = self.grad_dtype
            made.grad = copy.deepcopy(self.grad, memo)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        self._leaves_transform("pickle")
        if self._node is not None and self._node.hooks is not None:
            for hook in self._node.hooks.tensor.values():
                message = (
                    f"backward hook {hook!r} on tensor will not be serialized. Remove it to be rid of this warning."
                )
                warnings.warn(message, UserWarning, stacklevel=2)
        state = {**self._instance_dict(), "requires_grad": self.requires_grad}
        data, backend = self._raw, self._spec.backend
        if not backend.pickles:
            data = plugins().get("numpy").receive(backend, data, "numpy")
        return _restore, (type(self), self._spec.device, data, state)

    def _instance_dict(self) -> dict[str, Any]:
        return {
            k: v
            for k, v in self.__dict__.items()
            if k not in ("_base", "_buffer", "_leaf", "_losses", "_retained", "_tangents")
        }


class Retained:
    """The gradient of a result.

    Attributes
    ----------
    grad : Tensor or None
        The stored gradient, from backward or by assignment.
    active : bool
        Whether `retain_grad` was called.
    """

    __slots__ = ("__weakref__", "active", "grad")

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.active: bool = False


#: Adds the members of a class to `Tensor`. Type checkers find them in ``core/methods.pyi``, which ``docs/make_methods.py``
#: writes.
attached: Callable[[type], type] = attaching_to(Tensor)


@Port
def compute(tensors: Iterable[Tensor], /) -> None:
    """Compute the lazy ones among tensors in one pass; they keep the values."""


def array_of(tensor: Tensor) -> Any:
    """Return the array that a tensor holds, without a copy: do not write to it."""
    return tensor._raw


def node_of(tensor: Tensor) -> Node | None:
    """Return the node whose result a tensor is, or that represents a leaf; None where it requires no gradient."""
    return tensor._node


def is_followed(tensor: Tensor) -> bool:
    """Return whether operations on a tensor are currently differentiated: recorded, or along a tangent."""
    return tensor._is_followed()


def wrap(data: Any, spec: Spec, node: Node | None = None) -> Tensor:
    """Make a Tensor of a raw array."""
    t = _new(Tensor)
    t._raw = data
    t._spec = spec
    t._node = node
    return t


#: The slot that holds a tensor's array, even where its class overrides the name.
array_slot: Any = Tensor.__dict__["_raw"]
spec_slot: Any = Tensor.__dict__["_spec"]


def is_moved(old: Spec, new: Spec) -> bool:
    """Return whether a gradient for a value of the old spec may not fit one of the new."""
    # dtypes of two libraries cannot be compared
    return new is not old and (new.shape, new.device, new.dtype) != (old.shape, old.device, old.dtype)


class Storage(tuple[Any, ...]):  # noqa: SLOT001 (a tuple with more than it shows)
    """The `_base` of ``x.data``: as in `bases`, and a write to the tensor is a write to `x`.

    Attributes
    ----------
    array : array
        The result's array, as long as `x` has the value it was taken from.
    value : array
        The array of `x`.
    """

    array: Any
    value: Any

    @classmethod
    def of(cls, base: tuple[Any, ...], array: Any, value: Any) -> Self:
        """Make one from the result of `bases`."""
        made = tuple.__new__(cls, base)
        made.array, made.value = array, value
        return made

    def owner(self, result: Tensor) -> Tensor | None:
        """Return the target of a write to ``x.data``: `x`, if neither has got another value since; otherwise None."""
        found: Tensor | None = self[0]()
        return found if found is not None and found._raw is self.value and result._raw is self.array else None


def bases(tensor: Tensor) -> tuple[weakref.ref[Tensor], Any]:
    """Return the tensors that a view of `tensor` is a view of, newest first: a weak reference, then the older ones as a pair.

    A view of a view is also one of the first tensor, which may outlive the one between. A third member means that NumPy
    makes a copy.
    """
    older = tensor._base
    while older is not None and older[0]() is None:
        older = older[1]
    return weakref.ref(tensor), older


def set_history(target: Tensor, node: Node | None) -> None:
    """Make a tensor the result of another node; a `retain_grad` request goes with it."""
    assign_all(starmap(setattr, history(target, node)))


def history(target: Tensor, node: Node | None) -> list[tuple[Any, str, Any]]:
    """Return the arguments of ``setattr`` that make a tensor the result of another node."""
    if target._retained is None:
        return [(target, "_node", node)]
    changes: list[tuple[Any, str, Any]] = []
    if target._retained.active and node is not target._node:
        if target._node is not None:
            changes.append(hooks_of(target._node).unretained(target))
        if node is not None:
            changes.append(hooks_of(node).retained_too(target))
    return [*changes, (target, "_node", node)]


def _restore(cls: type[Tensor], device: str, data: Any, state: dict[str, Any]) -> Tensor:
    made = _new(cls)
    backend = backend_of(data)
    assert backend is not None, device
    owner = device.partition(":")[0]
    if backend.name != owner:  # the library does not pickle its arrays: NumPy's was pickled
        source, backend = backend, plugins().get(owner)
        data = backend.receive(source, data, device)
    made._raw, made._spec, made._node = data, backend.spec(data), None
    requires_grad = state.pop("requires_grad")
    made.__dict__.update(state)
    if requires_grad:
        made._node = AccumulateGrad(made, made._spec)
    return made


def check_number(what: str, name: str, value: Any) -> None:
    """Refuse a tensor that is being differentiated as the value of a parameter without a derivative."""
    if isinstance(value, Tensor) and value._is_followed():
        raise errors.not_a_number(what, name)


def shape_tuple(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple, from an int or a sequence."""
    return (shape,) if isinstance(shape, int) else tuple(shape)
