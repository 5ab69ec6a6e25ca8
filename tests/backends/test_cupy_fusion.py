"""The kernels that the CuPy plugin writes for rules and for programs: what they compute, compiled for this machine's CPU.

A C++ compiler of the host runs the very text that CUDA is given. Where CuPy is installed, NVRTC compiles it for a GPU
too, which needs none. Nothing here ran on a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from support import some_of

import agrad as ag
from agrad.core.op import OPS
from agrad.testing.samples import SAMPLES, resolve

pytest.importorskip("agrad_cupy")
from agrad.program.passes import optimized
from agrad_cupy import fusion, sampling
from agrad_cupy.fusion import ARRAY, PREAMBLE, NotFusible, fused, kernel_code, rule_code

NUMPY = ag.asarray(0.0)._spec.backend
LIBRARY = NUMPY.namespace()

#: The rules that stay stepwise: of functions that CUDA C++ lacks, or of remainders. All are special functions.
STEPWISE = re.compile(
    r"special\.("
    r"[ijky][01]e?|[ijky]ve?|kve?|(gamma|beta)(_density|ln)?|(gamma|beta)inc\w*|stdtr\w*|chdtr\w*|[gbfnp]+dtr\w*"
    r"|btdtri\w|ellip\w+|erfcx|log_ndtr|ndtri_exp|scaled_ierfc|loggamma|rgamma|psi|polygamma|zeta|binom|poch|expn|hyp\w+"
    r"|edge_\w+|f_edge|f_level\w*|inner_\w+"
    r")"
)


def recorded(dtype):
    """Give an op's name, a node and its values for each sample of an elementwise op with operands of one spec."""
    for name, samples in SAMPLES.items():
        if name not in OPS or OPS[name].rule.kind != "elementwise":
            continue
        for sample in samples:
            if sample.op != name:
                continue
            leaves = []

            def make(data):
                array = np.array(data.values).reshape(data.shape)
                array = array.astype(dtype) if data.inexact and array.dtype.kind == "f" else array
                leaves.append(ag.asarray(array, requires_grad=data.inexact))  # noqa: B023 (called at once)
                return leaves[-1]  # noqa: B023 (as above)

            def spec(like):
                return ag.zeros(like.shape, dtype=like.dtype)._spec

            try:
                args = [resolve(v, make, spec) for v in sample.args]
                kwargs = {k: resolve(v, make, spec) for k, v in sample.kwargs.items()}
                node = OPS[name].entry(*args, **kwargs).grad_fn
            except NotImplementedError:
                continue
            plan = getattr(node, "plan", None)
            if plan is not None and plan.same_spec:
                yield name, node, plan, leaves


def values(dtype, seed=0):
    """Give, per rule, its kernel's text, what goes in, and what NumPy's own steps make of it."""
    rng = np.random.default_rng(seed)
    for name, node, plan, _ in recorded(dtype):
        params = node.params if plan.rule.params else ()
        try:
            code = rule_code(plan, dtype, params)
        except (NotFusible, NotImplementedError):
            continue
        g = rng.normal(size=node.spec.shape).astype(dtype)
        with np.errstate(all="ignore"):
            expected = plan.vjp(node.spec.xp, g, node.saved, node)
        yield name, code, (g, *node.saved), expected if isinstance(expected, tuple) else (expected,)


def source(index, code, prefix):
    """Write a function that runs a kernel's text over arrays."""
    ins, outs = (re.findall(r"(\w+) (\w+)", text) for text in (code.ins, code.outs))
    kind = {"float32": "float", "float64": "double", "bool": "bool", "int64": "long long"}
    arguments = [f"const {kind[t]}* p_{n}" for t, n in ins] + [f"{kind[t]}* p_{n}" for t, n in outs]
    loads = "".join(f"const {kind[t]} {n} = p_{n}[i]; " for t, n in ins)
    stores = "".join(f"p_{n}[i] = {n}; " for _, n in outs)
    results = "".join(f"{kind[t]} {n}; " for t, n in outs)
    body = f"for (long i = 0; i < n; i++) {{ {loads}{results}\n{code.body}\n{stores} }}"
    if code.sum is not None:  # over all: `REDUCE` and `POST_MAP` of CuPy's template
        body = (
            f"typedef {code.computed} _type_reduce; _type_reduce _s = _type_reduce(0);\n"
            f"for (long i = 0; i < n; i++) {{ {loads}\n"
            f"_type_reduce _a = static_cast<_type_reduce>({code.body});\n_s = _s + _a; }}\n"
            f"p_r0[0] = _s / _type_reduce({code.sum.count});"
        )
    return f'extern "C" {prefix} void k{index}(long n, {", ".join(arguments)}) {{\n{body}\n}}\n'


