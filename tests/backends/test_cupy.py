"""The CuPy plugin where there is no GPU: what it claims and says, and its own code on a stand-in for CuPy.

No number here comes from a GPU.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import agrad as ag

pytest.importorskip("agrad_cupy")

from cupy_stand_in import fake, python

HERE = Path(__file__).parent


# -- the plugin without CuPy ------------------------------------------------------------------------------------------


def row():
    return next(row for row in ag.backends() if row.name == "cupy")


def test_it_has_a_row_with_a_reason_where_it_cannot_run():
    if importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed here")
    assert not row().available
    assert row().reason == "CuPy is not installed; pip install cupy-cuda12x or cupy-cuda13x, as your CUDA is"
    assert row().devices == ()
    with pytest.raises(ag.BackendError, match="the cupy backend is not available: CuPy is not installed"):
        ag.zeros(3, device="cupy:0")
    with pytest.raises(ag.BackendError, match="the cupy backend is not available: CuPy is not installed"):
        ag.ones(2).to_device("cupy")


def test_types_are_claimed_by_name_alone():
    from agrad_cupy import agrad_backend_of

    ndarray = type("ndarray", (), {"__module__": "cupy"})
    assert agrad_backend_of(ndarray) == "cupy"
    assert agrad_backend_of(type("mine", (ndarray,), {})) == "cupy"
    assert agrad_backend_of(type("ndarray", (), {"__module__": "cupyx.scipy"})) is None
    assert agrad_backend_of(type("ndarray", (), {"__module__": "cupy_other"})) is None
    assert agrad_backend_of(type("generic", (), {"__module__": "cupy"})) is None


def test_cupy_is_not_imported_by_looking_for_backends():
    out = python("""
        import fake_cupy, sys, agrad
        agrad.asarray([1.0])
        print("cupy" in sys.modules, "array_api_compat.cupy" in sys.modules)
    """)
    assert out.split() == ["False", "False"]


#: What is broken, and the reason that the plugin gives.
BROKEN = {
    "sys.modules['cupy'] = None": "CuPy is not installed",
    "del cupy.cuda; fail_import('libcudart.so.12: cannot open')": "a library of CuPy is missing (libcudart.so.12",
    "count(35, 'cudaErrorInsufficientDriver: too old')": "no NVIDIA driver, or one too old for this CUDA (cudaErrorI",
    "count(100, 'cudaErrorNoDevice: none')": "no device (cudaErrorNoDevice: none)",
    "count(999, 'cudaErrorUnknown: ?')": "CUDA does not start (cudaErrorUnknown: ?)",
    "cupy.cuda.runtime.getDeviceCount = lambda: 0": "no device (the driver counts none)",
    "lose('nvrtc')": "a library of CUDA is missing, nvrtc (",
    "lose('cublas')": "a library of CUDA is missing, cublas (",
    "headers(None)": "CUDA's headers are missing; pip install ",
}


@pytest.fixture(scope="module")
def reasons():
    """Give, by what is broken, the row of the backend and the error: of a fork each, which import what they need once."""
    out = python(f"""
        import contextlib, os, warnings, fake_cupy, agrad
        with contextlib.suppress(ImportError):
            import dask.array  # which the rows ask for, too
        cupy = fake_cupy.install()

        def count(status, text):
            def fail():
                raise fake_cupy.CUDARuntimeError(status, text)
            cupy.cuda.runtime.getDeviceCount = fail

        def lose(library):
            sys.modules["cupy_backends.cuda.libs." + library] = None

        def headers(place):
            import types
            sys.modules["cuda"] = types.ModuleType("cuda")
            pathfinder = sys.modules["cuda.pathfinder"] = types.ModuleType("cuda.pathfinder")
            pathfinder.find_nvidia_header_directory = lambda name: place

        def fail_import(text):
            class Finder:
                def find_spec(self, name, path=None, target=None):
                    if name == "cupy":
                        raise ImportError(text)
            del sys.modules["cupy"]
            sys.meta_path.insert(0, Finder())

        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # of a process with threads: BLAS's
        for broken in {[*BROKEN]!r}:
            if child := os.fork():
                assert os.waitpid(child, 0)[1] == 0
                continue
            exec(broken)
            row = next(row for row in agrad.backends() if row.name == "cupy")
            print(row.available, row.reason)
            try:
                agrad.zeros(2, device="cupy")
            except agrad.BackendError as error:
                print(str(error).splitlines()[0], flush=True)
            os._exit(0)
    """)
    lines = out.splitlines()
    return dict(zip(BROKEN, zip(lines[::2], lines[1::2], strict=True), strict=True))


@pytest.mark.parametrize("broken", BROKEN)
def test_every_reason_is_told_apart(broken, reasons):
    first, second = reasons[broken]
    assert first.startswith(f"False {BROKEN[broken]}")
    assert second.startswith(f"the cupy backend is not available: {BROKEN[broken]}")


# -- its own code on the stand-in -------------------------------------------------------------------------------------


def test_row_and_devices():
    fake("""
        row = next(row for row in ag.backends() if row.name == "cupy")
        assert (row.available, row.version, row.devices) == (True, "0.0.fake", ("cupy:0", "cupy:1")), row
        assert ag.zeros(2, device="cupy").device == "cupy:0"
        assert ag.zeros(2, device="cupy:1").device == "cupy:1"
        for made in (ag.ones((2,), device="cupy:1"), ag.arange(3, device="cupy:1"), ag.eye(2, device="cupy:1"),
                     ag.full((2,), 2.0, device="cupy:1"), ag.linspace(0, 1, 3, device="cupy:1"),
                     ag.asarray([1.0], device="cupy:1"), ag.empty((2,), device="cupy:1")):
            assert made.device == "cupy:1" and made._raw.device.id == 1
        try:
            ag.zeros(2, device="cupy:7")
        except ag.BackendError as error:
            assert "has no device 'cupy:7'. Its devices: cupy:0, cupy:1." in str(error)
        else:
            raise AssertionError
        with cupy.cuda.Device(1):
            assert ag.zeros(2, device="cupy").device == "cupy:1"
    """)


def test_gradients():
    fake("""
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
        x, w = (ag.asarray(cupy.asarray(v), requires_grad=True) for v in (a, b))
        loss = ag.sum(ag.tanh(x @ w) * 2.0) + ag.mean(x[1:, 0] ** 2)
        loss.backward()
        g = 2 * (1 - np.tanh(a @ b) ** 2)
        expected = g @ b.T
        expected[1:, 0] += 2 * a[1:, 0] / 3
        same(x.grad, expected)
        same(w.grad, a.T @ g)
        assert loss.item() == float(loss.detach())
        index = ag.asarray(cupy.asarray(np.array([0, 2, 2])))
        y = ag.asarray(cupy.asarray(a), requires_grad=True)
        (y[index].sum() + y[cupy.asarray(np.array([True, False, False, True]))].sum()).backward()
        same(y.grad, np.outer([2.0, 0, 2, 1], np.ones(3)))
        y.grad = None
        (y * 3.0).sum().backward()
        (y * 3.0).sum().backward()  # accumulates
        same(y.grad, np.full((4, 3), 6.0))
        z = ag.asarray(cupy.asarray(a))
        z[0] = 1.0
        z += 1.0
        assert z.tolist()[0] == [2.0, 2.0, 2.0]
        np.testing.assert_array_equal(z.numpy()[1:], a[1:] + 1)
        z[1] = 7.0
        z[2] = 8.0  # into the copy that the line before has made
        assert z.tolist()[:3] == [[2.0] * 3, [7.0] * 3, [8.0] * 3]
    """)


def test_a_spec_keeps_cupys_own_dtype():
    """An array whose dtype says its byte order or has metadata does not lend that dtype to all others of its shape."""
    fake("""
        for told in (np.dtype("f4").newbyteorder("<"), np.dtype("f8", metadata={"unit": "m"})):
            array, plain = cupy.ndarray(np.ones((5, 3), told)), np.dtype(told.type)
            assert array.dtype is not plain
            ag.asarray(array)
            assert ag.ones((5, 3), dtype=plain.name, device="cupy").dtype is plain
    """)


def test_what_cupy_refuses():
    """CuPy adds no complex numbers atomically, and solves for stacks of one shape only."""
    fake("""
        a = np.arange(6.0).reshape(3, 2) + 1j
        for dtype in (np.complex64, np.complex128):
            x = ag.asarray(cupy.asarray(a.astype(dtype)), requires_grad=True)
            index = ag.asarray(cupy.asarray(np.array([0, 2, 2])))
            weights = np.array([[1 + 2j], [3j], [4.0]], dtype)
            ag.sum(ag.real(x[index] * ag.asarray(cupy.asarray(weights)))).backward()
            same(x.grad, np.array([[1 - 2j] * 2, [0] * 2, [4 - 3j] * 2], dtype))
        matrix, stack = np.array([[2.0, 1.0], [0.0, 4.0]]), np.arange(12.0).reshape(3, 2, 2)
        many = matrix + np.arange(2.0).reshape(2, 1, 1, 1)
        for left, right in ((matrix, stack), (many, stack), (many, stack[0]), (matrix, stack[0, 0]), (many, stack[0, 0])):
            p, q = (ag.asarray(cupy.asarray(v), requires_grad=True) for v in (left, right))
            y = ag.linalg.solve(p, q)
            same(y.detach(), np.linalg.solve(left, right))
            y.sum().backward()
            adjoint = np.linalg.solve(np.swapaxes(left, -1, -2), np.ones(y.shape[-1 if right.ndim == 1 else -2:]))
            while adjoint.ndim < y.ndim:
                adjoint = adjoint[None]
            adjoint = np.broadcast_to(adjoint, y.shape)
            extra = adjoint.ndim - right.ndim
            summed = adjoint.sum(axis=tuple(range(extra)))
            same(q.grad, summed)
    """)


def test_signs():
    fake("""
        nan, inf = float("nan"), float("inf")
        for dtype in (np.float32, np.float64):
            a = np.array([nan, -inf, -2.0, 0.0, 3.0], dtype)
            same(ag.sign(ag.asarray(cupy.asarray(a))), np.array([nan, -1, -1, 0, 1], dtype))
        same(ag.sign(ag.asarray(cupy.asarray(np.array([-3, 0, 5])))), np.array([-1, 0, 1]))
        with np.errstate(invalid="ignore"):  # a GPU does not warn
            same(ag.sign(ag.asarray(cupy.asarray(np.array([3 - 4j, 0j])))), np.array([0.6 - 0.8j, 0]))
    """)


def test_clipping():
    fake("""
        nan = float("nan")
        a, low = np.array([nan, -3.0, 0.5, 3.0], np.float32), np.array([-1.0, -5.0, 1.0, nan])
        x = ag.asarray(cupy.asarray(a))
        same(ag.clip(x, -1.0, 2.0), np.array([nan, -1.0, 0.5, 2.0], np.float32))
        same(ag.clip(x, max=2), np.array([nan, -3.0, 0.5, 2.0], np.float32))
        same(ag.clip(x, ag.asarray(cupy.asarray(low.astype(np.float32)))), np.array([nan, -3, 1, nan], np.float32))
        same(ag.clip(x), a)
        b = np.array([-100, 0, 100], np.int8)
        same(ag.clip(ag.asarray(cupy.asarray(b)), -50, 50), np.array([-50, 0, 50], np.int8))
    """)


def test_what_waits_for_the_device():
    """Nothing does but what must know values: neither forward nor backward, nor an optimizer's step."""
    fake("""
        waits, rng = fake_cupy.WAITS, np.random.default_rng(0)
        x, w, c, i = (cupy.asarray(v) for v in (rng.normal(size=(4, 3)), rng.normal(size=(3, 2)),
                                                rng.normal(size=(4, 2)) + 1j, np.array([0, 1, 1, 0])))
        x, w, c, i = (ag.asarray(v, requires_grad=v.dtype.kind in "fc") for v in (x, w, c, i))
        F, optimizer = ag.nn.functional, ag.optim.Adam([w], lr=0.1)
        waits.clear()
        for _ in range(2):
            y = ag.clip(F.relu(x @ w), -0.5, 0.5) + ag.abs(x[i] @ w) + ag.sign(x @ w)
            y = ag.where(y > 0, y, 0.1 * y) + ag.linalg.vector_norm(x, axis=0)[:2] + ag.real(c[i] * ag.sign(c))
            loss = F.cross_entropy(y, i) + ag.max(y) + ag.sum(ag.sort(y, axis=0)[1:]) + ag.var(y) + ag.prod(y)
            loss = loss + ag.sum(ag.cumulative_sum(y, axis=0)) + ag.mean(ag.take_along_axis(y, i[:, None] % 2, axis=1))
            with np.errstate(all="ignore"):
                loss.backward()
            optimizer.step()
        assert waits == [], waits
        loss.item()
        x[x > 0]
        assert waits == ["item", "a mask"], waits
    """)


