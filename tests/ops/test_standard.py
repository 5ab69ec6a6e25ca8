"""The main namespace and the array object against the array API standard 2025.12, name by name.

The signatures below are written down from the standard. What follows them is what its own test suite
(``tests/conformance``) hardly looks at: operators between all dtypes and numbers, dtypes, DLPack, inspection.
"""

from __future__ import annotations

import inspect
import math
import operator
import re

import numpy as np
import pytest

import agrad as ag
from agrad.core.op import without_aliases
from agrad.numpy.protocol import UFUNCS

#: The functions of the main namespace by chapter, as the standard's 2025.12 version writes them.
MAIN = {
    "elementwise functions": """
        abs(x, /)
        acos(x, /)
        acosh(x, /)
        add(x1, x2, /)
        asin(x, /)
        asinh(x, /)
        atan(x, /)
        atan2(x1, x2, /)
        atanh(x, /)
        bitwise_and(x1, x2, /)
        bitwise_left_shift(x1, x2, /)
        bitwise_invert(x, /)
        bitwise_or(x1, x2, /)
        bitwise_right_shift(x1, x2, /)
        bitwise_xor(x1, x2, /)
        ceil(x, /)
        clip(x, /, min=None, max=None)
        conj(x, /)
        copysign(x1, x2, /)
        cos(x, /)
        cosh(x, /)
        divide(x1, x2, /)
        equal(x1, x2, /)
        exp(x, /)
        expm1(x, /)
        floor(x, /)
        floor_divide(x1, x2, /)
        greater(x1, x2, /)
        greater_equal(x1, x2, /)
        hypot(x1, x2, /)
        imag(x, /)
        isfinite(x, /)
        isinf(x, /)
        isnan(x, /)
        less(x1, x2, /)
        less_equal(x1, x2, /)
        log(x, /)
        log1p(x, /)
        log2(x, /)
        log10(x, /)
        logaddexp(x1, x2, /)
        logical_and(x1, x2, /)
        logical_not(x, /)
        logical_or(x1, x2, /)
        logical_xor(x1, x2, /)
        maximum(x1, x2, /)
        minimum(x1, x2, /)
        multiply(x1, x2, /)
        negative(x, /)
        nextafter(x1, x2, /)
        not_equal(x1, x2, /)
        positive(x, /)
        pow(x1, x2, /)
        real(x, /)
        reciprocal(x, /)
        remainder(x1, x2, /)
        round(x, /)
        sign(x, /)
        signbit(x, /)
        sin(x, /)
        sinh(x, /)
        square(x, /)
        sqrt(x, /)
        subtract(x1, x2, /)
        tan(x, /)
        tanh(x, /)
        trunc(x, /)
    """,
    "creation functions": """
        arange(start, /, stop=None, step=1, *, dtype=None, device=None)
        asarray(obj, /, *, dtype=None, device=None, copy=None)
        empty(shape, *, dtype=None, device=None)
        empty_like(x, /, *, dtype=None, device=None)
        eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
        from_dlpack(x, /, *, device=None, copy=None)
        full(shape, fill_value, *, dtype=None, device=None)
        full_like(x, /, fill_value, *, dtype=None, device=None)
        linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
        meshgrid(*arrays, indexing='xy')
        ones(shape, *, dtype=None, device=None)
        ones_like(x, /, *, dtype=None, device=None)
        tril(x, /, *, k=0)
        triu(x, /, *, k=0)
        zeros(shape, *, dtype=None, device=None)
        zeros_like(x, /, *, dtype=None, device=None)
    """,
    "manipulation functions": """
        broadcast_arrays(*arrays)
        broadcast_shapes(*shapes)
        broadcast_to(x, /, shape)
        concat(arrays, /, *, axis=0)
        expand_dims(x, /, axis)
        flip(x, /, *, axis=None)
        moveaxis(x, source, destination, /)
        permute_dims(x, /, axes)
        repeat(x, repeats, /, *, axis=None)
        reshape(x, /, shape, *, copy=None)
        roll(x, /, shift, *, axis=None)
        squeeze(x, /, axis)
        stack(arrays, /, *, axis=0)
        tile(x, repetitions, /)
        unstack(x, /, *, axis=0)
    """,
    "linear algebra functions": """
        matmul(x1, x2, /)
        matrix_transpose(x, /)
        tensordot(x1, x2, /, *, axes=2)
        vecdot(x1, x2, /, *, axis=-1)
    """,
    "searching functions": """
        argmax(x, /, *, axis=None, keepdims=False)
        argmin(x, /, *, axis=None, keepdims=False)
        count_nonzero(x, /, *, axis=None, keepdims=False)
        nonzero(x, /)
        searchsorted(x1, x2, /, *, side='left', sorter=None)
        where(condition, x1, x2, /)
    """,
    "sorting functions": """
        argsort(x, /, *, axis=-1, descending=False, stable=True)
        sort(x, /, *, axis=-1, descending=False, stable=True)
    """,
    "set functions": """
        isin(x1, x2, /, *, invert=False)
        unique_all(x, /)
        unique_counts(x, /)
        unique_inverse(x, /)
        unique_values(x, /)
    """,
    "statistical functions": """
        cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
        cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
        max(x, /, *, axis=None, keepdims=False)
        mean(x, /, *, axis=None, keepdims=False)
        min(x, /, *, axis=None, keepdims=False)
        prod(x, /, *, axis=None, dtype=None, keepdims=False)
        std(x, /, *, axis=None, correction=0.0, keepdims=False)
        sum(x, /, *, axis=None, dtype=None, keepdims=False)
        var(x, /, *, axis=None, correction=0.0, keepdims=False)
    """,
    "utility functions": """
        all(x, /, *, axis=None, keepdims=False)
        any(x, /, *, axis=None, keepdims=False)
        diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    """,
    "indexing functions": """
        take(x, indices, /, *, axis=None)
        take_along_axis(x, indices, /, *, axis=-1)
    """,
    "data type functions": """
        astype(x, dtype, /, *, copy=True, device=None)
        can_cast(from_, to, /)
        finfo(type, /)
        iinfo(type, /)
        isdtype(dtype, kind)
        result_type(*arrays_and_dtypes)
    """,
}

