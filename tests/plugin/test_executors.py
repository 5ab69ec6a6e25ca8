"""Executors: named ones are asked before the backend, draw nothing, and leave to the next what they refuse."""

from __future__ import annotations

import copy
import runpy
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import agrad as ag
from agrad.plugin import manager
from agrad.plugin.backend import Executor, KeptValues, Refused
from agrad.plugin.hookspecs import hookimpl


class Steps(Executor):
    """Runs programs step by step, and notes what it was asked."""

    name = "steps"
    backends = ("numpy",)

    def __init__(self):
        self.programs, self.options, self.calls = [], [], 0

    def build(self, program, backend, values, **options):
        self.programs.append(program)
        self.options.append(options)
        assert [value.shape for value in values] == [program.shapes[n].shape for n in program.inputs]
        run = program.function(backend)

        def counted(*values):
            self.calls += 1
            return run(*values)

        return counted


def wave(x):
    return ag.sum(ag.sin(x) ** 2)


X = np.linspace(0.1, 0.9, 5)


class TestCompiled:
    def test_it_runs_values_and_gradients(self):
        steps = Steps()
        compiled = ag.compile(wave, executor=steps)
        for factor in (1.0, 2.0, 3.0):
            x = ag.tensor(factor * X, requires_grad=True)
            compiled(x).backward()
            np.testing.assert_allclose(np.asarray(x.grad), np.sin(2 * factor * X), rtol=1e-14)
        assert len(steps.programs) == 2  # forward and backward
        assert steps.calls >= 3

    def test_options_pass_through(self):
        steps = Steps()
        compiled = ag.compile(wave, executor=steps, exact=True, threads=3)
        for _ in range(3):
            compiled(X)
        assert steps.options == [{"exact": True, "threads": 3}]

    def test_arrays_of_other_backends_run_as_without_it(self):
        da = pytest.importorskip("dask.array")
        steps = Steps()
        compiled = ag.compile(wave, executor=steps)
        x = da.from_array(X, chunks=2)
        for _ in range(3):
            np.testing.assert_allclose(compiled(x).compute(), np.sum(np.sin(X) ** 2))
        assert not steps.programs

    def test_copies_keep_it(self):
        compiled = copy.copy(ag.compile(wave, executor=Steps()))
        for _ in range(3):
            compiled(X)
        assert compiled._options["executor"].calls

    def test_branches_by_values(self):
        def either(x):
            y = ag.sum(x)
            return ag.exp(y) if y > 1.0 else -y

        steps = Steps()
        compiled = ag.compile(either, executor=steps)
        for factor in (1.0, -1.0, 1.0, -1.0, 2.0, -2.0, 2.0, -2.0):
            total = np.sum(factor * X)
            np.testing.assert_allclose(np.asarray(compiled(factor * X)), np.exp(total) if total > 1 else -total)
        assert all(step.op != "stop_unless" for program in steps.programs for step in program.steps)
        assert steps.calls

    def test_a_branch_whose_steps_fail_for_other_values(self):
        """The program of the one way would raise for values that go the other: that is no error."""

        def root(a):
            return ag.linalg.cholesky(a) if ag.linalg.trace(a) > 0 else -a

        steps = Steps()
        compiled = ag.compile(root, executor=steps)
        good, bad = np.eye(2) * 4, -np.eye(2)
        for _ in range(4):
            assert np.array_equal(compiled(good), np.eye(2) * 2)
            assert np.array_equal(compiled(bad), np.eye(2))
        assert steps.calls

    def test_draws_go_on_with_the_sequence(self):
        def noisy(x):
            return x + ag.randn(5), x * ag.rand(5), ag.randint(0, 10, (3,)), ag.randperm(4)

        steps = Steps()
        compiled = ag.compile(noisy, executor=steps)
        found, wanted = [], []
        for made, function in ((found, compiled), (wanted, noisy)):
            ag.manual_seed(3)
            made += [[np.asarray(part) for part in function(ag.tensor(X))] for _ in range(4)]
        for one, other in zip(found, wanted, strict=True):
            for a, b in zip(one, other, strict=True):
                assert a.tobytes() == b.tobytes()
        assert steps.calls >= 2
        assert all(step.op != "random" for program in steps.programs for step in program.steps)
        assert not any(program.keys for program in steps.programs)

    def test_a_draw_that_no_result_needs(self):
        """Its key is an input of the program, and none of what the executor gets."""

        def drawing(x):
            ag.rand(4)
            return x * 2.0

        steps = Steps()
        program = ag.func.capture(drawing)(X)
        with ag.func.use_executor(steps):
            found = [np.asarray(program(X)) for _ in range(2)]
        assert steps.calls == 2
        assert all(np.array_equal(one, np.asarray(X) * 2.0) for one in found)


