"""The defaults of the contract, on libraries that do less than NumPy or otherwise."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import array_api_compat.numpy as compat
import numpy as np
import pytest

import agrad as ag
from agrad.core.backend import joined
from agrad.core.kernels import check_bounds
from agrad.ops.matrices import regular
from agrad.plugin import manager
from agrad.plugin.hookspecs import hookimpl
from agrad.program.batching import batched_backend
from agrad.testing.suite.running import changed


class Mine(ag.Backend):
    """NumPy's arrays, by the defaults of the contract alone."""

    name = "mine"

    def namespace(self):
        return compat


def but(**changes):
    """Give NumPy's namespace with some names changed; None takes one away."""
    names = {**vars(compat), **changes}
    made = types.SimpleNamespace(**{name: value for name, value in names.items() if value is not None})
    made.__name__ = "small"
    return made


# -- arrays that cannot be written to ---------------------------------------------------------------------------------


class Unwritable(Mine):
    """Arrays that refuse assignment, of whatever NumPy makes."""

    def namespace(self):
        def frozen(*args, **kwargs):
            made = np.zeros(*args, **kwargs)
            made.flags.writeable = False
            return made

        return but(zeros=frozen)


KEYS = {
    "integer": 1,
    "from the end": (-1, 2),
    "slice": slice(1, None),
    "backwards": (slice(None, None, -2), slice(2, 0, -1)),
    "ellipsis": (..., 0),
    "new axis": (None, 1),
    "mask": np.asarray([True, False, True]),
    "mask of all": np.arange(12).reshape(3, 4) % 3 == 0,
    "no places": np.zeros(3, bool),
    "places": np.asarray([2, 0]),
    "places met twice": np.asarray([0, 2, 0]),
    "pairs": (np.asarray([0, 2, 0]), np.asarray([1, 1, 1])),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_assignment_without_writing(key):
    backend = Unwritable()
    assert not backend.assigns
    assert Mine().assigns
    array = np.arange(12.0).reshape(3, 4)
    array.flags.writeable = False
    place = array[key]
    values = [np.asarray(-1.0), -1.0 - np.arange(place.size).reshape(place.shape)]
    if place.ndim > 1:
        values.append(-1.0 - np.arange(place.shape[-1])[None, None])  # a leading axis more than its place
    for value in values:
        expected = array.copy()
        expected[key] = value
        found = backend.setitem(array, key, value)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_scatter_add_adds_up(key):
    backend = Unwritable()
    like = np.zeros((3, 4))
    values = 1.0 + np.arange(like[key].size).reshape(like[key].shape)
    expected = like.copy()
    np.add.at(expected, key, values)
    np.testing.assert_array_equal(backend.scatter_add(Mine().spec(like), key, values), expected)


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [2, -3, (0, 3), (..., 3), (None, 2), (np.asarray([True, False]), 3), (slice(9), -4)])
def test_integers_out_of_bounds(key):
    with pytest.raises(IndexError, match="is out of bounds for axis"):
        check_bounds((2, 3), key)
    with pytest.raises(IndexError):
        np.zeros((2, 3))[key]


@pytest.mark.parametrize("key", [1, -2, (0, 2), (..., -3), (None, 1), (np.ones((2, 3), bool),), slice(7), ([0], 2)])
def test_integers_within_bounds(key):
    check_bounds((2, 3), key)
    np.zeros((2, 3))[key]


# -- dtypes, names, devices -------------------------------------------------------------------------------------------


def test_a_dtype_that_becomes_another():
    class Single(Mine):
        def namespace(self):
            return but(float64=np.float32, complex128=None)

    backend = Single()
    assert backend.dtype("float32") == np.float32
    for name in ("float64", "complex128"):
        with pytest.raises(TypeError, match=rf"has no dtype {name}; ag\.set_default_dtype\(ag\.float32\)"):
            backend.dtype(name)
    with pytest.raises(TypeError, match=r"has no dtype bfloat16: it has no real numbers"):
        backend.dtype("bfloat16")


