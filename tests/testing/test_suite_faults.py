"""The conformance kit catches faults of a backend, each by the test that is meant for it; the sound backend passes that."""

from __future__ import annotations

import importlib.util
import itertools
import math
import threading
import time
import types
from pathlib import Path

import array_api_strict
import numpy as np
import pytest

import agrad as ag
from agrad.core.backend import BACKENDS
from agrad.core.op import OPS
from agrad.plugin.hookspecs import hookimpl
from agrad.program import batching
from agrad.testing import suite
from agrad_numpy.backend import NumpyBackend

SPEC = importlib.util.spec_from_file_location("strict_for_faults", Path(__file__).parents[1] / "strict_backend.py")
STRICT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(STRICT)

#: What tests raise.
CAUGHT = (AssertionError, pytest.fail.Exception)


class Sound(STRICT.StrictBackend):
    """array-api-strict with one device, under a name of its own."""

    name = "faulty"

    def devices(self):
        return (self.name,)

    def native_device(self, device):
        return None

    def device_of(self, array):
        return self.name

    def to_host(self, array):
        return np.asarray(array)

    def from_host(self, buffer, device):
        return array_api_strict.asarray(np.array(buffer))


class Plugin:
    """A backend, and the claim on array-api-strict's arrays."""

    def __init__(self, backend):
        self.backend = backend

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "faulty" if array_type.__module__ == "array_api_strict._array_object" else None


# -- faults -----------------------------------------------------------------------------------------------------------


class LastWins(Sound):
    """scatter_add writes instead of adding."""

    def scatter_add(self, spec, key, values):
        parts = key if isinstance(key, tuple) else (key,)
        made = np.zeros(spec.shape, str(values.dtype).rpartition(".")[2])
        made[tuple(np.asarray(part) if hasattr(part, "dtype") else part for part in parts)] = np.asarray(values)
        return array_api_strict.asarray(made)


class Aliasing(Sound):
    """setitem writes into the array it was given."""

    def setitem(self, array, key, value):
        array[key] = value
        return array


class WrongAddend(Sound):
    """add_into writes into the other array."""

    def add_into(self, array, other, out):
        other += array
        return other


class WrongDtype(Sound):
    """sum gives double precision whatever goes in."""

    def kernel(self, op):
        def total(x, /, *, axis=None, dtype=None, keepdims=False):
            return array_api_strict.sum(x, axis=axis, dtype=array_api_strict.float64, keepdims=keepdims)

        return total if op == "sum" else None


class WronglyInferred(Sound):
    """Says of sums that they are of single precision."""

    def infer(self, op, arguments, parameters):
        if op != "sum":
            return None
        first = arguments[0]
        return [type(first)(self, (), array_api_strict.float32, first.device)]


class Unheard(Sound):
    """Says that it has what nobody asks for."""

    capabilities = {"flying": True}


class Wordless(Sound):
    """Has neither a truth value nor a reason."""

    capabilities = {"fft": None}


class OfAnotherDevice(Sound):
    """Says something of a device that it does not have."""

    device_capabilities = {"faulty:gpu": {"float64": False}}


class Widening(Sound):
    """Has single precision alone, and makes floats in double."""

    capabilities = {"float64": "the chip counts in single precision"}

    def default_name(self, kind="float", device=None):
        return {"float": "float64", "complex": "complex128"}.get(kind, "int64")

    def default_dtype(self, kind="float", device=None):
        return self.dtype("float32")


class WrongValue(Sound):
    """exp is exact to three digits."""

    def kernel(self, op):
        return (lambda x: array_api_strict.exp(x) * 1.001) if op == "exp" else None


class ReverseOnly(Sound):
    """A kernel that only derivatives use is wrong: sin and cos are good to the eye, the derivative of sin is not."""

    def kernel(self, op):
        return (lambda x: -array_api_strict.cos(x)) if op == "cos" else None


class WrongSpec(Sound):
    """Specs are kept by shape, whatever the dtype."""

    def spec(self, array):
        found = self._specs.get(array.shape)
        if found is None:
            found = self._specs[array.shape] = super().spec(array)
        return found


class WrongBytes(Sound):
    """Every element is said to take eight bytes."""

    def nbytes(self, array):
        return int(array.size) * 8


class NoKey(Sound):
    """random looks at no key."""

    def random(self, kind, shape, key, *, dtype, device, **p):
        return super().random(kind, shape, (0, 0), dtype=dtype, device=device, **p)


class OneStream(Sound):
    """random gives what comes next."""

    count = itertools.count()

    def random(self, kind, shape, key, *, dtype, device, **p):
        return super().random(kind, shape, (key[0], next(self.count)), dtype=dtype, device=device, **p)


class ByThread(Sound):
    """random has a source per thread."""

    def random(self, kind, shape, key, *, dtype, device, **p):
        source = key if threading.current_thread() is threading.main_thread() else (key[0] + 1, key[1])
        return super().random(kind, shape, source, dtype=dtype, device=device, **p)


class Skewed(Sound):
    """Uniform numbers are too small."""

    def random(self, kind, shape, key, *, dtype, device, **p):
        made = super().random(kind, shape, key, dtype=dtype, device=device, **p)
        return made * made if kind == "uniform" else made


class NotBroadcast(Sound):
    """broadcast_like gives the array as it is."""

    def broadcast_like(self, array, spec):
        return array


