"""Arrays with a context, as of a cluster, which refuse those of another one: what agrad makes stands beside the operands."""

from __future__ import annotations

import pickle
import types

import array_api_compat.numpy as compat
import numpy as np
import pytest

import agrad as ag
from agrad.core.backend import BACKENDS
from agrad.plugin.backend import Place
from agrad.plugin.hookspecs import hookimpl
from agrad.program import batching
from agrad.testing import Harness, suite
from agrad.testing.samples import SAMPLES


class MixedError(TypeError):
    """Arrays of two contexts have met."""


class Held(np.ndarray):
    """NumPy's arrays that are held by a cluster, and meet no others."""

    def __array_finalize__(self, other):
        self.cluster = getattr(other, "cluster", None)

    def __array_ufunc__(self, ufunc, method, *inputs, **parameters):
        return held(getattr(ufunc, method)(*bare(inputs), **bare(parameters)), cluster_of((inputs, parameters)))

    def __getitem__(self, key):
        return held(bare(self)[bare(key)], cluster_of((self, key)))

    def __setitem__(self, key, value):
        cluster_of((self, key, value))
        bare(self)[bare(key)] = bare(value)


def held(value, cluster):
    if isinstance(value, tuple | list):
        return tuple(held(part, cluster) for part in value)
    if not isinstance(value, np.ndarray | np.generic):
        return value
    made = np.asarray(value).view(Held)
    made.cluster = cluster
    return made


def bare(value):
    if isinstance(value, dict):
        return {name: bare(part) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(bare, value))
    return value.view(np.ndarray) if isinstance(value, Held) else value


def cluster_of(value):
    found = set(clusters_in(value))
    if len(found) != 1:
        raise MixedError(f"arrays of {sorted(found)} have met")
    return found.pop()


def clusters_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from clusters_in(part)
    elif isinstance(value, np.ndarray | np.generic):
        yield getattr(value, "cluster", "none")


def making(name):
    def made(*args, cluster="the first", **parameters):
        return held(getattr(compat, name)(*bare(args), **parameters), cluster)

    return made


def lifted(function):
    def run(*args, **parameters):
        if not any(clusters_in((args, parameters))):
            return function(*args, **parameters)
        return held(function(*bare(args), **bare(parameters)), cluster_of((args, parameters)))

    return run


def namespace_of(module):
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    functions = {name: lifted(f) for name, f in names.items() if callable(f) and not isinstance(f, type)}
    return types.SimpleNamespace(**(names | functions))


def asarray(value, *, dtype=None, copy=None, cluster=None):
    own = getattr(value, "cluster", None)
    if own is not None and cluster not in (None, own):
        raise MixedError(f"an array of {own} does not become one of {cluster}")
    return held(np.array(bare(value), dtype=dtype, copy=copy), own or cluster or "the first")


class HeldBackend(ag.Backend):
    """A library whose arrays carry a cluster, told to creation functions by a keyword."""

    name = "held"

    def namespace(self):
        found = namespace_of(compat)
        for name in ("arange", "empty", "eye", "full", "linspace", "ones", "zeros"):
            setattr(found, name, making(name))
        found.asarray, found.linalg, found.fft = asarray, namespace_of(compat.linalg), namespace_of(compat.fft)
        found.__version__ = "1"
        return found

    def device_of(self, array):
        return Place("held", array.cluster)

    def creation(self, device):
        return {"cluster": device.context} if isinstance(device, Place) else {}

    def to_host(self, array):
        return bare(array)

    def receive(self, source, array, device):
        return self.from_host(source.to_host(array), device)

    def as_array(self, value):
        return value


class Plugin:
    backend = HeldBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl(tryfirst=True)
    def agrad_backend_of(self, array_type):
        return "held" if array_type is Held else None


class OnACluster(Harness):
    """Makes arrays of another cluster than the library's first."""

    def specimen(self, backend, buffer, device):
        return held(np.array(buffer), "another")


@pytest.fixture
def backend(registered, monkeypatch):
    monkeypatch.setattr(batching, "_KINDS", {})
    BACKENDS.clear()
    made = Plugin()
    made.backend = HeldBackend()
    return registered(made).backend


def on(cluster, *values):
    return ag.asarray(held(np.asarray(values), cluster), requires_grad=True)


def cluster(tensor):
    return tensor._raw.cluster