def test_chapters_of_agrads_own_are_not_the_librarys():
    """A library's `special` may mean something else under the same name, as PyTorch's `polygamma`."""

    class Other(Mine):
        def namespace(self):
            return but(special=types.SimpleNamespace(expit=lambda x: x * 0.0), sin=lambda x: x * 0.0)

    xp = Other().xp
    np.testing.assert_allclose(xp.special.expit(np.asarray(1.0)), 1 / (1 + np.exp(-1)))
    assert xp.sin(np.asarray(1.0)) == 0


def test_the_version_of_a_wrapped_library():
    wrapped = but()
    wrapped.__name__ = "array_api_compat.numpy"
    del wrapped.__version__

    class Wrapped(Mine):
        def namespace(self):
            return wrapped

    assert Wrapped().availability() == (True, np.__version__)


def test_a_device_that_is_not_listed(strict_backend):
    strict = manager.get("strict").namespace()
    array = strict.ones((2,), device=strict.Device("device2"))
    with pytest.raises(ag.BackendError, match=r"none of the strict backend's devices: strict, strict:device1"):
        ag.asarray(array)


def test_devices_follow_from_their_objects(registered):
    class Devices(Mine):
        def native_devices(self):
            return {"mine:a": "cpu"}

    backend = Devices()
    assert (backend.devices(), backend.default_device()) == (("mine:a",), "mine:a")
    assert backend.native_device("mine:a") == "cpu"
    assert backend.device_of(np.ones(2)) == "mine:a"


def test_a_plugin_over_unwritable_arrays(registered):
    class Held(np.ndarray):
        pass

    class Plugin:
        backend = Unwritable()

        @hookimpl
        def agrad_backends(self):
            return [self.backend]

        @hookimpl
        def agrad_backend_of(self, array_type):
            return "mine" if array_type is Held else None

    registered(Plugin())
    x = ag.asarray(np.asarray([1.0, 2.0, 3.0]).view(Held))
    y = x * 1.0
    y[0] = 5.0
    assert (y.tolist(), x.tolist()) == ([5.0, 2.0, 3.0], [1.0, 2.0, 3.0])


# -- modules of programs ------------------------------------------------------------------------------------------------


class Writing(Mine):
    """Writes modules: what the steps are called, in order."""

    def source(self, program, *, notes=True):
        parameters = {"w": next(iter(program.outside.values())), "table": np.ones(2)}
        return " ".join(step.op for step in program.steps) + (" with notes" if notes else ""), parameters


def test_a_backend_writes_modules_of_its_own(registered):
    class Plugin:
        @hookimpl
        def agrad_backends(self):
            return [Writing()]

    registered(Plugin())
    w = ag.tensor([2.0, 3.0])
    program = ag.func.capture(lambda x: ag.sin(x.detach()) * w)(np.ones(2))
    assert program.source(backend="mine") == "sin multiply with notes"
    assert program.source(backend="mine", notes=False) == "sin multiply"
    w.data = ag.tensor([5.0, 6.0])
    arrays = program.arrays(backend="mine")
    assert {name: value.tolist() for name, value in arrays.items()} == {"w": [5.0, 6.0], "table": [1.0, 1.0]}
    assert [*program.arrays()] == ["w"]


def test_a_backend_by_the_defaults_writes_none():
    with pytest.raises(ag.UnsupportedOp, match=r"source is not supported by the mine backend"):
        Mine().source(None)


# -- join -------------------------------------------------------------------------------------------------------------


class Knows(ag.Backend):
    """A backend that takes those for which `knows` is true."""

    def __init__(self, name, knows=lambda other: False, *, is_duck_array=False):
        self.name, self.knows, self.is_duck_array = name, knows, is_duck_array

    def namespace(self):
        return compat

    def join(self, others):
        return self if all(self.knows(other) for other in others) else None


def test_backends_that_do_not_know_each_other_do_not_mix():
    one, two = Mine(), Mine()
    assert joined([one]) is one.join([]) is one
    assert joined([one, one]) is one
    assert joined([one, two]) is None
    assert joined([]) is None


def test_one_of_them_has_to_know_the_others():
    plain, chunks = Knows("plain", is_duck_array=True), Knows("chunks", lambda other: other.is_duck_array)
    assert plain.join([chunks]) is None
    for order in itertools.permutations([plain, chunks, plain]):
        assert joined(order) is chunks


