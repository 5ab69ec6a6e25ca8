"""A sequence that follows a schedule as a step of a program: as many steps run and states kept as without one."""

import functools
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import agrad as ag
from agrad import func
from agrad.compiled.compiling import CompileWarning
from agrad.utils import checkpoint_sequence
from agrad.utils.unwinding import SequenceRun
from tests.utils.test_schedules import SCHEDULES, N, cs, expected_of, leaf, loop

pytestmark = pytest.mark.filterwarnings("ignore:Numba not available")


def ops_of(program):
    return [step.op for step in program.steps if step.op.startswith("func.")]


@pytest.fixture
def strictly():
    """Let a function that runs uncompiled be an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        yield


class Counts:
    """How many steps were run, and the most states that were alive, and files that were there, when one began."""

    def __init__(self, monkeypatch, directory):
        self.directory = directory
        self.begin()
        run, own = SequenceRun._call, self

        def call(self, i, **how):
            own.calls += 1
            own.peak = max(own.peak, sum(1 for reference in own.alive if reference() is not None))
            own.files = max(own.files, sum(1 for _ in directory.rglob("*.agrad")))
            found = run(self, i, **how)
            own.note(self._state[0])
            return found

        monkeypatch.setattr(SequenceRun, "_call", call)

    def begin(self, *arrays):
        self.alive = list(map(weakref.ref, arrays))
        self.calls = self.peak = self.files = 0

    def note(self, array):
        self.alive.append(weakref.ref(array))

    def found(self):
        return self.calls, self.peak, self.files


@pytest.fixture
def counts(monkeypatch, tmp_path):
    gc.disable()
    yield Counts(monkeypatch, tmp_path)
    gc.enable()


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"executor": "native"}], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_as_many_steps_and_states_as_the_schedule_says(schedule, options, counts, tmp_path, strictly, capsys):
    if "executor" in options:
        pytest.importorskip("llvmlite")
    w, x = leaf(0.9), leaf(*np.linspace(1, 2, 5))
    chosen = SCHEDULES[schedule]()
    f = ag.compile(
        lambda x: checkpoint_sequence(lambda x, i: x * w, x, N, schedule=chosen, directory=str(tmp_path)),
        check=False,
        **options,
    )
    for k in range(4):
        counts.begin(x._raw)
        y = f(x)
        counts.note(y._raw)
        by_x, by_w = ag.grad(ag.sum(y), [x, w])
        np.testing.assert_allclose(by_x.numpy(), [0.9**N] * 5, rtol=1e-14)
        np.testing.assert_allclose(by_w.numpy(), [N * 0.9 ** (N - 1) * 7.5], rtol=1e-14)
        if k:  # the first call captures
            assert counts.found() == expected_of(SCHEDULES[schedule](), N, writes_first=False)
        del y, by_x, by_w
    assert not list(tmp_path.rglob("*.agrad"))
    assert [ops_of(program) for program in f.programs] == [["func.unwind"]]


def test_only_cotangents_that_are_wanted_are_computed(strictly):
    w, x, fixed, none = leaf(0.9), leaf(2.0), ag.tensor(0.5), leaf(3.0)

    def f(x):
        return checkpoint_sequence(lambda x, i: x * w + fixed * none.detach(), x, 5, schedule=2)

    compiled = ag.compile(lambda: ag.grad(f(x), [w, x, none], allow_unused=True))
    for _ in range(2):
        by_w, by_x, by_none = compiled()
        assert by_none is None
        np.testing.assert_allclose(by_x.numpy(), 0.9**5)
        # the derivative of w^5 x + 1.5 (w^4 + w^3 + w^2 + w + 1)
        np.testing.assert_allclose(by_w.numpy(), 10 * 0.9**4 + 1.5 * (4 * 0.9**3 + 3 * 0.9**2 + 2 * 0.9 + 1))
    (step,) = [step for step in compiled.programs[-1].steps if step.op == "func.rewind"]
    assert len(step.outs) == 2


def test_a_program_is_differentiated_by_other_operands_than_in_its_capture(counts, strictly):
    """What forward keeps does not suffice then, and the steps run again."""
    w, x = leaf(0.9), leaf(2.0)
    inner = ag.compile(lambda x, w: checkpoint_sequence(lambda x, i: x * w, x, 5, schedule=2))
    program = func.capture(lambda x, w: checkpoint_sequence(lambda x, i: x * w, x, 5, schedule=2))(x.detach(), w)
    for f in (inner, program):
        for by_x, by_w in ((True, False), (False, True), (True, True)):
            x, w = leaf(2.0).requires_grad_(by_x), leaf(0.9).requires_grad_(by_w)
            f(x, w).backward()
            assert (x.grad is not None, w.grad is not None) == (by_x, by_w)
            np.testing.assert_allclose(
                [t.grad.item() for t in (x, w) if t.grad is not None],
                [value for value, by in ((0.9**5, by_x), (10 * 0.9**4, by_w)) if by],
            )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradients_within_a_program(schedule, counts, tmp_path, strictly, capsys):
    w, x = leaf(0.3, 0.2), leaf(0.1, 0.5)
    chosen = SCHEDULES[schedule]()

    def step(state, i):
        x, v = state["x"], state["v"]
        return {"x": x + 0.1 * v, "v": v - 0.1 * ag.sin(x * w) * (1 + 0.01 * i) + 0.01 * ag.sum(x) / (i + 1)}

    def graded(run):
        found = run(step, {"x": x, "v": ag.zeros(2)}, N)
        return ag.grad(ag.sum(found["x"] ** 2 + found["v"]), [x, w])

    right = graded(loop)
    sequence = functools.partial(checkpoint_sequence, schedule=chosen, directory=str(tmp_path))
    f = ag.compile(lambda: graded(sequence))
    for _ in range(3):
        counts.begin()
        for one, other in zip(f(), right, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-13)
        assert counts.calls == expected_of(SCHEDULES[schedule](), N)[0]
        assert not list(tmp_path.rglob("*.agrad"))
    assert [ops_of(program) for program in f.programs] == [["func.unwind", "func.rewind"]]


WEIGHT = ag.tensor(0.9)
TRANSFORMS = {
    "grad": lambda f, x: func.grad(f)(x[0]),
    "vmap": lambda f, x: func.vmap(f)(x),
    "vmap of grad": lambda f, x: func.vmap(func.grad(f))(x),
    "hessian": lambda f, x: func.hessian(f)(x[0]),
    "vmap of hessian": lambda f, x: func.vmap(func.hessian(f))(x),
    "jacrev of grad": lambda f, x: func.jacrev(func.grad(f))(x[0]),
    "jacrev": lambda f, x: func.jacrev(lambda x: f(x) * x)(x[0]),
    "jvp": lambda f, x: func.jvp(f, (x[0],), (x[1],))[1],
    "jvp of grad": lambda f, x: func.jvp(func.grad(f), (x[0],), (x[1],))[1],
    "vmap twice": lambda f, x: func.vmap(func.vmap(func.grad(f)))(ag.stack([x, 2 * x])),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms(transform, strictly):
    step = lambda x, i: ag.sin(x) * WEIGHT + 0.1 * i * x
    plain = lambda x: ag.sum(loop(step, x, 6) ** 2)
    f = lambda x: ag.sum(checkpoint_sequence(step, x, 6, schedule=2) ** 2)
    x = leaf([0.1, 0.2], [0.3, 0.4], [0.5, -1.0])
    right = transform(plain, x)
    again = ag.grad(ag.sum(right * right.detach()), x)[0]
    captured = func.capture(lambda x: transform(f, x))(x.detach())
    compiled = ag.compile(lambda x: transform(f, x))
    for made in (captured(x), *(compiled(x.detach()) for _ in range(3))):
        np.testing.assert_allclose(made.detach().numpy(), right.detach().numpy(), rtol=1e-13)
    assert "func.unwind" in ops_of(captured)
    assert "func.unwind" in ops_of(compiled.programs[0])
    made = captured(x)  # its steps are differentiated again, in reverse and forward mode
    np.testing.assert_allclose(ag.grad(ag.sum(made * made.detach()), x)[0].numpy(), again.numpy(), rtol=1e-11)
    along = func.jvp(captured, (x.detach(),), (ag.ones((3, 2)),))[1]
    np.testing.assert_allclose(
        along.numpy(), func.jvp(lambda x: transform(plain, x), (x.detach(),), (ag.ones((3, 2)),))[1].numpy(), rtol=1e-11
    )


def test_a_retained_graph_begins_anew(counts, strictly):
    x, w = leaf(2.0), leaf(0.9)
    f = ag.compile(lambda x: checkpoint_sequence(lambda x, i: x * w, x, 6, schedule=2), check=False)
    for k in range(4):
        y = f(x)
        counts.begin()
        first = ag.grad(y, w, retain_graph=True)[0]
        once = counts.calls
        second = ag.grad(y, w)[0]
        assert first.item() == second.item() == pytest.approx(12 * 0.9**5)
        assert k < 1 or counts.calls - once == once + 6  # forward once more
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


def test_second_derivatives_of_compiled_functions(strictly):
    x, w = leaf(2.0), leaf(0.9)
    f = ag.compile(lambda x: checkpoint_sequence(lambda x, i: x * w, x, 6, schedule=2))
    for _ in range(3):
        (g,) = ag.grad(f(x), w, create_graph=True)
        gg = ag.grad(g, [w, x], create_graph=True)
        np.testing.assert_allclose([g.item(), gg[0].item(), gg[1].item()], [12 * 0.9**5, 60 * 0.9**4, 6 * 0.9**5])
        np.testing.assert_allclose(ag.grad(gg[0], w)[0].item(), 240 * 0.9**3)


def test_cotangents_that_leave_out_elements(strictly):
    """As in the loop, an infinite derivative behind an element that `where` left out does not count."""
    x = leaf(0.0, 4.0)
    value = lambda run: lambda x: ag.sum(ag.where(x > 1, run(lambda x, i: ag.sqrt(x), x, 3), 1.0))
    right = ag.grad(value(loop)(x), x)[0]
    assert right.numpy()[0] == 0
    f = ag.compile(value(functools.partial(checkpoint_sequence, schedule=1)))
    for _ in range(3):
        np.testing.assert_allclose(ag.grad(f(x), x)[0].numpy(), right.numpy(), rtol=1e-14)
    assert ops_of(f.programs[0]) == ["func.unwind"]


def test_states_that_pass_through_and_counters(strictly):
    x, w = leaf(2.0), leaf(*np.linspace(0.5, 1.5, 9))

    def step(state, i):
        x, fixed, count = state
        return x * ag.take(w, count) * fixed, fixed, count + 1

    def f(x):
        found, fixed, count = checkpoint_sequence(step, (x, 0.5 * x, ag.asarray(0)), 9, schedule=2)
        return found * fixed, count

    compiled = ag.compile(f)
    right = ag.grad(f(x)[0], [x, w])
    for _ in range(4):
        y, count = compiled(x)
        assert count.item() == 9
        for one, other in zip(ag.grad(y, [x, w]), right, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-14)
    assert ops_of(compiled.programs[0]) == ["func.unwind"]


def test_forward_alone_is_a_plain_loop(counts, strictly):
    x, w = leaf(2.0), leaf(0.9)
    f = lambda x: checkpoint_sequence(lambda x, i: x * w, x, 6, schedule=2)
    compiled = ag.compile(f)
    with ag.no_grad():
        for _ in range(3):
            assert compiled(x).item() == pytest.approx(2 * 0.9**6)
        assert ops_of(compiled.programs[0]) == ["func.scan"]
        program = func.capture(f)(x)
    counts.begin()
    with ag.no_grad():
        assert func.capture(f)(x)(x).item() == program(x).item() == pytest.approx(2 * 0.9**6)
    assert counts.calls == 0


def test_backends(backend):
    x = ag.asarray(np.array([1.0, 2.0]), device=backend, requires_grad=True)
    w = ag.asarray(np.array([0.9, 0.8]), device=backend, requires_grad=True)
    schedule = cs.MultistageCheckpointSchedule(7, 1, 1)
    f = lambda x: ag.sum(checkpoint_sequence(lambda x, i: x * w, x, 7, schedule=schedule))
    compiled = ag.compile(f)
    for _ in range(3):
        with warnings.catch_warnings():
            if backend == "dask":  # a schedule needs values
                warnings.simplefilter("ignore", CompileWarning)
            y = compiled(x)
        by_x, by_w = ag.grad(y, [x, w])
        np.testing.assert_allclose(by_x.numpy(), [0.9**7, 0.8**7], rtol=1e-14)
        np.testing.assert_allclose(by_w.numpy(), [7 * 0.9**6, 14 * 0.8**6], rtol=1e-14)
    assert bool(compiled.programs) == (backend != "dask")


TABLE = ag.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
REFUSED = {
    "draws": (lambda x, i: x * ag.rand(1), "draws random numbers"),
    "decides by the number": (lambda x, i: x if i < 3 else 2 * x, "the number of the step is used in another way"),
    "takes it as an index": (
        lambda x, i: x * [1.0, 2.0, 3.0, 4.0, 5.0][i],
        "the number of the step is used in another",
    ),
    "takes a tensor's element": (lambda x, i: x * TABLE[i], "the number of the step is used in another way"),
    "asks what it is": (lambda x, i: x if hash(i) == 0 else 2 * x, "the number of the step is used in another way"),
    "decides by values": (lambda x, i: x if ag.sum(x) < 3 else 2 * x, "value"),
    "changes its dtype": (lambda x, i: ag.astype(x, ag.float32), "changes the shape or the dtype"),
}


@pytest.mark.parametrize(("step", "why"), REFUSED.values(), ids=REFUSED)
def test_steps_that_no_program_holds(step, why):
    x = leaf(1.0)
    f = lambda x: checkpoint_sequence(step, x, 5, schedule=2)
    with pytest.raises(func.CaptureError, match=f"(?s){why}.*compile what a step computes"):
        func.capture(f)(x)
    compiled = ag.compile(f)
    ag.manual_seed(0)
    with pytest.warns(CompileWarning, match="compile what a step computes"):
        y = compiled(x)
    ag.manual_seed(0)
    np.testing.assert_allclose(y.detach().numpy(), f(x).detach().numpy())
    assert not compiled.programs


def test_errors_of_a_step_are_its_own(strictly):
    """They are no reason to run uncompiled, and name the user's line, where the capture and the loop differ as elsewhere."""

    def step(x, i):
        if not isinstance(i, int):
            raise ZeroDivisionError("only in a program")
        return x

    for run in (ag.compile, lambda f: func.capture(f)):
        with pytest.raises(ZeroDivisionError, match="only in a program") as caught:
            run(lambda x: checkpoint_sequence(step, x, 5, schedule=2))(leaf(1.0))
        assert any(entry.name == "step" for entry in caught.traceback)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32"])