def test_crossings():
    fake("""
        a = np.arange(3.0)
        x = ag.asarray(a, requires_grad=True)
        y = x.to_device("cupy:1")
        same(y.detach(), a, "cupy:1")
        z = (y * y).to_device("cupy:0")
        same(z.detach(), a * a, "cupy:0")
        w = z.to_device("numpy").sum()
        with cupy.cuda.Device(1):
            pass
        same(ag.exp(y.detach()), np.exp(a), "cupy:1")  # kernels run where their operands are
        same(ag.concat([y.detach(), y.detach()]), np.concatenate([a, a]), "cupy:1")
        try:
            x * y
        except ag.BackendError as error:
            assert "numpy and cupy" in str(error), error
        else:
            raise AssertionError
    """)


def test_backward_through_crossings():
    fake("""
        a = np.arange(3.0)
        x = ag.asarray(a, requires_grad=True)
        y = x.to_device("cupy") * 2.0
        ((y.to_device("numpy") * ag.asarray(a)).to_device("cupy:0") * y).sum().backward()
        assert type(x.grad._raw) is np.ndarray
        np.testing.assert_allclose(x.grad.numpy(), 8 * a * a)
    """)


def test_samples():
    fake("""
        for sampler in (ag.rand, ag.randn, lambda *s, **k: ag.randint(0, 10, s, **k)):
            ag.manual_seed(1)
            first, second = sampler(50, device="cupy"), sampler(50, device="cupy:1")
            assert second.device == "cupy:1"
            ag.manual_seed(1)
            same(sampler(50, device="cupy"), first._raw.get())
            assert (first._raw.get() != second._raw.get()).any()
        assert ag.rand(3, dtype=ag.float32, device="cupy").dtype == ag.float32
        assert ag.rand(0, 3, device="cupy").shape == (0, 3)
        for dtype in (ag.float32, ag.float64):  # NumPy's
            ag.manual_seed(2)
            there = ag.rand(2, 3, dtype=dtype, device="cupy:1")
            ag.manual_seed(2)
            same(there, ag.rand(2, 3, dtype=dtype).numpy(), "cupy:1")
        assert sorted(ag.randperm(9, device="cupy").tolist()) == list(range(9))
        assert set(ag.randint(0, 2, (100,), device="cupy").tolist()) == {0, 1}
    """)