class Pile:
    """Where the values are that `Keeping` keeps: one after the other, on one array."""

    def __init__(self, shapes):
        self.shapes = shapes

    def values(self, arrays, positions):
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        return [arrays[0][sum(sizes[:at]) :][: sizes[at]].reshape(self.shapes[at]) for at in positions]

    def holders(self, positions):
        return {0} if [*positions] else set()


class Keeping(Steps):
    """Keeps float64 values in one array."""

    keeps, fails = True, False

    def build(self, program, backend, values, *, kept=0, taken=(), **options):
        self.programs.append(program)
        self.options.append({"kept": kept, "taken": taken})
        run = program.function(backend)
        count = len(program.outputs) - kept
        layout = Pile([program.shapes[n].shape for n in program.outputs[count:]])

        def call(*values):
            self.calls += 1
            if taken:
                assert type(values[0]) is KeptValues
                if self.fails:
                    raise Refused("not now")
                values = [*values[0].layout.values(values[0].arrays, taken), *values[1:]]
            outs = run(*values)
            if not kept:
                return outs
            return (*outs[:count], KeptValues((np.concatenate([np.ravel(out) for out in outs[count:]]),), layout))

        return call


class TestKept:
    def test_it_gives_and_takes_them_in_its_own_way(self):
        steps = Keeping()

        def function(x, w):
            y = ag.sin(x)
            return ag.sum(ag.exp(y * w) * y)

        compiled = ag.compile(function, executor=steps)
        w = X[::-1].copy()
        for fails in (False, False, False, True, False):
            steps.fails = fails
            x = ag.tensor(X, requires_grad=True)
            result = compiled(x, ag.asarray(w))
            result.backward()
            y, c = np.sin(X), np.cos(X)
            np.testing.assert_allclose(np.asarray(x.grad), np.exp(y * w) * (1 + y * w) * c, rtol=1e-14)
        forward, backward = steps.options
        assert forward["kept"] >= 2
        assert forward["taken"] == ()
        assert len(backward["taken"]) >= 2
        assert not {*steps.programs[0].outputs} & {*steps.programs[0].inputs}  # an argument is no output

    def test_what_no_later_pass_needs_is_freed(self):
        compiled = ag.compile(lambda x, w: (ag.sum(ag.exp(ag.sin(x))), ag.sum(w * w)), executor=Keeping(), check=False)
        for _ in range(3):
            x, w = (ag.tensor(X, requires_grad=True) for _ in range(2))
            one, other = compiled(x, w)
            pile = weakref.ref(one.grad_fn.saved[0]) if one.grad_fn.name() == "CompiledBackward0" else None
            one.backward()
            freed = pile is not None and pile() is None
            other.backward()  # takes an argument alone
        assert freed
        np.testing.assert_allclose(np.asarray(x.grad), np.exp(np.sin(X)) * np.cos(X), rtol=1e-14)
        np.testing.assert_array_equal(np.asarray(w.grad), 2 * X)

    def test_branches_and_draws(self):
        steps = Keeping()

        def function(x):
            y = ag.exp(x * ag.rand(5))
            return ag.sum(ag.sin(y)) if ag.sum(y) > 8.0 else ag.sum(ag.cos(y) * y)

        found, wanted = [], []
        for made, f in ((found, ag.compile(function, executor=steps, check=False)), (wanted, function)):
            ag.manual_seed(1)
            for factor in (0.5, 3.0) * 3:
                x = ag.tensor(factor * X, requires_grad=True)
                f(x).backward()
                made.append(np.asarray(x.grad))
        assert any(option["taken"] for option in steps.options)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)

    def test_one_that_keeps_nothing_is_not_asked_to(self):
        steps = Steps()
        x = ag.tensor(X, requires_grad=True)
        compiled = ag.compile(wave, executor=steps)
        for _ in range(3):
            compiled(x).backward()
        assert all(not {"kept", "taken"} & {*options} for options in steps.options)