def compile_here(place, text):
    """Compile device functions for this machine's CPU, and load them."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler on this machine")
    if sys.platform == "win32":
        pytest.skip("the command line is that of Unix compilers")
    (place / "k.cpp").write_text("#include <cmath>\nusing namespace std;\n#define __device__\n" + text)
    command = [compiler, "-w", "-O0", "-shared", "-fPIC", "-o", str(place / "k.so"), str(place / "k.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return ctypes.CDLL(str(place / "k.so"))


@pytest.fixture(scope="module", params=["float64", "float32"])
def compiled(request, tmp_path_factory):
    """All kernels of one dtype, compiled for this machine."""
    cases = list(values(request.param))
    text = PREAMBLE + "".join(source(i, code, "") for i, (_, code, _, _) in enumerate(cases))
    return request.param, cases, compile_here(tmp_path_factory.mktemp("kernels"), text)


def test_what_the_kernels_compute(compiled):
    """The text run as C++ on the CPU gives what the rule's own steps give in NumPy."""
    dtype, cases, library = compiled
    assert len({name for name, *_ in cases}) > 60
    for i, (name, _, arrays, expected) in enumerate(cases):
        shape = expected[0].shape
        ins = [np.ascontiguousarray(np.broadcast_to(a, shape), dtype) for a in arrays]
        outs = [np.empty(shape, dtype) for _ in expected]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*ins, *outs)]
        getattr(library, f"k{i}")(ctypes.c_long(outs[0].size), *pointers)
        for found, wanted in zip(outs, expected, strict=True):
            # The C library rounds its functions otherwise than NumPy; cancellation then shows it.
            scale = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
            tolerance = 1e-11 if dtype == "float64" else 2e-4
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=name)


# -- the runs of programs ---------------------------------------------------------------------------------------------


def training(x, w, b, y):
    """A step of training: its loss, and the gradients."""
    h = ag.nn.functional.silu(x @ w + b) * ag.where(y > 0, 1.0, 0.5)
    loss = ag.mean((h - y) ** 2) + 0.1 * ag.sum(ag.abs(w))
    return loss, *ag.autograd.grad(loss, [w, b])


def curve(x, w, b, y):
    """A function of one array alone, with its derivative."""
    z = ag.sum(ag.tanh(ag.exp(-x * x) * ag.sin(x * x)))
    return z, *ag.autograd.grad(z, [x])