#: The methods of the array object.
METHODS = """
    __abs__(self, /)
    __add__(self, other, /)
    __and__(self, other, /)
    __array_namespace__(self, /, *, api_version=None)
    __bool__(self, /)
    __complex__(self, /)
    __dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
    __dlpack_device__(self, /)
    __eq__(self, other, /)
    __float__(self, /)
    __floordiv__(self, other, /)
    __ge__(self, other, /)
    __getitem__(self, key, /)
    __gt__(self, other, /)
    __index__(self, /)
    __int__(self, /)
    __invert__(self, /)
    __le__(self, other, /)
    __lshift__(self, other, /)
    __lt__(self, other, /)
    __matmul__(self, other, /)
    __mod__(self, other, /)
    __mul__(self, other, /)
    __ne__(self, other, /)
    __neg__(self, /)
    __or__(self, other, /)
    __pos__(self, /)
    __pow__(self, other, /)
    __rshift__(self, other, /)
    __setitem__(self, key, value, /)
    __sub__(self, other, /)
    __truediv__(self, other, /)
    __xor__(self, other, /)
    to_device(self, device, /, *, stream=None)
"""

ATTRIBUTES = ("dtype", "device", "mT", "ndim", "shape", "size", "T")
OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "matmul", "and", "or", "xor", "lshift", "rshift"),
)


#: What functions take beside the standard's arguments, as PyTorch's do: ``zeros(2, 3, requires_grad=True)``.
ADDED = ("more", "requires_grad", "chunks", "size", "end", "steps")


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor.detach()._raw))


def as_written(function):
    """A signature as the standard writes it: no annotations, and without what agrad adds, PyTorch's names of arguments too."""
    public = inspect.signature(function)
    found = without_aliases(public, by_dim=function.__name__ == "sort")
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name not in ADDED]
    if "size" in public.parameters:  # PyTorch's name of the shape, in whose place it may stand
        parameters = [p.replace(default=p.empty) if p.name in ("shape", "fill_value") else p for p in parameters]
    if "end" in public.parameters:  # PyTorch takes the ends by name
        by_position = {"start": {"kind": inspect.Parameter.POSITIONAL_ONLY, "default": inspect.Parameter.empty}}
        if "steps" in public.parameters:
            by_position |= {"stop": by_position["start"], "num": {"default": inspect.Parameter.empty}}
        parameters = [p.replace(**by_position.get(p.name, {})) for p in parameters]
    if function.__name__ == "sort":  # by name alone, in any order
        parameters.sort(key=lambda p: (p.kind, p.name))
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def lines_of(text):
    """The name and signature on each line."""
    return [re.match(r"(\w+)(.*)", line.strip()).groups() for line in text.strip().splitlines()]


FUNCTIONS = [pair for chapter in MAIN.values() for pair in lines_of(chapter)]


# -- names and signatures ---------------------------------------------------------------------------------------------


def test_the_table_is_whole():
    assert len(FUNCTIONS) == len({name for name, _ in FUNCTIONS}) == 135


@pytest.mark.parametrize(("name", "signature"), FUNCTIONS)
def test_functions_have_the_signature_of_the_standard(name, signature, xp):
    assert as_written(getattr(ag, name)) == signature
    assert as_written(getattr(xp, name)) == signature
    assert name in ag.__all__


@pytest.mark.parametrize(("name", "signature"), lines_of(METHODS))
def test_methods_have_the_signature_of_the_standard(name, signature):
    assert as_written(getattr(ag.Tensor, name)) == signature


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_reflected_and_an_in_place_form(name):
    for prefix in ("", "r", "i"):
        assert as_written(getattr(ag.Tensor, f"__{prefix}{name}__")) == "(self, other, /)"


