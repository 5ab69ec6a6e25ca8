"""Ctrl-C at any moment: modes, the running pass, levels, modules, locks and gradients are afterwards as they were before.

The tests interrupt programs where Python lets the handler of a signal run: when a function begins, and when one written
in C has returned; at every such moment, or at so many of them as take a bounded time. ``python
tests/trust/test_interrupts.py --signals 10000`` does so at every moment, and sends that many real signals at random ones.
"""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pytest
from programs import Cube

import agrad as ag
import agrad.autograd.forward_ad as fwAD
from agrad.core import commit, engine, mode, once
from agrad.core.op import OPS
from agrad.plugin import manager
from agrad.utils.checkpoint import checkpoint, set_checkpoint_early_stop

W = ag.tensor([0.5, -1.5, 2.0], requires_grad=True)
V = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
X = ag.tensor([0.25, 0.75, -0.5])
MODEL = ag.nn.Linear(3, 1)
PARAMETERS = dict(MODEL.named_parameters())

#: How many moments of a program are tried in the tests.
MOMENTS = 60


def f(x, w=W, v=V):
    return ag.sum(ag.sin(w * x) * v + v * v)


def squares(x):
    return ag.sum(x * x * x)


# -- programs ---------------------------------------------------------------------------------------------------------

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def backward():
    f(X).backward()


@program
def backward_again():
    loss = f(X)
    loss.backward(retain_graph=True)
    loss.backward()


@program
def higher_order():
    (g,) = ag.grad(f(X), W, create_graph=True)
    ag.sum(g * g).backward()


@program
def nested_backward():
    x = X.detach().requires_grad_()
    y = x * 2.0
    loss = squares(V)
    y.register_hook(lambda g: loss.backward())
    ag.sum(y).backward()


@program
def in_threads():
    losses = [ag.sum(V * 1.0) for _ in range(21)]

    def step(g):
        if losses:
            loss = losses.pop()
            loss.register_hook(step)
            loss.backward()

    step(None)


@program
def no_grad():
    with ag.no_grad():
        a = W * X
    with ag.no_grad, ag.enable_grad():
        a = a * W
    with ag.inference_mode():
        b = a * W
    ag.sum(a * b).backward()


@ag.no_grad
def evaluated(x):
    with ag.enable_grad():
        return W * x


@ag.inference_mode()
def inferred(x):
    return W * x


@program
def decorated():
    ag.sum(evaluated(X) + inferred(X)).backward()


@ag.no_grad()
def rows(x):
    for _ in range(2):
        with ag.enable_grad():
            yield W * x
    yield W * x


@program
def decorated_generator():
    total = X * 0.0
    for row in rows(X):
        total = total + row
    ag.sum(total).backward()


@program
def checkpoints():
    def inner(w, x):
        return ag.sin(w * x) * V

    def outer(w, x):
        return ag.sum(checkpoint(inner, w, x) * ag.nn.functional.dropout(V, 0.5) + V * V)

    ag.manual_seed(0)
    with set_checkpoint_early_stop(False):
        loss = checkpoint(outer, W, X)
    loss.backward()


@program
def saved_hooks():
    hooks = ag.autograd.graph.saved_tensors_hooks(lambda t: t * 1.0, lambda t: t)
    with hooks, ag.autograd.graph.save_on("numpy"):
        loss = f(X)
    with ag.autograd.graph.disable_saved_tensors_hooks("not here"):
        loss = loss + squares(V)
    loss.backward()


class Once(Cube):
    backward = staticmethod(ag.autograd.function.once_differentiable(Cube.backward))


@program
def functions():
    ag.sum(Cube.apply(W) * V + Once.apply(V)).backward()
    ag.func.jvp(Cube.apply, (X,), (X,))


@program
def transforms():
    ag.func.grad(squares)(X)
    ag.func.vmap(ag.func.grad(lambda x: x * x))(X)
    ag.func.jacrev(lambda x: x * x)(X)
    ag.func.hvp(squares, (X,), (X,))