def normalized(x, w, b, y):
    """Statistics of rows, and what is made of them."""
    centred = y - ag.mean(y, axis=1, keepdims=True)
    made = centred / ag.sqrt(ag.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * b
    z = ag.sum(ag.logaddexp(made, ag.astype(y > 0, y.dtype)))
    return z, made, *ag.autograd.grad(z, [y, b])


def programs_of(dtype):
    """Give, per function, its program with runs, their kernels, the operands, and what the calls give."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype) for shape in ((5, 4), (4, 3), (3,), (5, 3))]
    for function in (training, curve, normalized):
        program = ag.func.capture(function)(*(ag.asarray(a, requires_grad=True) for a in arrays))
        made, codes = fused(optimized(program.without_detach()))
        wanted = [t.detach().numpy() for t in function(*(ag.asarray(a, requires_grad=True) for a in arrays))]
        yield function.__name__, made, codes, arrays, wanted


class Compiled:
    """NumPy's kernels, and those of runs compiled for this machine."""

    def __init__(self, codes, library, first):
        self.codes = codes
        for i, (name, code) in enumerate(codes.items(), first):
            setattr(self, name, self.kernel(code, getattr(library, f"k{i}")))

    def __getattr__(self, name):
        return getattr(NUMPY.xp, name)

    def kernel(self, code, function):
        outs = [dtype for dtype, _ in re.findall(r"(\w+) (\w+)", code.outs)]

        def over(arrays, shape):
            made = [np.empty(shape, dtype) for dtype in outs]
            pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *made)]
            function(ctypes.c_long(arrays[0].size), *pointers)
            return made

        def run(*arrays):
            arrays = [np.array(a, order="C") for a in np.broadcast_arrays(*arrays)]  # as CuPy's indexers read them
            if code.sum is None:
                made = over(arrays, arrays[0].shape)
                return made[0] if code.single else tuple(made)
            axes, keepdims, _ = code.sum
            kept = [i for i in range(arrays[0].ndim) if i % arrays[0].ndim not in {a % arrays[0].ndim for a in axes}]
            rows = [np.moveaxis(a, kept, range(len(kept))) for a in arrays]
            shape = rows[0].shape[: len(kept)]
            rows = [np.ascontiguousarray(a).reshape((int(np.prod(shape)), -1)) for a in rows]
            made = np.array([over([np.array(a[i]) for a in rows], ())[0] for i in range(rows[0].shape[0])])
            made = made.reshape(shape)
            return np.expand_dims(made, axes) if keepdims else made

        return run


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_the_runs_of_programs_compute(dtype, tmp_path):
    """Whole programs, their runs by the text run as C++ on the CPU: what the calls give in NumPy."""
    cases = list(programs_of(dtype))
    codes = [code for _, _, codes, _, _ in cases for code in codes.values()]
    library = compile_here(tmp_path, PREAMBLE + "".join(source(i, code, "") for i, code in enumerate(codes)))
    first = 0
    for name, program, codes, arrays, wanted in cases:
        kernels = Compiled(codes, library, first)
        first += len(codes)
        assert any(code.sum is not None for code in codes.values()), name
        found = program.function(NUMPY, kernels=kernels)(*arrays)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11 if dtype == "float64" else 5e-5, atol=1e-6, err_msg=name)


def test_few_steps_are_left():
    counts = {name: (len(made.steps), len(codes)) for name, made, codes, _, _ in programs_of("float32")}
    assert counts["curve"] == (2, 2)  # of 26: the value, and its derivative
    assert counts["training"][0] < 20  # of 39, in two dtypes
    assert counts["normalized"][0] < 20  # of 42


def test_a_run_that_is_too_long_or_has_too_many_arrays_is_cut():
    def function(x, *others):
        for _ in range(120):
            x = ag.sin(x) * 0.5
        for other in others:
            x = x * other
        return x

    arrays = [ag.ones((2, 3), dtype="float32") for _ in range(70)]
    program = ag.func.capture(function)(*arrays)
    made, codes = fused(optimized(program.without_detach()))
    taken = {name: len(code.ins.split(", ")) for name, code in codes.items()}
    assert max(taken.values()) <= 32
    assert max(code.steps for code in codes.values()) <= 200
    assert len(made.steps) < 30


@pytest.fixture(scope="module")
def samplers(tmp_path_factory):
    """The kernels of `sampling`, compiled for this machine: functions of a key, a number of samples, and the rest."""
    place = tmp_path_factory.mktemp("samplers")
    return compile_here(
        place,
        "typedef unsigned long long word;\n"
        "static word __umul64hi(word a, word b) { return (unsigned __int128)a * b >> 64; }\n"
        + sampling.PREAMBLE
        + "".join(sampler_source(kind, "") for kind in sampling.BODIES),
    )


C_TYPES = {"float32": "float", "float64": "double", "int64": "long long"}


def sampler_source(kind, prefix):
    dtype, body = sampling.BODIES[kind]
    return (
        f'extern "C" {prefix} void {kind}(long n, unsigned long long k0, unsigned long long k1, long long low,'
        f" unsigned long long count, {C_TYPES[dtype]}* out) {{ for (long i = 0; i < n; i++) {{"
        f" {C_TYPES[dtype]} r; unsigned long long c[4]; {body} out[i] = r; }} }}\n"
    )