class Raising(Sound):
    """availability raises instead of answering."""

    def availability(self):
        raise OSError("the driver is asleep")


class Unannounced(Sound):
    """A kernel raises an exception of the library's, and nothing says that the operation is lacking."""

    def kernel(self, op):
        def refuse(*args):
            raise KeyError("error 7 in the library")

        return refuse if op == "tan" else None


class Modest(Sound):
    """An operation is declared to be lacking, and would work."""

    lacks = {"tanh": "nobody has tried"}


class Vague(Sound):
    """An operation is declared to be lacking without a reason."""

    lacks = {"tanh": ""}


class WrongScalar(Sound):
    """Python numbers are of double precision beside any array."""

    def scalar_dtype(self, value, spec):
        return array_api_strict.float64


class Elsewhere(Sound):
    """Arrays are said to be on a device that was not asked for."""

    def device_of(self, array):
        return "faulty:1"


class Transposing(Sound):
    """Matrices arrive transposed in the host's memory."""

    def to_host(self, array):
        host = np.asarray(array)
        return host.T.reshape(host.shape)


class Sharing(Sound):
    """Tensors are made on the user's memory, and assignment writes into it."""

    def from_host(self, buffer, device):
        return array_api_strict.asarray(np.asarray(buffer), copy=False)

    setitem = Aliasing.setitem


class Forgetful(Sound):
    """Values of the host lose their precision on the way."""

    def from_host(self, buffer, device):
        host = np.array(buffer)
        return super().from_host(host.astype(np.float32) if host.dtype == np.float64 else host, device)


class Scalars(Sound):
    """Results without axes are the library's scalar objects."""

    def kernel(self, op):
        return (lambda x, /, **p: np.float64(array_api_strict.sum(x, **p))) if op == "sum" else None


def with_kernel(name, op, kernel):
    """A backend with a kernel of its own, called by its fault."""
    return type(name, (Sound,), {"kernel": lambda self, asked: kernel if asked == op else None})


def by_numpy(function):
    """A kernel by way of NumPy."""
    return lambda *arrays, **parameters: array_api_strict.asarray(
        np.asarray(function(*map(np.asarray, arrays), **parameters))
    )


