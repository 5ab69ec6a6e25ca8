"""Large loops on several threads: no bit depends on how many there are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import agrad as ag
from agrad.program.passes import fewer

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.executor import turned
from agrad_numpy.native import jit, spreading
from agrad_numpy.native.expanding import exactly, expanded
from agrad_numpy.native.running import NativeProgram

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)
if not spreading.available():
    pytest.skip("the system has no threads of POSIX's", allow_module_level=True)

NUMPY = ag.backends.get("numpy")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Spread loops that tests can afford."""
    monkeypatch.setattr(spreading, "SPREAD_FROM", 2**12)
    monkeypatch.setattr(spreading, "PART", 2**9)


def natives(function, *args, own):
    """Return a function as native code on one, two and three threads."""
    program = fewer(ag.func.capture(function)(*args), True, {})
    program = expanded(turned(program)) if own else exactly(program)
    return [NativeProgram(program, NUMPY, own=own, threads=threads) for threads in (1, 2, 3)]


def spread(run):
    (made,) = run._natives.values()
    return "call void @spread" in made.text


FUNCTIONS = {
    "elementwise": lambda x, y: ag.tanh(x * y) + x,
    "sum": lambda x, y: ag.sum(ag.sin(x) * y + ag.exp(-x * x)),
    "several sums": lambda x, y: (ag.sum(x * y), ag.sum(x + y), x - y),
    "mean and its gradient": ag.func.value_and_grad(lambda x, y: ag.mean(ag.sin(x) * y), argnums=(0, 1)),
    "largest": lambda x, y: ag.max(x * y),
}


@pytest.mark.parametrize(("own", "dtype"), [(False, "float64"), (True, "float32")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_one_thread(name, own, dtype):
    rng = np.random.default_rng(0)
    found = []
    for shape in ((10_007,), (97, 64)):
        x, y = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
        one, *others = natives(FUNCTIONS[name], x, y, own=own)
        wanted = [part.tobytes() for part in one(x, y)]
        assert not spread(one)
        for run in others:
            assert [part.tobytes() for part in run(x, y)] == wanted
            found.append(spread(run))
    if own or name != "largest":  # NumPy's own functions are called for what is not exactly rounded, and for this one
        assert any(found)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("count", [1000, 1001])
def test_bits_of_a_layer_and_a_loss_of_classes(count, own):
    rng = np.random.default_rng(0)
    w, x, labels = rng.standard_normal((16, 8)), rng.standard_normal((count, 8)), rng.integers(0, 16, count)

    def loss(w, x, labels):
        return ag.nn.functional.cross_entropy(ag.nn.functional.linear(x, w), labels)

    function = ag.func.value_and_grad(loss, argnums=(0, 1))
    one, *others = natives(function, w, x, labels, own=own)
    wanted = [part.tobytes() for part in one(w, x, labels)]
    for run in others:
        assert [part.tobytes() for part in run(w, x, labels)] == wanted
        assert spread(run)
    if not own:
        value, gradients = function(*map(ag.asarray, (w, x, labels)))
        assert [np.asarray(part.detach()).tobytes() for part in (value, *gradients)] == wanted


def test_views_are_read_where_they_lie():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((400, 61))[::-2, ::3], rng.standard_normal((21, 200)).T
    one, two, three = natives(lambda x, y: x * y + 1.0, x, y, own=True)
    assert one(x, y)[0].tobytes() == two(x, y)[0].tobytes() == three(x, y)[0].tobytes() == (x * y + 1.0).tobytes()


def test_calls_at_the_same_time():
    x, y = np.random.default_rng(0).standard_normal((2, 20_001))
    run = natives(FUNCTIONS["sum"], x, y, own=True)[2]
    (wanted,) = run(x, y)
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: run(x, y)[0].tobytes(), range(40))]
    assert {*found} == {wanted.tobytes()}


def test_threads_are_said_where_functions_are_compiled():
    x = ag.asarray(np.random.default_rng(0).standard_normal(20_001))
    found = []
    for threads in (1, 2, 3):
        step = ag.compile(ag.func.value_and_grad(lambda x: ag.sum(ag.sin(x) ** 2)), executor="native", threads=threads)
        for _ in range(3):
            value, gradient = step(x)
        found.append((np.asarray(value.detach()).tobytes(), np.asarray(gradient.detach()).tobytes()))
    assert found[0] == found[1] == found[2]


def test_without_further_threads_one_does_everything():
    """A system that starts no thread gives an error, after which those that are there run all parts."""
    x, y = np.random.default_rng(0).standard_normal((2, 20_001))
    one, two, _ = natives(FUNCTIONS["sum"], x, y, own=True)
    wanted = one(x, y)[0].tobytes()
    two(x, y)
    (made,) = two._natives.values()
    text = made.text.replace("declare i32 @pthread_create(ptr, ptr, ptr, ptr)", "")
    text += "\ndefine i32 @pthread_create(ptr %a, ptr %b, ptr %c, ptr %d) {\n  ret i32 11\n}"
    made._code = jit.CompiledModule(text)
    made._run = made._code.address("run")
    kernels = {kernel.key: made._code.address(f"kernel{at}") for at, kernel in enumerate(made._schedule.entries)}
    made._schedule.fill(kernels)
    assert made.entry(releases=True)(x, y)[0].tobytes() == wanted
