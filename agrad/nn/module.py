"""Module: parameters, buffers and other modules as attributes of one object, to be trained, moved, saved and loaded.

Setting an attribute to a `Parameter` or `Module` is all it takes to register it: there are no tables besides the
object's own ``__dict__``, so reading an attribute costs as much as for any object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from agrad.core import errors, names
from agrad.core.buffers import assign_data
from agrad.core.hooks import Handle, _HookTable, _next_key
from agrad.core.tensor import Tensor
from agrad.nn.backward_hooks import HookedCall
from agrad.nn.parameter import Parameter
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype, isdtype, to_device

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

    class Forwards(Protocol[P, R_co]):
        """An object with a `forward`."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


__all__ = ["Module"]


class IncompatibleKeys(NamedTuple):
    """The paths that `Module.load_state_dict` did not find, and those that it did not expect."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Module:
    """Base of all parts of a network. A subclass sets attributes in ``__init__`` and implements `forward`.

    The type of an attribute determines its role: a `Parameter` is trained, a `Module` is traversed; `register_buffer`
    adds other tensors to the state.

    Attributes
    ----------
    training : bool
        Whether the module is being trained; see `train`.

    Examples
    --------
    >>> import agrad as ag
    >>> class Net(ag.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = ag.nn.Linear(4, 8)
    ...         self.out = ag.nn.Linear(8, 2)
    ...
    ...     def forward(self, x):
    ...         return self.out(ag.nn.functional.relu(self.hidden(x)))
    >>> net = Net()
    >>> net(ag.ones((3, 4))).shape
    (3, 2)
    >>> [name for name, _ in net.named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    """

    #: Compiled functions depend on the number of its entries: one more layer or hook makes another program.
    _counts = True

    training: bool = True
    #: Names of buffers, and whether each belongs to the saved state; an instance with buffers has its own dict.
    _buffers: Mapping[str, bool] = {}
    #: Whether any of the following tables was ever filled: a call without hooks reads only this.
    _hooked = False
    _before: Mapping[int, Callable[..., Any]] | None = None
    _after: Mapping[int, Callable[..., Any]] | None = None
    _before_backward: Mapping[int, Callable[..., Any]] | None = None
    _backward: Mapping[int, Callable[..., Any]] | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result; every subclass defines this method."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    if TYPE_CHECKING:  # a call takes the arguments of `forward`, and returns its result

        def __call__(self: Forwards[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                if not self._hooked:
                    return self.forward(*args, **kwargs)
                for before in list((self._before or {}).values()):
                    changed = before(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
                if self._backward or self._before_backward:
                    return self._watched(args, kwargs)
                return self._called(args, kwargs)
            except TypeError as error:
                if (explained := _refused(self, error)) is None:
                    raise
                raise explained from None

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self.forward(*args, **kwargs)
        for after in list((self._after or {}).values()):
            changed = after(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, args)`` before `forward`; its result replaces the arguments.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.
        """
        return self._add_hook("_before", hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, args, result)`` after `forward`; its return value replaces the result."""
        return self._add_hook("_after", hook)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, grad_input, grad_output)`` when gradients by the module's tensor arguments are computed.

        Parameters
        ----------
        hook : callable
            Gets the gradients of the positional arguments and of the results, as tuples, with None for missing ones.
            If it returns a tuple, that replaces the former.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.

        Notes
        -----
        If no argument requires a gradient, the hook is called when those of the results are known, with a `grad_input` of
        None, and its return value must be None.

        Examples
        --------
        >>> import agrad as ag
        >>> layer = ag.nn.Linear(2, 1)
        >>> _ = layer.register_full_backward_hook(lambda module, gi, go: print(gi[0].shape, go[0].tolist()))
        >>> layer(ag.ones((1, 2), requires_grad=True)).sum().backward()
        (1, 2) [[1.0]]
        """
        return self._add_hook("_backward", hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, grad_output)`` before the module's backward pass.

        Parameters
        ----------
        hook : callable
            Gets the gradients of the results, as a tuple, with None for missing ones. If it returns a tuple or a single
            gradient, that replaces them.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.

        Examples
        --------
        >>> import agrad as ag
        >>> layer = ag.nn.Linear(2, 1)
        >>> _ = layer.register_full_backward_pre_hook(lambda module, grad_output: grad_output[0] * 10)
        >>> layer(ag.ones((1, 2))).sum().backward()
        >>> layer.bias.grad
        tensor([10.])
        """
        return self._add_hook("_before_backward", hook)

    def _watched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the module between two nodes that pass everything on, and call its hooks on the gradients."""
        before, after = (list((table or {}).values()) for table in (self._before_backward, self._backward))
        watch = HookedCall(self, before, after, len(args))
        args = watch.enter(args)
        result = self._called(args, kwargs)
        return watch.leave(result)

    def _add_hook(self, kind: str, hook: Callable[..., Any]) -> Handle:
        table = vars(self).setdefault(kind, _HookTable())
        key = _next_key()
        table[key] = hook
        self._hooked = True
        return Handle(table, key)

    # -- attributes -----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        held = vars(self).get(name)
        if held is not None and value is not None:
            for kind, what in ((Parameter, "parameter"), (Module, "child module")):
                if isinstance(held, kind) and not isinstance(value, kind):
                    raise TypeError(
                        f"cannot assign '{type(value).__name__}' as {what} '{name}' ({kind.__name__} or None expected)"
                        "\n  Delete the attribute first, or change the value of a parameter through its .data."
                        f"{errors.called()}"
                    )
        if name in self._buffers and value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{type(value).__name__}' object to buffer '{name}' (agrad.Tensor or None required)"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in self._buffers:
            vars(self)["_buffers"].pop(name)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is part of the module's state but not trained.

        Parameters
        ----------
        name : str
            The attribute name.
        tensor : Tensor or None
            The value.
        persistent : bool, optional
            Whether it is part of `state_dict`.

        Raises
        ------
        KeyError
            If the name is empty, contains a dot, or is an attribute already.
        TypeError
            If the value is not a tensor.
        """
        self._check_name("buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (agrad.Tensor or None required)"
            )
        vars(self).setdefault("_buffers", {})[name] = persistent
        object.__setattr__(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter under a name, or None for a missing one; the same as setting the attribute.

        Raises
        ------
        KeyError
            As for `register_buffer`.
        TypeError
            If it is not a parameter.
        """
        self._check_name("parameter", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (Parameter or None required)"
            )
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a module under a name; the same as setting the attribute.

        Raises
        ------
        KeyError
            As for `register_buffer`.
        TypeError
            If it is not a module.
        """
        self._check_name("module", name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        setattr(self, name, module)

    def _check_name(self, what: str, name: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"the name of a {what} must be a string without '.', not {name!r}")
        if name in vars(self) or hasattr(type(self), name):
            raise KeyError(f"attribute '{name}' already exists")

    # -- parts --------------------------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Return the modules that are attributes, each once, with their names."""
        seen: set[int] = set()
        for name, value in list(vars(self).items()):
            if isinstance(value, Module) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def children(self) -> Iterator[Module]:
        """Return the modules that are attributes, each once."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Return this module and all inside it, with their paths (``""`` for this one).

        Parameters
        ----------
        prefix : str, optional
            Prefix of every path.
        remove_duplicate : bool, optional
            Return a module that appears in several places only once.
        """
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate and id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            within = [(n, m) for n, m in vars(module).items() if isinstance(m, Module)]
            stack.extend((f"{path}.{name}" if path else name, child) for name, child in reversed(within))

    def modules(self) -> Iterator[Module]:
        """Return this module and all inside it, each once."""
        return (module for _, module in self.named_modules())

    def _tensors(
        self, wanted: Callable[[Module, str, Any], bool], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        """Return the matching attributes of this module and those inside it, with their paths."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix, remove_duplicate) if recurse else ((prefix, self),):
            for name, value in list(vars(module).items()):
                if value is None or not wanted(module, name, value) or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Return the parameters with their paths, as ``"hidden.weight"``.

        Parameters
        ----------
        prefix : str, optional
            Prefix of every path.
        recurse : bool, optional
            Whether to include those of the modules inside.
        remove_duplicate : bool, optional
            Return a parameter that appears in several places only once.
        """
        return self._tensors(lambda m, n, v: isinstance(v, Parameter), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Return the parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Return the buffers with their paths; this method's parameters are those of `named_parameters`."""
        return self._tensors(lambda m, n, v: n in m._buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Return the buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path, as ``"encoder.0"``.

        Raises
        ------
        AttributeError
            If there is none.
        """
        module: Module = self
        for name in filter(None, target.split(".")):
            found = vars(module).get(name)
            if not isinstance(found, Module):
                raise AttributeError(f"{type(module).__name__} has no submodule `{name}`")  # noqa: TRY004 (PyTorch's)
            module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path.

        Raises
        ------
        AttributeError
            If there is none.
        """
        found: Parameter = self._at(target, dict(self.named_parameters(remove_duplicate=False)), "parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path.

        Raises
        ------
        AttributeError
            If there is none.
        """
        found: Tensor = self._at(target, dict(self.named_buffers(remove_duplicate=False)), "buffer")
        return found

    def _at(self, target: str, known: dict[str, Any], what: str) -> Any:
        if target not in known:
            raise AttributeError(f"{type(self).__name__} has no {what} at {target!r}{errors.called()}")
        return known[target]

    # -- state ------------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        """Return the saved tensors by path, in PyTorch's order: per module, parameters first, then persistent buffers."""
        found: dict[str, Tensor] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            before = f"{path}." if path else ""
            own = list(vars(module).items())
            found.update((before + name, value) for name, value in own if isinstance(value, Parameter))
            found.update(
                (before + name, value) for name, value in own if value is not None and module._buffers.get(name)
            )
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return the values of all parameters and persistent buffers by path.

        Values are immutable, so this is a snapshot: further training does not change it, and it costs no copy. Changing one in
        place before further training changes the module's too, as in PyTorch; afterwards it changes only this one, and warns.
        `agrad.save` writes it to a file.

        Examples
        --------
        >>> import agrad as ag
        >>> list(ag.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        return {path: tensor.data for path, tensor in self._state().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Load the values of a `state_dict`; they are converted to the module's dtypes and devices.

        Parameters
        ----------
        state_dict : mapping of str to Tensor or array
            Values by path.
        strict : bool, optional
            Whether to refuse missing and unexpected paths.

        Returns
        -------
        IncompatibleKeys
            ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        RuntimeError
            If paths are missing or unexpected (and `strict`), or shapes differ; the message lists all of them. The
            module is then unchanged.
        TypeError
            If `state_dict` is not a mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        own = self._state()
        missing = [path for path in own if path not in state_dict]
        unexpected = [path for path in state_dict if path not in own]
        wrong = []
        if strict and unexpected:
            wrong.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}.")
        if strict and missing:
            wrong.append(f"Missing key(s) in state_dict: {_quoted(missing)}.")
        found: list[tuple[Tensor, Tensor]] = []
        for path, tensor in own.items():
            if path not in state_dict:
                continue
            given = state_dict[path]
            value = given.detach() if isinstance(given, Tensor) else asarray(given, copy=True)
            if value.shape != tensor.shape:
                wrong.append(
                    f"size mismatch for {path}: copying a param with shape {value.shape} from checkpoint, the shape in"
                    f" current model is {tensor.shape}."
                )
            elif value._spec.is_complex and not tensor._spec.is_complex:
                wrong.append(f"dtype mismatch for {path}: {value.dtype} cannot be copied to {tensor.dtype}.")
            else:
                found.append((tensor, value))
        if wrong:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *wrong]))
        # do all conversions before the first assignment, so that a failing one leaves the module unchanged
        converted = [(t, astype(to_device(value, t.device), t.dtype, copy=False)) for t, value in found]
        assign_data(
            [tensor for tensor, _ in converted],
            [value._raw for _, value in converted],
            [value._spec for _, value in converted],
        )
        return IncompatibleKeys(missing, unexpected)

    # -- modes and conversions ----------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set this module and all inside it to training mode, or not: `Dropout` only acts in training mode.

        Raises
        ------
        ValueError
            If `mode` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")  # noqa: TRY004 (PyTorch's)
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set this module and all inside it to evaluation mode."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach() * 0

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Start or stop training all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call a function with every module: with the children's in their order, then with this one, as PyTorch does."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False) -> Self:
        """Convert parameters, their gradients and buffers; they stay the same objects.

        Parameters
        ----------
        *args : dtype, str or Tensor
            A dtype, a device, or a tensor that determines both.
        dtype : optional
            Floating point; integer and boolean buffers keep theirs.
        device : str, optional
            ``"<backend>[:<device>]"``.
        non_blocking : bool, optional
            Ignored: the library's own queue determines what waits.

        Raises
        ------
        TypeError
            If the dtype is neither real nor complex floating point.
        BackendError
            If the device is unknown or unusable.

        Examples
        --------
        >>> import agrad as ag
        >>> ag.nn.Linear(2, 1).to(ag.float32).weight.dtype
        dtype('float32')
        """
        for arg in args:
            if isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, str) and not arg.startswith(("float", "complex", "int", "uint", "bool", "bfloat")):
                device = arg
            elif arg is not None:
                dtype = arg
        if dtype is not None and not isdtype(dtype, ("real floating", "complex floating")):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def moved(tensor: Tensor) -> Tensor:
            value = tensor.detach()
            value = value if device is None else to_device(value, device)
            if dtype is None or not value._spec.inexact:
                return value
            return astype(value, value._spec.backend.dtype(dtype), copy=False)

        tensors = [*self.parameters(), *self.buffers()]
        values = [moved(t) for t in tensors]
        grads = [None if t.grad is None else moved(t.grad) for t in tensors]
        assign_data(tensors, [value._raw for value in values], [value._spec for value in values], grads)
        return self

    def cpu(self) -> Self:
        """Move to the numpy backend."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move to the cupy backend, the counterpart of PyTorch's ``cuda``; `device` is a number, or ``"cuda:0"``."""
        number = "" if device is None else str(device).removeprefix("cuda").removeprefix(":")
        return self.to(f"cupy:{number}" if number else "cupy")

    def half(self) -> Self:
        """Convert to float16."""
        return self.to("float16")

    def double(self) -> Self:
        """Convert to float64."""
        return self.to("float64")

    def float(self) -> Self:
        """Convert to float32."""
        return self.to("float32")

    # -- text -------------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text in the module's own parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        within = [
            f"({name}): " + repr(child).replace("\n", "\n  ")
            for name, child in vars(self).items()
            if isinstance(child, Module)
        ]
        if not within:
            return f"{type(self).__name__}({extra})"
        lines = "".join(f"\n  {line}" for line in ([extra] if extra else []) + within)
        return f"{type(self).__name__}({lines}\n)"

    def _repr_html_(self) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (for notebooks only)

        parameters = [(name, tuple(p.shape), p.dtype, p.device) for name, p in self.named_parameters()]
        head = ("parameter", "shape", "dtype", "device")
        return notebook.text(repr(self)) + (notebook.table(head, parameters) if parameters else "")


def _quoted(paths: list[str]) -> str:
    return ", ".join(f'"{path}"' for path in paths)


#: The code between a user's call of a module and its `forward`.
_CALLING = (Module.__call__.__code__, Module._called.__code__, Module._watched.__code__)


def _refused(module: Module, error: TypeError) -> names.UnexpectedKeyword | None:
    """Return the error for a keyword that a `forward` of agrad's does not take; None if `error` is another one."""
    written = names.refused(error, *_CALLING) if module.forward.__module__.startswith("agrad.") else None
    if written is None:
        return None
    named = next(each for each in type(module).__mro__ if each.__module__.startswith("agrad."))
    return names.UnexpectedKeyword(f"{named.__name__}.forward", written)
