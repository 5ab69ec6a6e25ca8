"""Makes ``import autograd`` import this package, on request."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from agrad.core.errors import called

__all__ = ["install", "uninstall"]

#: The package that answers, and the name it answers to.
HOME, NAME = "agrad.compat.autograd", "autograd"


def install() -> None:
    """Answer to ``import autograd`` and its submodules with this package, for libraries that import them.

    Nothing else does so, and `uninstall` reverts it. Call it before a library that uses autograd is imported.

    Raises
    ------
    RuntimeError
        If another ``autograd`` has been imported.

    Examples
    --------
    >>> from agrad.compat import autograd
    >>> autograd.install()
    >>> from autograd import grad
    >>> grad is autograd.grad
    True
    >>> autograd.uninstall()
    """
    package = importlib.import_module(HOME)
    other = sys.modules.get(NAME)
    if other not in (None, package):
        raise RuntimeError(
            f"autograd has been imported from {getattr(other, '__file__', other)}: later imports would find that module."
            f"\n  Call install() before anything imports autograd.{called()}"
        )
    for found in pkgutil.walk_packages(package.__path__, f"{HOME}."):
        importlib.import_module(found.name)
    for name, module in [*sys.modules.items()]:  # including NumPy's random numbers, which are not a file of the package
        if name == HOME or name.startswith(f"{HOME}."):
            sys.modules[NAME + name.removeprefix(HOME)] = module


def uninstall() -> None:
    """Stop replacing ``import autograd``; modules already imported under that name are not changed.

    Examples
    --------
    >>> from agrad.compat import autograd
    >>> autograd.uninstall()
    """
    package = importlib.import_module(HOME)
    if sys.modules.get(NAME) is package:
        for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
            del sys.modules[name]
