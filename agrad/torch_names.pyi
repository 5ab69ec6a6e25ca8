"""PyTorch's names of `agrad`, to type checkers. Written by docs/make_methods.py."""

import builtins
from collections.abc import Sequence
from typing import Any

from agrad.core.tensor import Tensor
from agrad.dtypes import DType
from agrad.ops.torch_methods import Axis
from agrad.torch_functions import BoolTensor as BoolTensor
from agrad.torch_functions import ByteTensor as ByteTensor
from agrad.random import Generator as _Generator
from agrad.torch_functions import HalfTensor as HalfTensor
from agrad.torch_functions import IntTensor as IntTensor
from agrad.torch_functions import LongTensor as LongTensor
from agrad.torch_functions import ShortTensor as ShortTensor
from agrad.torch_functions import Size as Size
from agrad.ops.elementwise import abs as _abs
from agrad.torch_functions import accelerator as accelerator
from agrad.torch_functions import addbmm as addbmm
from agrad.torch_functions import addmv as addmv
from agrad.torch_functions import addr as addr
from agrad.torch_functions import adjoint as adjoint
from agrad.torch_functions import aminmax as aminmax
from agrad.torch_functions import angle as angle
from agrad.ops.elementwise import acos as _acos
from agrad.ops.elementwise import acosh as _acosh
from agrad.ops.elementwise import asin as _asin
from agrad.ops.elementwise import asinh as _asinh
from agrad.ops.elementwise import atan as _atan
from agrad.ops.elementwise import atan2 as _atan2
from agrad.ops.elementwise import atanh as _atanh
from agrad.torch_functions import argwhere as argwhere
from agrad.ops.extra.shaping import atleast_1d as _atleast_1d
from agrad.ops.extra.shaping import atleast_2d as _atleast_2d
from agrad.ops.extra.shaping import atleast_3d as _atleast_3d
from agrad.torch_functions import baddbmm as baddbmm
from agrad.torch_functions import bernoulli as bernoulli
from agrad.torch_functions import bincount as bincount
from agrad.ops.elementwise import bitwise_invert as _bitwise_invert
from agrad.scipy.linalg import block_diag as _block_diag
from agrad.ops.manipulation import broadcast_arrays as _broadcast_arrays
from agrad.torch_functions import bucketize as bucketize
from agrad.torch_functions import cartesian_prod as cartesian_prod
from agrad.torch_functions import cdist as cdist
from agrad.torch_functions import chain_matmul as chain_matmul
from agrad.torch_functions import cholesky_solve as cholesky_solve
from agrad.ops.extra.joining import column_stack as _column_stack
from agrad.torch_functions import complex as complex
from agrad.ops.extra.joining import cat as _cat
from agrad.ops.elementwise import conj as _conj
from agrad.ops.extra.statistics import corrcoef as _corrcoef
from agrad.ops.extra.statistics import cov as _cov
from agrad.torch_functions import cross as cross
from agrad.torch_functions import cuda as cuda
from agrad.torch_functions import cummax as cummax
from agrad.torch_functions import cummin as cummin
from agrad.torch_functions import cumulative_trapezoid as cumulative_trapezoid
from agrad.ops.extra.numerics import deg2rad as _deg2rad
from agrad.torch_functions import device as device
from agrad.torch_functions import diag_embed as diag_embed
from agrad.torch_functions import diagflat as diagflat
from agrad.torch_functions import dist as dist
from agrad.numpy.joining import dsplit as _dsplit
from agrad.ops.extra.joining import dstack as _dstack
from agrad.ops.elementwise import trunc as _trunc
from agrad.torch_functions import fliplr as fliplr
from agrad.torch_functions import flipud as flipud
from agrad.torch_functions import float_power as float_power
from agrad.ops.extra.numerics import fmax as _fmax
from agrad.ops.extra.numerics import fmin as _fmin
from agrad.torch_functions import fmod as fmod
from agrad.torch_functions import frac as frac
from agrad.ops.linalg import outer as _outer
from agrad.torch_functions import get_rng_state as get_rng_state
from agrad.ops.extra.numerics import heaviside as _heaviside
from agrad.ops.extra.joining import hsplit as _hsplit
from agrad.ops.special.bessels import i0 as _i0
from agrad.ops.special.incomplete import gammainc as _gammainc
from agrad.ops.special.incomplete import gammaincc as _gammaincc
from agrad.torch_functions import initial_seed as initial_seed
from agrad.ops.extra.products import inner as _inner
from agrad.torch_functions import is_nonzero as is_nonzero
from agrad.numpy.elements import isneginf as _isneginf
from agrad.numpy.elements import isposinf as _isposinf
from agrad.numpy.elements import isreal as _isreal
from agrad.torch_functions import kthvalue as kthvalue
from agrad.torch_functions import ldexp as ldexp
from agrad.torch_functions import logdet as logdet
from agrad.torch_functions import logspace as logspace
from agrad.scipy.linalg import expm as _expm
from agrad.torch_functions import mm as mm
from agrad.torch_functions import mode as mode
from agrad.torch_functions import msort as msort
from agrad.torch_functions import multinomial as multinomial
from agrad.torch_functions import mvlgamma as mvlgamma
from agrad.torch_functions import normal as normal
from agrad.ops.solving import pinv as _pinv
from agrad.torch_functions import polar as polar
from agrad.ops.special.gammas import polygamma as _polygamma
from agrad.ops.data_type import result_type as _result_type
from agrad.ops.extra.numerics import rad2deg as _rad2deg
from agrad.torch_functions import randint_like as randint_like
from agrad.torch_functions import resolve_conj as resolve_conj
from agrad.torch_functions import rot90 as rot90
from agrad.ops.extra.joining import vstack as _vstack
from agrad.torch_functions import set_rng_state as set_rng_state
from agrad.ops.elementwise import sign as _sign
from agrad.ops.special.elementary import sinc as _sinc
from agrad.ops.solving import slogdet as _slogdet
from agrad.ops.sparse import sparse_coo_tensor as _sparse_coo_tensor
from agrad.torch_functions import split as split
from agrad.ops.sparse import mm as _mm
from agrad.torch_functions import std_mean as std_mean
from agrad.torch_functions import svd as svd
from agrad.torch_functions import tensor_split as tensor_split
from agrad.torch_functions import trapezoid as trapezoid
from agrad.torch_functions import trapz as trapz
from agrad.torch_functions import tril_indices as tril_indices
from agrad.torch_functions import triu_indices as triu_indices
from agrad.ops.elementwise import divide as _divide
from agrad.torch_functions import unique as unique
from agrad.torch_functions import unique_consecutive as unique_consecutive
from agrad.torch_functions import vander as vander
from agrad.torch_functions import var_mean as var_mean
from agrad.torch_functions import vdot as vdot
from agrad.torch_functions import view_as_complex as view_as_complex
from agrad.torch_functions import view_as_real as view_as_real
from agrad.ops.extra.joining import vsplit as _vsplit
from agrad.ops.special.entropies import xlogy as _xlogy