class TestProgramsCalled:
    def test_within_a_block(self):
        steps = Steps()
        program = ag.func.capture(wave)(X)
        with ag.func.use_executor(steps):
            found = program(2 * X)
        assert steps.calls == 1
        assert float(found) == float(program(2 * X)) == float(wave(ag.tensor(2 * X)))
        assert steps.calls == 1

    def test_where_it_is_run(self):
        steps = Steps()
        backend = ag.backends.get("numpy")
        (found,) = ag.func.capture(wave)(X).run(backend, [X], executor=steps)
        assert steps.calls == 1
        assert float(found) == float(wave(ag.tensor(X)))

    def test_loops_are_unrolled_unless_it_takes_them(self):
        def total(x):
            return ag.func.scan(lambda carry, row: (carry + row, carry * row), 0.0, x)

        program = ag.func.capture(total)(X)
        without, taking = Steps(), Steps()
        taking.loops = True
        for steps in (without, taking):
            with ag.func.use_executor(steps):
                carry, rows = program(X)
            np.testing.assert_allclose(float(carry), X.sum())
            np.testing.assert_allclose(np.asarray(rows), X * (np.cumsum(X) - X))
        assert [step.op for step in taking.programs[0].steps].count("func.scan") == 1
        assert all(step.op != "func.scan" for step in without.programs[0].steps)

    def test_many_threads_at_the_first_call(self):
        steps = Steps()
        run = ag.func.capture(wave)(X).runner(ag.backends.get("numpy"), executor=steps)
        with ThreadPoolExecutor(4) as pool:
            found = [float(out) for (out,) in pool.map(run, [X * i for i in range(16)])]
        np.testing.assert_allclose(found, [np.sum(np.sin(X * i) ** 2) for i in range(16)], rtol=1e-14)


class TestRefusals:
    def refusing(self, when):
        class Refusing(Steps):
            def supports(self, program, **options):
                return when != "supports"

            def build(self, program, backend, values, **options):
                if when == "build":
                    raise Refused("not this one")
                run = super().build(program, backend, values, **options)

                def call(*values):
                    outs = run(*values)
                    if when == "first" or (when == "later" and self.calls == 2):
                        raise Refused("not now")
                    return outs

                return None if when == "none" else call

        return Refusing()

    @pytest.mark.parametrize("when", ["supports", "build", "none", "first"])
    def test_in_the_first_call_the_next_runs_the_program_for_good(self, when):
        refusing = self.refusing(when)
        run = ag.func.capture(wave)(X).runner(ag.backends.get("numpy"), executor=refusing)
        for _ in range(3):
            (found,) = run(X)
            assert float(found) == float(wave(ag.tensor(X)))
        assert refusing.calls == (when == "first")
        assert "steps" in repr(run)
        assert run.why_not

    def test_in_a_later_call_that_call_alone(self):
        refusing = self.refusing("later")
        run = ag.func.capture(wave)(X).runner(ag.backends.get("numpy"), executor=refusing)
        for _ in range(4):
            (found,) = run(X)
            assert float(found) == float(wave(ag.tensor(X)))
        assert refusing.calls == 4
        assert not run.why_not

    def test_an_error_is_that_of_the_operations(self):
        class Failing(Steps):
            def build(self, program, backend, values, **options):
                def call(*values):
                    self.calls += 1
                    raise ZeroDivisionError("a singular matrix, as I see it")

                return call

        failing = Failing()
        run = ag.func.capture(ag.linalg.inv)(np.eye(2)).runner(ag.backends.get("numpy"), executor=failing)
        with pytest.raises(np.linalg.LinAlgError) as caught:
            run(np.zeros((2, 2)))
        assert not isinstance(caught.value.__context__, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):  # the operations raise nothing: the executor is at fault
            run(np.eye(2))
        assert failing.calls == 2