def test_three_libraries_of_which_two_know_nothing_of_each_other():
    host, device = Knows("host", is_duck_array=True), Knows("device", is_duck_array=True)
    chunks, alien = Knows("chunks", lambda other: other.is_duck_array), Knows("alien")
    for order in itertools.permutations([host, device, chunks]):
        assert joined(order) is chunks
    for order in itertools.permutations([host, chunks, alien]):
        assert joined(order) is None
    assert joined([host, device]) is None


def test_levels_of_vmap_join_into_all_of_them_over_the_library_that_takes_the_others():
    host = Knows("host", is_duck_array=True)
    chunks, alien = Knows("chunks", lambda other: other.is_duck_array), Knows("alien")
    first, second = batched_backend(1, host), batched_backend(2, host)
    both = batched_backend(2, first)
    for order in itertools.permutations([host, first, second]):
        assert joined(order) is both
    assert joined([both, first]) is joined([second, both]) is both
    assert joined([batched_backend(2, chunks), first]) is batched_backend(2, batched_backend(1, chunks))
    assert joined([chunks, first]) is joined([first, chunks]) is batched_backend(1, chunks)
    assert joined([first, alien]) is joined([alien, first]) is None


def test_dask_takes_what_can_be_chunks_whoever_gives_it(dask_backend):
    numpy, dask = manager.get("numpy"), manager.get("dask")
    sparse = Knows("sparse", is_duck_array=True)
    assert joined([numpy, dask]) is joined([dask, sparse]) is joined([sparse, numpy, dask]) is dask
    assert joined([numpy, sparse]) is None
    assert joined([dask, Knows("mine")]) is None


# -- reserved for later -----------------------------------------------------------------------------------------------


def test_what_is_reserved_says_that_agrad_does_it_itself():
    backend = Mine()
    spec = backend.spec(np.ones((2, 3)))
    assert backend.infer("multiply", (spec, spec), {}) is None
    assert backend.compile(lambda xp, x: xp.exp(x)) is None
    made = backend.asarray([1.0, 2.0], like=np.ones(3))
    assert made.tolist() == [1.0, 2.0]


def test_an_array_like_another_is_on_its_device(strict_backend):
    strict = manager.get("strict")
    there = strict.asarray([1.0], device="strict:device1")
    assert strict.device_of(strict.asarray([2.0], like=there)) == "strict:device1"
    assert strict.device_of(strict.asarray([2.0], like=there, device="strict")) == "strict"


# -- what had been NumPy's alone --------------------------------------------------------------------------------------


def test_bytes_become_an_array_of_any_backend(strict_backend):
    raw = bytearray(np.asarray([[1.0, -2.0]], "<f4").tobytes())
    for name, device in (("numpy", "numpy"), ("strict", "strict:device1")):
        backend = manager.get(name)
        made = backend.from_buffer(raw, "float32", (1, 2), device)
        spec = backend.spec(made)
        assert (spec.shape, backend.dtype_name(spec.dtype), spec.device) == ((1, 2), "float32", device)
        assert backend.tolist(made) == [[1.0, -2.0]]
        with pytest.raises(TypeError, match="a tensor has no dtype 'object'"):
            backend.from_buffer(raw, "object", (1, 2), device)


def test_truth_and_text_and_what_leaves():
    backend = Mine()
    assert backend.truth(np.asarray(2.0)) is True
    assert backend.truth(np.asarray(0)) is False
    assert backend.text_of(np.ones(2)) is None
    array = np.ones(2)
    assert backend.read_only(array) is array  # nothing in the standard is read-only
    one = np.asarray(1.0)
    assert backend.read_only(one) is not one


class Unindexed(Mine):
    """A backend whose arrays are read by its kernel alone."""

    def kernel(self, op):
        return self.read if op == "getitem" else None

    def read(self, x, key):
        self.keys = [*getattr(self, "keys", []), key]
        return np.asarray(x[key])


def test_elements_are_read_by_the_kernel():
    backend = Unindexed()
    assert backend.tolist(np.asarray([[1.0, 2.0], [3.0, 4.0]])) == [[1.0, 2.0], [3.0, 4.0]]
    assert len(backend.keys) == 6


