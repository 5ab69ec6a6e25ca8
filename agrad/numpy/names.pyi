"""The names of `agrad.numpy`, to type checkers. Written by docs/make_numpy_names.py."""

import builtins
from typing import Any

from agrad.core.tensor import Tensor
from agrad.numpy import fft as fft, linalg as linalg, random as random
from agrad.numpy.ufuncs import ufunc
from agrad.numpy.calling import (
    apply_along_axis as apply_along_axis,
    apply_over_axes as apply_over_axes,
    vectorize as vectorize,
)
from agrad.numpy.elements import (
    allclose as allclose,
    angle as angle,
    around as around,
    array_equal as array_equal,
    array_equiv as array_equiv,
    clip as clip,
    fix as fix,
    i0 as i0,
    imag as imag,
    isclose as isclose,
    iscomplex as iscomplex,
    iscomplexobj as iscomplexobj,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    isrealobj as isrealobj,
    nan_to_num as nan_to_num,
    ndim as ndim,
    real as real,
    real_if_close as real_if_close,
    around as round,
    shape as shape,
    sinc as sinc,
    size as size,
)
from agrad.numpy.joining import (
    append as append,
    array_split as array_split,
    block as block,
    column_stack as column_stack,
    concatenate as concat,
    concatenate as concatenate,
    delete as delete,
    dsplit as dsplit,
    dstack as dstack,
    hsplit as hsplit,
    hstack as hstack,
    insert as insert,
    vstack as row_stack,
    select as select,
    split as split,
    stack as stack,
    unstack as unstack,
    vsplit as vsplit,
    vstack as vstack,
)
from agrad.numpy.making import (
    arange as arange,
    array as array,
    asarray as asanyarray,
    asarray as asarray,
    asarray_chkfinite as asarray_chkfinite,
    ascontiguousarray as ascontiguousarray,
    ascontiguousarray as asfortranarray,
    astype as astype,
    bartlett as bartlett,
    blackman as blackman,
    copy as copy,
    diag_indices as diag_indices,
    diag_indices_from as diag_indices_from,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    from_dlpack as from_dlpack,
    fromfunction as fromfunction,
    fromiter as fromiter,
    full as full,
    full_like as full_like,
    geomspace as geomspace,
    hamming as hamming,
    hanning as hanning,
    identity as identity,
    indices as indices,
    kaiser as kaiser,
    linspace as linspace,
    logspace as logspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    tri as tri,
    tril_indices as tril_indices,
    tril_indices_from as tril_indices_from,
    triu_indices as triu_indices,
    triu_indices_from as triu_indices_from,
    zeros as zeros,
    zeros_like as zeros_like,
)
from agrad.numpy.numerics import (
    bincount as bincount,
    convolve as convolve,
    corrcoef as corrcoef,
    correlate as correlate,
    cov as cov,
    diff as diff,
    ediff1d as ediff1d,
    gradient as gradient,
    histogram as histogram,
    histogram2d as histogram2d,
    histogram_bin_edges as histogram_bin_edges,
    histogramdd as histogramdd,
    interp as interp,
    poly as poly,
    polyadd as polyadd,
    polyder as polyder,
    polydiv as polydiv,
    polyfit as polyfit,
    polyint as polyint,
    polymul as polymul,
    polysub as polysub,
    polyval as polyval,
    roots as roots,
    trapezoid as trapezoid,
    unwrap as unwrap,
    vander as vander,
)
from agrad.numpy.products import (
    cross as cross,
    dot as dot,
    einsum as einsum,
    einsum_path as einsum_path,
    inner as inner,
    kron as kron,
    outer as outer,
    tensordot as tensordot,
    vdot as vdot,
)
from agrad.numpy.queries import (
    array_repr as array_repr,
    array_str as array_str,
    broadcast_shapes as broadcast_shapes,
    can_cast as can_cast,
    common_type as common_type,
    isfortran as isfortran,
    isscalar as isscalar,
    iterable as iterable,
    may_share_memory as may_share_memory,
    ndarray as ndarray,
    printoptions as printoptions,
    promote_types as promote_types,
    result_type as result_type,
    save as save,
    savetxt as savetxt,
    savez as savez,
    savez_compressed as savez_compressed,
    set_printoptions as set_printoptions,
    shares_memory as shares_memory,
)
from agrad.numpy.reductions import (
    all as all,
    max as amax,
    min as amin,
    any as any,
    average as average,
    count_nonzero as count_nonzero,
    cumprod as cumprod,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    max as max,
    mean as mean,
    median as median,
    min as min,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
    nanmax as nanmax,
    nanmean as nanmean,
    nanmedian as nanmedian,
    nanmin as nanmin,
    nanpercentile as nanpercentile,
    nanprod as nanprod,
    nanquantile as nanquantile,
    nanstd as nanstd,
    nansum as nansum,
    nanvar as nanvar,
    percentile as percentile,
    prod as prod,
    ptp as ptp,
    quantile as quantile,
    std as std,
    sum as sum,
    var as var,
)
from agrad.numpy.searching import (
    argmax as argmax,
    argmin as argmin,
    argpartition as argpartition,
    argsort as argsort,
    argwhere as argwhere,
    choose as choose,
    compress as compress,
    copyto as copyto,
    digitize as digitize,
    extract as extract,
    flatnonzero as flatnonzero,
    intersect1d as intersect1d,
    isin as isin,
    ix_ as ix_,
    lexsort as lexsort,
    mask_indices as mask_indices,
    nanargmax as nanargmax,
    nanargmin as nanargmin,
    nonzero as nonzero,
    partition as partition,
    piecewise as piecewise,
    place as place,
    put as put,
    put_along_axis as put_along_axis,
    putmask as putmask,
    ravel_multi_index as ravel_multi_index,
    searchsorted as searchsorted,
    setdiff1d as setdiff1d,
    setxor1d as setxor1d,
    sort as sort,
    sort_complex as sort_complex,
    take as take,
    take_along_axis as take_along_axis,
    union1d as union1d,
    unique as unique,
    unique_all as unique_all,
    unique_counts as unique_counts,
    unique_inverse as unique_inverse,
    unique_values as unique_values,
    unravel_index as unravel_index,
    where as where,
)
from agrad.numpy.shaping import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    broadcast_arrays as broadcast_arrays,
    broadcast_to as broadcast_to,
    diag as diag,
    diagflat as diagflat,
    diagonal as diagonal,
    expand_dims as expand_dims,
    fill_diagonal as fill_diagonal,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    pad as pad,
    transpose as permute_dims,
    ravel as ravel,
    repeat as repeat,
    reshape as reshape,
    resize as resize,
    roll as roll,
    rollaxis as rollaxis,
    rot90 as rot90,
    squeeze as squeeze,
    swapaxes as swapaxes,
    tile as tile,
    trace as trace,
    transpose as transpose,
    tril as tril,
    trim_zeros as trim_zeros,
    triu as triu,
)
from agrad.numpy.ufuncs import (
    ufunc as ufunc,
)

