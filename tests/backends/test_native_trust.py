"""Native code where it could do harm: memory, forks, threads that compile, and programs that somebody else wrote."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp
from agrad.compiled import adaptive
from agrad.plugin.programs import optimized

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

pytest.importorskip("scipy", reason="solvers are SciPy's")

from agrad.scipy.integrate import solve_ivp
from agrad_numpy.native import jit
from agrad_numpy.native.running import NativeProgram

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

NUMPY = ag.backends.get("numpy")


def energy(x, factor=1.0):
    return ag.sum(ag.exp(-x * x * factor) * x)


def program_of(function, *args):
    return optimized(ag.func.capture(function)(*args).without_detach())


def resident():
    """Return the bytes of memory that the process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(compiles, count):
    """Return by how many bytes memory grows while so many things are compiled, after the first ones."""
    for k in range(50):
        compiles(k)
    gc.collect()
    before = resident()
    for k in range(50, 50 + count):
        compiles(k)
    gc.collect()
    return resident() - before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the memory of a process")
class TestMemoryStaysFlat:
    """Of what is different each time; code is freed with what runs it."""

    @pytest.mark.long
    def test_of_programs(self):
        x = np.linspace(0.0, 1.0, 7)

        def compiles(k):
            NativeProgram(program_of(lambda x: energy(x, 1.0 + k), x), NUMPY, own=True)(x)

        assert grown(compiles, 300) < 5_000_000

    @pytest.mark.long
    def test_of_10_000_modules(self):
        def compiles(k):
            text = f"define i64 @f(i64 %x) {{\n  %y = add i64 %x, {k}\n  ret i64 %y\n}}"
            assert jit.CompiledModule(text).address("f")

        assert grown(compiles, 10_000) < 25_000_000