# -- what is frozen ---------------------------------------------------------------------------------------------------

#: The members of version 2 of the contract. A line may be added, with a default that is right for backends that do not know
#: it; to change or take away one is version 3.
VERSION_2 = """
    add_into(self, array, other, out)
    adopt(self, tensor)
    as_array(self, value)
    asarray(self, value, *, dtype=None, device=None, copy=None, like=None)
    assigns
    availability(self)
    beside(self, array)
    broadcast_like(self, array, spec)
    cannot(self, requirement, device=None)
    capabilities
    compile(self, program, **options)
    computes
    contract
    creation(self, device)
    default_device(self)
    default_dtype(self, kind='float', device=None)
    default_name(self, kind='float', device=None)
    device_capabilities
    device_of(self, array)
    devices(self)
    dtype(self, dtype)
    dtype_name(self, dtype)
    from_buffer(self, data, dtype_name, shape, device)
    from_dlpack(self, x, *, copy=None)
    from_host(self, buffer, device)
    functions
    holds_nan(self, array)
    in_layout(self, array, spec)
    infer(self, op, arguments, parameters)
    is_batched
    is_chunked
    is_duck_array
    is_lazy
    item(self, array)
    join(self, others)
    kernel(self, op)
    kind(self, dtype)
    lacks
    layout(self, array)
    lend(self, array)
    may_hold_nan(self, array)
    may_hold_zero(self, array)
    misses(self, array)
    missing
    mixed(self, op, others)
    module(self, name)
    name
    namespace(self)
    native_device(self, device)
    native_devices(self)
    nbytes(self, array)
    outlook(self, *arrays, max_memory=None)
    pickles
    quiet(self)
    random(self, kind, shape, key, *, dtype, device, **p)
    read_only(self, array)
    realize(self, *arrays, keep='host', max_memory=None, progress=None)
    receive(self, source, array, device)
    rechunk(self, array, chunks)
    run_function
    run_rule
    scalar(self, value, spec)
    scalar_dtype(self, value, spec)
    scatter_add(self, spec, key, values)
    send(self, array, target, device)
    setitem(self, array, key, value)
    setitem_into(self, array, key, value)
    shows(self, array)
    source(self, program, *, notes=True)
    spec(self, array)
    taken(self, value)
    text_of(self, array)
    to_host(self, array)
    tolist(self, array)
    truth(self, array)
    watch(self, array)
    xp
"""


def test_the_contract_is_as_frozen():
    found = []
    for name in sorted(name for name in vars(ag.Backend) if not name.startswith("_")):
        member, text = inspect.getattr_static(ag.Backend, name), ""
        if inspect.isfunction(member):
            signature = inspect.signature(member)
            bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
            text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
        found.append(name + text)
    assert ag.CONTRACT == 2
    assert found == [line.strip() for line in VERSION_2.strip().splitlines()]


#: What the modules for plugins name in version 2. A name may be added, and gets a sentence in docs/plugin.md.
NAMES_2 = {
    "agrad.plugin.backend": """
        Backend Blank CONTRACT Device Executor KeptValues MaskedCotangents MissingName NeedsValuesError OPS Outlook PRIMITIVES Padding Pair Place
        Refused
        SPECS_KEPT
        SUBNAMESPACES Spec TAIL TAIL_END TAIL_K WITHOUT_OP ancestors array_of backend_of called check_bounds computing_anyway facts_of
        forget_kernels getframe in_dask inexact_only internal is_asked is_followed is_internal is_mask key_parts line_of lock
        more_than_numbers node_of not_recorded once output_size place_in spec_of told uncollected user_frame visits_once
    """,
    "agrad.plugin.programs": """
        Argnums Argument Body CaptureError CompileError CompileWarning DRAW DType Given HERE INDENT Kept LITERALS LOOP Leaf
        Number Program Programs Ref STOP Shaped Step Stopped Write Writer apart bare_all blank_tensor broadcast check_argnums
        environment find give_all givers infer is_elementwise is_foreign is_fresh is_number is_raw
        is_transformed key_of mapped name_of optimized printable program_of_kernels refs_in spec_of_value split_aux symbol_of
        trimmed tuple_text unrolled written_out
    """,
}