@pytest.mark.parametrize("devices", [1, 2])
def test_special_functions_are_cupys(devices):
    fake(f"""
        fake_cupy.COUNT = {devices}
        a = np.array([0.5, 3.0])
        x = ag.asarray(a, device="cupy", requires_grad=True)
        y = ag.special.gammaln(x)
        same(y.detach(), np.array([0.5723649429247001, 0.6931471805599453]))
        (g,) = ag.autograd.grad(y, x, ag.ones_like(y))
        same(g, np.array([-1.9635100260214235, 0.9227843350984671]))
        z = ag.special.psi(x)  # its rule gives polygamma a Python number
        (g,) = ag.autograd.grad(z, x, ag.ones_like(z))
        same(g, np.array([np.pi**2 / 2, np.pi**2 / 6 - 1.25]))
        try:
            ag.special.gammainc(x, x)
        except ag.UnsupportedOp as error:
            assert "special.gammainc is not supported by the cupy backend" in str(error), error
        else:
            raise AssertionError
    """)


@pytest.mark.parametrize("devices", [1, 2])
def test_lu_is_cupys_for_each_matrix(devices):
    fake(f"""
        fake_cupy.COUNT = {devices}
        import scipy.linalg
        from agrad.scipy.linalg import lu
        rng = np.random.default_rng(0)
        for shape in ((3, 3), (2, 4, 3), (2, 1, 3, 5)):
            a = rng.normal(size=shape)
            x = ag.asarray(a, device="cupy", requires_grad=True)
            for got, known in zip(lu(x), scipy.linalg.lu(a), strict=True):
                same(got.detach(), known)
        shapes = [tuple(t.shape) for t in lu(ag.zeros((2, 0, 3), device="cupy"))]
        assert shapes == [(2, 0, 0), (2, 0, 0), (2, 0, 3)], shapes
        x = ag.asarray(rng.normal(size=(2, 3, 3)), device="cupy", requires_grad=True)
        p, l, u = lu(x)
        (g,) = ag.autograd.grad(ag.sum(ag.log(ag.abs(ag.linalg.diagonal(u)))), x)  # of log |det x|
        np.testing.assert_allclose(g._raw.get(), np.linalg.inv(x._raw.get()).swapaxes(-1, -2))
    """)