TESTS = ("test_reverse", "test_second_order", "test_batches")
OPS = [op for op in SAMPLES if ag.rules[op].kind not in ("elementwise", "none") and not op.startswith("scipy.")]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("op", [*OPS, "add", "pow", "exp", "atan2", "nn.gelu", "nn.softplus", "special.xlogy"])
def test_operations_stay_where_their_operands_are(op, test, backend):
    kit = suite.TestRules()
    kit.quick = True
    kit.use("held")
    kit.harness = OnACluster()
    getattr(kit, test)(op, "float64" if op not in ("real", "imag") else "complex128")


USES = {
    "a number": lambda x: x + 1.5,
    "a number that promotes": lambda x: x * 1j,
    "a list as key": lambda x: x[[0, 2]],
    "keys of lists": lambda x: x[[0, 1], None],
    "a list of places": lambda x: ag.take(x, [0, 2]),
    "zeros": lambda x: x + ag.zeros(3, device=x.device),
    "full": lambda x: x + ag.full((3,), 2.0, device=x.device),
    "asarray": lambda x: x + ag.asarray([1.0, 2.0, 3.0], device=x.device),
    "arange": lambda x: x + ag.arange(3, device=x.device),
    "rand": lambda x: x + ag.rand(3, device=x.device),
    "like": lambda x: x + ag.zeros_like(x) + ag.full_like(x, 2.0) + ag.ones_like(x, dtype="float32"),
    "a random one like it": lambda x: x + ag.randn_like(x),
    "dropout": lambda x: ag.nn.functional.dropout(x),
    "an assignment": lambda x: ag.where(x > 1.0, x, 0.0),
    "a network": lambda x: ag.nn.Linear(3, 2, device=x.device)(x),
    "a triangle": lambda x: ag.tril(x[:, None] * x),
    "eye": lambda x: x @ ag.eye(3, device=x.device),
    "a median": lambda x: ag.extra.median(x),
    "vmap": lambda x: ag.func.vmap(lambda one: one[None] * 2.0 + one)(x),
    "hessian": lambda x: ag.func.hessian(lambda x: (x**3).sum())(x),
    "jacrev": lambda x: ag.func.jacrev(lambda x: ag.sin(x) * 2.0)(x),
    "a crossing": lambda x: x + ag.asarray([1.0, 2.0, 3.0], device="numpy").to_device(x.device),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("place", ["the first", "another"])
def test_what_is_made_stays_beside(place, use, backend):
    x = on(place, 1.0, 2.0, 3.0)
    made = USES[use](x)
    assert cluster(made) == place
    ag.sum(made if not made._spec.is_complex else ag.abs(made)).backward()
    assert cluster(x.grad) == place
    assert x.grad.device == x.device


#: What no program holds: a module of the function's own, and where a value goes that leaves its backend.
NO_PROGRAMS = {"a network", "a crossing"}


@pytest.mark.parametrize("use", sorted(USES.keys() - NO_PROGRAMS))
def test_programs_run_beside_what_they_are_given(use, backend):
    """Captured in one context, a program runs in any: with its constants, and with what it makes."""

    def gradient(x):
        made = USES[use](x)
        made = ag.sum(made if not made._spec.is_complex else ag.abs(made))
        return made, ag.grad(made, [x])[0]

    program = ag.func.capture(gradient)(on("another", 1.0, 2.0, 3.0))
    for place in ("the first", "another", "a third"):
        ag.manual_seed(3)
        found = program(on(place, 2.0, 0.5, -1.0))
        ag.manual_seed(3)
        wanted = gradient(on(place, 2.0, 0.5, -1.0))
        for one, other in zip(found, wanted, strict=True):
            assert cluster(one) == place
            assert one.detach().tolist() == other.detach().tolist()


def test_programs_are_differentiated_beside_what_they_are_given(backend):
    program = ag.func.capture(lambda x: (x * ag.arange(3, dtype="float64", device=x.device) + 2.0) ** 2)(
        on("one", 1.0, 2.0, 3.0)
    )
    x = on("two", 1.0, 2.0, 3.0)
    (program(x) * 0.5).sum().backward()
    assert cluster(x.grad) == "two"
    assert bare(x.grad._raw).tolist() == [0.0, 4.0, 16.0]  # (k x + 2) k
    rows = ag.func.vmap(program)(on("two", [1.0, 2.0, 3.0], [0.0, 0.0, 1.0]))
    assert bare(rows.detach()._raw).tolist() == [[4.0, 16.0, 64.0], [4.0, 4.0, 16.0]]


def test_compiled_functions_run_beside_what_they_are_given(backend):
    @ag.compile(check="first")
    def step(x, w):
        loss = ((x * w + ag.ones(3, device=x.device)) ** 2).sum() * 0.5
        return loss, ag.grad(loss, [w])[0]

    for _ in range(3):
        for place in ("one", "two"):
            loss, slope = step(on(place, 1.0, 2.0, 3.0), on(place, 1.0, 0.0, -1.0))
            assert (cluster(loss), cluster(slope)) == (place, place)
            assert (loss.item(), bare(slope._raw).tolist()) == (4.5, [2.0, 2.0, -6.0])
    assert len(step.programs) == 2


#: What functions in the module of a backend read.
READ = {"k": 2.0}


def times_k(x):
    return x * READ["k"]


@pytest.mark.usefixtures("backend")
def test_functions_beside_a_backend_are_seen(monkeypatch):
    compiled = ag.compile(lambda x: times_k(x) + READ["k"], check=False)
    for k in (2.0, 3.0, 2.0):
        monkeypatch.setitem(READ, "k", k)
        for _ in range(3):
            assert bare(compiled(on("one", 1.0, 2.0))._raw).tolist() == [2 * k, 3 * k]
            assert compiled(ag.asarray([1.0, 2.0])).tolist() == [2 * k, 3 * k]
    assert len(compiled.programs) == 4


def test_a_saved_program_holds_no_context(backend, tmp_path):
    ag.save(ag.func.capture(lambda x: x * 2.0 + ag.ones(2, device=x.device))(on("one", 1.0, 2.0)), tmp_path / "p")
    program = ag.load(tmp_path / "p")
    assert "cluster" not in str(program)
    for place in ("the first", "two"):
        found = program(on(place, 3.0, 4.0))
        assert cluster(found) == place
        assert bare(found._raw).tolist() == [7.0, 9.0]


def test_places(backend):
    x, y = on("one", 1.0), on("two", 1.0)
    assert x.device == "held" == y.device
    assert x.device != y.device
    assert x.device not in (None, 5, "numpy")
    assert (x._spec is on("one", 2.0)._spec) is True
    assert x._spec is not y._spec
    assert str(x.device) == "held"
    assert {x.device: 1}["held"] == 1
    assert x.device.backend == "held"
    assert pickle.loads(pickle.dumps(x.device)) == "held"
    assert repr(x) == "tensor([1.], device='held', requires_grad=True)"
    assert cluster(ag.zeros(2, device="held")) == "the first"
    assert not isinstance(ag.zeros(2, device="numpy").device, Place)


def test_the_same_number_beside_two(backend):
    x, y = on("one", 1.0), on("two", 1.0)
    for _ in range(2):  # kept numbers, too
        assert [cluster(t * 2.5) for t in (x, y)] == ["one", "two"]


def test_arrays_that_do_not_mix_are_the_librarys_to_refuse(backend):
    with pytest.raises(MixedError, match=r"\['one', 'two'\] have met"):
        on("one", 1.0) + on("two", 1.0)


def test_crossings(backend):
    x, y = on("one", 1.0, 2.0), on("two", 3.0, 4.0)
    z = (x.to_device(y.device) * y).sum()
    assert cluster(z) == "two"
    z.backward()
    assert (cluster(x.grad), cluster(y.grad)) == ("one", "two")
    assert bare(x.grad._raw).tolist() == [3.0, 4.0]
    assert x.to_device("held") is x  # any place of the device
    assert x.to_device(x.device) is x
    assert x.to_device("numpy").detach().tolist() == [1.0, 2.0]


def test_training(backend):
    x, w = on("another", 1.0, 2.0, 3.0), on("another", 0.5, -0.5, 1.0)
    for kind in (ag.optim.SGD, ag.optim.Adam):
        step = kind([w], lr=0.1)
        for _ in range(2):
            step.zero_grad()
            ((w * x).sum() - 1.0).square().backward()
            step.step()
        assert cluster(w) == "another"


def test_constants_of_a_rule_beside(backend):
    made = backend.asarray([1, 2], like=on("two", 1.0)._raw)
    assert made.cluster == "two"
    assert backend.beside(made) == {"cluster": "two"}
    assert ag.namespace("numpy")._backend.beside(np.zeros(1)) == {}