@pytest.mark.parametrize("module", NAMES_2)
def test_the_modules_for_plugins_are_as_frozen(module):
    names = sorted(NAMES_2[module].split())
    assert sorted(importlib.import_module(module).__all__) == names
    page = (Path(__file__).parents[2] / "docs/plugin.md").read_text(encoding="utf-8")
    table = page.split(f"\n`{module}` has ")[1].split("\n\n")[1]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == names


# -- arrays with missing elements --------------------------------------------------------------------------------------


class Gaps(np.ndarray):
    """NumPy's arrays, of which elements that are NaN are missing."""

    @property
    def mask(self):
        return np.isnan(self)


class GapsBackend(Mine):
    name = "gaps"

    def namespace(self):
        return but(
            asarray=lambda *args, **options: compat.asarray(*args, **options).view(Gaps),
            zeros=lambda *args, **options: compat.zeros(*args, **options).view(Gaps),
        )

    def from_host(self, buffer, device):
        return np.array(buffer).view(Gaps)


class GapsPlugin:
    @hookimpl
    def agrad_backends(self):
        return [GapsBackend()]

    @hookimpl(tryfirst=True)
    def agrad_backend_of(self, array_type):
        return "gaps" if array_type is Gaps else None


@pytest.mark.parametrize(
    "use",
    [
        ag.asarray,
        ag.mean,
        lambda x: x * ag.asarray(x),
        lambda x: ag.asarray([x, x]),
        lambda x: ag.grad(lambda v: ag.mean(v * v))(x),
        lambda x: ag.zeros(3, device="gaps"),
        lambda x: ag.namespace("gaps").mean(x),
        lambda x: ag.ones(3).to_device("gaps"),
        lambda x: setattr(ag.ones(3), "data", x),
    ],
)
def test_arrays_of_a_plugin_that_have_a_mask_are_refused(use, registered):
    registered(GapsPlugin())
    x = np.array([1.0, np.nan, 3.0]).view(Gaps)
    with pytest.raises(
        TypeError,
        match=r"can't convert a Gaps to a tensor: its mask would be lost, .*\n  .*\n  Called at .*test_contract",
    ):
        use(x)


def test_a_method_named_mask_is_none(registered):
    class Whole(np.ndarray):
        def mask(self, condition):
            return np.where(condition, np.nan, self)

    class WholePlugin(GapsPlugin):
        @hookimpl(tryfirst=True)
        def agrad_backend_of(self, array_type):
            return "gaps" if array_type is Whole else None

    registered(WholePlugin())
    assert ag.mean(np.array([1.0, 3.0]).view(Whole)).device == "gaps"


# -- libraries with less, or otherwise ---------------------------------------------------------------------------------


class BoxedDType(types.SimpleNamespace):
    """A dtype whose text is not the standard's name."""

    def __hash__(self):
        return hash(self.numpys)


BOXED_DTYPES = {name: BoxedDType(numpys=np.dtype(name)) for name in ag.dtypes.NAMES}


class Boxed:
    """An array of NumPy's within an object that cannot be changed, by the usual means: what pickles it does not unpickle."""

    __slots__ = ("value",)

    def __init__(self, value):
        object.__setattr__(self, "value", value)

    def __setattr__(self, name, value):
        raise AttributeError("immutable")

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    dtype = property(lambda self: BOXED_DTYPES[self.value.dtype.name])

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value)


def boxed(function):
    def call(*args, dtype=None, **kwargs):
        if dtype is not None:
            kwargs["dtype"] = dtype.numpys
        made = function(*(a.value if isinstance(a, Boxed) else a for a in args), **kwargs)
        return Boxed(np.asarray(made)) if isinstance(made, np.ndarray | np.generic) else made

    return call


class BoxedBackend(Mine):
    """A library whose dtypes have names of their own, and nothing without elements."""

    name = "boxed"
    capabilities = {"empty arrays": False}

    def namespace(self):
        def empty(shape, *, dtype):
            assert 0 not in shape, "there are no empty arrays"
            return Boxed(np.empty(shape, dtype.numpys))

        names = {name: boxed(f) for name, f in vars(compat).items() if callable(f) and not isinstance(f, type)}
        own = {"isdtype": lambda dtype, kind: compat.isdtype(dtype.numpys, kind), "empty": empty}
        return types.SimpleNamespace(**{**names, **BOXED_DTYPES, **own})

    def dtype_name(self, dtype):
        return dtype.numpys.name


