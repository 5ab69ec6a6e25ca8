"""agrad: define-by-run automatic differentiation for any array library.

PyTorch's autograd in its way of working, the Python array API standard in its way of computing; array libraries are
plugins. ``agrad.backends()`` lists those that are installed.
"""

from __future__ import annotations

import math as _math
from types import SimpleNamespace as _SimpleNamespace
from typing import TYPE_CHECKING

from agrad.core import forward as _forward  # noqa: F401 (puts itself in place)
from agrad.core import tensor as _tensor
from agrad.core.declare import custom, elementwise, fused, linear, multilinear, nondifferentiable
from agrad.core.errors import BackendError, LeavesGraphWarning, RuleError, UnsupportedOp
from agrad.core.function import Function
from agrad.core.hooks import hooks_of as _hooks_of
from agrad.core.mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from agrad.core.op import OPS as _OPS
from agrad.core.rules import rules
from agrad.core.tensor import Tensor
from agrad.dtypes import (
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from agrad.ops import linalg
from agrad.ops import methods as _methods
from agrad.ops.creation import (
    arange,
    as_tensor,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from agrad.ops.creation import legacy_double_tensor as DoubleTensor
from agrad.ops.creation import legacy_float_tensor as FloatTensor
from agrad.ops.data_type import (
    astype,
    can_cast,
    finfo,
    iinfo,
    is_floating_point,
    is_tensor,
    isdtype,
    result_type,
    to_device,
)
from agrad.ops.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from agrad.ops.linalg import matmul, outer, tensordot, vecdot
from agrad.ops.manipulation import (
    broadcast_arrays,
    broadcast_like,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    tril,
    triu,
    unstack,
)
from agrad.ops.namespace import API_VERSION as __array_api_version__
from agrad.ops.namespace import namespace
from agrad.ops.searching import (
    argmax,
    argmin,
    argsort,
    count_nonzero,
    getitem,
    nonzero,
    scatter_add,
    searchsorted,
    setitem,
    sort,
    take,
    take_along_axis,
    where,
)
from agrad.ops.ufunc import call_ufunc as _call_ufunc
from agrad.ops.statistical import (
    all,
    any,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from agrad.plugin.backend import CONTRACT, Backend, Device
from agrad.plugin.manager import (
    default_backend,
    get_default_dtype,
    register,
    set_default_backend,
    set_default_dtype,
    use_backend,
)
from agrad.plugin.manager import to_numpy as _to_numpy

from agrad import autograd, backends, nn, optim, random, tree, view  # isort: skip (they use what stands above)
from agrad.autograd.backward import backward, grad  # isort: skip
from agrad.random import manual_seed, permutation, rand, rand_like, randint, randn, randn_like, randperm  # isort: skip
from agrad.serialization import load, save  # isort: skip

if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi


def __array_namespace_info__() -> Any:
    """Give the standard's inspection object, for the default backend."""
    return namespace().__array_namespace_info__()


def __getattr__(name: str) -> Any:
    if name in _OPS:  # one that the user has declared
        return _OPS[name].entry
    message = f"module 'agrad' has no attribute {name!r}"
    raise AttributeError(message)


# The core ranks below what the methods of Tensor stand for; they meet here.
_methods.attach()
_tensor.functions = _SimpleNamespace(
    Device=Device,
    any=any,
    asarray=asarray,
    astype=astype,
    backward=backward,
    call_ufunc=_call_ufunc,
    empty=empty,
    finfo=finfo,
    get_default_dtype=get_default_dtype,
    hooks_of=_hooks_of,
    namespace=namespace,
    text_of=view.text_of,
    to_device=to_device,
    to_numpy=_to_numpy,
    unstack=unstack,
)