def test_rules_run_as_one_kernel():
    fake("""
        ran = fake_cupy.ElementwiseKernel.RAN
        a = np.array([0.5, -1.0, 2.0])
        x = ag.asarray(cupy.asarray(a), requires_grad=True)
        ag.tanh(x).sum().backward()
        assert ran == ["agrad_tanh_backward"], ran
        same(x.grad, 1 - np.tanh(a) ** 2)
        ran.clear()
        y, z = (ag.asarray(cupy.asarray(v), requires_grad=True) for v in (a, a + 3))
        (y / z).sum().backward()  # both gradients
        assert ran == ["agrad_divide_backward"], ran
        same(y.grad, 1 / (a + 3))
        same(z.grad, -a / (a + 3) ** 2)
        ran.clear()
        ag.nn.functional.gelu(x)  # and compositions that CuPy has no function for
        ag.nn.functional.leaky_relu(x, 0.1), ag.nn.functional.leaky_relu(x, 0.2)
        assert ran == ["agrad_nn_gelu", "agrad_nn_leaky_relu", "agrad_nn_leaky_relu"], ran
        same(ag.nn.functional.leaky_relu(x, 0.2).detach(), np.where(a > 0, a, 0.2 * a))
        ran.clear()
        for w in (ag.asarray(cupy.asarray(a[:1]), requires_grad=True), x):  # neither broadcasting nor a second order
            (g,) = ag.autograd.grad(ag.sum(x / w), x, create_graph=True)
        assert ran == [], ran
        (x * 1.0).sum().backward()
        try:
            (loss := ag.tanh(x).sum()).backward()
            loss.backward()
        except RuntimeError as error:
            assert "Trying to backward through the graph a second time" in str(error), error
        else:
            raise AssertionError
    """)