def test_attributes(make):
    x = make([[1.0, 2.0, 3.0]])
    assert all(hasattr(x[0:1, 0:1], name) for name in ATTRIBUTES)
    assert (x.ndim, x.shape, x.size) == (2, (1, 3), 3)
    assert x.T.shape == x.mT.shape == (3, 1)
    assert make([[[1.0, 2.0]]]).mT.shape == (1, 2, 1)
    assert x.device == x._spec.backend.default_device()
    assert (make([1.0]).T.shape, make(1.0).T.shape) == ((1,), ())  # as in NumPy and PyTorch
    with pytest.raises(ValueError, match="takes a matrix"):
        make([[[1.0, 2.0]]]).T


def test_an_unknown_size_is_none(dask_backend):
    x = ag.asarray(np.arange(4.0), device="dask")
    assert x.size == 4
    assert x[x > 1.0].size is x[x > 1.0].numel() is None


@pytest.mark.parametrize(("dtype", "size"), [("bool", 1), ("uint16", 2), ("float32", 4), ("complex64", 8)])
def test_bytes_of_an_element(dtype, size, make):
    assert make([1, 0], dtype=dtype).element_size() == size


def test_constants(xp):
    for space in (ag, xp):
        assert (space.e, space.pi, space.inf) == (math.e, math.pi, math.inf)
        assert math.isnan(space.nan)
        assert space.newaxis is None
        assert space.__array_api_version__ == "2025.12"


def test_the_namespace_of_a_tensor(make, xp):
    x = make([1.0])
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="unknown version"):
        x.__array_namespace__(api_version="1999.01")


# -- inspection -------------------------------------------------------------------------------------------------------

KINDS = {
    "bool": {"bool"},
    "signed integer": {"int8", "int16", "int32", "int64"},
    "unsigned integer": {"uint8", "uint16", "uint32", "uint64"},
    "real floating": {"float32", "float64"},
    "complex floating": {"complex64", "complex128"},
}
KINDS["integral"] = KINDS["signed integer"] | KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] | KINDS["real floating"] | KINDS["complex floating"]


def test_inspection(xp, backend):
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() == backend
    assert isinstance(info.devices(), tuple)
    assert info.devices()[0] == backend
    assert all(ag.zeros(2, device=device).device == device for device in info.devices())
    assert set(info.dtypes()) == KINDS["numeric"] | {"bool"}
    assert all(ag.zeros(1, dtype=dtype, device=backend).dtype == dtype for dtype in info.dtypes().values())
    for kind, names in KINDS.items():
        assert set(info.dtypes(kind=kind)) == names
    assert set(info.dtypes(kind=("bool", "complex floating"), device=backend)) == {"bool", "complex64", "complex128"}
    with pytest.raises(ValueError, match="knows the kinds"):
        info.dtypes(kind="decimal")


def test_inspection_of_default_dtypes(xp):
    names = {kind: ag.dtypes.name_of(dtype) for kind, dtype in xp.__array_namespace_info__().default_dtypes().items()}
    assert names == {
        "real floating": "float64",
        "complex floating": "complex128",
        "integral": "int64",
        "indexing": "int64",
    }
    ag.set_default_dtype("float32")
    found = xp.__array_namespace_info__().default_dtypes()
    assert ag.dtypes.name_of(found["real floating"]) == "float32"
    assert ag.dtypes.name_of(found["complex floating"]) == "complex64"
    assert xp.ones(2).dtype == found["real floating"]
    assert xp.asarray([1j]).dtype == found["complex floating"]


def test_inspection_of_the_default_namespace(numpy_backend):
    info = ag.__array_namespace_info__()
    assert info.devices() == ("numpy",)
    assert info.dtypes(kind="bool") == {"bool": ag.bool}


def test_inspection_of_anothers_device(xp, strict_backend):
    other = "strict" if xp._backend.name == "numpy" else "numpy"
    for ask in (xp.__array_namespace_info__().dtypes, xp.__array_namespace_info__().default_dtypes):
        with pytest.raises(ValueError, match="is no device of"):
            ask(device=other)


# -- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(KINDS["numeric"] | {"bool"}))
def test_constants_equal_every_backends_dtypes(name, xp):
    constant, native = getattr(ag, name), getattr(xp, name)
    x = xp.zeros(2, dtype=constant)
    assert constant == x.dtype
    assert constant == native
    assert x.dtype == native
    assert (constant != x.dtype) is False
    assert hash(constant) == hash(getattr(ag, name))
    others = (getattr(ag, other) for other in KINDS["numeric"] | {"bool"} if other != name)
    assert all(other != x.dtype and other != constant for other in others)
    if xp._backend.name == "numpy":  # array-api-strict's dtypes answer for themselves, and know only one another
        assert x.dtype == constant