Generator = _Generator


def abs_(input: Any) -> Tensor:
    """`abs`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

absolute = _abs


def acos_(input: Any) -> Tensor:
    """`acos`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def acosh_(input: Any) -> Tensor:
    """`acosh`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """``self + value * tensor1 / tensor2``.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    tensor1 : Tensor
        The first factor.
    tensor2 : Tensor
        The second factor, or the divisor.
    value : Tensor or scalar
        The values to put there, or a factor.

    Returns
    -------
    Tensor
        The result.
    """


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """``self + value * tensor1 * tensor2``.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    tensor1 : Tensor
        The first factor.
    tensor2 : Tensor
        The second factor, or the divisor.
    value : Tensor or scalar
        The values to put there, or a factor.

    Returns
    -------
    Tensor
        The result.
    """


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * self + alpha * (mat1 @ mat2)``; a `beta` of 0 keeps NaN of `input` out.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    mat1, mat2 : Tensor
        A matrix.
    beta : scalar, optional
        A factor for `input`.
    alpha : scalar, optional
        A factor for the added values.

    Returns
    -------
    Tensor
        The result.
    """


def amax(input: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Largest element over axes; see `agrad.max`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    keepdim : bool, optional
        Keep reduced axes with length 1.

    Returns
    -------
    Tensor
        The result.
    """


def amin(input: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Smallest element over axes; see `agrad.min`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    keepdim : bool, optional
        Keep reduced axes with length 1.

    Returns
    -------
    Tensor
        The result.
    """

arccos = _acos

arccosh = _acosh

arcsin = _asin

arcsinh = _asinh

arctan = _atan

arctan2 = _atan2

arctanh = _atanh


def asin_(input: Any) -> Tensor:
    """`asin`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def asinh_(input: Any) -> Tensor:
    """`asinh`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def atan_(input: Any) -> Tensor:
    """`atan`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def atanh_(input: Any) -> Tensor:
    """`atanh`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

atleast_1d = _atleast_1d

atleast_2d = _atleast_2d

atleast_3d = _atleast_3d

bitwise_not = _bitwise_invert

block_diag = _block_diag


def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of matrices, one by one along the first axis; see `agrad.matmul`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    mat2 : Tensor
        A matrix.

    Returns
    -------
    Tensor
        The result.
    """

broadcast_tensors = _broadcast_arrays

cdouble: DType


def ceil_(input: Any) -> Tensor:
    """`ceil`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

cfloat: DType


def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Limit to a range; see `agrad.clip`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    min : Tensor or scalar
        The lower bound; None means no bound.
    max : Tensor or scalar
        The upper bound; None means no bound.

    Returns
    -------
    Tensor
        The result.
    """


def clamp_(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """`clamp`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    min : Tensor or scalar
        The lower bound; None means no bound.
    max : Tensor or scalar
        The upper bound; None means no bound.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """


def clamp_max(input: Any, max: Any) -> Tensor:
    """Limit from above; see `agrad.clip`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    max : Tensor or scalar
        The upper bound; None means no bound.

    Returns
    -------
    Tensor
        The result.
    """


def clamp_max_(input: Any, max: Any) -> Tensor:
    """`clamp_max`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    max : Tensor or scalar
        The upper bound; None means no bound.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """


def clamp_min(input: Any, min: Any) -> Tensor:
    """Limit from below; see `agrad.clip`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    min : Tensor or scalar
        The lower bound; None means no bound.

    Returns
    -------
    Tensor
        The result.
    """


def clamp_min_(input: Any, min: Any) -> Tensor:
    """`clamp_min`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    min : Tensor or scalar
        The lower bound; None means no bound.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """


def clone(input: Any, *, memory_format: Any = None) -> Tensor:
    """A copy that stays in the graph.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    memory_format : object, optional
        Not looked at.

    Returns
    -------
    Tensor
        The result.
    """

column_stack = _column_stack

concatenate = _cat

conj_physical = _conj

corrcoef = _corrcoef


def cos_(input: Any) -> Tensor:
    """`cos`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def cosh_(input: Any) -> Tensor:
    """`cosh`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

cov = _cov

deg2rad = _deg2rad


def det(input: Any) -> Tensor:
    """Determinant; see `agrad.linalg.det`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def detach(input: Any) -> Tensor:
    """Return the same value without history.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        A separate value: changing it in place does not change `input`.
    """


def detach_(input: Any) -> Tensor:
    """Drop the history of `input`; a leaf keeps its `.grad` and stops requiring one.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def diagonal(input: Any, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1, *, axis1: builtins.int | None = None, axis2: builtins.int | None = None) -> Tensor:
    """The diagonal over two axes, as the last axis; see `agrad.linalg.diagonal`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    offset : int, optional
        0 is the main diagonal; positive ones lie above.
    dim1 : int
        One axis.
    dim2 : int
        Another axis.
    axis1, axis2 : int, optional
        As `dim1` and `dim2`.

    Returns
    -------
    Tensor
        The result.
    """


def digamma(input: Any) -> Tensor:
    """The derivative of `lgamma`; see `agrad.special.psi`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """

distributions: Any


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``self / other``, rounded down ("floor") or towards 0 ("trunc") if requested; see `agrad.divide`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor or scalar
        The other operand.
    rounding_mode : None, 'floor' or 'trunc', optional
        How to round the quotient.

    Returns
    -------
    Tensor
        The result.

    Raises
    ------
    ValueError
        If `rounding_mode` is something else.
    """

double: DType

dsplit = _dsplit

dstack = _dstack


def eq(input: Any, other: Any) -> Tensor:
    """Whether ``x1 == x2``, element by element. See `agrad.equal`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """


def erf(input: Any) -> Tensor:
    """Error function; see `agrad.special.erf`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def erfc(input: Any) -> Tensor:
    """Complementary error function; see `agrad.special.erfc`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def erfinv(input: Any) -> Tensor:
    """Inverse error function; see `agrad.special.erfinv`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def exp2(input: Any) -> Tensor:
    """Powers of 2; see `agrad.special.exp2`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def exp_(input: Any) -> Tensor:
    """`exp`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def expm1_(input: Any) -> Tensor:
    """`expm1`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def fill_(input: Any, value: Any) -> Tensor:
    """Set every element to a value.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    value : Tensor or scalar
        The value.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """

fix = _trunc

float: DType


def floor_(input: Any) -> Tensor:
    """`floor`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

fmax = _fmax

fmin = _fmin

gcd: Any


def ge(input: Any, other: Any) -> Tensor:
    """Whether ``x1 >= x2``, element by element. See `agrad.greater_equal`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """

ger = _outer


def gt(input: Any, other: Any) -> Tensor:
    """Whether ``x1 > x2``, element by element. See `agrad.greater`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """

half: DType

heaviside = _heaviside

hsplit = _hsplit

i0 = _i0

igamma = _gammainc

igammac = _gammaincc


def index_add(input: Any, dim: builtins.int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """A copy with entries added along an axis, at a vector of indices; entries at one index add up.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    index : Tensor or int
        Integers.
    source : Tensor
        The values to put or to add; for `moveaxis` the axes to move.
    alpha : scalar, optional
        A factor for the added values.

    Returns
    -------
    Tensor
        The result.
    """


def index_copy(input: Any, dim: builtins.int, index: Any, source: Any) -> Tensor:
    """A copy with entries replaced along an axis, at a vector of indices.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    index : Tensor or int
        Integers.
    source : Tensor
        The values to put or to add; for `moveaxis` the axes to move.

    Returns
    -------
    Tensor
        The result.
    """


def index_fill(input: Any, dim: builtins.int, index: Any, value: Any) -> Tensor:
    """A copy with entries set to a value along an axis, at a vector of indices.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    index : Tensor or int
        Integers.
    value : Tensor or scalar
        The values to put there, or a factor.

    Returns
    -------
    Tensor
        The result.
    """


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy with ``x[indices] = values`` done.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    indices : tuple of Tensor
        A key: an index, or a mask, for each of the first axes.
    values : Tensor or scalar
        The values to put there.
    accumulate : bool, optional
        Add to the existing values; values at one position add up.

    Returns
    -------
    Tensor
        The result.
    """


def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """`index_put`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    indices : Tensor
        Integers.
    values : Tensor or scalar
        The values to put there.
    accumulate : bool, optional
        Add to the existing values; values at one position add up.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """

inner = _inner

int: DType


def inverse(input: Any) -> Tensor:
    """Inverse of a matrix; see `agrad.linalg.inv`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def is_complex(input: Any) -> bool:
    """Return whether the dtype is complex.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    bool
        Whether it is.
    """

isneginf = _isneginf

isposinf = _isposinf

isreal = _isreal

lcm: Any


def le(input: Any, other: Any) -> Tensor:
    """Whether ``x1 <= x2``, element by element. See `agrad.less_equal`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """


def lgamma(input: Any) -> Tensor:
    """The logarithm of the absolute value of the gamma function; see `agrad.special.gammaln`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def log10_(input: Any) -> Tensor:
    """`log10`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def log1p_(input: Any) -> Tensor:
    """`log1p`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def log2_(input: Any) -> Tensor:
    """`log2`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def log_(input: Any) -> Tensor:
    """`log`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

logaddexp2: Any


def logit(input: Any, eps: builtins.float | None = None) -> Tensor:
    """The inverse of `sigmoid`; see `agrad.special.logit`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    eps : float, optional
        Limit to [eps, 1 - eps] first.

    Returns
    -------
    Tensor
        The result.
    """


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials over axes; see `agrad.special.logsumexp`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    keepdim : bool, optional
        Keep reduced axes with length 1.

    Returns
    -------
    Tensor
        The result.
    """

long: DType


def lt(input: Any, other: Any) -> Tensor:
    """Whether ``x1 < x2``, element by element. See `agrad.less`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """

matrix_exp = _expm


def matrix_power(input: Any, n: builtins.int) -> Tensor:
    """Power of a matrix; see `agrad.linalg.matrix_power`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    n : int
        The exponent.

    Returns
    -------
    Tensor
        The result.
    """


def movedim(input: Any, source: Any, destination: Any) -> Tensor:
    """Move axes to other positions; see `agrad.moveaxis`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    source : Tensor
        The values to put or to add; for `moveaxis` the axes to move.
    destination : int or tuple of int
        The new positions of the axes.

    Returns
    -------
    Tensor
        The result.
    """


def mul(input: Any, other: Any) -> Tensor:
    """Product, ``x1 * x2``. See `agrad.multiply`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """


def mv(input: Any, vec: Any) -> Tensor:
    """Product of a matrix and a vector; see `agrad.matmul`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    vec : Tensor
        A vector.

    Returns
    -------
    Tensor
        The result.
    """


def nan_to_num(input: Any, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """Replace NaN and infinities by finite numbers; see `agrad.extra.nan_to_num`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    nan : float, optional
        In place of NaN.
    posinf : float, optional
        In place of inf. Default: the largest number.
    neginf : float, optional
        In place of -inf. Default: the smallest number.

    Returns
    -------
    Tensor
        The result.
    """


def narrow(input: Any, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """Some entries along an axis, from one on.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    start : int
        The first entry.
    length : int
        How many entries.

    Returns
    -------
    Tensor
        The result.
    """


def ne(input: Any, other: Any) -> Tensor:
    """Whether ``x1 != x2``, element by element. See `agrad.not_equal`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor, array or scalar
        The second operand.

    Returns
    -------
    Tensor
        The result.
    """


def neg(input: Any) -> Tensor:
    """Negation, ``-x``. See `agrad.negative`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def neg_(input: Any) -> Tensor:
    """`neg`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def numel(input: Any) -> builtins.int:
    """Return the number of elements.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    int
        As `size`.
    """


def permute(input: Any, *axes: Any, dims: Any = None) -> Tensor:
    """The axes in another order; see `agrad.permute_dims`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    *axes : int, or one tuple of int
        For each axis of the result, its number in `input`.
    dims : tuple of int, optional
        The same by name.

    Returns
    -------
    Tensor
        The result.
    """

pinverse = _pinv

polygamma = _polygamma

promote_types = _result_type

rad2deg = _rad2deg


def reciprocal_(input: Any) -> Tensor:
    """`reciprocal`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """


def relu_(input: Any) -> Tensor:
    """`relu`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """


def repeat_interleave(input: Any, repeats: Any, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
    """Each element, or each entry along an axis, repeated; see `agrad.repeat`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    repeats : int or Tensor
        How often.
    dim : int
        The axis.
    output_size : int, optional
        Not looked at.

    Returns
    -------
    Tensor
        The result.
    """


def round_(input: Any, decimals: builtins.int = 0) -> Tensor:
    """`round`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    decimals : int, optional
        Digits after the decimal point; negative: zeros before it.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """

row_stack = _vstack


def rsqrt(input: Any) -> Tensor:
    """The reciprocal of the square root.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        The result.
    """


def scatter(input: Any, dim: builtins.int, index: Any, src: Any) -> Tensor:
    """A copy with elements put at indices along an axis; see `agrad.extra.scatter`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    index : Tensor or int
        Integers.
    src : Tensor or scalar
        The values to put there.

    Returns
    -------
    Tensor
        The result.
    """


def scatter_reduce(input: Any, dim: builtins.int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """A copy with elements combined at indices along an axis; see `agrad.extra.scatter_add`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    index : Tensor or int
        Integers.
    src : Tensor or scalar
        The values to put there.
    reduce : str
        How values at one position are combined: sum, mean, amax or amin.
    include_self : bool, optional
        Whether the elements of `input` count, too, at these positions.

    Returns
    -------
    Tensor
        The result.

    Raises
    ------
    NotImplementedError
        For ``"prod"``.
    ValueError
        For another word.
    """


def select(input: Any, dim: builtins.int, index: builtins.int) -> Tensor:
    """One entry along an axis, without the axis.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    index : Tensor or int
        Integers.

    Returns
    -------
    Tensor
        The result.
    """

sgn = _sign

short: DType


def sigmoid_(input: Any) -> Tensor:
    """`sigmoid`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """


def sin_(input: Any) -> Tensor:
    """`sin`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

sinc = _sinc


def sinh_(input: Any) -> Tensor:
    """`sinh`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """

slogdet = _slogdet

sparse_coo_tensor = _sparse_coo_tensor

spmm = _mm


def sqrt_(input: Any) -> Tensor:
    """`sqrt`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def square_(input: Any) -> Tensor:
    """`square`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``self - alpha * other``; see `agrad.subtract`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    other : Tensor or scalar
        The other operand.
    alpha : scalar, optional
        A factor for the added values.

    Returns
    -------
    Tensor
        The result.
    """


def swapdims(input: Any, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Two axes exchanged; see `agrad.swapaxes`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim0, dim1 : int
        One axis.

    Returns
    -------
    Tensor
        The result.
    """


def t(input: Any) -> Tensor:
    """The transpose of a matrix.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input` itself, if it has fewer than two axes.

    Raises
    ------
    ValueError
        If it has more than two.
    """


def take_along_dim(input: Any, indices: Any, dim: builtins.int | None = None) -> Tensor:
    """Elements at indices along an axis; see `agrad.take_along_axis`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    indices : Tensor
        Integers.
    dim : int
        The axis.

    Returns
    -------
    Tensor
        The result.
    """


def tan_(input: Any) -> Tensor:
    """`tan`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def tanh_(input: Any) -> Tensor:
    """`tanh`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def trace(input: Any, offset: builtins.int = 0, axis1: builtins.int = 0, axis2: builtins.int = 1, dtype: Any = None, out: Any = None) -> Tensor:
    """The sum of the diagonal over two axes, as ``numpy.trace``; `agrad.linalg.trace` takes the last two.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    offset : int, optional
        0 is the main diagonal; positive ones lie above.
    axis1, axis2 : int, optional
        The axes. Default: the first two.
    dtype : dtype, optional
        The dtype. Default: that of `input`.
    out : Tensor, optional
        The tensor to write the result to.

    Returns
    -------
    Tensor
        The result.
    """


def transpose(input: Any, dim0: builtins.int | tuple[builtins.int, ...] | None = None, dim1: builtins.int | None = None, *axes: builtins.int) -> Tensor:
    """Two axes exchanged; or, as NumPy spells it, all axes in the order of a tuple, or of three arguments and more.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim0 : int or tuple of int
        The one axis; or, without `dim1`, all axes in their new order.
    dim1 : int, optional
        The other axis.
    *axes : int
        The rest of the new order. Without any argument the order is reversed.

    Returns
    -------
    Tensor
        The result.

    Raises
    ------
    TypeError
        ``x.transpose(0, 1)`` of a matrix, in code for NumPy, where it is `x` itself.
    """

true_divide = _divide


def trunc_(input: Any) -> Tensor:
    """`trunc`, in place.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.
    """


def unbind(input: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis; see `agrad.unstack`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        Default: the first.

    Returns
    -------
    tuple of Tensor
        The slices, without the axis.
    """


def unflatten(input: Any, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
    """Split one axis into several; see `agrad.extra.unflatten`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        The axis.
    sizes : tuple of int
        The new lengths.

    Returns
    -------
    Tensor
        The result.
    """


def unsqueeze(input: Any, dim: builtins.int) -> Tensor:
    """A new axis of length 1; see `agrad.expand_dims`.

    Parameters
    ----------
    input : Tensor or array
        The tensor.
    dim : int
        Its position in the result.

    Returns
    -------
    Tensor
        The result.
    """

vsplit = _vsplit

xlogy = _xlogy


def zero_(input: Any) -> Tensor:
    """Set to zeros.

    Parameters
    ----------
    input : Tensor or array
        The tensor.

    Returns
    -------
    Tensor
        `input`.

    Raises
    ------
    RuntimeError
        On a leaf that requires grad, while recording.
    """