class TestNames:
    def test_unknown_ones_are_errors_that_say_what_there_is(self, registered):
        registered(Given([Steps()]))
        message = r"unknown executor 'abacus'. Installed executors: .*steps"
        with pytest.raises(ag.BackendError, match=message):
            ag.compile(wave, executor="abacus")
        with pytest.raises(ag.BackendError, match=message), ag.func.use_executor("abacus"):
            pass
        with pytest.raises(ag.BackendError, match=message):
            ag.func.capture(wave)(X).runner(ag.backends.get("numpy"), executor="abacus")

    @pytest.mark.parametrize(("thing", "words"), [(3, "no name"), (type("", (), {"name": "x"})(), "no build")])
    def test_what_is_no_executor(self, thing, words):
        with pytest.raises(ag.BackendError, match=f"is no executor: .*{words}"):
            ag.compile(wave, executor=thing)

    def test_another_version_of_the_contract(self):
        steps = Steps()
        steps.contract = 1
        with pytest.raises(ag.BackendError, match="'steps' is written for version 1 of the contract, this is"):
            ag.compile(wave, executor=steps)

    def test_by_name(self, registered):
        steps = Steps()
        registered(Given([steps]))
        compiled = ag.compile(wave, executor="steps")
        for _ in range(3):
            compiled(X)
        assert steps.calls

    def test_one_that_does_not_work_here(self, registered):
        registered(Given({"broken": "agrad_nowhere:Executor"}))
        with pytest.raises(ag.BackendError, match=r"'broken' is not available: .*agrad_nowhere"):
            ag.compile(wave, executor="broken")
        (row,) = (row for row in manager.executors() if row.name == "broken")
        assert not row.available
        assert "agrad_nowhere" in row.reason

    def test_two_of_a_name(self, registered):
        registered(Given([Steps()]), "first")
        with pytest.warns(RuntimeWarning, match="the plugin 'first' already provides an executor named 'steps'"):
            registered(Given([Steps()]), "second")

    def test_the_command_lists_them(self, registered, monkeypatch, capsys):
        registered(Given([Steps()]))
        monkeypatch.setattr("sys.argv", ["agrad"])
        with pytest.raises(SystemExit) as done:
            runpy.run_module("agrad", run_name="__main__")
        assert done.value.code == 0
        head, row = (line for line in capsys.readouterr().out.splitlines() if line.startswith(("executor", "steps")))
        assert head.split() == ["executor", "version", "backends", "available"]
        assert row.split() == ["steps", "-", "numpy", "yes"]

    def test_the_kit_runs_programs_by_it(self, tmp_path):
        """One test of the kit with an executor that gives wrong numbers fails, where it passes without."""
        (tmp_path / "wrong.py").write_text(WRONG)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--agrad-backend=numpy"]
        command += [
            f"--agrad-plugin={tmp_path / 'wrong.py'}:Plugin",
            "-k",
            "test_made_of_another or (test_exact and not batches) or test_options",
        ]
        command += ["--pyargs", "agrad.testing.suite.test_programs"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout
        done = subprocess.run(
            [*command, "--agrad-executor=wrong"], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 1, done.stdout
        for name in ("test_made_of_another", "test_exact", "test_options"):
            assert f"::{name}" in done.stdout


#: A plugin with an executor that is wrong.
WRONG = """
from agrad.plugin.backend import Executor
from agrad.plugin.hookspecs import hookimpl


class Wrong(Executor):
    name = "wrong"
    backends = ("numpy",)

    def build(self, program, backend, values, **options):
        run = program.function(backend)
        return lambda *values: tuple(out * 3 for out in run(*values))


class Plugin:
    @hookimpl
    def agrad_executors(self):
        return [Wrong()]
"""


class Given:
    """A plugin that gives executors."""

    def __init__(self, executors):
        self.executors = executors

    @hookimpl
    def agrad_executors(self):
        return self.executors
