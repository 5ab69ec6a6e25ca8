"""Parameter and Module: parameters by name, to be trained, moved, saved and loaded together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype, to_device


class Parameter(Tensor):
    """A leaf that a `Module` finds when it is made an attribute.

    Parameters
    ----------
    data : Tensor, array or nested sequence
        The initial value.
    requires_grad : bool, optional
        False freezes it.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Parameter(ag.zeros((2,)))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        value = asarray(data).detach()
        self._data, self._spec, self._node = value._data, value._spec, None
        if requires_grad:
            self.requires_grad = True


class Module:
    """A part of a network: parameters, buffers and other modules as attributes, and ``forward``.

    Examples
    --------
    >>> import agrad as ag
    >>> class Scale(ag.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = ag.nn.Parameter(ag.ones((1,)))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> list(Scale().state_dict())
    ['factor']
    """

    training: bool

    def __init__(self) -> None:
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_temporary", set())
        object.__setattr__(self, "training", True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        message = f'Module [{type(self).__name__}] is missing the required "forward" function'
        raise NotImplementedError(message)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # -- attributes ---------------------------------------------------------------------------------------------------

    def _tables(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        tables = tuple(self.__dict__.get(name) for name in ("_parameters", "_buffers", "_modules"))
        if None in tables:
            message = f"call super().__init__() in {type(self).__name__}.__init__() before assigning parameters or modules"
            raise AttributeError(message)
        return tables  # type: ignore[return-value]

    def __setattr__(self, name: str, value: Any) -> None:
        kind = 0 if isinstance(value, Parameter) else 2 if isinstance(value, Module) else None
        if kind is None and "_parameters" not in self.__dict__:
            object.__setattr__(self, name, value)
            return
        tables = self._tables()
        if kind is not None:
            for table in (*tables, self.__dict__):
                table.pop(name, None)
            tables[kind][name] = value
        elif name in tables[0] or name in tables[2]:
            if value is not None:
                what = "parameter" if name in tables[0] else "child module"
                expected = "agrad.nn.Parameter" if name in tables[0] else "agrad.nn.Module"
                message = f"cannot assign '{type(value).__name__}' as {what} '{name}' ({expected} or None expected)"
                raise TypeError(message)
            tables[0 if name in tables[0] else 2][name] = None
        elif name in tables[1]:
            if value is not None and not isinstance(value, Tensor):
                message = f"cannot assign '{type(value).__name__}' as buffer '{name}' (agrad.Tensor or None expected)"
                raise TypeError(message)
            tables[1][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        message = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError(message)

    def __delattr__(self, name: str) -> None:
        for table in self._tables():
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for table in self._tables() for name in table)})

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not trained.

        Parameters
        ----------
        name : str
            The attribute.
        tensor : Tensor or None
            Its value.
        persistent : bool, optional
            Whether it belongs to `state_dict`.
        """
        if hasattr(self, name):
            message = f"attribute '{name}' already exists"
            raise KeyError(message)
        self._tables()[1][name] = tensor
        if not persistent:
            self._temporary.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or note that there is none of the name."""
        if param is not None and not isinstance(param, Parameter):
            message = f"cannot assign '{type(param).__name__}' object to parameter '{name}' (Parameter or None required)"
            raise TypeError(message)
        self._tables()[0][name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module under a name."""
        if module is not None and not isinstance(module, Module):
            message = f"{type(module).__name__} is not a Module subclass"
            raise TypeError(message)
        self._tables()[2][name] = module

    # -- walking --------------------------------------------------------------------------------------------------------

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Give this module and all below it with their dotted names, each module once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            children = [(f"{name}.{n}" if name else n, m) for n, m in module._modules.items() if m is not None]
            stack.extend(reversed(children))

    def modules(self) -> Iterator[Module]:
        """Give this module and all below it."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Give the modules directly below with their names."""
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        """Give the modules directly below."""
        return (module for _, module in self.named_children())

    def _named(self, table: str) -> Iterator[tuple[str, Any, Module]]:
        for prefix, module in self.named_modules():
            for name, value in module.__dict__[table].items():
                if value is not None:
                    yield (f"{prefix}.{name}" if prefix else name), value, module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Give all parameters with their dotted names, each once."""
        seen: set[int] = set()
        for name, value, _ in self._named("_parameters"):
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self) -> Iterator[Parameter]:
        """Give all parameters, each once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Give all buffers with their dotted names."""
        return ((name, value) for name, value, _ in self._named("_buffers"))

    def buffers(self) -> Iterator[Tensor]:
        """Give all buffers."""
        return (b for _, b in self.named_buffers())

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function on every module, those below first."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    # -- modes ----------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set whether this is training: dropout drops only then."""
        for module in self.modules():
            object.__setattr__(module, "training", mode)
        return self

    def eval(self) -> Self:
        """Set that this is not training."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all parameters, or thaw them."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = p.grad.detach().zero_()

    def to(self, device: Any = None, dtype: Any = None) -> Self:
        """Move parameters and buffers, and convert the floating ones; they stay the same objects.

        Parameters
        ----------
        device : str, optional
            ``"<backend>[:<device>]"``.
        dtype : DType, optional
            A floating dtype.
        """
        for tensor in (*self.parameters(), *self.buffers()):
            value = tensor.detach()
            if device is not None:
                value = to_device(value, device)
            if dtype is not None and value._spec.inexact:
                value = astype(value, dtype, copy=False)
            tensor.data = value
            if tensor.grad is not None:
                grad = to_device(tensor.grad.detach(), value.device)
                tensor.grad = astype(grad, value.dtype, copy=False)
        return self

    # -- state ----------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        state: dict[str, Tensor] = {name: value for name, value, _ in self._named("_parameters")}
        for name, value, owner in self._named("_buffers"):
            if name.rpartition(".")[2] not in owner._temporary:
                state[name] = value
        return state

    def state_dict(self) -> dict[str, Tensor]:
        """Give the values of parameters and buffers by dotted name, detached; `agrad.save` writes it."""
        return {name: value.detach() for name, value in self._state().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Take over what `state_dict` gave.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            Values by dotted name.
        strict : bool, optional
            False ignores names that are missing here or there.

        Raises
        ------
        RuntimeError
            If names or shapes do not match; the module is then as it was.
        """
        own = self._state()
        problems = []
        missing, unexpected = [k for k in own if k not in state_dict], [k for k in state_dict if k not in own]
        if strict and unexpected:
            problems.append("Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ".")
        if strict and missing:
            problems.append("Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ".")
        values = {name: asarray(state_dict[name]).detach() for name in own if name in state_dict}
        for name, value in values.items():
            if value.shape != own[name].shape:
                problems.append(
                    f"size mismatch for {name}: copying a param with shape {value.shape} from checkpoint, the shape in"
                    f" current model is {own[name].shape}."
                )
        if problems:
            message = f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems)
            raise RuntimeError(message)
        with no_grad:
            for name, value in values.items():
                own[name].copy_(value)

    # -- text -----------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Give what stands between the parentheses of the text."""
        return ""

    def __repr__(self) -> str:
        lines = [
            f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items() if module
        ]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"


class Sequential(Module):
    """Modules one after the other.

    Parameters
    ----------
    *modules : Module
        Or one dict of them by name.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Sequential(ag.nn.Linear(2, 3), ag.nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], dict) else dict(enumerate(modules))
        for name, module in named.items():
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Module:
        modules = list(self.children())
        return Sequential(*modules[index]) if isinstance(index, slice) else modules[index]