@pytest.mark.parametrize("name", sorted(KINDS["numeric"] | {"bool"}))
def test_isdtype(name, xp):
    for dtype in (getattr(ag, name), getattr(xp, name), name):
        for kind, names in KINDS.items():
            assert ag.isdtype(dtype, kind) is xp.isdtype(dtype, kind) is (name in names)
        assert ag.isdtype(dtype, getattr(ag, name))
        assert ag.isdtype(dtype, ("bool", "numeric"))
        assert not ag.isdtype(dtype, ())
        assert ag.isdtype(dtype, (ag.int8, getattr(xp, name)))
    with pytest.raises(ValueError, match="knows the kinds"):
        ag.isdtype(name, "floating")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("float32", 1.0), "float32"),
        (("float32", 1), "float32"),
        (("float32", 1j), "complex64"),
        (("float64", 1j), "complex128"),
        (("int8", 1), "int8"),
        (("bool", True), "bool"),
        (("int8", "int16"), "int16"),
        (("uint8", "int8"), "int16"),
        (("uint32", "int8"), "int64"),
        (("float32", "complex128", 3), "complex128"),
    ],
)
def test_result_type(arguments, expected, xp):
    for give in (lambda n: getattr(ag, n), lambda n: getattr(xp, n), lambda n: xp.zeros((2,), dtype=n)):
        found = xp.result_type(*(give(a) if isinstance(a, str) else a for a in arguments))
        assert ag.dtypes.name_of(found) == expected
        assert found == getattr(xp, expected)


def test_result_type_reads_no_value(backend):
    wide = ag.result_type(ag.asarray(1, dtype="int16", device=backend), ag.int8)
    assert ag.dtypes.name_of(wide) == "int16"


def test_can_cast(xp):
    assert xp.can_cast(ag.int8, ag.int16)
    assert xp.can_cast(xp.zeros(2, dtype="float32"), xp.float64)
    assert not xp.can_cast(ag.float32, ag.int64)


@pytest.mark.parametrize(("name", "bits", "digits"), [("float32", 32, 23), ("float64", 64, 52), ("complex64", 32, 23)])
def test_finfo(name, bits, digits, xp):
    for kind in (getattr(ag, name), getattr(xp, name), xp.zeros(1, dtype=name)):
        found = xp.finfo(kind)
        assert (found.bits, found.eps) == (bits, 2.0**-digits)
        assert found.max == -found.min == 2.0 ** (127 if bits == 32 else 1023) * (2 - 2.0**-digits)
        assert found.smallest_normal == (2.0**-126 if bits == 32 else 2.0**-1022)
        assert all(type(getattr(found, limit)) is float for limit in ("eps", "max", "min", "smallest_normal"))
        assert found.dtype == getattr(xp, f"float{bits}")
    with pytest.raises(ValueError, match="floating-point dtype"):
        xp.finfo(ag.int8)


def test_iinfo(xp):
    found = xp.iinfo(xp.zeros(1, dtype="uint16"))
    assert (found.bits, found.max, found.min, found.dtype) == (16, 65535, 0, xp.uint16)
    assert xp.iinfo(ag.int8).min == -128
    with pytest.raises(ValueError, match="integer dtype"):
        xp.iinfo(ag.float32)


def test_dtype_queries_answer_in_the_namespaces_own_dtypes(xp):
    own = xp.zeros(1, dtype="float64").dtype
    assert type(xp.finfo(ag.float64).dtype) is type(own)
    assert xp.finfo(ag.float64).dtype == xp.result_type(ag.float32, ag.float64) == own


# -- creation ---------------------------------------------------------------------------------------------------------


def test_full_of_a_tensor_stays_in_the_graph(backend):
    value = ag.asarray(2.0, dtype="float32", device=backend, requires_grad=True)
    made = ag.full((2, 3), value)
    assert made.device == backend
    assert made.dtype == value.dtype
    assert host(made).tolist() == [[2.0] * 3] * 2
    made.sum().backward()
    assert value.grad.item() == 6.0
    like = ag.full_like(ag.ones((4,), device=backend), value)
    assert ag.dtypes.name_of(like.dtype) == "float64"
    (3.0 * like).sum().backward()
    assert value.grad.item() == 18.0
    assert ag.dtypes.name_of(ag.full(2, value, dtype="complex64").dtype) == "complex64"
    assert ag.full(2, ag.asarray(1.0, device=backend), requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="0-d tensor"):
        ag.full((2, 3), ag.ones((3,), device=backend))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, "bool"), (3, "int64"), (2.5, "float64"), (1j, "complex128"), (np.float64(2.5), "float64")],
)
def test_full_takes_the_default_dtype_of_its_value(value, expected, xp):
    made = xp.full((2,), value)
    assert ag.dtypes.name_of(made.dtype) == expected
    assert made.tolist() == [value, value]


def test_full_like_keeps_the_sign_of_zero(make):
    assert math.copysign(1.0, ag.full_like(make([1.0]), -0.0).tolist()[0]) == -1.0