def test_a_varying_parameter_does_not_compile_for_ever():
    fake("""
        from agrad_cupy.backend import VARIANTS
        ran = fake_cupy.ElementwiseKernel.RAN
        x = ag.asarray(cupy.asarray(np.array([-1.0, 2.0])))
        for i in range(3 * VARIANTS):
            same(ag.nn.functional.leaky_relu(x, i / 100), np.array([-i / 100, 2.0]))
        assert len(ran) == VARIANTS, len(ran)
    """)


def test_rules_run_on_the_device_of_their_node():
    fake("""
        a = np.arange(4.0)
        x = ag.asarray(a, requires_grad=True)
        y = ag.exp(x.to_device("cupy:1") * 0.5)
        z = (y[1:] / y[:-1]).to_device("cupy:0") * 2.0
        loss = ag.special.logsumexp(z, axis=0) + ag.sum(z.to_device("cupy:1") ** 2).to_device("cupy:0")
        loss.backward()  # the current device is 0 throughout
        b = ag.asarray(a, requires_grad=True)
        w = ag.exp(b * 0.5)
        w = w[1:] / w[:-1] * 2.0
        (ag.special.logsumexp(w, axis=0) + ag.sum(w**2)).backward()
        np.testing.assert_allclose(x.grad.numpy(), b.grad.numpy())
        try:
            z + y[1:]
        except ag.BackendError as error:
            text = "Expected all tensors to be on the same device, but found at least two devices, cupy:0 and cupy:1!"
            assert text in str(error), error
        else:
            raise AssertionError
        assert ag.asarray(cupy.asarray(a)).device == "cupy:0"
    """)


def test_errors_of_the_gpu_where_they_arise():
    """CUDA tells of a kernel's error at a later call: waiting for each kernel, the call is the kernel's own."""
    fake("""
        import agrad_cupy
        pending, wrong = fake_cupy.PENDING, fake_cupy.CUDARuntimeError(700, "cudaErrorIllegalAddress")
        x = ag.asarray(cupy.asarray(np.arange(3.0)), requires_grad=True)
        pending.append(wrong)
        loss = ag.tanh(x).sum()  # not waited for
        pending.clear()

        def raised(run):
            pending.append(wrong)
            try:
                run()
            except fake_cupy.CUDARuntimeError as error:
                return str(error) + chr(10).join(error.__notes__)
            raise AssertionError

        with agrad_cupy.synchronous():
            y = ag.exp(x)
            text = raised(lambda: ag.tanh(x))
            assert "cudaErrorIllegalAddressRaised by tanh on shapes (3,)" in text and "program.py:" in text, text
            wrong = fake_cupy.CUDARuntimeError(700, "cudaErrorIllegalAddress")
            text = raised(lambda: loss.backward())
            assert "SumBackward0, recorded at " in text, text
        assert x.grad is None
        pending.append(wrong)
        ag.exp(x)  # as before
        pending.clear()
    """)


def test_the_environment_asks_for_waiting():
    fake("""
        import os
        from agrad_cupy.backend import CupyBackend
        for text in ("1", "0"):
            os.environ["AGRAD_CUPY_SYNC"] = text
            assert CupyBackend().synchronous == (text == "1")
    """)


def test_memory():
    fake("""
        import agrad_cupy
        assert agrad_cupy.memory() == (1, 2, 0, 10, 20)
        assert agrad_cupy.memory("cupy:1").free == 9
    """)


