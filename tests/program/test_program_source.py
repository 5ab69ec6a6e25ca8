"""`Program.source`: a module that runs without agrad, to the bit as the program does on NumPy."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from support import some_of

import agrad as ag
from agrad.plugin import manager
from agrad.program.source import written_out
from agrad.testing.calls import SINGLE, SampleCall
from agrad.testing.samples import SAMPLES
from agrad_numpy.export import is_spelled

capture = ag.func.capture
F = ag.nn.functional
rng = np.random.default_rng(0)

ALONE = """
import pickle, sys
sys.modules["agrad"] = sys.modules["agrad_numpy"] = None  # importing them is an error
results = []
for text, args, kwargs in pickle.load(open(sys.argv[1], "rb")):
    names = {}
    exec(compile(text, "<module>", "exec"), names)
    results.append(names["program"](*args, **kwargs))
pickle.dump(results, open(sys.argv[2], "wb"))
"""


def alone(jobs, tmp_path):
    """Run modules in a process that cannot import agrad."""
    (tmp_path / "jobs").write_bytes(pickle.dumps(jobs))
    command = [sys.executable, "-I", "-c", ALONE, tmp_path / "jobs", tmp_path / "results"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return pickle.loads((tmp_path / "results").read_bytes())


def run(program, *args, **kwargs):
    names: dict = {}
    exec(program.source(), names)
    return names["program"](*args, **kwargs)


def arrays_in(value):
    return [np.asarray(leaf) for leaf in ag.tree.flatten(value)[0] if leaf is not None]


def assert_same(found, wanted, about=""):
    found, wanted = arrays_in(found), arrays_in(wanted)
    assert len(found) == len(wanted), about
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), about
        assert a.tobytes() == b.tobytes(), about


# -- programs ---------------------------------------------------------------------------------------------------------


def loss(params, x, y):
    h = ag.tanh(x @ params["w1"] + params["b1"])
    return ag.mean((h @ params["w2"] - y) ** 2)


def network(params, x, t):
    h = F.layer_norm(F.gelu(x @ params["w1"] + params["b1"]), (6,))
    return F.cross_entropy(h @ params["w2"], t)


def attention(q, k, v):
    scores = ag.einsum("bqd,bkd->bqk", q, k) / 2.0
    return ag.sum(ag.softmax(scores, -1) @ v)


def indexing(x, i):
    y = x[i, 1:]
    z = ag.where(y > 0, y, y * 0.5)
    return ag.sum(z**3), ag.sort(x, axis=1, descending=True)


def noisy(x):
    y = x * ag.randn(3) + ag.rand(3)
    return ag.sum(y**2), ag.randint(0, 9, (4,)), ag.randperm(5)


PARAMS = {
    "w1": rng.normal(size=(4, 6)),
    "b1": rng.normal(size=6),
    "w2": rng.normal(size=(6, 3)),
}
X, Y, T = rng.normal(size=(5, 4)), rng.normal(size=(5, 3)), np.array([0, 2, 1, 1, 0])
EXACT = {
    "loss": (ag.func.value_and_grad(loss), (PARAMS, X, Y)),
    "single": (
        ag.func.value_and_grad(loss),
        ({k: v.astype("float32") for k, v in PARAMS.items()}, X.astype("float32"), Y.astype("float32")),
    ),
    "second order": (
        ag.func.grad(lambda x: ag.sum(ag.func.grad(lambda x: ag.sum(ag.exp(ag.sin(x)) * x))(x) ** 2)),
        (X[0],),
    ),
    "mapped": (ag.func.vmap(ag.func.grad(lambda x: ag.sum(ag.tanh(x) ** 3))), (X,)),
    "solve": (ag.func.value_and_grad(lambda a, b: ag.sum(ag.linalg.solve(a, b) ** 2)), (X[:4], X[4])),
    "indexing": (ag.func.grad(lambda x, i: indexing(x, i)[0]), (X, np.array([1, 1, 3]))),
    "sorted": (indexing, (X, np.array([1, 1, 3]))),
    "half": (lambda x: ag.sum(x, axis=0), (np.ones((3000, 2), "float16"),)),
    "complex": (lambda z: ag.fft.ifft(ag.fft.fft(z) * 2j), (X[0] + 1j,)),
    "fft over axes": (lambda x: ag.fft.irfftn(ag.fft.rfftn(x, s=(4, -1), axes=(0, 1)), s=(4, -1), axes=(0, 1)), (X,)),
}
WRITTEN_OUT = {
    "network": (ag.func.value_and_grad(network), (PARAMS, X, T)),
    "attention": (ag.func.grad(attention), tuple(rng.normal(size=(3, 2, 4, 4)))),
    "convolution": (
        ag.func.grad(lambda w, x: ag.sum(F.max_pool2d(F.conv2d(x, w, padding=1), 2))),
        (rng.normal(size=(2, 1, 3, 3)), rng.normal(size=(1, 1, 6, 6))),
    ),
    "special": (ag.func.grad(lambda x: ag.sum(ag.special.erf(x) * ag.special.gammaln(x * x + 1))), (X[0],)),
}


def test_the_module_gives_the_program_s_bits_without_agrad(tmp_path):
    programs = {name: (capture(f)(*args), args) for name, (f, args) in (EXACT | WRITTEN_OUT).items()}
    found = alone([(program.source(), args, {}) for program, args in programs.values()], tmp_path)
    for (name, (program, args)), result in zip(programs.items(), found, strict=True):
        wanted = program(*args)
        if name in EXACT:
            assert_same(result, wanted, name)
            continue
        for a, b in zip(arrays_in(result), arrays_in(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13, err_msg=name)
        standard = written_out(program.without_detach(), is_spelled)
        numpy = standard.function(manager.get("numpy"))(*ag.tree.flatten(args)[0])
        assert_same(result, numpy, name)


def joint(call, dtype):
    """Return the results and gradients of a sample's call as a function of its operands."""

    def single(array):
        return array.astype(SINGLE.get(array.dtype.name, array.dtype.name)) if dtype in SINGLE.values() else array

    def function(*operands):
        results = call.tensors(list(operands), lambda array: ag.asarray(single(np.asarray(array))))
        followed = [r for r in results if isinstance(r, ag.Tensor) and r.requires_grad]
        if not followed:
            return results
        seeds = [ag.ones_like(r) for r in followed]
        return results, ag.grad(followed, [x for x in operands if x.requires_grad], seeds, allow_unused=True)

    return function, [single(a) for a in call.arrays]