def test_lists_of_tensors_are_stacked_in_the_graph(backend):
    a = ag.asarray(2.0, dtype="float32", device=backend, requires_grad=True)
    b = ag.asarray([3.0, 4.0], dtype="float32", device=backend, requires_grad=True)
    made = ag.asarray([[a, 1.0], [5, a * a], b])
    assert made.device == backend
    assert made.dtype == a.dtype  # Python numbers follow the tensors
    assert host(made).tolist() == [[2.0, 1.0], [5.0, 4.0], [3.0, 4.0]]
    weights = ag.asarray([[1.0, 10.0], [100.0, 1000.0], [2.0, 3.0]], dtype="float32", device=backend)
    (made * weights).sum().backward()
    assert a.grad.item() == 1.0 + 1000.0 * 2 * 2.0
    assert b.grad.tolist() == [2.0, 3.0]
    wider = ag.asarray([a, b[0]], dtype="float64")
    assert ag.dtypes.name_of(wider.dtype) == "float64"
    assert wider.requires_grad
    with pytest.raises(ValueError, match="copy=False"):
        ag.asarray([a, 1.0], copy=False)


def test_creation_functions_take_the_standards_calls(xp, backend):
    made = {
        "arange": xp.arange(0, 6, 2, dtype=xp.float32, device=backend),
        "empty": xp.empty((2, 3), dtype=xp.int8, device=backend),
        "empty_like": xp.empty_like(xp.ones(2), dtype=xp.int8, device=backend),
        "eye": xp.eye(2, 3, k=1, dtype=xp.float32, device=backend),
        "linspace": xp.linspace(0.0, 1.0, 4, dtype=xp.float32, device=backend, endpoint=False),
        "ones_like": xp.ones_like(xp.zeros(2), dtype=xp.complex64, device=backend),
        "zeros": xp.zeros(3, dtype=xp.bool, device=backend),
    }
    assert made["arange"].tolist() == [0.0, 2.0, 4.0]
    assert made["eye"].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert made["linspace"].tolist() == [0.0, 0.25, 0.5, 0.75]
    assert made["ones_like"].tolist() == [1.0 + 0j, 1.0 + 0j]
    assert all(x.device == backend and not x.requires_grad for x in made.values())


def test_where_takes_scalars_as_the_other_operand_has_them(make):
    condition = make([True, False])
    for dtype, number in (("int32", 3), ("float32", 1.5), ("float32", 3), ("complex64", 1j), ("uint8", 7)):
        x = make([1, 2], dtype=dtype)
        for made in (ag.where(condition, x, number), ag.where(condition, number, x)):
            assert made.dtype == x.dtype
    assert ag.dtypes.name_of(ag.where(condition, 1.0, 0.0).dtype) == "float64"


def test_expand_dims_takes_several_axes(make):
    assert ag.expand_dims(make([[1.0, 2.0]]), (0, -1)).shape == (1, 1, 2, 1)
    assert ag.expand_dims(make([1.0]), axis=0).shape == (1, 1)


# -- operators --------------------------------------------------------------------------------------------------------

INTEGERS = sorted(KINDS["integral"])
FLOATS = sorted(KINDS["real floating"])
COMPLEX = sorted(KINDS["complex floating"])
ALLOWED = {
    **{name: [*INTEGERS, *FLOATS, *COMPLEX] for name in ("add", "sub", "mul", "pow")},
    "truediv": [*FLOATS, *COMPLEX],
    **{name: [*INTEGERS, *FLOATS] for name in ("floordiv", "mod")},
    **{name: ["bool", *INTEGERS] for name in ("and", "or", "xor")},
    **dict.fromkeys(("lshift", "rshift"), INTEGERS),
}
CASES = [(name, dtype) for name, dtypes in ALLOWED.items() for dtype in dtypes]
FIRST, SECOND = [5, 3, 1, 6], [1, 2, 3, 1]


def scalars(dtype):
    """The Python numbers that an operator takes beside a dtype."""
    if dtype == "bool":
        return [True]
    return [2] + ([1.5] if dtype in (*FLOATS, *COMPLEX) else []) + ([2 - 1j] if dtype in COMPLEX else [])


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_operators(name, dtype, backend):
    function = getattr(operator, f"__{name}__")
    a, b = np.array(FIRST).astype(dtype), np.array(SECOND).astype(dtype)
    x, y = ag.asarray(a, device=backend), ag.asarray(b, device=backend)
    np.testing.assert_allclose(host(function(x, y)), function(a, b), rtol=1e-6, strict=True)
    np.testing.assert_allclose(host(getattr(y, f"__r{name}__")(x)), function(a, b), rtol=1e-6, strict=True)
    for number in scalars(dtype):
        same = np.array(number, dtype=dtype)
        np.testing.assert_allclose(host(function(x, number)), function(a, same), rtol=1e-6, strict=True)
        np.testing.assert_allclose(host(function(number, x)), function(same, a), rtol=1e-6, strict=True)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_in_place_operators(name, dtype, backend):
    change, function = getattr(operator, f"__i{name}__"), getattr(operator, f"__{name}__")
    a, b = np.array(FIRST).astype(dtype), np.array(SECOND).astype(dtype)
    for other, raw in ((ag.asarray(b, device=backend), b), *((n, np.array(n, dtype=dtype)) for n in scalars(dtype))):
        source = a.copy()
        x = ag.asarray(source, device=backend)
        alias, copy, part = x, x.detach(), x[1:]
        x = change(x, other)
        assert x is alias
        np.testing.assert_allclose(host(x), function(a, raw), rtol=1e-6, strict=True)
        if name in ("add", "sub", "mul", "and", "or", "xor"):
            x = change(x, x)  # the tensor as its own operand
            expected = function(a, raw)
            np.testing.assert_allclose(host(x), function(expected, expected), rtol=1e-6, strict=True)
        for kept, value in ((copy, a), (part, a[1:])):
            np.testing.assert_array_equal(host(kept), value, strict=True)
        np.testing.assert_array_equal(source, a)
        if isinstance(other, ag.Tensor):
            np.testing.assert_array_equal(host(other), b)