@pytest.mark.parametrize("devices", [1, 2])
def test_every_op_and_its_rule_run(devices):
    """Each sample of each op, forward and backward: NumPy's values, and nothing falls back to the host."""
    fake(f"""
        fake_cupy.COUNT = {devices}
        from agrad.testing.calls import SampleCall
        from agrad.testing.samples import SAMPLES

        def cotangent(result):
            values = np.cos(np.arange(result.size)).reshape(result.shape)
            return ag.asarray(values.astype(result.detach().numpy().dtype), device=result.device)

        done = 0
        for sample in (s for name, samples in SAMPLES.items() if name != "to_device" for s in samples):
            if sample.op.startswith(("special.", "scipy.")) and sample.beyond:
                continue  # the stand-in has few of CuPy's special functions, the plugin few of SciPy's
            call, found = SampleCall(sample), {{}}
            for name in ("numpy", "cupy"):
                leaves = [ag.asarray(array, device=name, requires_grad=True) for array in call.arrays]
                results = call.tensors(leaves, lambda array: ag.asarray(array, device=name))
                assert all(r._spec.backend.name == name for r in results), sample
                recorded = [r for r in results if r.requires_grad]
                if recorded:
                    given = [cotangent(r) for r in recorded]
                    results += ag.autograd.grad(recorded, leaves, given, materialize_grads=True)
                found[name] = results
            for ours, theirs in zip(found["cupy"], found["numpy"], strict=True):
                same(ours.detach(), theirs.detach().numpy())
                done += 1
        assert done > 500, done
        fused = set(fake_cupy.ElementwiseKernel.RAN)
        assert len([name for name in fused if name.endswith("_backward")]) > 35, sorted(fused)
    """)


# -- programs ---------------------------------------------------------------------------------------------------------

#: Runs a program on the stand-in, as runs of steps and step by step, and compares both with NumPy's own calls.
COMPARED = """
from agrad_cupy.fusion import fused
from agrad.program.passes import optimized
ran = fake_cupy.ElementwiseKernel.RAN

def compared(function, arrays, *, exact=False, device="cupy:0"):
    there = [ag.asarray(a, device=device, requires_grad=True) for a in arrays]
    here = [ag.asarray(a, requires_grad=True) for a in arrays]
    with cupy.cuda.Device(int(device[5:])):
        program = ag.func.capture(function)(*there)
        run = program.runner(there[0]._spec.backend, exact=exact)
        made = fused(optimized(program.without_detach()))
    ran.clear()
    for found, wanted in zip(run(*(t._raw for t in there)), function(*here), strict=True):
        assert f"cupy:{found.device.id}" == device, found.device.id
        wanted = wanted.detach().numpy()
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), (found.shape, found.dtype)
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-11, atol=1e-11)
    return made, list(ran)
"""


@pytest.mark.parametrize(("devices", "device"), [(1, 0), (2, 1)])
def test_a_step_of_training_is_a_few_kernels(devices, device):
    fake(
        f"fake_cupy.COUNT, device = {devices}, 'cupy:{device}'"
        + COMPARED
        + textwrap.dedent("""
        rng = np.random.default_rng(0)
        x, w, b, y = rng.normal(size=(5, 4)), rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(5, 3))

        def step(x, w, b, y):
            loss = ag.mean((ag.nn.functional.gelu(x @ w + b) - y) ** 2)
            return loss, *ag.autograd.grad(loss, [w, b])

        (fewer, codes), kernels = compared(step, (x, w, b, y), device=device)
        assert kernels == ["agrad_run_0", "agrad_run_1"], kernels  # the loss; the cotangent of the product of matrices
        assert [s.op for s in fewer.steps] == ["matmul", "run_0", "run_1", "sum", "matrix_transpose", "matmul"], fewer
        assert (codes["run_0"].sum, codes["run_1"].sum) == (((0, 1), False, 15), None), codes
        assert codes["run_1"].ins == "float64 a0, float64 a1, float64 a2", codes  # the product, a row, the targets

        def curve(x):
            y = ag.sum(ag.tanh(ag.exp(-x * x) * ag.sin(x * x)), axis=0)
            return y, *ag.autograd.grad(ag.sum(y), [x])

        _, kernels = compared(curve, (x,), device=device)
        assert kernels == ["agrad_run_0", "agrad_run_1"], kernels
        _, kernels = compared(curve, (x,), device=device, exact=True)
        assert not any("run" in name for name in kernels), kernels
        """)
    )