def test_the_number_of_the_step_is_a_number_of_python(dtype, strictly):
    """In a program too: the result has the tensor's dtype and the loop's bits."""
    x = ag.asarray(np.arange(1, 4), dtype=dtype)
    if dtype == "int32":
        step = lambda x, i: (i + x) * 2 - (i * 3 - 1) * x + (2 - i)
    else:
        step = lambda x, i: (x / (i + 1) + 0.1 * i * (1 - i / 3.7) - i) * (i + x) / (3 + i * i) + (2 - i) / (0.3 + i)
    right = loop(step, x, 5)
    program = func.capture(lambda x: checkpoint_sequence(step, x, 5, schedule=2))(x)
    found = program(x)
    assert ops_of(program) == ["func.scan" if dtype == "int32" else "func.unwind"]  # integers have no derivative
    assert found.dtype == right.dtype == x.dtype
    np.testing.assert_array_equal(found.numpy(), right.numpy())


def test_other_uses_of_a_program(tmp_path):
    x, w = leaf(2.0, 1.0), leaf(0.9, 0.8)
    f = lambda x: checkpoint_sequence(lambda x, i: x * w + i * ag.flip(x), x, 6, schedule=2)
    program = func.capture(f)(x.detach())
    assert "6 calls" in str(program)
    assert "func.unwind" in program.memory().table()
    assert program.sparsity().toarray().all()
    with pytest.raises(TypeError, match="cannot save a program that follows a schedule of checkpoints"):
        ag.save(program, tmp_path / "program.agrad")
    w = w.detach()
    graded = func.capture(func.grad(lambda x: ag.sum(f(x))))(x.detach())
    again = pickle.loads(pickle.dumps(graded.replaced(outside={})))
    for one in (graded, again):
        assert ops_of(one) == ["func.unwind", "func.rewind"]
    with pytest.raises(TypeError, match="cannot save a program that follows a schedule of checkpoints"):
        ag.save(graded, tmp_path / "program.agrad")
    assert graded.sparsity().toarray().all()


def test_files_go_with_the_graph(tmp_path, strictly):
    x, w = leaf(1.0), leaf(0.9)
    schedule = cs.MultistageCheckpointSchedule(8, 0, 3)
    f = ag.compile(
        lambda x: checkpoint_sequence(lambda x, i: x * w, x, 8, schedule=schedule, directory=str(tmp_path)), check=False
    )
    for k in range(4):
        y = f(x)
        assert k == 0 or list(tmp_path.rglob("*.agrad"))  # the capture has run backward
        del y
        gc.collect()
        assert not list(tmp_path.rglob("*.agrad"))