@program
def forward_transforms():
    ag.func.jvp(squares, (X,), (X,))
    ag.func.jacfwd(lambda x: x * x, randomness="same")(X)
    ag.func.vmap(lambda x: x * ag.rand(()), randomness="different")(X)
    ag.func.linearize(squares, X)[1](X)


@program
def functional_calls():
    params = {name: p.detach() for name, p in MODEL.named_parameters()}
    ag.func.grad(lambda params: ag.sum(ag.func.functional_call(MODEL, params, (X,))))(params)


@program
def dual_levels():
    with fwAD.dual_level():
        x = fwAD.make_dual(X, X)
        fwAD.unpack_dual(ag.softmax(x * W, axis=0))


@program
def watching():
    with ag.autograd.detect_anomaly(), ag.profile():
        f(X).backward()


@program
def choices():
    with ag.use_backend("numpy"), ag.random.using(ag.random.Generator(3)):
        x = ag.rand(3)
    f(x).backward()


# -- what must hold afterwards ------------------------------------------------------------------------------------------


def held():
    """What agrad's context variables hold beside the usual."""
    found = {var: value for var, value in contextvars.copy_context().items() if var.name.startswith("agrad")}
    return {var.name: value for var, value in found.items() if value not in (None, (), False)}


LOCKS = {"first use": once.FIRST_USE, "accumulating": commit.ACCUMULATING, "loading": manager._loading}


def taken():
    """The locks that another thread cannot have."""
    found = []

    def ask():
        for name, lock in LOCKS.items():
            if lock.acquire(timeout=5.0):
                lock.release()
            else:
                found.append(name)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found


def gradients():
    return tuple(None if t.grad is None else tuple(t.grad.tolist()) for t in (W, V))


def wrong():
    """What is not as it was, in a word; None if all is."""
    if held():
        return f"held: {sorted(held())}"
    if mode.current() is not None or not ag.is_grad_enabled() or engine.running() is not None:
        return "mode or pass"
    if any(p is not PARAMETERS[name] for name, p in MODEL.named_parameters()):
        return "module"
    w = ag.tensor([2.0, 3.0], requires_grad=True)
    ag.sum(w * w * w).backward()
    return None if w.grad.tolist() == [12.0, 27.0] else "the next program"


#: Programs that add to `.grad` in one pass: whatever happens, all of it or nothing.
ONE_PASS = ("backward", "no_grad", "decorated", "decorated_generator", "checkpoints", "saved_hooks", "higher_order")


class Attack:
    """Interrupts of one program, and what was wrong after them."""

    def __init__(self, name):
        self.name, self.run, self.failures, self.count = name, PROGRAMS[name], Counter(), 0
        for _ in range(2):  # the first run compiles
            W.grad = V.grad = None
            self.run()
        self.whole = gradients()

    def interrupted(self, how, *args):
        """Run the program with an interrupt; tell whether there was one."""
        W.grad = V.grad = None
        came = False
        try:
            how(self.run, *args)
        except Interrupt:
            came = True
        self.count += came
        found = wrong()
        if found is None and self.name in ONE_PASS and gradients() not in ((None, None), self.whole):
            found = "a part of the gradients"
        if found is not None:
            self.failures[found] += 1
            self.reset()
        return came

    @staticmethod
    def reset():
        for var in contextvars.copy_context():
            if var.name.startswith("agrad"):
                var.set(contextvars.Context().run(var.get))


# -- at every moment ----------------------------------------------------------------------------------------------------


class Interrupt(KeyboardInterrupt):
    pass


def at_moment(function, at):
    """Run a function with an interrupt at the moment of a number; tell how many moments there were."""
    count = 0

    def moment(_frame, event, _argument):
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == at:
                sys.setprofile(None)
                raise Interrupt

    sys.setprofile(moment)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def attack_moments(name, tried=None):
    """Interrupt a program at every moment, or at so many."""
    attack = Attack(name)
    moments = range(1, at_moment(attack.run, 0) + 1)
    if tried is not None and len(moments) > tried:
        moments = sorted(random.Random(name).sample(moments, tried))
    for at in moments:
        attack.interrupted(at_moment, at)
    return attack


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interrupts of finalizers
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_at_any_moment(name):
    attack = attack_moments(name, MOMENTS if name != "in_threads" else 10)
    assert not attack.failures
    assert attack.count
    assert not taken()