def test_what_a_kernel_of_a_program_is_of():
    """Other dtypes, truth values, constants, copies for the outputs, recomputations, many operands, long runs."""
    fake(
        COMPARED
        + textwrap.dedent("""
        rng = np.random.default_rng(0)
        x, row, column, mask = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(3, 1)), rng.normal(size=(3, 4)) > 0

        def mixed(x, row):
            single = ag.astype(x, "float32")
            y = single * single + 1.0
            return y, ag.astype(y, "float64") * x + row, ag.astype(x > 0, "float64") * x, ag.astype(x > 0, "int64")

        def truths(x, row):
            inside = ag.logical_and(x > row, ag.logical_not(x > 0.5))
            return inside, ag.where(inside, x, 0.0) * 2.0, ag.where(x > 0, x, x * row)

        def constants(x, row):
            weights = ag.asarray([1.0, 2.0, 3.0, 4.0], device=x.device)
            return (x * weights + row) * weights, ag.full((3, 4), 2.0, device=x.device) * x - 1.0

        def again(x, row):
            y = ag.utils.checkpoint.checkpoint(lambda x: ag.sin(x * x) * row, x, use_reentrant=False)
            z = ag.sum(y * ag.cos(y))
            return z, *ag.autograd.grad(z, [x, row])

        def long(x, row):
            y = x
            for i in range(150):
                y = ag.sin(y) + row * i
            return y, *ag.autograd.grad(ag.mean(y, axis=1, keepdims=True).sum(), [x])

        def many(x, row):
            parts = [x + float(i) for i in range(3)] + [x[:, i:i + 1] * 1.0 for i in range(4)] * 12
            total = parts[0]
            for i, part in enumerate(parts):
                total = total * 0.5 + part @ ag.ones((part.shape[1], 4), device=x.device) * ag.tanh(row)
            return total, ag.sum(total), ag.mean(total * total, axis=(0,))

        for function in (mixed, truths, constants, again, long, many):
            _, kernels = compared(function, (x, row))
            assert any(name.startswith("agrad_run") for name in kernels), function
        """)
    )


def test_loops_are_one_step_whose_calls_are_kernels():
    """Of a gradient, on a device that is not the default; compiled, too, and as one CUDA graph for each call."""
    fake(
        "fake_cupy.COUNT = 2"
        + COMPARED
        + textwrap.dedent("""
        rng = np.random.default_rng(0)
        init, xs, w = rng.normal(size=3), rng.normal(size=(6, 3)), rng.normal(size=(3, 3)) / 2

        def loss(init, xs, w):
            def step(h, x):
                h = ag.tanh(ag.sin(w @ h + x) * x)
                return h, ag.sum(h * x)

            last, ys = ag.func.scan(step, init, xs)
            return ag.sum(last**2) + ag.sum(ag.sin(ys))

        def graded(init, xs, w):
            value = loss(init, xs, w)
            return value, *ag.autograd.grad(value, [init, xs, w])

        for device in ("cupy:0", "cupy:1"):
            for exact in (False, True):
                (fewer, _), kernels = compared(graded, (init, xs, w), device=device, exact=exact)
                assert [s.op for s in fewer.steps].count("func.scan") == 2, fewer
                assert exact or sum(name.startswith("agrad_run") for name in kernels) >= 12, kernels

        for options in ({}, {"exact": True}, {"mode": "reduce-overhead"}):
            compiled = ag.compile(ag.func.value_and_grad(loss, (0, 1, 2)), **options)
            for k in range(5):
                arrays = [init * (k + 1), xs - k, w]
                value, grads = compiled(*(ag.asarray(a, device="cupy:1") for a in arrays))
                wanted, slopes = ag.func.value_and_grad(loss, (0, 1, 2))(*map(ag.asarray, arrays))
                for ours, theirs in zip((value, *grads), (wanted, *slopes), strict=True):
                    np.testing.assert_allclose(ours._raw.get(), theirs.numpy(), rtol=1e-11, atol=1e-12)
            assert [s.op for s in compiled.programs[-1].steps].count("func.scan") == 2
        """)
    )


def test_programs_drawn_at_random():
    """Of steps of other shapes, with their gradients: runs are put in an order in which each has what it needs."""
    fake(
        COMPARED
        + textwrap.dedent("""
        import random

        def drawn(seed):
            def function(x, row, column, square):
                choose = random.Random(seed)
                values = [x, row, column, square]
                for _ in range(choose.randrange(8, 30)):
                    a, b = choose.choice(values), choose.choice(values)
                    made = choose.choice((
                        lambda: ag.tanh(a), lambda: a * b, lambda: a - 0.5 * b, lambda: ag.sin(a) + b, lambda: ag.sum(a * b),
                        lambda: ag.mean(ag.exp(-a * a) + row, axis=0), lambda: ag.sum(ag.cos(a) + row, axis=-1, keepdims=True),
                        lambda: ag.tanh(x @ square) * b, lambda: ag.where(a > b, a, ag.abs(b)), lambda: ag.clip(a, -1.0, 1.0),
                        lambda: ag.nn.functional.silu(a), lambda: ag.maximum(a, 0.1 * b), lambda: ag.max(ag.reshape(a * b, (-1,))),
                    ))
                    try:
                        values.append(made())
                    except ValueError:  # shapes that do not go together
                        continue
                loss = sum(ag.sum(ag.tanh(v)) for v in values[-4:])
                return loss, values[-1], *ag.autograd.grad(loss, [x, row, column, square], materialize_grads=True)
            return function

        rng = np.random.default_rng(1)
        arrays = [rng.normal(size=shape) for shape in ((4, 4), (4,), (4, 1), (4, 4))]
        fewer = 0
        for seed in range(60):
            _, kernels = compared(drawn(seed), arrays)
            fewer += any(name.startswith("agrad_run") for name in kernels)
        assert fewer > 50, fewer
        """)
    )


