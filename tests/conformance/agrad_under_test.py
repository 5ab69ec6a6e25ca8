"""The module that array-api-tests is pointed at: agrad, or one of its bound namespaces, perhaps with gradients required.

``AGRAD_UNDER_TEST`` names it: ``agrad`` (the default) or a backend, of which ``strict`` is that of these tests. With
``AGRAD_GRADIENTS=1`` every floating operand is made to require a gradient where it enters an operation, and every
result is differentiated on the spot: shapes, dtypes and special values that the suite draws go through the rules too.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path

import agrad as ag
from agrad.core.buffers import rebind
from agrad.ops import methods
from agrad.ops.namespace import SUBNAMESPACES, public_functions

NAME = os.environ.get("AGRAD_UNDER_TEST", "agrad")

#: What leaves the graph, or only asks: given as it is.
LEFT_ALONE = ("__array_namespace_info__", "can_cast", "finfo", "from_dlpack", "iinfo", "isdtype", "result_type")

#: Not differentiated on the spot: a cotangent of ones asks for what no derivative gives (the phase of vectors, columns
#: beyond the rank, a singular matrix), and agrad raises.
ILL_DEFINED = ("eig", "eigh", "qr", "slogdet", "svd")


def namespace():
    """Give what is tested."""
    if NAME == "agrad":
        return ag
    if NAME == "strict" and all(row.name != "strict" for row in ag.backends()):
        path = Path(__file__).parents[1] / "strict_backend.py"
        spec = importlib.util.spec_from_file_location("strict_backend", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        ag.register(module.StrictPlugin())
    return ag.namespace(NAME)


# -- with gradients required ----------------------------------------------------------------------------------------------


def track(value, leaves):
    """Give a leaf that requires a gradient for an operand that can; `leaves` collects them."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(track(v, leaves) for v in value)
    if not isinstance(value, ag.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    leaves.append(value.detach().requires_grad_())
    return leaves[-1]


def differentiate(result, leaves):
    """Run the derivative of each result backward, and check what comes out as far as that can be known."""
    for part in result if isinstance(result, tuple | list) else (result,):
        if isinstance(part, ag.Tensor) and part.requires_grad:
            found = ag.grad(part, leaves, ag.ones_like(part), retain_graph=True, allow_unused=True)
            for leaf, gradient in zip(leaves, found, strict=True):
                assert gradient is None or (gradient.shape, gradient.dtype) == (leaf.shape, leaf.dtype)


def tracked(function):
    """Wrap a function or method so that its floating operands require gradients."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        leaves = []
        result = function(*track(args, leaves), **{name: track(value, leaves) for name, value in kwargs.items()})
        if leaves and function.__name__ not in ILL_DEFINED:
            differentiate(result, leaves)
        return result

    return call


def tracked_in_place(method):
    """Wrap an in-place method: its target becomes a result that requires a gradient, as a leaf may not be changed."""

    @functools.wraps(method)
    def call(self, *args):
        leaves = []
        start = track(self, leaves)
        if leaves:
            rebind(self, ag.positive(start), "the start of an in-place operation")
        result = method(self, *track(args, leaves))
        if leaves:
            differentiate(self, leaves)
        return result

    return call


def require_gradients(found):
    """Give the namespace with every function wrapped, and wrap the operators of `Tensor`."""
    names = {*public_functions(), *LEFT_ALONE}
    made = {n: getattr(found, n) if n in LEFT_ALONE else tracked(getattr(found, n)) for n in names}
    for name, chapters in SUBNAMESPACES.items():
        here = getattr(found, name)
        public = {n: getattr(here, n) for chapter in chapters for n in chapter.__all__}
        made[name] = type("Chapter", (), {n: staticmethod(tracked(f)) for n, f in public.items()})
    for name in methods.BINARY:
        for spelling in (f"__{name}__", f"__r{name}__"):
            setattr(ag.Tensor, spelling, tracked(getattr(ag.Tensor, spelling)))
        setattr(ag.Tensor, f"__i{name}__", tracked_in_place(getattr(ag.Tensor, f"__i{name}__")))
    for name in (*methods.COMPARISON, *methods.UNARY, "getitem"):
        setattr(ag.Tensor, f"__{name}__", tracked(getattr(ag.Tensor, f"__{name}__")))
    ag.Tensor.__setitem__ = tracked_in_place(ag.Tensor.__setitem__)
    return made


_found = namespace()
_made = require_gradients(_found) if os.environ.get("AGRAD_GRADIENTS") == "1" else {}
globals().update(_made)
__array_api_version__ = _found.__array_api_version__


def __getattr__(name):
    return getattr(_found, name)
