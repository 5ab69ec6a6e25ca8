"""Modules that hold modules or parameters: in sequence, as a list, by name."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from agrad.core.tensor import Tensor
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Indexed(Module):
    """Modules by number, as attributes ``"0"``, ``"1"``..."""

    def _items(self) -> list[Module]:
        return [value for value in vars(self).values() if isinstance(value, Module)]

    def _names(self) -> list[str]:
        return [name for name, value in vars(self).items() if isinstance(value, Module)]

    def _replace(self, modules: Iterable[Module]) -> None:
        """Hold these modules, numbered from 0."""
        modules = list(modules)
        for name in self._names():
            delattr(self, name)
        for i, module in enumerate(modules):
            setattr(self, str(i), _checked(module))

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._items())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module | Self:
        return self._part(index) if isinstance(index, slice) else self._items()[operator.index(index)]

    def _part(self, index: slice) -> Self:
        made = type(self)()
        made._replace(self._items()[index])
        return made

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._names()[operator.index(index)], _checked(module))

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._replace(items)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        setattr(self, str(len(self)), _checked(module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before a place."""
        items = self._items()
        items.insert(index, module)
        self._replace(items)
        return self


def _checked(module: Any) -> Module:
    if not isinstance(module, Module):
        raise TypeError(f"{type(module).__name__} is not a Module subclass")
    return module


class Sequential(_Indexed):
    """Modules called one after another, each with the result of the previous one.

    Parameters
    ----------
    *modules : Module
        In order; or one dict of them, whose keys become their names.

    Raises
    ------
    TypeError
        If one is not a module.

    Examples
    --------
    >>> import agrad as ag
    >>> net = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.ReLU(), ag.nn.Linear(8, 2))
    >>> net(ag.ones((3, 4))).shape
    (3, 2)
    >>> net
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, _checked(module))
        else:
            self._replace(modules)

    def _part(self, index: slice) -> Self:
        """Return some of the modules under the names that they have here, as PyTorch does."""
        made = type(self)()
        made._replace(())  # a class of one's own may make some
        for name in self._names()[index]:
            made.add_module(name, getattr(self, name))
        return made

    def forward(self, input: Any) -> Any:
        for module in self._items():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules, whose parameters belong to the module that holds the list.

    Parameters
    ----------
    modules : iterable of Module, optional
        The members.

    Examples
    --------
    >>> import agrad as ag
    >>> layers = ag.nn.ModuleList(ag.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self._replace(modules)


class ModuleDict(Module):
    """Modules by name, whose parameters belong to the module that holds them.

    Parameters
    ----------
    modules : mapping of str to Module, optional
        The members.

    Examples
    --------
    >>> import agrad as ag
    >>> heads = ag.nn.ModuleDict({"mean": ag.nn.Linear(2, 1), "scale": ag.nn.Linear(2, 1)})
    >>> heads["mean"]
    Linear(in_features=2, out_features=1, bias=True)
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        found = vars(self).get(name)
        if not isinstance(found, Module):
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, module: Module) -> None:
        if name not in self:
            self.add_module(name, _checked(module))
        else:
            setattr(self, name, _checked(module))

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(vars(self).get(name), Module)  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Return the names."""
        return [name for name, value in vars(self).items() if isinstance(value, Module)]

    def values(self) -> list[Module]:
        """Return the modules."""
        return [value for value in vars(self).values() if isinstance(value, Module)]

    def items(self) -> list[tuple[str, Module]]:
        """Return names and modules."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Module)]


class ParameterList(Module):
    """A list of parameters, which belong to the module that holds the list.

    Parameters
    ----------
    values : iterable of Tensor, optional
        The members; tensors become parameters.

    Examples
    --------
    >>> import agrad as ag
    >>> weights = ag.nn.ParameterList(ag.ones(2) for _ in range(3))
    >>> len(weights), [name for name, _ in weights.named_parameters()]
    (3, ['0', '1', '2'])
    """

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.extend(values)

    def __len__(self) -> int:
        return sum(name.isdigit() for name in vars(self))

    def __iter__(self) -> Iterator[Parameter]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Parameter:
        found: Parameter = vars(self)[str(range(len(self))[index])]
        return found

    def __setitem__(self, index: int, value: Tensor) -> None:
        setattr(self, str(range(len(self))[index]), _parameter(value))

    def append(self, value: Tensor) -> Self:
        """Append a parameter."""
        self.register_parameter(str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Append parameters."""
        for value in values:
            self.append(value)
        return self


class ParameterDict(Module):
    """Parameters by name, which belong to the module that holds them.

    Parameters
    ----------
    parameters : mapping of str to Tensor, optional
        The members; tensors become parameters.

    Examples
    --------
    >>> import agrad as ag
    >>> scales = ag.nn.ParameterDict({"left": ag.ones(1), "right": ag.ones(1)})
    >>> [name for name, _ in scales.named_parameters()]
    ['left', 'right']
    """

    def __init__(self, parameters: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        for name, value in (parameters or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> Parameter:
        found = vars(self).get(name)
        if not isinstance(found, Parameter):
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: Tensor) -> None:
        if name in self:
            setattr(self, name, _parameter(value))
        else:
            self.register_parameter(name, _parameter(value))

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(vars(self).get(name), Parameter)  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Return the names."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Parameter]:
        """Return the parameters."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[str, Parameter]]:
        """Return names and parameters."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Parameter)]


def _parameter(value: Tensor) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value)
