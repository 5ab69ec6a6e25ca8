"""PyTorch's names for networks on several devices; here they compute on the one that holds their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.nn.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A wrapper around a module: nothing is split, as a pass runs on one device.

    Parameters
    ----------
    module : Module
        The module to call, as the attribute ``module``: names in `state_dict` begin with ``module.``, as in PyTorch.
    device_ids, output_device, dim : optional
        Accepted for PyTorch compatibility and ignored.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.DataParallel(ag.nn.ReLU())(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's result."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,  # noqa: ARG001 (as of `DataParallel`)
    output_device: Any = None,  # noqa: ARG001
    dim: int = 0,  # noqa: ARG001
    module_kwargs: Any = None,
) -> Any:
    """Call a module: nothing is split, as a pass runs on one device.

    Parameters
    ----------
    module : Module
        The module to call.
    inputs : Tensor or tuple
        Its arguments.
    device_ids, output_device, dim : optional
        Accepted for PyTorch compatibility and ignored.
    module_kwargs : dict, optional
        Its keyword arguments.

    Returns
    -------
    Any
        The module's result.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.parallel.data_parallel(ag.nn.ReLU(), ag.tensor([-1.0, 2.0]), range(2))
    tensor([0., 2.])
    """
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