@pytest.mark.parametrize("dtype", ["int16", *FLOATS, *COMPLEX])
def test_matrix_product_operators(dtype, backend):
    a, b = np.arange(1, 7).reshape(2, 3).astype(dtype), np.arange(9).reshape(3, 3).astype(dtype)
    x, y = ag.asarray(a, device=backend), ag.asarray(b, device=backend)
    np.testing.assert_array_equal(host(x @ y), a @ b, strict=True)
    np.testing.assert_array_equal(host(y.__rmatmul__(x)), a @ b, strict=True)
    alias = x
    x @= y
    assert x is alias
    np.testing.assert_array_equal(host(x), a @ b, strict=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [("int8", "int16"), ("uint8", "int8"), ("uint32", "int64"), ("float32", "float64"), ("float64", "complex64")],
)
def test_operators_between_dtypes(first, second, backend):
    a, b = np.array(FIRST).astype(first), np.array(SECOND).astype(second)
    x, y = ag.asarray(a, device=backend), ag.asarray(b, device=backend)
    for function in (operator.add, operator.mul, operator.sub):
        np.testing.assert_array_equal(host(function(x, y)), function(a, b), strict=True)
        np.testing.assert_array_equal(host(function(y, x)), function(b, a), strict=True)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_comparisons(name, dtype, backend):
    function = getattr(operator, f"__{name}__")
    a, b = np.array(FIRST).astype(dtype), np.array([5, 1, 2, 6]).astype(dtype)
    x, y = ag.asarray(a, device=backend), ag.asarray(b, device=backend)
    np.testing.assert_array_equal(host(function(x, y)), function(a, b), strict=True)
    np.testing.assert_array_equal(host(function(x, 3)), function(a, 3), strict=True)
    np.testing.assert_array_equal(host(function(3, x)), function(3, a), strict=True)


def test_unary_operators(backend):
    for dtype in (*KINDS["signed integer"], *FLOATS, *COMPLEX):
        a = np.array([1, -2, 3]).astype(dtype)
        x = ag.asarray(a, device=backend)
        for function in (operator.neg, operator.pos, abs):
            np.testing.assert_array_equal(host(function(x)), function(a), strict=True)
    for dtype in ("bool", *INTEGERS):
        a = np.array([1, 0, 1]).astype(dtype)
        np.testing.assert_array_equal(host(~ag.asarray(a, device=backend)), ~a, strict=True)


class Foreign:
    """Knows what to do with a tensor on its left."""

    __array_ufunc__ = None

    def __radd__(self, other):
        return "added"

    def __rmatmul__(self, other):
        return "multiplied"


def test_an_operand_that_knows_better_is_asked(make):
    x = make([1.0, 2.0])
    assert x + Foreign() == "added"
    assert x @ Foreign() == "multiplied"
    alias = x
    x += Foreign()
    assert x == "added"
    assert alias.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="unsupported operand"):
        alias - Foreign()
    with pytest.raises(TypeError, match="unsupported operand"):
        alias -= Foreign()


# -- Python numbers ---------------------------------------------------------------------------------------------------


def test_conversions(make):
    assert complex(make(2.5)) == 2.5 + 0j
    assert complex(make(1 + 2j)) == 1 + 2j
    assert (type(complex(make(2.5))), type(float(make(2))), type(int(make(2.7)))) == (complex, float, int)
    assert int(make(2.7)) == 2
    assert [10, 20, 30][make(1)] == 20
    assert bool(make(True)) is True
    with pytest.raises(TypeError):
        float(make(1 + 2j))
    with pytest.raises(TypeError, match="only integer tensors"):
        operator.index(make(1.0))