class BoxedPlugin:
    @hookimpl
    def agrad_backends(self):
        return [BoxedBackend()]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "boxed" if array_type is Boxed else None


def test_what_does_not_come_back_from_a_pickle_goes_by_way_of_numpy(registered):
    registered(BoxedPlugin())
    with pytest.raises(AttributeError, match="immutable"):
        pickle.loads(pickle.dumps(Boxed(np.ones(2))))
    assert not manager.get("boxed").pickles
    made = pickle.loads(pickle.dumps(ag.asarray(Boxed(np.asarray([1.0, 2.0])))))
    assert (made.device, made.tolist()) == ("boxed", [1.0, 2.0])
    assert manager.get("numpy").pickles


@pytest.mark.parametrize("number", [False, True, 3, 2.5, 1 - 2j])
def test_numbers_of_an_array_without_their_methods_are_read_on_the_host(number, registered):
    registered(BoxedPlugin())
    x = ag.asarray(Boxed(np.asarray([number])))
    assert (x.item(), x.tolist(), bool(x)) == (number, [number], bool(number))
    assert type(x.item()) is type(number)
    assert repr(x).startswith(repr(ag.asarray([number]))[:-1])


def test_a_rule_asks_the_backend_what_is_true(registered, monkeypatch):
    """Every object without ``__bool__`` is true in Python, also an array that says that no matrix is singular."""
    registered(BoxedPlugin())
    backend = manager.get("boxed")
    numbers, nothing = Boxed(np.asarray([1.0, 2.0])), Boxed(np.asarray([1.0, np.nan]))
    assert not backend.holds_nan(numbers)
    assert backend.holds_nan(nothing)
    monkeypatch.setattr(Boxed, "__eq__", boxed(np.ndarray.__eq__))
    regular(backend.xp, numbers, backend.spec(numbers), "singular")
    with pytest.raises(RuntimeError, match="singular"):
        regular(backend.xp, Boxed(np.asarray([1.0, 0.0])), backend.spec(numbers), "singular")


@pytest.mark.parametrize("told", [np.dtype("f4").newbyteorder("<"), np.dtype("f8", metadata={"unit": "m"})])
def test_a_spec_keeps_the_namespaces_dtype(told, strict_backend):
    """An array whose dtype says its byte order or has metadata does not lend that dtype to all others of its shape."""
    plain, array = np.dtype(told.type), np.ones((5, 3), told)
    assert array.dtype == plain
    assert array.dtype is not plain
    backend = Mine()
    assert backend.spec(array).dtype is plain
    assert backend.spec(array) is backend.spec(np.ones((5, 3), plain))
    strict = manager.get("strict")
    assert strict.spec(strict.namespace().asarray(array)).dtype._np_dtype is plain


@pytest.mark.parametrize("other", [">f8", "M8[s]", "f4,i4", "U3", "O", np.longdouble])
def test_a_spec_keeps_a_dtype_that_the_namespace_has_not(other):
    array = np.zeros((5, 3), other)
    assert Mine().spec(array).dtype == array.dtype
    assert ag.backends.get("numpy").spec(array).dtype == array.dtype


@pytest.mark.parametrize("given", ["float32", ag.float32, np.float32, np.dtype("float32"), BOXED_DTYPES["float32"]])
def test_a_dtype_is_named_by_the_backend_whose_it_is(given, registered):
    registered(BoxedPlugin())
    assert ag.zeros(2, dtype=given, device="boxed").dtype is BOXED_DTYPES["float32"]
    assert ag.asarray(Boxed(np.ones(2))).to_device("numpy").dtype == np.float64


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: ag.take(x, np.asarray([[2, 0], [2, 1]]), axis=0), [[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]),
        (lambda x: ag.take(x, np.asarray([1, 1, 0]), axis=1), [[1.0, 2.0]] * 3),
        (lambda x: ag.repeat(x, np.asarray([2, 0, 1]), axis=0), [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]),
        (lambda x: ag.repeat(x, np.asarray([2, 1]), axis=1), [[2.0, 1.0]] * 3),
    ],
)
def test_keys_of_rules_say_something_of_every_axis(function, expected):
    backend = manager.get("numpy")

    def scatter_add(spec, key, values):
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) < len(spec.shape) and not any(part is ... for part in parts):
            raise IndexError("a key says something of each axis, or has an ellipsis")
        return backend.scatter_add(spec, key, values)

    with changed(backend, kernel=lambda op: scatter_add if op == "scatter_add" else type(backend).kernel(backend, op)):
        x = ag.ones((3, 2), requires_grad=True)
        function(x).sum().backward()
    assert x.grad.tolist() == expected