def drawn(samplers, kind, key, n, low=0, count=0):
    out = np.empty(n, sampling.BODIES[kind][0])
    words = [ctypes.c_ulonglong(k) for k in key]
    rest = ctypes.c_longlong(low), ctypes.c_ulonglong(count), ctypes.c_void_p(out.ctypes.data)
    getattr(samplers, kind)(ctypes.c_long(n), *words, *rest)
    return out


@pytest.mark.parametrize("key", [(0, 0), (1, 2), (2**64 - 1, 12345678901234567890)])
def test_uniform_samples_are_numpys(samplers, key):
    for kind, dtype in (("uniform", np.float64), ("uniform_single", np.float32)):
        source = np.random.Generator(np.random.Philox(key=list(key)))
        np.testing.assert_array_equal(drawn(samplers, kind, key, 1001), source.random(1001, dtype=dtype))


def test_other_samples_have_their_distributions(samplers):
    n = 200_000
    normal = drawn(samplers, "normal", (3, 4), n)
    assert np.isfinite(normal).all()
    assert scipy.stats.kstest(normal, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 5 / n**0.5
    for low, count in ((-3, 7), (0, 2), (5, 1), (-(2**62), 2**63)):
        found = drawn(samplers, "integers", (5, 6), n, low, count)
        assert low <= found.min() <= found.max() < low + count
        if 1 < count < 10:
            assert scipy.stats.chisquare(np.bincount(found - low, minlength=count)).pvalue > 1e-3


def agrads_own():
    """Give the elementwise ops that are agrad's own, by name."""
    for name, op in OPS.items():
        own = op.entry.__module__.startswith("agrad.") and not name.startswith("fusion_test.")
        if own and op.rule.kind == "elementwise":
            yield name, op


def defaults(op):
    """Return the default values of what a rule takes beside arrays."""
    return tuple(p.default for p in op.signature.parameters.values() if p.name in op.rule.params)


@pytest.mark.parametrize("every", some_of([False, True], 2))
def test_which_rules_are_fused(every):
    """Every rule of the standard and of nn is, by all operands and by one (or any of them); others are special functions."""
    fused, stepwise = set(), set()
    for name, op in agrads_own():
        rule, params = op.rule, defaults(op)
        for needs in itertools.product((True, False), repeat=len(rule.operands)):
            if not any(needs) or not (every or sum(needs) in {1, len(needs)}):
                continue
            try:
                rule_code(op.plan(needs, same_spec=True), "float32", params)
                fused.add(name)
            except NotFusible:
                stepwise.add(name)
            except (NotImplementedError, TypeError):  # no derivative by this operand; a parameter has no default
                assert name.startswith("special."), name
    assert {name for name in stepwise if not STEPWISE.fullmatch(name)} == set()
    assert len(fused) > 75


@pytest.mark.parametrize("shape", [(1,), (4, 1, 2)])
def test_rules_and_compositions_ask_for_no_shape(shape, monkeypatch):
    """What is recorded on arrays of one shape is the kernel for all: agrad's own rules give the same text for another."""

    def codes():
        found = {code.name: code for code in forward_codes("float64")}
        for name, op in agrads_own():
            if STEPWISE.fullmatch(name):
                continue
            plan = op.plan((True,) * len(op.rule.operands), same_spec=True)
            try:
                found[name] = rule_code(plan, "float64", defaults(op))
            except (NotFusible, NotImplementedError, TypeError):
                assert name.startswith("special."), name
        return found

    wanted = codes()
    assert len(wanted) > 110
    monkeypatch.setattr(fusion, "SHAPE", shape)
    assert codes() == wanted


def test_one_kernel_in_place_of_the_steps():
    op = OPS["tanh"]
    code = rule_code(op.plan((True,), same_spec=True), "float32", ())
    assert (code.ins, code.outs, code.name) == ("float32 a0, float32 a1", "float32 r0", "agrad_tanh_backward")
    assert code.steps == 3  # ans * ans, 1 - that, g * that
    assert code.body.splitlines()[-2:] == ["const C v4 = v0 * v3;", "r0 = v4;"]
    both = rule_code(OPS["divide"].plan((True, True), same_spec=True), "float16", ())
    assert both.outs == "float16 r0, float16 r1"
    assert both.body.startswith("typedef float C;")  # half precision is computed in single


def test_what_cannot_be_fused_is_refused():
    numbers = itertools.count()

    def refused(rule, match):
        def mine(x, /): ...

        mine.__module__ = "agrad.ops.pretended"  # what users declare is not traced at all
        op = ag.elementwise(name=f"fusion_test.mine{next(numbers)}", x=rule, kernel=lambda xp, x: x)(mine).op
        with pytest.raises(NotFusible, match=match):
            rule_code(op.plan((True,), same_spec=True), "float64", ())

    refused(lambda x: 1.0 if x > 0 else 0.0, "branches on a value")
    refused(lambda xp, x: xp.astype(x, LIBRARY.float32), "numbers of the dtype float32, float64")
    refused(lambda xp, x: xp.sum(x), "the function sum")
    refused(lambda x: x % 2, "the function remainder")
    refused(lambda x: x + 1j, "numbers of the dtype complex128")
    refused(lambda x: sum(x * i for i in range(200)), "more than 200 steps")
    with pytest.raises(NotFusible, match="the dtype complex128"):
        rule_code(OPS["tanh"].plan((True,), same_spec=True), "complex128", ())
    with pytest.raises(NotFusible, match="operands that differ"):
        rule_code(OPS["tanh"].plan((True,)), "float64", ())


def test_a_composition_that_branches_on_a_value_is_no_part_of_a_kernel():
    def larger(x, /): ...

    larger.__module__ = "agrad.ops.pretended"
    kernel = lambda xp, x: x * 2 if xp.sum(x) > 0 else x * 3
    op = ag.elementwise(name="fusion_test.larger", x=2, kernel=kernel)(larger).op
    assert fusion.is_composed(op.name)
    shaped = fusion.Shaped((3,), "float64")
    steps = (
        fusion.Step("multiply", (fusion.Ref(0), fusion.Ref(0)), {}, (1,), False),
        fusion.Step(op.name, (fusion.Ref(1),), {}, (2,), False),
        fusion.Step("add", (fusion.Ref(2), fusion.Ref(0)), {}, (3,), False),
    )
    program = fusion.Program((0,), steps, (3,), dict.fromkeys(range(4), shaped), {})
    with pytest.raises(NotFusible, match=r"fusion_test\.larger.*cannot be written out"):
        fusion.emit(program, "run")
    unchanged, codes = fused(program)
    assert not codes
    assert [step.op for step in unchanged.steps] == ["multiply", "fusion_test.larger", "add"]


def test_rules_of_the_users_are_run_as_they_are():
    @ag.elementwise(name="fusion_test.cube", x=lambda x: 3 * x * x, kernel=lambda xp, x: x**3)
    def cube(x, /): ...

    with pytest.raises(NotFusible):
        rule_code(cube.op.plan((True,), same_spec=True), "float64", ())
    with pytest.raises(NotFusible):
        kernel_code(cube.op, "float64", (ARRAY,), ())


# -- with CuPy, without a GPU -----------------------------------------------------------------------------------------


def forward_codes(dtype):
    """Give the kernels of composed ops with the default of every parameter."""
    for name, op in agrads_own():
        if op.kernel is None:
            continue
        given = {
            a.name: ARRAY if a.name in op.rule.operands else op.signature.parameters[a.name].default
            for a in op.arguments
        }
        positional = tuple(given[a.name] for a in op.arguments if not a.by_keyword)
        named = tuple((a.name, given[a.name]) for a in op.arguments if a.by_keyword)
        try:
            yield kernel_code(op, dtype, positional, named)
        except NotFusible:
            assert name.startswith("special."), name
        except TypeError:  # a parameter has no default
            assert name == "special.scaled_ierfc"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nvrtc_compiles_them(dtype):
    pytest.importorskip("cupy", reason="CuPy is not installed")
    from cupy_backends.cuda.libs import nvrtc

    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    found = {code.name: code for _, code, _, _ in values(dtype)}
    found |= {code.name: code for code in forward_codes(dtype)}
    assert len(found) > 90
    runs = [code for _, _, codes, _, _ in programs_of(dtype) for code in codes.values()]
    found |= {f"{i} {code.name}": code for i, code in enumerate(runs)}
    assert any(code.sum is not None for code in runs)
    text = PREAMBLE + "".join(source(i, code, "__global__") for i, code in enumerate(found.values()))
    text += sampling.PREAMBLE + "".join(sampler_source(kind, "__global__") for kind in sampling.BODIES)
    program = nvrtc.createProgram(text, "rules.cu", (), ())
    try:
        nvrtc.compileProgram(program, ("--std=c++17", "--gpu-architecture=sm_90"))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program)[:3000])
    binary = nvrtc.getCUBIN(program)
    assert all(name.encode() in binary for name in (*(f"k{i}" for i in range(len(found))), *sampling.BODIES))