# -- real signals -------------------------------------------------------------------------------------------------------


def signalled(function, delay):
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        function()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def handler():
    def interrupt(_number, _frame):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def attack_with_signals(name, signals, seed, seconds=float("inf")):
    """Send signals at random moments of a program."""
    attack, numbers = Attack(name), random.Random(seed)
    start = time.perf_counter()
    attack.run()
    length, end = time.perf_counter() - start, start + seconds
    with handler():
        while attack.count < signals and time.perf_counter() < end:
            came = attack.interrupted(signalled, numbers.uniform(1e-6, length))
            length *= 1.0 if came else 0.98
            length += 1e-6
    return attack


needs_signals = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")


@needs_signals
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["backward", "no_grad", "decorated", "checkpoints", "saved_hooks", "dual_levels"])
def test_real_signals(name):
    attack = attack_with_signals(name, 100, seed=1, seconds=1.0)
    assert not attack.failures
    assert not taken()


# -- first use ------------------------------------------------------------------------------------------------------------


def first_use(at):
    """Interrupt the first calls of a new op and of its derivative; then call both again. Gives the number of moments."""
    square = ag.elementwise(x=lambda x: x + x, kernel=lambda xp, x: xp.multiply(x, x), name="own_square")(
        lambda x, /: None
    )

    def use():
        x = ag.tensor([3.0, 5.0], requires_grad=True)
        ag.sum(square(x)).backward()
        return x.grad.tolist()

    moments = 0
    try:
        with contextlib.suppress(Interrupt):
            moments = at_moment(use, at)
        assert wrong() is None
        assert use() == [6.0, 10.0]
        assert ag.func.jvp(square, (X,), (X,))[1].tolist() == (2.0 * X * X).tolist()
    finally:
        del OPS["own_square"]
        vars(X._spec.xp).pop("own_square", None)
    return moments


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_of_a_first_use():
    moments = first_use(0)
    for at in random.Random(2).sample(range(1, moments + 1), MOMENTS):
        first_use(at)
    assert not taken()


# -- loading plugins ----------------------------------------------------------------------------------------------------


def python(source):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": ""},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


LOADING = """
    import sys
    sys.path.insert(0, {folder!r})
    import test_interrupts as attack
    from agrad.plugin import manager
    import agrad as ag

    def load():
        manager._loaded = False
        manager._forget()
        ag.zeros(2)

    moments = attack.at_moment(load, 0)
    for at in range(1, moments + 1, {step}):
        try:
            attack.at_moment(load, at)
        except attack.Interrupt:
            pass
        ag.zeros(2)
        assert [row.name for row in ag.backends() if row.name == "numpy"], at
        assert attack.wrong() is None, at
    assert not attack.taken()
    print(moments)
    """


def test_an_interrupt_while_plugins_load():
    assert int(python(LOADING.format(folder=os.path.dirname(__file__), step=701))) > 1000


def main():
    parser = argparse.ArgumentParser(description="Interrupt agrad, and see whether anything is left behind.")
    parser.add_argument("--signals", type=int, default=10_000, help="how many real signals to send")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    sys.unraisablehook = lambda *_: None  # interrupts of finalizers, which Python passes over
    names = [name for name in PROGRAMS if name != "in_threads"]
    for number, name in enumerate(names):
        start = time.perf_counter()
        every = attack_moments(name)
        share = options.signals * (number + 1) // len(names) - options.signals * number // len(names)
        sent = attack_with_signals(name, share, options.seed + number)
        failed += every.failures.total() + sent.failures.total()
        print(
            f"{name}: {every.count} moments {dict(every.failures)}, {sent.count} signals {dict(sent.failures)},"
            f" {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    moments = first_use(0)
    for at in range(1, moments + 1):
        first_use(at)
    print(f"first use: {moments} moments")
    print(f"locks that are held: {taken()}; failures: {failed}")
    return 1 if failed or taken() else 0


if __name__ == "__main__":
    sys.exit(main())