def truncated_division(a, b):
    return (np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(a.dtype)


def in_its_own_dtype(function):
    """Integers are added up in what they come in."""
    return lambda x, /, **parameters: function(x, **{**parameters, "dtype": parameters.get("dtype") or x.dtype})


def for_empty(function, value):
    return lambda x, /, **parameters: (
        function(x, **parameters) if x.size else array_api_strict.asarray(value, dtype=x.dtype)
    )


def clamped_take(x, indices, /, *, axis=None):
    return array_api_strict.take(
        x, array_api_strict.maximum(indices, array_api_strict.zeros_like(indices)), axis=axis or 0
    )


def rounded_cast(x, dtype, /, *, copy=True, device=None):
    rounds = array_api_strict.isdtype(x.dtype, "real floating") and array_api_strict.isdtype(dtype, "integral")
    return array_api_strict.astype(array_api_strict.round(x) if rounds else x, dtype, copy=copy)


def kept_buffers():
    """exp writes its results of one shape and dtype into one array."""
    kept = {}

    def exp(x, /):
        made = kept.setdefault((x.shape, str(x.dtype)), array_api_strict.zeros_like(x))
        made[...] = array_api_strict.exp(x)
        return made

    return exp


ZEROS = array_api_strict.zeros((2, 2))

TruncatedDivision = with_kernel("TruncatedDivision", "floor_divide", by_numpy(truncated_division))
NarrowSum = with_kernel("NarrowSum", "sum", in_its_own_dtype(array_api_strict.sum))
NarrowSums = with_kernel("NarrowSums", "cumulative_sum", in_its_own_dtype(array_api_strict.cumulative_sum))
BlindMax = with_kernel("BlindMax", "max", by_numpy(np.nanmax))
BlindMaximum = with_kernel("BlindMaximum", "maximum", by_numpy(np.fmax))
LargestOfNothing = with_kernel("LargestOfNothing", "max", for_empty(array_api_strict.max, 0))
NoneOfNothing = with_kernel("NoneOfNothing", "all", for_empty(array_api_strict.all, False))
OnlyOnes = with_kernel("OnlyOnes", "any", lambda x, /, **p: array_api_strict.any(x == 1, **p))
HalvesUp = with_kernel("HalvesUp", "round", by_numpy(lambda x: np.floor(x + 0.5)))
RoundedCast = with_kernel("RoundedCast", "astype", rounded_cast)
ClampedTake = with_kernel("ClampedTake", "take", clamped_take)
Cancelling = with_kernel("Cancelling", "log1p", lambda x, /: array_api_strict.log(1 + x))
Overflowing = with_kernel("Overflowing", "hypot", lambda a, b, /: (a * a + b * b) ** 0.5)
OwnOperand = with_kernel("OwnOperand", "positive", lambda x, /: x)
KeptZeros = with_kernel("KeptZeros", "zeros_like", lambda x, /: ZEROS)
KeptBuffers = with_kernel("KeptBuffers", "exp", kept_buffers())


class CannotCopy(Sound):
    """copy=True is not listened to."""

    def asarray(self, value, *, dtype=None, device=None, copy=None):
        return super().asarray(value, dtype=dtype, device=device)


class SeesNoNan(Sound):
    """Arrays are said to hold no NaN, without a look."""

    def may_hold_nan(self, array):
        return False


class WritesToLocked(Sound):
    """Host memory has to be writeable."""

    def from_host(self, buffer, device):
        if not np.asarray(buffer).flags.writeable:
            raise TypeError("buffer is read-only")
        return super().from_host(buffer, device)


class ByDouble(Sound):
    """Integers come by way of double precision."""

    def from_host(self, buffer, device):
        host = np.array(buffer)
        return array_api_strict.asarray(host.astype(np.float64).astype(host.dtype) if host.dtype == "int64" else host)


class NoEps(Sound):
    """A layer's own kernel forgets what keeps its divisor away from 0; what it leaves for the derivative is right."""

    def kernel(self, op):
        def layer_norm(input, weight=None, bias=None, rank=1, eps=1e-5, /):
            _, mean, scale = OPS[op].kernel(self.xp, input, weight, bias, rank, eps)
            return OPS[op].kernel(self.xp, input, weight, bias, rank, 0.0)[0], mean, scale

        return layer_norm if op == "nn.layer_norm" else None


class WrongLeft(Sound):
    """A layer's own kernel leaves something else than its derivative takes it for."""

    def kernel(self, op):
        def layer_norm(*arguments):
            y, mean, scale = OPS[op].kernel(self.xp, *arguments)
            return y, mean, 1 / scale

        return layer_norm if op == "nn.layer_norm" else None


class WrongSlope(Sound):
    """The kernel is right, that of the derivative forgets that the divisor depends on the operand too."""

    def kernel(self, op):
        def slope(g, input, weight, mean, scale, rank, /):
            return (g if weight is None else g * weight) * scale

        return slope if op == "nn.layer_norm_input" else None


class Greedy(Plugin):
    """Claims whatever it is asked about."""

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "faulty"


class Rough(Plugin):
    """Replaces a kernel that its backend declares to be lacking by one that fails in its own way."""

    @hookimpl
    def agrad_kernel(self, op, backend):
        def fail(*args):
            raise MemoryError("error 7 in the library")

        return fail if op == "tanh" and backend.name == "faulty" else None


# -- what compiles programs: each compiles to the program's own text, and does one thing wrong -------------------------


class Compiling(Sound):
    """Programs are run as a whole."""

    def compile(self, program, **options):
        return self.faulty(program, program.function(self), **options)

    def faulty(self, program, run, **options):
        return run


class Rounding(Compiling):
    """All results are a little too large, even where they are to be exact."""

    def faulty(self, program, run, **options):
        return lambda *values: tuple(
            made * (1 + 1e-15) if "float" in str(made.dtype) else made for made in run(*values)
        )


class FirstOutputs(Compiling):
    """What the first run gave is given ever after."""

    def faulty(self, program, run, **options):
        kept = []

        def always(*values):
            kept[:] = kept or run(*values)
            return tuple(kept)

        return always


class KeptOutputs(Compiling):
    """All runs write their results into the same arrays."""

    def faulty(self, program, run, **options):
        kept = []

        def into(*values):
            made = run(*values)
            kept[:] = kept or map(array_api_strict.zeros_like, made)
            for array, now in zip(kept, made, strict=True):
                array[...] = now
            return tuple(kept)

        return into


class WritingInputs(Compiling):
    """Inputs are used as buffers."""

    def faulty(self, program, run, **options):
        def over(*values):
            made = run(*values)
            for value in values:
                value[...] = 0
            return made

        return over


class OneAtATime(Compiling):
    """What runs at the same time gets the inputs of another."""

    def faulty(self, program, run, **options):
        place = []

        def shared(*values):
            place[:] = values
            time.sleep(0.001)
            return run(*place)

        return shared


class Listing(Compiling):
    """The outputs come as a list."""

    def faulty(self, program, run, **options):
        return lambda *values: list(run(*values))


class Losing(Compiling):
    """One output is lost."""

    def faulty(self, program, run, **options):
        return lambda *values: run(*values)[:-1]


class FixedDraws(Compiling):
    """Draws are part of what was compiled."""

    def faulty(self, program, run, **options):
        return lambda *values: run(*((1, 2) if isinstance(value, tuple) else value for value in values))


class Picky(Compiling):
    """Options are refused, of which there may be more in times to come."""

    def compile(self, program, *, exact=False, threads=None):
        return program.function(self)


#: The fault, the test (class, name, arguments), and what the failure says.
class Masked(Sound):
    """Its arrays have a mask."""

    def asarray(self, value, *, dtype=None, device=None, copy=None, like=None):
        return np.ma.masked_array(value)


FAULTS = [
    (Masked, (suite.TestBasics, "test_every_element_counts"), r"arrays of type numpy\.ma\..*MaskedArray have a mask"),
    (LastWins, (suite.TestIndexing, "test_scatter_add_repeats"), "scatter_add"),
    (LastWins, (suite.TestRules, "test_reverse", "getitem", "float64"), "the gradient by x is wrong"),
    (Aliasing, (suite.TestInPlace, "test_primitives", "setitem"), "the array that setitem was given is wrong"),
    (Aliasing, (suite.TestInPlace, "test_the_users_array", "x[0] = 7"), "the user's array is wrong"),
    (Aliasing, (suite.TestInPlace, "test_another_tensor", "x[0] = 7"), "a tensor on the same array is wrong"),
    (Aliasing, (suite.TestInPlace, "test_what_a_graph_saved", "x[0] = 7"), "the gradient is wrong"),
    (WrongAddend, (suite.TestInPlace, "test_primitives", "add_into"), "the other addend is wrong"),
    (WrongDtype, (suite.TestRules, "test_values", "sum", "float32"), "the result has dtype float64, expected float32"),
    (WronglyInferred, (suite.TestInference, "test_specs", "sum", "float64"), "inferred"),
    (Unheard, (suite.TestRegistration, "test_capabilities"), "'flying' is no capability; there are float64"),
    (Wordless, (suite.TestRegistration, "test_capabilities"), "neither True nor False nor a reason"),
    (OfAnotherDevice, (suite.TestRegistration, "test_capabilities"), "device_capabilities names"),
    (Widening, (suite.TestRegistration, "test_defaults"), "has dtype"),
    (WrongValue, (suite.TestRules, "test_values", "exp", "float64"), "the result is wrong"),
    (WrongValue, (suite.TestRules, "test_values", "exp", "float32"), "the result is wrong"),
    (ReverseOnly, (suite.TestRules, "test_reverse", "sin", "float64"), "the gradient by x is wrong"),
    (ReverseOnly, (suite.TestRules, "test_forward_mode", "sin", "float64"), "the tangent is wrong"),
    (ReverseOnly, (suite.TestRules, "test_second_order", "sin", "float64"), "the recorded gradient by x is wrong"),
    (WrongSpec, (suite.TestCreation, "test_specs"), "assert"),
    (WrongBytes, (suite.TestMemory, "test_nbytes", "float32", 4), "nbytes of .* float32 is 8, expected 4"),
    (WrongBytes, (suite.TestMemory, "test_saved_bytes"), "keeps 512 bytes, expected 256"),
    (NoKey, (suite.TestRandom, "test_another_key_other_numbers", "normal"), "gives the numbers of"),
    (OneStream, (suite.TestRandom, "test_same_key_same_numbers", "uniform"), "assert"),
    (ByThread, (suite.TestRandom, "test_threads_do_not_matter"), "assert"),
    (Skewed, (suite.TestRandom, "test_uniform"), "assert"),
    (NotBroadcast, (suite.TestCreation, "test_broadcast_like"), r"broadcast_like gives shape \(2, 1\)"),
    (NotBroadcast, (suite.TestRules, "test_reverse", "sum", "float64"), "returned an invalid gradient"),
    (Raising, (suite.TestAvailability, "test_availability_does_not_raise"), "the driver is asleep"),
    (Unannounced, (suite.TestRules, "test_values", "tan", "float64"), "error 7 in the library"),
    (Modest, (suite.TestRules, "test_values", "tanh", "float64"), "is declared to be lacking .* but works"),
    (Vague, (suite.TestRegistration, "test_lacks"), "gives no reason"),
    (WrongScalar, (suite.TestNamespace, "test_python_scalars", "float32", 2.5, "float32"), "has dtype .*float64"),
    (Elsewhere, (suite.TestRegistration, "test_devices"), "are on faulty:1"),
    (Transposing, (suite.TestTransfers, "test_to_host_is_whole"), "is wrong"),
    (Sharing, (suite.TestInPlace, "test_host_memory", "x[0] = 7"), "the tensor was made of changed"),
    (Forgetful, (suite.TestTransfers, "test_values_and_dtypes_survive", "float64"), "float"),
    (Scalars, (suite.TestRegistration, "test_claims_its_arrays"), "must be a dtype|no array of faulty"),
    (TruncatedDivision, (suite.TestNamespace, "test_without_derivative", "floor_divide"), r"\[3, -3\] == \[3, -4\]"),
    (NarrowSum, (suite.TestNamespace, "test_without_derivative", "sum of small integers"), "assert 44 == 300"),
    (NarrowSums, (suite.TestNamespace, "test_without_derivative", "cumulative_sum of small integers"), r"\[100, -56\]"),
    (BlindMax, (suite.TestNamespace, "test_without_derivative", "max, with NaN"), "assert"),
    (BlindMaximum, (suite.TestNamespace, "test_without_derivative", "maximum, with NaN"), "assert"),
    (LargestOfNothing, (suite.TestNamespace, "test_nothing_has_no_largest", "max"), "DID NOT RAISE"),
    (NoneOfNothing, (suite.TestNamespace, "test_without_derivative", "all of nothing"), "assert False == True"),
    (OnlyOnes, (suite.TestNamespace, "test_without_derivative", "any of integers"), "assert"),
    (HalvesUp, (suite.TestNamespace, "test_without_derivative", "round to even"), "assert"),
    (
        RoundedCast,
        (suite.TestNamespace, "test_without_derivative", "astype to integers"),
        r"\[2, -2, 0\] == \[1, -1, 0\]",
    ),
    (ClampedTake, (suite.TestIndexing, "test_negative_places"), "the value is wrong"),
    (Cancelling, (suite.TestNamespace, "test_without_derivative", "log1p of little"), "assert"),
    (Overflowing, (suite.TestNamespace, "test_without_derivative", "hypot of much"), "assert"),
    (KeptBuffers, (suite.TestRules, "test_values", "exp", "float64"), "the result is wrong"),
    (KeptZeros, (suite.TestPlaces, "test_fresh_of_nothing", "zeros_like"), "result 1 of zeros_like is not fresh"),
    (OwnOperand, (suite.TestPlaces, "test_fresh", "positive", "float64"), "result 0 of positive is not fresh"),
    (CannotCopy, (suite.TestCreation, "test_copies_of_arrays"), "the copy is wrong"),
    (SeesNoNan, (suite.TestIndexing, "test_what_is_left_out"), "the value is wrong"),
    (WritesToLocked, (suite.TestCreation, "test_of_host_memory"), "buffer is read-only"),
    (ByDouble, (suite.TestTransfers, "test_values_and_dtypes_survive", "int64"), "9007199254740992"),
    (NoEps, (suite.TestRules, "test_composition", "nn.layer_norm", "float64"), "the value by the backend's own kernel"),
    (WrongLeft, (suite.TestRules, "test_composition", "nn.layer_norm", "float64"), "the gradient by input by the back"),
    (
        WrongSlope,
        (suite.TestRules, "test_composition", "nn.layer_norm", "float64"),
        "the gradient by input by the back",
    ),
    (Rounding, (suite.TestPrograms, "test_forward_and_backward", "exp", "float64"), "is not, bit for bit"),
    (Rounding, (suite.TestPrograms, "test_exact"), "with exact=True: .* is not, bit for bit"),
    (FirstOutputs, (suite.TestPrograms, "test_outputs_are_nobody_elses"), "the output after later runs is wrong"),
    (FirstOutputs, (suite.TestPrograms, "test_drawn", "rand"), "is not, bit for bit"),
    (FixedDraws, (suite.TestPrograms, "test_drawn", "rand"), "is not, bit for bit"),
    (KeptOutputs, (suite.TestPrograms, "test_outputs_are_nobody_elses"), "the output after later runs is wrong"),
    (WritingInputs, (suite.TestPrograms, "test_inputs_stay"), "the input after the run is wrong"),
    (OneAtATime, (suite.TestPrograms, "test_several_threads"), "the output beside other threads is wrong"),
    (Listing, (suite.TestPrograms, "test_options"), "a list, no tuple"),
    (Losing, (suite.TestPrograms, "test_options"), "4 outputs, expected 5"),
    (Picky, (suite.TestPrograms, "test_options"), "unexpected keyword argument 'later_option'"),
]


@pytest.fixture
def run(registered, monkeypatch):
    """Give a function that runs one test of the kit on a backend."""
    monkeypatch.setattr(batching, "_KINDS", {})

    def run(plugin, test):
        kind, name, *arguments = test
        BACKENDS.clear()  # what was claimed by others before
        registered(plugin)
        kit = kind()
        kit.use("faulty")
        getattr(kit, name)(*arguments)

    return run


@pytest.mark.parametrize("test", {test: None for _, test, _ in FAULTS}, ids=lambda test: "-".join(map(str, test[1:])))
def test_the_sound_backend_passes(test, run):
    run(Plugin(Sound()), test)


@pytest.mark.parametrize(
    "test", {test: None for _, test, _ in FAULTS if test[0] is suite.TestPrograms}, ids=lambda test: test[1]
)
def test_a_sound_backend_that_compiles_passes(test, run):
    run(Plugin(Compiling()), test)


@pytest.mark.filterwarnings("ignore:You are comparing")  # array-api-strict, of a dtype of NumPy's
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(
    ("fault", "test", "says"), FAULTS, ids=[f"{fault.__name__}-{test[1]}" for fault, test, _ in FAULTS]
)
def test_caught(fault, test, says, run):
    with pytest.raises((*CAUGHT, OSError, KeyError, RuntimeError, TypeError), match=says):
        run(Plugin(fault()), test)


def test_memory_that_nobody_sees_may_be_shared(run, monkeypatch):
    """As with MLX: an array that is written to gets memory of its own."""
    kind = type(array_api_strict.ones(1))
    write = kind.__setitem__

    def moves(array, key, value):
        array._array = array._array.copy()
        write(array, key, value)

    monkeypatch.setattr(kind, "__setitem__", moves)
    with pytest.raises(pytest.skip.Exception, match="written to moves"):
        run(Plugin(OwnOperand()), (suite.TestPlaces, "test_fresh", "positive", "float64"))


def test_a_claim_on_everything(run):
    with pytest.raises(CAUGHT, match="object is claimed as an array"):
        run(Greedy(Sound()), (suite.TestRegistration, "test_claims_nothing_else", object))


class ByProtocol(Plugin):
    """Claims whatever follows the standard."""

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "faulty" if hasattr(array_type, "__array_namespace__") else None


@pytest.mark.parametrize("foreign", ["numpy.ndarray", "agrad.Tensor", "of a standard's array"])
def test_a_claim_by_the_protocol_alone(run, foreign):
    with pytest.raises(CAUGHT, match="is claimed: go by the class's own module"):
        run(ByProtocol(Sound()), (suite.TestRegistration, "test_claims_no_arrays_of_others", foreign))


@pytest.mark.parametrize("foreign", ["numpy.ndarray", "agrad.Tensor", "of a standard's array"])
def test_a_claim_by_name(run, foreign):
    run(Plugin(Sound()), (suite.TestRegistration, "test_claims_no_arrays_of_others", foreign))


class OwnRule(Plugin):
    """Gives the derivative of a mean, right or twice what it is."""

    factor = 1.0

    @hookimpl
    def agrad_rule(self, op, backend):
        def by_x(xp, g, x, axis, keepdims):
            full = xp.sum(x, axis=axis, keepdims=True)
            shape, count = full.shape, math.prod(x.shape) / max(math.prod(full.shape), 1)
            return xp.broadcast_to(xp.reshape(g, shape) / max(count, 1) * self.factor, x.shape)

        def tangent(xp, t_x, axis, keepdims):
            return xp.mean(t_x, axis=axis, keepdims=keepdims) * self.factor

        return {"vjp": {"x": by_x}, "jvp": tangent} if (op, backend) == ("mean", "faulty") else None


class TwofoldRule(OwnRule):
    factor = 2.0


@pytest.mark.parametrize("test", ["test_reverse", "test_forward_mode", "test_second_order", "test_batches"])
def test_a_derivative_of_a_plugin_is_judged_as_any_other(run, test):
    run(OwnRule(Sound()), (suite.TestRules, test, "mean", "float64"))
    assert OPS["mean"].own


@pytest.mark.parametrize("test", ["test_reverse", "test_forward_mode", "test_second_order", "test_batches"])
def test_a_wrong_derivative_of_a_plugin(run, test):
    with pytest.raises(CAUGHT, match="is wrong"):
        run(TwofoldRule(Sound()), (suite.TestRules, test, "mean", "float64"))


def test_a_declared_lack_that_fails_in_its_own_way(run):
    class Lacking(Sound):
        lacks = {"tanh": "the library has none"}

    with pytest.raises(MemoryError, match="error 7"):
        run(Rough(Lacking()), (suite.TestErrors, "test_lacks_are_refused_in_words"))


def test_a_true_lack_is_expected(run):
    class Lacking(Sound):
        lacks = {"tanh": "the library has none"}

        def kernel(self, op):
            def fail(x):
                raise RuntimeError("none")

            return fail if op == "tanh" else None

    run(Plugin(lacking := Lacking()), (suite.TestErrors, "test_lacks_are_refused_in_words"))
    with pytest.raises(pytest.xfail.Exception, match="tanh: the library has none"):
        kit = suite.TestRules()
        kit.use("faulty")
        kit.test_values("tanh", "float64")
    assert dict(lacking.lacks) == {"tanh": "the library has none"}
    with pytest.raises(ag.UnsupportedOp):
        ag.tanh(ag.ones(2, device="faulty"))


@pytest.mark.parametrize("test", ["test_single_operands", "test_values", "test_reverse", "test_batches"])
def test_a_true_lack_of_one_operand(run, test):
    """`test_single_operands` asks nothing of a function of one operand, which so is no proof that it works."""

    class Lacking(Sound):
        lacks = {"tanh": "the library has none"}

        def namespace(self):
            return Half("tanh")

    with pytest.raises(pytest.xfail.Exception, match="tanh: the library has none"):
        run(Plugin(Lacking()), (suite.TestRules, test, "tanh", "float64"))


def test_a_lack_of_one_operand_that_is_none(run):
    with pytest.raises(CAUGHT, match=r"is declared to be lacking .* but works"):
        run(Plugin(Modest()), (suite.TestRules, "test_single_operands", "tanh", "float64"))


class Older(Sound):
    """A library that follows the standard of 2024.12."""

    def namespace(self):
        made = Half("isin")
        made.linalg = types.SimpleNamespace(
            **{name: value for name, value in vars(array_api_strict.linalg).items() if name not in ("eig", "eigvals")}
        )
        made.__array_api_version__ = "2024.12"
        return made


@pytest.mark.parametrize(
    "test",
    [
        (suite.TestNamespace, "test_without_derivative", "isin"),
        (suite.TestRules, "test_values", "linalg.eig", "float64"),
        (suite.TestRules, "test_reverse", "linalg.eigvals", "float64"),
    ],
)
def test_what_is_younger_than_the_namespace_is_left_out(run, test):
    with pytest.raises(
        pytest.skip.Exception, match=r"^beyond the standard .* of 2024\.12, the function is of 2025\.12"
    ):
        run(Plugin(Older()), test)


def test_shapes_may_be_refused_by_an_index_error(run):
    def add(x1, x2, /):
        if 3 in x1.shape and 2 in x2.shape:
            raise IndexError("shapes do not match")
        return array_api_strict.add(x1, x2)

    test = (suite.TestErrors, "test_shapes_that_do_not_match")
    run(Plugin(with_kernel("Indexing", "add", add)()), test)


class Renewed(array_api_strict._array_object.Array):
    """Stands for a class that another import makes again."""


def test_another_class_of_the_same_name(run):
    kind = array_api_strict._array_object.Array
    Renewed.__module__, Renewed.__qualname__ = kind.__module__, kind.__qualname__

    class Twice(Sound):
        """Its namespace is another one at each call, with a class of its own."""

        count = 0

        def namespace(self):
            made = Half()
            self.count += 1
            if self.count % 2:
                made.asarray = lambda value: object.__new__(Renewed)
            return made

    with pytest.raises(CAUGHT, match=r"of array_api_strict\..*Array, another class of that name \(0x.*one object"):
        run(Plugin(Twice()), (suite.TestBasics, "test_one_class_of_arrays"))


def test_dtypes_that_are_misnamed(run):
    class Misnamed(Sound):
        def dtype_name(self, dtype):
            return "float32"

    with pytest.raises((*CAUGHT, TypeError), match=r"has no dtype|expected"):
        run(Plugin(Misnamed()), (suite.TestBasics, "test_dtypes_have_names"))


def test_products_that_do_not_give_way(run, monkeypatch):
    kind = type(array_api_strict.asarray(1.0))
    times = kind.__mul__

    def refuse(self, other):
        raise NotImplementedError("no implementation of function matmul found for signature")

    monkeypatch.setattr(kind, "__mul__", lambda x, y: times(x, y) if isinstance(y, kind | float) else NotImplemented)
    monkeypatch.setattr(kind, "__matmul__", refuse)
    with pytest.raises(pytest.skip.Exception, match=r"array @ tensor raises NotImplementedError.* tensor @ array"):
        run(Plugin(Sound()), (suite.TestBasics, "test_an_array_beside_a_tensor"))


def test_a_capability_that_is_missing(run):
    class Single(Sound):
        capabilities = {**Sound.capabilities, "float64": False}

    with pytest.raises(pytest.skip.Exception, match="requires float64: it has no real numbers of double precision"):
        run(Plugin(Single()), (suite.TestRules, "test_values", "exp", "float64"))


def test_a_wrong_value_names_its_sample(run):
    with pytest.raises(CAUGHT, match="the result is wrong") as caught:
        run(Plugin(WrongValue()), (suite.TestRules, "test_values", "exp", "float64"))
    assert [note for note in caught.value.__notes__ if "exp(f[" in note]


def test_a_failing_kernel_is_told_in_shapes(run):
    def refuse(arrays, /, *, axis=0):
        raise ValueError("error 7 in the library")

    run(Plugin(with_kernel("Unjoined", "concat", refuse)()), (suite.TestRegistration, "test_name_and_contract"))
    x = ag.ones((30, 100), device="faulty")
    with pytest.raises(ValueError, match="error 7") as caught:
        ag.concat([x, ag.ones(2, device="faulty")])
    assert "Raised by concat on shapes [(30, 100), (2,)]." in caught.value.__notes__[0]


class Half:
    """array-api-strict's namespace without a part of it."""

    def __init__(self, *missing):
        self.missing = missing

    def __getattr__(self, name):
        if name in self.missing:
            raise AttributeError(f"module 'half' has no attribute {name!r}")
        return getattr(array_api_strict, name)


def without(*missing, capabilities):
    class Without(Sound):
        def namespace(self):
            return Half(*missing, "__array_namespace_info__")

    Without.capabilities = {**Sound.capabilities, **dict.fromkeys(capabilities, False)}
    return Plugin(Without())


def test_without_complex_numbers(run):
    run(
        without("complex64", "complex128", capabilities=["complex"]),
        (suite.TestRegistration, "test_name_and_contract"),
    )
    info = ag.namespace("faulty").__array_namespace_info__()
    assert set(info.default_dtypes()) == {"real floating", "integral", "indexing"}
    assert "float64" in info.dtypes()
    assert not {"complex64", "complex128"} & set(info.dtypes())
    assert str(ag.ones(2, device="faulty")) == "tensor([1., 1.], device='faulty')"


def test_gradients_without_sorting(run):
    run(without("argsort", capabilities=[]), (suite.TestRegistration, "test_name_and_contract"))
    x = ag.asarray([1.0, 2.0], device="faulty", requires_grad=True)
    with pytest.raises(ag.UnsupportedOp, match="argsort is not supported by the faulty backend"):
        x[ag.asarray([0, 0], device="faulty")].sum().backward()


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool"])
def test_a_library_that_does_not_pickle(run, monkeypatch, dtype):
    def refuse(self, protocol):
        raise TypeError("no default __reduce__ due to non-trivial __cinit__")

    monkeypatch.setattr(type(array_api_strict.asarray(1.0)), "__reduce_ex__", refuse)
    run(Plugin(Sound()), (suite.TestPickling, "test_tensors", dtype, 2))


def test_operators_that_do_not_give_way(run):
    """Those of array-api-strict; what the kit asks is asked of NumPy's in its own run."""
    with pytest.raises(pytest.skip.Exception, match=r"requires operators that give way: .* raises TypeError.*asarray"):
        run(Plugin(Sound()), (suite.TestBasics, "test_an_array_beside_a_tensor"))


@pytest.mark.parametrize("op", ["exp", "pow", "extra.correlate_valid", "nn.layer_norm", "nn.attention"])
@pytest.mark.parametrize("kind", [suite.TestRules, suite.TestPrograms])
def test_batches_without_operators_that_give_way(run, kind, op):
    run(Plugin(Sound()), (kind, "test_batches", op, "float64"))


# -- batches: by NumPy, as array-api-strict leaves no operand to another class -----------------------------------------


def of_ones_own(op, kernel):
    """Leave the reciprocal of a residual; kernels for the derivatives make up for it, those of a batch cannot know."""

    def layer_norm(*arguments):
        y, mean, scale = kernel(*arguments)
        return y, mean, 1 / scale

    def by_operand(*arguments):
        *others, scale, rank = arguments
        return kernel(*others, 1 / scale, rank)

    return layer_norm if op == "nn.layer_norm" else by_operand if op.startswith("nn.layer_norm_") else kernel


def few_axes(op, kernel):
    """Take whatever has five axes for a batch of images; a batch of such batches has five too."""
    return (lambda x, /, *, axis: kernel(x, axis=1 if x.ndim == 5 else axis)) if op == "nn.softmax" else kernel


def on_numpy(change=lambda op, kernel: kernel):
    """NumPy under another name, with changed kernels."""

    class Numpy(NumpyBackend):
        name = "faulty"

        def spec(self, array):
            return ag.Backend.spec(self, array)

        def kernel(self, op):
            return change(op, super().kernel(op))

    class NumpyPlugin(Plugin):
        @hookimpl
        def agrad_backend_of(self, array_type):
            return "faulty" if array_type is np.ndarray else None

    return NumpyPlugin(Numpy())


@pytest.mark.parametrize(
    ("fault", "op", "says"),
    [
        (of_ones_own, "nn.layer_norm", "of a batch of cotangents, the gradient by input is wrong"),
        (few_axes, "nn.softmax", "of example 0 under vmap, the value is wrong"),
    ],
)
def test_faults_in_batches_alone(fault, op, says, run):
    run(on_numpy(fault), (suite.TestRules, "test_reverse", op, "float64"))
    kit = suite.TestRules()
    kit.use("faulty")
    with pytest.raises(CAUGHT, match=says):
        kit.test_batches(op, "float64")
    if fault is of_ones_own:
        with pytest.raises(CAUGHT, match="the residual scale by the backend's own kernel is wrong"):
            kit.test_composition(op, "float64")


@pytest.mark.parametrize("op", ["nn.layer_norm", "nn.softmax"])
def test_sound_batches_pass(op, run):
    run(on_numpy(), (suite.TestRules, "test_batches", op, "float64"))


# -- laziness ---------------------------------------------------------------------------------------------------------


def lazy(kernel=None):
    """Dask under another name, with a fault."""
    pytest.importorskip("dask.array")
    from agrad_dask.backend import DaskBackend

    class Lazy(DaskBackend):
        name = "faulty"

        def kernel(self, op):
            return (kernel and kernel(op)) or super().kernel(op)

    class LazyPlugin(Plugin):
        @hookimpl
        def agrad_backend_of(self, array_type):
            return "faulty" if array_type.__module__ == "dask.array.core" else None

        @hookimpl
        def agrad_harness(self, backend):
            return "agrad_dask.harness:DaskHarness" if backend == "faulty" else None

    return LazyPlugin(Lazy())


def eager_exp(op):
    import dask.array as da

    return (lambda x: da.exp(da.from_array(x.compute(), chunks=x.chunks))) if op == "exp" else None


PROGRAM = (suite.TestLaziness, "test_forward_and_backward", "exp")


def test_lost_laziness(run, dask_backend):
    with pytest.raises(AssertionError, match="made to compute"):
        run(lazy(eager_exp), PROGRAM)


def test_operations_that_are_said_to_compute(run, dask_backend):
    honest = lazy(eager_exp)
    type(honest.backend).computes = {"exp": "it is a table in a file"}
    with pytest.raises(pytest.skip.Exception, match=r"requires lazy operations: exp computes .it is a table"):
        run(honest, PROGRAM)


def test_a_lazy_operation_that_is_said_to_compute(run, dask_backend):
    modest = lazy()
    type(modest.backend).computes = {"exp": "it is a table in a file"}
    with pytest.raises(pytest.fail.Exception, match=r"exp is declared to compute .*, but computes nothing"):
        run(modest, PROGRAM)


def test_lost_chunks(run, dask_backend):
    def to_shape(op):
        import dask.array as da

        return (lambda array, spec: da.broadcast_to(array, spec.shape)) if op == "broadcast_like" else None

    faulty = lazy(to_shape)
    type(faulty.agrad_backends()[0]).run_rule = None  # which would mend it
    with pytest.raises(AssertionError, match="the gradient has layout"):
        run(faulty, (suite.TestLaziness, "test_layout_of_gradients"))


def single(op):
    """A kernel that has nothing of more than single precision, and refuses in its own way what is beyond the standard."""

    def exp(x):
        assert x.dtype != np.float64, "the backend says that it has no float64"
        return x

    def gammaln(x):
        raise KeyError("error 7 in the library")

    return {"exp": exp, "special.gammaln": gammaln}.get(op)


@pytest.mark.parametrize("op", ["exp", "special.gammaln"])
def test_laziness_asks_for_what_there_is(op, run, dask_backend):
    plugin = lazy(single)
    plugin.backend.capabilities = {**plugin.backend.capabilities, "float64": False}
    run(plugin, (suite.TestLaziness, "test_forward_and_backward", op))


@pytest.mark.parametrize("test", [PROGRAM, (suite.TestLaziness, "test_layout_of_gradients")], ids=["program", "layout"])
def test_the_lazy_backend_passes(test, run, dask_backend):
    run(lazy(), test)