def test_threads_compile_at_a_time():
    x = np.linspace(0.0, 1.0, 7)

    def compiled(k):
        run = NativeProgram(program_of(lambda x: energy(x, 1.0 + k), x), NUMPY, own=False)
        return float(run(x)[0])

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(compiled, range(24))]
    assert found == [energy(ag.asarray(x), 1.0 + k).item() for k in range(24)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_runs_and_compiles():
    """In a process of its own, which forks while code of its is there."""
    text = """
        import os
        import numpy as np
        import agrad as ag

        x = np.linspace(0.0, 1.0, 7)
        f = ag.compile(ag.func.value_and_grad(lambda x: ag.sum(ag.exp(-x * x))), executor="native")
        for _ in range(3):
            wanted = f(x)
        child = os.fork()
        if not child:
            found = f(x)
            g = ag.compile(lambda x: ag.sum(ag.tanh(x)), executor="native")
            others = [float(g(x)) for _ in range(3)]
            same = found[0] == wanted[0] and (found[1] == wanted[1]).all() and abs(others[2] - np.tanh(x).sum()) < 1e-12
            os._exit(0 if same else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert f(x)[0] == wanted[0]
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(text)], check=True, timeout=120)


HOSTILE = '"}\n!llvm.module.flags = !{}\ndefine void @kernel0() { ret void }\n; %t1 = '


class TestHostilePrograms:
    """No text of a program is in what LLVM reads: names, lines and regions are for people."""

    def marked(self, program):
        steps = tuple(replace(step, line=HOSTILE, region=7) for step in program.steps)
        return program.replaced(steps=steps, names=dict.fromkeys(program.shapes, HOSTILE), parameters=(HOSTILE,))

    def test_names_and_lines(self):
        x = np.linspace(0.0, 1.0, 40)
        program = program_of(ag.func.value_and_grad(energy), x)
        runs = [NativeProgram(one, NUMPY, own=True) for one in (program, self.marked(program))]
        found = [run(x) for run in runs]
        texts = [made.text for run in runs for made in run._natives.values()]
        assert texts[0] == texts[1]
        assert all(one.tobytes() == other.tobytes() for one, other in zip(*found, strict=True))

    def test_names_and_lines_in_loops(self):
        def function(x):
            return ag.func.scan(lambda a, _: (a * 0.5 + ag.sin(a), None), x, length=4)[0]

        x = np.linspace(0.0, 1.0, 40)
        run = NativeProgram(self.marked(program_of(function, x)), NUMPY, own=True)
        run(x)
        assert all("module.flags" not in made.text for made in run._natives.values())

    @pytest.mark.parametrize("literal", [HOSTILE, "axis", (HOSTILE,)])
    @pytest.mark.parametrize("where", ["args", "kwargs"])
    def test_texts_among_arguments(self, literal, where):
        """What NumPy's function refuses is refused; nothing is compiled of it."""
        x = np.linspace(0.0, 1.0, 40)
        program = program_of(lambda x: ag.exp(x) + 1.0, x)
        step = program.steps[0]
        bad = replace(step, args=(*step.args, literal)) if where == "args" else replace(step, kwargs={"how": literal})
        run = NativeProgram(program.replaced(steps=(bad, *program.steps[1:])), NUMPY, own=True)
        with pytest.raises((TypeError, ValueError)):
            run(x)
        assert not run._natives

    def test_shapes_that_are_not_true(self):
        x = np.linspace(0.0, 1.0, 40)
        program = program_of(lambda x: ag.exp(x) * 2.0, x)
        (made,) = program.steps[0].made
        shapes = {**program.shapes, made: program.shapes[made]._replace(shape=(4000,))}
        with pytest.raises(ag.plugin.backend.Refused, match="another shape or dtype"):
            NativeProgram(program.replaced(shapes=shapes), NUMPY, own=True)(x)

    def test_indices_beyond_an_array(self):
        x = np.linspace(0.0, 1.0, 40)
        program = program_of(lambda x: x[3:9] * 2.0, x)
        step = replace(program.steps[0], args=(program.steps[0].args[0], 4000))
        with pytest.raises(IndexError):
            NativeProgram(program.replaced(steps=(step, *program.steps[1:])), NUMPY, own=True)(x)


def test_nothing_imports_llvmlite_before_it_is_asked_for():
    text = "import sys, agrad as ag; ag.compile(lambda x: x + 1)(ag.ones(3)); assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


def field(t, y, p):
    return anp.stack([y[1], -p * anp.sin(y[0]) + t])


def states(p=1.3):
    return solve_ivp(field, (0.0, 3.0), np.array([0.5, 0.1]), args=(p,), rtol=1e-8, t_eval=np.linspace(0.0, 3.0, 7)).y


@pytest.fixture
def soon(monkeypatch):
    """Right sides are programs from their sixth call on, and machine code from their twentieth on."""
    for name, count in {"CALLS_BEFORE_CAPTURE": 5, "CALLS_BEFORE_CAPTURE_IN_A_RUN": 5, "CALLS_BEFORE_C": 20}.items():
        monkeypatch.setattr(adaptive, name, count)
    vars(field).pop("_adaptive_plain", None)
    yield
    vars(field).pop("_adaptive_plain", None)


class TestSolvers:
    """Right sides that became machine code."""

    def test_several_threads_with_one_right_side(self, soon):
        wanted = [states(p) for p in (1.3, 0.7)]
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(lambda k: states((1.3, 0.7)[k % 2]), range(16))]
        for k, one in enumerate(found):
            assert one.tobytes() == wanted[k % 2].tobytes()

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
    def test_interrupted_anywhere(self, soon):
        """The next run is as if nothing had been."""
        wanted = states()

        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        gc.disable()  # what it calls of others, as of Hypothesis, would swallow an interrupt
        met = 0
        try:
            for k in range(40):
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (k + 1))
                try:
                    assert states().tobytes() == wanted.tobytes()
                except KeyboardInterrupt:
                    met += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
        finally:
            gc.enable()
            signal.signal(signal.SIGALRM, before)
        assert met
        assert states().tobytes() == wanted.tobytes()

    def test_named_for_a_block(self, soon):
        wanted = states()
        vars(field).pop("_adaptive_plain")
        with ag.func.use_executor("native"):
            found = states()
        assert found.tobytes() == wanted.tobytes()
        (kept,) = next(iter(vars(field)["_adaptive_plain"]._programs._cached.values()))
        assert "<native>" in map(repr, vars(kept.program)["_runs"].values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_goes_on_with_a_solver():
    text = """
        import os
        import numpy as np
        import agrad as ag
        import agrad.numpy as anp
        from agrad.compiled import adaptive
        from agrad.optim import minimize
        from agrad.scipy.integrate import odeint

        adaptive.CALLS_BEFORE_CAPTURE = adaptive.CALLS_BEFORE_CAPTURE_IN_A_RUN = 5
        adaptive.CALLS_BEFORE_C = 20

        def field(y, t):
            return anp.stack([y[1], -anp.sin(y[0])])

        def run():
            least = minimize(lambda x: ag.sum((x * x - 2.0) ** 2 + ag.exp(-x)), np.array([0.5, 1.5, 3.0]), method="BFGS")
            return odeint(field, np.array([0.5, 0.1]), np.linspace(0.0, 3.0, 7)).tobytes() + least.x.tobytes()

        wanted = [run() for _ in range(3)]
        child = os.fork()
        if not child:
            os._exit(0 if run() == wanted[0] else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert {*wanted, run()} == {wanted[0]}
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(text)], check=True, timeout=300)