# -- the benchmark ----------------------------------------------------------------------------------------------------

BENCHMARK = HERE.parent.parent / "benchmarks/gpu.py"


def test_the_benchmark_measures_nothing_without_a_gpu():
    if row().available:
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, BENCHMARK], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"nothing is measured: the cupy backend cannot be used here: {row().reason}\n"


def test_dry_run_of_the_benchmark(tmp_path):
    if not importlib.util.find_spec("torch"):
        pytest.skip("PyTorch, with which it compares, is not installed")
    command = [sys.executable, BENCHMARK, "--dry-run", "--output", tmp_path / "gpu.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = done.stdout.splitlines()[2:]
    assert len(rows) == 6
    assert all(line.endswith(" agree") for line in rows)
    assert (tmp_path / "gpu.txt").read_text(encoding="utf-8") == done.stdout


def test_a_rule_that_writes_to_its_cotangent_changes_no_constant():
    fake("""
        def doubled(a):
            a *= 2.0
            return a

        @ag.linear(name="mine.double", x=lambda g: doubled(g), kernel=lambda xp, x: 2.0 * x)
        def double(x, /): ...

        def gradient(function, value):
            x = ag.tensor(value, device="cupy:0", requires_grad=True)
            function(x).sum().backward()
            return x.grad

        for value in (3.0, [3.0, 4.0]):
            same(gradient(double, value), np.full_like(value, 2.0))
            same(gradient(lambda x: x + 1.0, value), np.full_like(value, 1.0))
        same(ag.tensor(3.0, device="cupy:0") + 1.0, np.array(4.0))
    """)


def test_compiled_functions_of_arrays_on_another_device_than_the_current_one():
    """Rules and comparisons have operators, which run on the current device unless told."""
    fake("""
        a, b = np.array([1.0, 2.0, 0.5]), np.array([0.3, -2.0, 1.5])
        x, w = ag.asarray(a, device="cupy:1"), ag.asarray(b, device="cupy:1", requires_grad=True)
        for options in ({}, {"exact": True}, {"check": "doubling"}):
            f = ag.compile(lambda x: ag.sum(ag.sin(x * w) ** 3 / (1 + x**2)), **options)
            for _ in range(5):
                y = f(x)
                same(y.detach(), np.sum(np.sin(a * b) ** 3 / (1 + a**2)), "cupy:1")
                same(ag.grad(y, w)[0], 3 * np.sin(a * b) ** 2 * np.cos(a * b) * a / (1 + a**2), "cupy:1")
            assert len(f.programs) == 1
        each = ag.func.vmap(ag.func.grad(lambda x: ag.sin(x) ** 3 / (1 + x)))
        wanted = 3 * np.sin(a) ** 2 * np.cos(a) / (1 + a) - np.sin(a) ** 3 / (1 + a) ** 2
        same(each(x), wanted, "cupy:1")
        same(ag.func.capture(each)(x)(x), wanted, "cupy:1")
        compiled = ag.compile(each)
        for _ in range(3):
            same(compiled(x), wanted, "cupy:1")
    """)


def test_numbers_of_compiled_functions_go_to_the_gpu():
    """Python floats are inputs, and so are an optimizer's rates: CuPy takes no arrays of NumPy."""
    fake("""
        def trained(compiled, schedule, dtype):
            w = ag.asarray(cupy.asarray(np.array([1.0, 2.0], dtype)), device="cupy:1", requires_grad=True)
            optimizer = ag.optim.Adam([w], lr=0.1)
            rates = ag.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

            def step(x, scale):
                optimizer.zero_grad()
                loss = ag.sum(ag.sin(w * x) ** 2) * scale
                loss.backward()
                optimizer.step()
                return loss.item()

            step = ag.compile(step) if compiled else step
            x = ag.asarray(cupy.asarray(np.array([0.5, 1.5], dtype)), device="cupy:1")
            losses = []
            for i in range(6):
                losses.append(step(x, 0.5 + i))
                if schedule:
                    rates.step()
            if compiled:
                assert step.programs[-1].device == "cupy:1" and len(step.programs) == 1, step.programs
            same(w.detach(), w._raw.get(), "cupy:1")
            return losses, w._raw.get()

        for schedule in (False, True):
            for dtype in (np.float32, np.float64):
                with cupy.cuda.Device(1):
                    (losses, w), (eager, expected) = trained(True, schedule, dtype), trained(False, schedule, dtype)
                np.testing.assert_allclose(losses, eager, rtol=1e-5)
                np.testing.assert_allclose(w, expected, rtol=1e-5)
                assert w.dtype == dtype
    """)