@pytest.fixture
def unowned():
    """Make CuPy's arrays on memory that is not there."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if cupy.cuda.is_available():
        pytest.skip("there is a GPU: arrays need not be pretended")

    def make(shape, dtype="float32"):
        memory = cupy.cuda.UnownedMemory(2**12, 2**20, None, device_id=0)
        return cupy.ndarray(shape, dtype=dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))

    return make


def test_shapes_and_strides_on_cupys_arrays(unowned, monkeypatch):
    """What moves no data runs without a device: views, strides, broadcasting, and the specs of them."""

    from agrad_cupy.backend import CupyBackend

    backend = CupyBackend()
    monkeypatch.setitem(backend.__dict__, "_count", 1)
    x = unowned((4, 8))
    like = np.empty((4, 8), np.float32)
    for view in (
        lambda xp, a: xp.permute_dims(a, (1, 0)),
        lambda xp, a: xp.expand_dims(a, axis=1),
        lambda xp, a: xp.broadcast_to(a, (3, 4, 8)),
        lambda xp, a: xp.flip(a, axis=0),
        lambda xp, a: xp.reshape(a, (2, 2, 8)),
        lambda xp, a: xp.moveaxis(a, 0, 1),
        lambda xp, a: xp.squeeze(a[:, :1], axis=1),
        lambda xp, a: a[1::2, ..., None],
    ):
        ours, theirs = view(backend.xp, x), view(NUMPY.xp, like)
        assert (ours.shape, ours.strides, ours.dtype) == (theirs.shape, theirs.strides, theirs.dtype)
    spec = backend.spec(x)
    assert (spec.shape, spec.dtype, spec.device, spec.inexact, spec.is_float) == (
        x.shape,
        x.dtype,
        "cupy:0",
        True,
        True,
    )
    assert backend.spec(unowned((4, 8))) is spec
    assert backend.broadcast_like(unowned((8,)), spec).strides == (0, 4)
    assert backend.nbytes(x) == 4 * 8 * 4
    assert ag.plugin.manager.find_backend(type(x)).name == "cupy"


def test_reason_on_this_machine():
    """With CuPy and no GPU the row says which of driver and device is missing."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if cupy.cuda.is_available():
        pytest.skip("there is a GPU")
    row = next(row for row in ag.backends() if row.name == "cupy")
    assert not row.available
    assert row.reason.startswith(("no NVIDIA driver, or one too old for this CUDA (cuda", "no device ("))


def test_every_op_has_a_kernel_or_a_reason():
    """Each op resolves on the real CuPy: to a function, or to an error that names the op."""
    pytest.importorskip("cupy", reason="CuPy is not installed")

    from agrad_cupy.backend import CupyBackend

    backend = CupyBackend()
    backend.__dict__["_count"] = 1
    kernels = {name: op.kernel_of(backend.xp) for name, op in OPS.items() if not name.startswith("fusion_test.")}
    lacking = {name for name, kernel in kernels.items() if getattr(kernel, "__name__", "") == "lacking"}
    assert lacking - {"to_device"} == set(backend.lacks)  # crossings are not kernels