# -- DLPack -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", "complex64"])
def test_dlpack_with_numpy(dtype, make):
    x = make([[1, 2, 3]], dtype=dtype)
    assert x.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(x)
    np.testing.assert_array_equal(array, np.array([[1, 2, 3]], dtype=dtype), strict=True)
    back = ag.from_dlpack(array)
    assert back.device == "numpy"
    assert back.tolist() == x.tolist()


def test_dlpack_shares_memory_on_the_way_in_alone(numpy_backend):
    source = np.array([1.0, 2.0])
    x = ag.from_dlpack(source)
    assert not np.shares_memory(np.from_dlpack(x), source)
    assert np.shares_memory(ag.from_dlpack(source, copy=False).numpy(), source)
    assert not np.shares_memory(ag.from_dlpack(source, copy=True).numpy(), source)
    assert not np.shares_memory(np.from_dlpack(x, copy=True), source)
    assert ag.from_dlpack(x, copy=True).tolist() == [1.0, 2.0]


def test_dlpack_onto_a_device(strict_backend):
    x = ag.from_dlpack(np.array([1.0, 2.0]), device="strict:device1")
    assert x.device == "strict:device1"
    assert x.tolist() == [1.0, 2.0]
    assert ag.namespace("strict").from_dlpack(np.array([1.0])).device == "strict"


def test_dlpack_refuses_what_requires_a_gradient(make):
    x = make([1.0], requires_grad=True)
    for export in (lambda: x.__dlpack__(), lambda: np.from_dlpack(x), lambda: ag.from_dlpack(x * 2.0)):
        with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
            export()
    with ag.no_grad(), pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        x.__dlpack__()


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64", "complex64", "bool"])
def test_dlpack_with_pytorch(dtype, numpy_backend):
    torch = pytest.importorskip("torch")
    there = torch.tensor([[1, 0, 1]], dtype=getattr(torch, dtype))
    x = ag.from_dlpack(there)
    assert ag.dtypes.name_of(x.dtype) == dtype
    assert x.tolist() == there.tolist()
    back = torch.from_dlpack(x)
    assert back.dtype == there.dtype
    assert back.tolist() == there.tolist()
    assert back.data_ptr() != there.data_ptr()
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        torch.from_dlpack(ag.tensor([1.0], requires_grad=True))


# -- float16 ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "dask"])
def half(request):
    """Give a function that makes a float16 tensor, on a backend that has them."""
    device = request.getfixturevalue(f"{request.param}_backend")
    return lambda value: ag.asarray(np.asarray(value, dtype=np.float16), device=device, requires_grad=True)