@pytest.mark.parametrize("lead", [0, 1])
def test_an_array_of_places_before_an_ellipsis(lead, strict_backend):
    """Which the standard's own indexing does not take: it is the same as with slices."""
    backend = manager.get("strict")
    x = backend.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    places = backend.asarray([1, 0, 1])
    found = backend.xp.getitem(x, (*(slice(None),) * lead, places, ...))
    assert backend.tolist(found) == np.take(np.asarray(backend.tolist(x)), [1, 0, 1], axis=lead).tolist()


@pytest.mark.parametrize("name", ["conj", "real"])
def test_a_library_of_real_numbers_needs_no_conjugates(name):
    class Real(Mine):
        capabilities = {"complex": False}

        def namespace(self):
            return but(**{name: None})

    x = np.asarray([1.0, -2.0])
    made = getattr(Real().xp, name)(x)
    assert made.tolist() == [1.0, -2.0]
    assert not np.shares_memory(made, x)

    class Complex(Real):
        capabilities = {}

    with pytest.raises(ag.UnsupportedOp, match=f"{name} is not supported .* no function of that name"):
        getattr(Complex().xp, name)(x)


def test_a_function_that_is_younger_than_the_namespace():
    class Older(Mine):
        def namespace(self):
            return but(isin=None, __array_api_version__="2024.12")

    with pytest.raises(ag.UnsupportedOp, match=r"follows the standard of 2024\.12, the function is of 2025\.12$"):
        Older().xp.isin(np.asarray([1]), np.asarray([1]))


def test_compositions_take_magnitudes_by_the_function():
    class Bare(np.ndarray):
        def __abs__(self):
            raise TypeError("bad operand type for abs()")

    x, y = np.asarray([0.5, 0.0]).view(Bare), np.asarray([0.25, 1.0]).view(Bare)
    assert np.allclose(Mine().xp.special.rel_entr(x, y), [0.5 * np.log(2.0), 0.0])
    assert np.allclose(Mine().xp.special.kl_div(x, y), [0.5 * np.log(2.0) - 0.25, 1.0])


# -- SciPy ------------------------------------------------------------------------------------------------------------


def test_modules_of_other_libraries_come_through_one_door():
    numpy = manager.get("numpy")
    assert numpy.module("scipy.optimize") is pytest.importorskip("scipy.optimize")
    assert numpy.module("numpy") is np
    assert [numpy.kernel(name) for name in ("numpy", "scipy.optimize", "optim.minimize")] == [None] * 3
    assert Mine().module("scipy.optimize") is None
    with pytest.raises(ModuleNotFoundError, match=r"scipy\.nonsense"):
        numpy.module("scipy.nonsense")


def test_without_scipy_its_solvers_say_what_to_install():
    source = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(f"No module named {name!r}", name="scipy")

sys.meta_path.insert(0, Block())
import agrad as ag
from agrad.scipy import integrate, optimize

for solve in (
    lambda: ag.optim.minimize(lambda x: x @ x, ag.ones(2)),
    lambda: optimize.root(lambda x: x - 1, ag.ones(2)),
    lambda: integrate.quad(lambda x: x, 0.0, 1.0),
):
    try:
        solve()
    except ag.BackendError as error:
        print(str(error).splitlines()[0])
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"{what} needs SciPy, which is not installed: pip install scipy"
        for what in ("agrad.optim.minimize", "agrad.scipy.optimize", "agrad.scipy.integrate")
    ]
