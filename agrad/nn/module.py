"""Module: parameters, buffers and other modules by name, to be trained, moved, saved and loaded together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.nn.parameter import Parameter
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype, to_device


class Module:
    """A part of a network: parameters, buffers and other modules as attributes, and ``forward``.

    What an attribute is decides its part: a `Parameter` is trained, a `Module` is walked into; `register_buffer` says
    which other tensors belong to the state.

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

    training: bool = True
    #: Names of buffers, and whether each belongs to the state that is saved.
    _buffers: Mapping[str, bool] = {}

    def __init__(self) -> None:
        self._buffers = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        message = f'Module [{type(self).__name__}] is missing the required "forward" function'
        raise NotImplementedError(message)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

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

        Raises
        ------
        KeyError
            If there is an attribute of the name.
        TypeError
            If it is no Tensor.
        """
        self._check_new(name)
        if tensor is not None and not isinstance(tensor, Tensor):
            message = (
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (agrad.Tensor or None required)"
            )
            raise TypeError(message)
        self._buffers = {**self._buffers, name: persistent}
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or note that there is none of the name."""
        if param is not None and not isinstance(param, Parameter):
            message = (
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (Parameter or None required)"
            )
            raise TypeError(message)
        self._check_new(name)
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module under a name."""
        if module is not None and not isinstance(module, Module):
            message = f"{type(module).__name__} is not a Module subclass"
            raise TypeError(message)
        self._check_new(name)
        setattr(self, name, module)

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            message = f"the name of a parameter, buffer or module must be a string without '.', not {name!r}"
            raise KeyError(message)
        if hasattr(self, name):
            message = f"attribute '{name}' already exists"
            raise KeyError(message)

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
            children = [(f"{name}.{n}" if name else n, m) for n, m in module.named_children()]
            stack.extend(reversed(children))

    def modules(self) -> Iterator[Module]:
        """Give this module and all below it."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Give the modules directly below with their names."""
        return ((n, m) for n, m in vars(self).items() if isinstance(m, Module))

    def children(self) -> Iterator[Module]:
        """Give the modules directly below."""
        return (module for _, module in self.named_children())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Give all parameters with their dotted names, each once."""
        seen: set[int] = set()
        for name, p in self._named_parameters():
            if id(p) not in seen:
                seen.add(id(p))
                yield name, p

    def _named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Parameter):
                    yield (f"{prefix}.{name}" if prefix else name), value

    def parameters(self) -> Iterator[Parameter]:
        """Give all parameters, each once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self, *, persistent: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Give all buffers with their dotted names, or those that belong to the state."""
        for prefix, module in self.named_modules():
            for name, kept in module._buffers.items():
                value = vars(module).get(name)
                if value is not None and (kept or not persistent):
                    yield (f"{prefix}.{name}" if prefix else name), value

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
            module.training = mode
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
        return {**dict(self._named_parameters()), **dict(self.named_buffers(persistent=True))}

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
        lines = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self.named_children()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"