@pytest.mark.parametrize(("dtype", "samples"), some_of([("float64", 1), ("float64", 2), ("float32", 1)], 3))
def test_every_operation_forward_and_backward(dtype, samples, tmp_path):
    jobs, wanted, about = [], [], []
    for sample in (sample for of_one in SAMPLES.values() for sample in of_one[:samples]):
        function, arrays = joint(SampleCall(sample), dtype)
        try:
            program = capture(function)(*(ag.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays))
        except ag.func.CaptureError:  # its shape depends on values
            continue
        if sample.op.startswith("scipy.") and sample.beyond:
            with pytest.raises(TypeError, match=r"source\(\): scipy\."):
                program.source()
            continue
        jobs.append((program.source(), arrays, {}))
        plain = program.without_detach()
        standard = written_out(plain, is_spelled)
        exact = standard.steps == plain.steps
        run = plain.function(manager.get("numpy")) if exact else standard.function(manager.get("numpy"))
        with np.errstate(all="ignore"):
            wanted.append((program(*arrays), run(*arrays)))
        about.append(str(sample))
    assert len(jobs) > 175 * samples
    tolerance = {"float64": 1e-9, "float32": 2e-4}[dtype]
    for result, (eager, standard), name in zip(alone(jobs, tmp_path), wanted, about, strict=True):
        assert_same(result, standard, name)
        for a, b in zip(arrays_in(result), arrays_in(eager), strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


def test_draws_take_a_key_and_are_those_of_agrad(tmp_path):
    program = capture(noisy)(np.ones(3))
    ag.manual_seed(5)
    wanted = [program(np.arange(3.0)) for _ in range(2)]
    jobs = [(program.source(), (np.arange(3.0),), {"key": (5, n)}) for n in (0, 4)]
    assert_same(alone(jobs, tmp_path), wanted)


def test_each_generator_has_its_key():
    own = ag.random.Generator(11)
    program = capture(lambda x: (x + ag.rand(2), x + ag.rand(2, generator=own), x + ag.rand(2)))(np.zeros(2))
    ag.manual_seed(5)
    own.manual_seed(11)
    assert_same(run(program, np.zeros(2), key=(5, 0), key_2=(11, 0)), program(np.zeros(2)))


# -- parameters and results -------------------------------------------------------------------------------------------


def test_parameters_are_those_of_the_function():
    program = capture(lambda params, *, scale, power: params["w"] ** power * scale)(
        {"w": np.ones(2)}, scale=np.asarray(3.0), power=2
    )
    text = program.source()
    assert "def program(params, scale):" in text
    assert "params['w']: float64[2]" in text
    assert "['power']: 2" in text
    np.testing.assert_array_equal(run(program, {"w": np.array([2.0, 3.0])}, np.asarray(3.0)), [12.0, 27.0])


def test_names_that_are_no_identifiers_or_taken_are_changed():
    program = capture(lambda np, v1, **others: np * v1 + others["class"] + others["a b"])(
        *np.ones((2, 2)), **{"class": np.ones(2), "a b": np.ones(2)}
    )
    np.testing.assert_array_equal(run(program, *np.full((4, 2), 3.0)), [15.0, 15.0])


def test_other_shapes_and_dtypes_are_refused():
    program = capture(lambda x: x * 2)(np.ones(3))
    with pytest.raises(ValueError, match=r"x is float64\[2\]; the program is for float64\[3\]"):
        run(program, np.ones(2))
    with pytest.raises(ValueError, match="float32"):
        run(program, np.ones(3, "float32"))


def test_tensors_from_outside_and_large_constants_are_parameters():
    w = ag.tensor([1.0, 2.0])
    table = list(range(1500))

    def f(x):
        return x * w, ag.asarray(table) * 2, x + ag.asarray([3.0, float("nan")])

    program = capture(f)(np.ones(2))
    assert next(iter(program.arrays())) == "w"
    assert len(program.arrays()) == 2
    assert "np.nan" in program.source()
    a, b, c = run(program, np.array([5.0, 7.0]), **program.arrays())
    np.testing.assert_array_equal(a, [5.0, 14.0])
    np.testing.assert_array_equal(b, 2 * np.arange(1500))
    np.testing.assert_array_equal(c, [8.0, np.nan])


def test_writes_are_returned():
    w = ag.tensor([1.0, -2.0], requires_grad=True)

    def step(x):
        w.grad = None
        value = ag.sum((w * x) ** 2)
        value.backward()
        with ag.no_grad():
            w.sub_(0.1 * w.grad)
        return value

    program = capture(step)(np.array([1.0, 0.5]))
    x, value = np.array([2.0, 3.0]), np.array([1.0, 1.0])
    result, written = run(program, x, value)
    np.testing.assert_allclose(result, 13.0)
    np.testing.assert_allclose(written["w.grad"], 2 * value * x * x)
    np.testing.assert_allclose(written["w"], value - 0.2 * value * x * x)


def test_results_come_in_plain_containers():
    program = capture(lambda x: {"a": (x * 2, None, [1.5, "text", x]), 3: ag.linalg.slogdet(x)})(np.eye(2))
    found = run(program, 2 * np.eye(2))
    assert type(found[3]) is tuple
    assert found["a"][1] is None
    assert found["a"][2][:2] == [1.5, "text"]
    np.testing.assert_allclose(found[3][1], np.log(4))


def test_floats_and_arguments_themselves():
    x = np.array([1.0, 2.0])

    def f(x, rate):
        return x * rate, x, {"rate": rate, "whole": 3}

    compiled = ag.compile(f)
    compiled(ag.tensor(x), 0.5)
    for program, args, rate in [(capture(f)(ag.tensor(x), 0.5), (), 0.5), (compiled.programs[0], (0.25,), 0.25)]:
        found = run(program, x, *args)
        np.testing.assert_array_equal(found[0], x * rate)
        np.testing.assert_array_equal(found[1], x)
        assert found[2] == {"rate": rate, "whole": 3}


def test_writes_to_arguments():
    def f(w):
        with ag.no_grad():
            w.mul_(2.0)
        return ag.sum(w)

    result, written = run(capture(f)(ag.tensor([1.0, 2.0])), np.array([3.0, 4.0]))
    assert result == 14.0
    np.testing.assert_array_equal(written["w"], [6.0, 8.0])


def test_long_programs_are_cut():
    def f(x, w):
        for i in range(2500):
            x = x * w + i
        return ag.sum(x), x

    x, w = np.array([0.5, 0.25]), np.array([0.5, -0.5])
    program = capture(f)(x, w)
    text = program.source()
    assert "def part_2000(held):" in text
    assert_same(run(program, x, w), program(x, w))


# -- of other backends ------------------------------------------------------------------------------------------------


def test_a_backend_without_modules_says_so():
    program = capture(lambda x: x * 2)(np.ones(3))
    assert program.source() == program.source(backend="numpy")
    for call in (program.source, program.arrays):
        with pytest.raises(
            NotImplementedError, match=r"source is not supported by the dask backend: .*Backend\.source"
        ):
            call(backend="dask")


# -- what is refused, and what cannot leave its place -----------------------------------------------------------------


def test_an_operation_without_a_kernel_is_refused_by_name():
    program = capture(ag.sin)(np.ones(2))
    (step,) = program.steps
    unknown = program.replaced(steps=(type(step)("nobody.knows", step.args, step.kwargs, step.outs, line="a.py:3"),))
    with pytest.raises(TypeError, match=r"nobody\.knows, called at a\.py:3, has no kernel"):
        unknown.source()


def test_what_chooses_its_way_by_a_value_is_refused_at_the_user_s_line():
    program = capture(ag.scipy.linalg.expm)(np.eye(2))
    with pytest.raises(TypeError, match=r"source\(\): scipy\.expm, .*\n *Called at .*test_program_source\.py"):
        program.source()


def test_an_operation_of_the_user_s_is_written_out():
    @ag.elementwise(name="tests.source_cube", x=lambda x: 3 * x * x, kernel=lambda xp, x: xp.multiply(x, x * x))
    def cube(x, /):
        """x to the third."""

    program = capture(ag.func.grad(lambda x: ag.sum(cube(cube(x)))))(np.ones(3))
    x = np.array([0.5, 1.5, -2.0])
    assert "cube" not in program.source()
    np.testing.assert_allclose(run(program, x), 9 * x**8)


def test_text_of_the_user_s_stays_within_comments_and_docstrings():
    program = capture(lambda x: x)({'"""\nimport os\n"""': np.ones(2), "\\": np.ones(2)})
    (leaf, *_) = [part for part in program.source().splitlines() if part.startswith("import")]
    assert leaf == "import numpy as np"
    step = capture(ag.sin)(np.ones(2))
    lied = step.replaced(
        steps=tuple(s.__class__(s.op, s.args, s.kwargs, s.outs, line="a\nimport os") for s in step.steps)
    )
    assert "\nimport os" not in lied.source()