class _One(ufunc):
    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: builtins.bool = True,
        signature: Any = None,
        **more: Any,
    ) -> Tensor: ...

class _Two(ufunc):
    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: builtins.bool = True,
        signature: Any = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor]: ...

abs: _One
absolute: _One
acos: _One
acosh: _One
add: _One
arccos: _One
arccosh: _One
arcsin: _One
arcsinh: _One
arctan: _One
arctan2: _One
arctanh: _One
asin: _One
asinh: _One
atan: _One
atan2: _One
atanh: _One
base_repr: Any
binary_repr: Any
bitwise_and: _One
bitwise_count: _One
bitwise_invert: _One
bitwise_left_shift: _One
bitwise_not: _One
bitwise_or: _One
bitwise_right_shift: _One
bitwise_xor: _One
bool: Any
bool_: Any
byte: Any
c_: Any
cbrt: _One
cdouble: Any
ceil: _One
character: Any
clongdouble: Any
complex128: Any
complex64: Any
complexfloating: Any
conj: _One
conjugate: _One
copysign: _One
cos: _One
cosh: _One
csingle: Any
deg2rad: _One
degrees: _One
divide: _One
divmod: _Two
double: Any
dtype: Any
equal: _One
errstate: Any
exp: _One
exp2: _One
expm1: _One
fabs: _One
finfo: Any
flexible: Any
float16: Any
float32: Any
float64: Any
float_power: _One
floating: Any
floor: _One
floor_divide: _One
fmax: _One
fmin: _One
fmod: _One
format_float_positional: Any
format_float_scientific: Any
frexp: _Two
frombuffer: Any
fromfile: Any
fromregex: Any
fromstring: Any
gcd: _One
generic: Any
genfromtxt: Any
get_include: Any
get_printoptions: Any
getbufsize: Any
geterr: Any
geterrcall: Any
greater: _One
greater_equal: _One
half: Any
heaviside: _One
hypot: _One
iinfo: Any
index_exp: Any
inexact: Any
info: Any
int16: Any
int32: Any
int64: Any
int8: Any
int_: Any
intc: Any
integer: Any
intp: Any
invert: _One
isdtype: Any
isfinite: _One
isinf: _One
isnan: _One
issubdtype: Any
lcm: _One
ldexp: _One
left_shift: _One
less: _One
less_equal: _One
lib: Any
load: Any
loadtxt: Any
log: _One
log10: _One
log1p: _One
log2: _One
logaddexp: _One
logaddexp2: _One
logical_and: _One
logical_not: _One
logical_or: _One
logical_xor: _One
long: Any
longdouble: Any
longlong: Any
matmul: _One
matvec: _One
maximum: _One
memmap: Any
mgrid: Any
minimum: _One
mintypecode: Any
mod: _One
modf: _Two
multiply: _One
ndindex: Any
negative: _One
nextafter: _One
not_equal: _One
number: Any
ogrid: Any
positive: _One
pow: _One
power: _One
r_: Any
rad2deg: _One
radians: _One
reciprocal: _One
remainder: _One
right_shift: _One
rint: _One
s_: Any
setbufsize: Any
seterr: Any
seterrcall: Any
short: Any
show_config: Any
show_runtime: Any
sign: _One
signbit: _One
signedinteger: Any
sin: _One
single: Any
sinh: _One
spacing: _One
sqrt: _One
square: _One
subtract: _One
tan: _One
tanh: _One
test: Any
true_divide: _One
trunc: _One
typename: Any
ubyte: Any
uint: Any
uint16: Any
uint32: Any
uint64: Any
uint8: Any
uintc: Any
uintp: Any
ulong: Any
ulonglong: Any
unsignedinteger: Any
ushort: Any
vecdot: _One
vecmat: _One