ONES = np.ones((4096, 2))  # added one by one in float16 they end at 2048
REDUCTIONS = {
    "sum": (lambda x: ag.sum(x, axis=0), 4096.0),
    "mean": (lambda x: ag.mean(x * 1000.0, axis=0), 1000.0),
    "var": (lambda x: ag.var(x * 300.0, axis=0), 0.0),
    "std": (lambda x: ag.std(x * 300.0, axis=0), 0.0),
    "cumulative_sum": (lambda x: ag.cumulative_sum(x, axis=0)[-1, :], 4096.0),
    "prod": (lambda x: ag.prod(x * 1.0, axis=0), 1.0),
    "matmul": (lambda x: (x.mT @ x)[0, :], 4096.0),
    "vecdot": (lambda x: ag.vecdot(x, x, axis=0), 4096.0),
    "tensordot": (lambda x: ag.tensordot(x, x, axes=((0,), (0,)))[0, :], 4096.0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_float16_reductions_round_once(name, half):
    function, expected = REDUCTIONS[name]
    found = function(half(ONES))
    assert ag.dtypes.name_of(found.dtype) == "float16"
    assert found.tolist() == [expected, expected]


def test_float16_beyond_its_range():
    """A count, a square or a sum on the way may exceed 65504 where the result does not."""
    x = ag.asarray(np.ones(100_000, dtype=np.float16), requires_grad=True)
    for function, value, slope in ((ag.mean, 1.0, 1e-5), (ag.linalg.vector_norm, 316.2278, 1 / 316.2278)):
        found = function(x)
        assert found.item() == pytest.approx(value, rel=1e-3)
        (gradient,) = ag.autograd.grad(found, x)
        np.testing.assert_allclose(host(gradient).astype(np.float64), slope, rtol=5e-3)
    assert ag.extra.logcumsumexp(ag.zeros(5000, dtype="float16"))[-1].item() == pytest.approx(math.log(5000), rel=1e-3)


def test_float16_stays_float16(half):
    x = half([0.5, 2.0])
    for found in (ag.exp(x), x * 2.0, x / 3, 1.0 + x, x**2, ag.sort(x), ag.where(x > 1.0, x, 0.0), ag.concat([x, x])):
        assert ag.dtypes.name_of(found.dtype) == "float16"
    assert ag.dtypes.name_of((x * 1j).dtype) == "complex64"
    assert ag.dtypes.name_of((x * ag.ones(2, dtype="float32", device=x.device)).dtype) == "float32"
    np.testing.assert_array_equal(host(ag.exp(x)), np.exp(np.array([0.5, 2.0], np.float16)), strict=True)


def test_float16_gradients_accumulate_in_float32(half):
    weight, bias = half([1.0, 1.0]), half(1.0)
    (half(ONES) * weight + bias).sum(axis=1)[0:4000].sum().backward()  # each is used in 4000 rows and 8000 places
    assert weight.grad.tolist() == [4000.0, 4000.0]
    assert bias.grad.item() == 8000.0
    assert ag.dtypes.name_of(weight.grad.dtype) == "float16"
    x = half([1.0, 2.0])
    x[ag.zeros(4096, dtype="int64", device=x.device)].sum().backward()
    assert x.grad.tolist() == [4096.0, 0.0]


def test_a_float16_operand_beside_float32_gets_a_float16_gradient(half):
    x = half([1.0, 2.0])
    (x * ag.asarray([3.0, 4.0], dtype="float32", device=x.device)).sum().backward()
    assert ag.dtypes.name_of(x.grad.dtype) == "float16"
    assert x.grad.tolist() == [3.0, 4.0]


# -- NumPy's functions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_mean_what_numpy_means(name, numpy_backend):
    ufunc = getattr(np, name)
    inside = np.array([[0.3, -0.7], [0.6, 0.2]])
    if name == "arccosh":
        operands = [inside + 2.0]
    elif name in ("log", "log2", "log10", "sqrt"):
        operands = [abs(inside)]
    elif name.startswith(("bitwise", "invert", "left", "right")):
        operands = [np.array([[3, 1], [4, 2]])] * ufunc.nin
    elif name == "power":
        operands = [abs(inside), inside]
    else:
        operands = [inside, inside + 0.25][: ufunc.nin]
    expected = ufunc(*operands)
    tensors = [ag.asarray(a, requires_grad=a.dtype.kind == "f") for a in operands]
    for found in (ufunc(*tensors), ufunc(*operands[:-1], tensors[-1]), ufunc(tensors[0], *operands[1:])):
        assert isinstance(found, ag.Tensor)
        np.testing.assert_allclose(host(found), expected, rtol=1e-12, strict=True)
        if expected.dtype.kind == "f" and name != "nextafter":
            assert found.requires_grad
    if any(t.requires_grad for t in tensors):
        with pytest.raises(TypeError, match="out= takes a tensor, not ndarray"):
            ufunc(*tensors, out=expected)


def test_ufuncs_of_scipy_special_stay_in_the_graph(numpy_backend):
    special = pytest.importorskip("scipy.special")
    x = ag.tensor([0.5, 1.5], requires_grad=True)
    y = special.erf(x)
    np.testing.assert_allclose(host(y), [math.erf(0.5), math.erf(1.5)], rtol=1e-14)
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), 2 / np.sqrt(np.pi) * np.exp(-np.array([0.25, 2.25])), rtol=1e-14)
    with pytest.raises(TypeError, match="is not defined for tensors"):
        special.airy(x)


#: NumPy's functions that the standard calls otherwise, with what they give in NumPy.
OTHERWISE = {
    "sum": lambda x: np.sum(x),
    "concatenate": lambda x: np.concatenate([x, x]),
    "transpose": lambda x: np.transpose(x),
    "vstack": lambda x: np.vstack([x, x]),
    "einsum": lambda x: np.einsum("ij->i", x),
    "norm": lambda x: np.linalg.norm(x),
    "matmul": lambda x: np.linalg.matmul(x, x),
    "cumsum": lambda x: np.cumsum(x),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_numpys_other_functions_stay_in_the_graph(name, numpy_backend):
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    found = OTHERWISE[name](x)
    np.testing.assert_allclose(host(found), OTHERWISE[name](host(x)))
    assert found.requires_grad
    with ag.no_grad():
        assert not OTHERWISE[name](x).requires_grad


# -- __array__ --------------------------------------------------------------------------------------------------------


def test_array_protocol(make):
    x = make([1.0, 2.0], dtype="float32")
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype="float64").tolist() == [1.0, 2.0]
    assert np.array(x).flags.writeable
    assert np.array(make([[True, False]])).tolist() == [[True, False]]
    for take in (np.asarray, np.array, lambda t: np.asarray(t, dtype="float32")):
        with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
            take(make([1.0], requires_grad=True))


@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
@pytest.mark.parametrize("name", ["empty_like", "zeros_like", "ones_like", "full_like"])
def test_like_keeps_dtype_shape_and_device(name, make):
    words = {"fill_value": 1} if name == "full_like" else {}
    for dtype in ("float32", "int64", "complex64"):
        x = make(np.ones((2, 3)), dtype=dtype)
        found = getattr(ag, name)(x, **words)
        assert (found.dtype, found.shape, found.device) == (x.dtype, x.shape, x.device)
        single = getattr(ag, name)(x, dtype=ag.float64, **words)
        assert (single.dtype, single.device) == (make(1.0, dtype="float64").dtype, x.device)
