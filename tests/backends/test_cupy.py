"""The CuPy plugin where there is no GPU: what it claims and says, and its own code on a stand-in for CuPy.

No number here comes from a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import agrad as ag

pytest.importorskip("agrad_cupy")

HERE = Path(__file__).parent


def python(source, *, fails=False):
    """Run a program in a fresh interpreter, after the stand-in has been made importable; give what it prints."""
    program = f"import sys; sys.path.insert(0, {str(HERE)!r})\n" + textwrap.dedent(source)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AGRAD_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


# -- the plugin without CuPy ------------------------------------------------------------------------------------------


def row():
    return next(row for row in ag.backends() if row.name == "cupy")


def test_it_has_a_row_with_a_reason_where_it_cannot_run():
    if importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed here")
    assert not row().available
    assert row().reason == 'CuPy is not installed; pip install "agrad[cuda12]" or "agrad[cuda13]", as your CUDA is'
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
    assert "cupy" not in sys.modules


def test_cupy_is_not_imported_by_looking_for_backends():
    out = python("""
        import fake_cupy, sys, agrad
        agrad.asarray([1.0])
        print("cupy" in sys.modules, "array_api_compat.cupy" in sys.modules)
    """)
    assert out.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("sys.modules['cupy'] = None", "CuPy is not installed"),
        ("del cupy.cuda; fail_import('libcudart.so.12: cannot open')", "a library of CuPy is missing (libcudart.so.12"),
        (
            "count(35, 'cudaErrorInsufficientDriver: too old')",
            "no NVIDIA driver, or one too old for this CUDA (cudaErrorI",
        ),
        ("count(100, 'cudaErrorNoDevice: none')", "no device (cudaErrorNoDevice: none)"),
        ("count(999, 'cudaErrorUnknown: ?')", "CUDA does not start (cudaErrorUnknown: ?)"),
        ("cupy.cuda.runtime.getDeviceCount = lambda: 0", "no device (the driver counts none)"),
        ("lose('nvrtc')", "a library of CUDA is missing, nvrtc ("),
        ("lose('cublas')", "a library of CUDA is missing, cublas ("),
    ],
)
def test_every_reason_is_told_apart(broken, reason):
    out = python(f"""
        import fake_cupy, agrad
        cupy = fake_cupy.install()

        def count(status, text):
            def fail():
                raise fake_cupy.CUDARuntimeError(status, text)
            cupy.cuda.runtime.getDeviceCount = fail

        def lose(library):
            sys.modules["cupy_backends.cuda.libs." + library] = None

        def fail_import(text):
            class Finder:
                def find_spec(self, name, path=None, target=None):
                    if name == "cupy":
                        raise ImportError(text)
            del sys.modules["cupy"]
            sys.meta_path.insert(0, Finder())

        {broken}
        row = next(row for row in agrad.backends() if row.name == "cupy")
        print(row.available, row.reason)
        try:
            agrad.zeros(2, device="cupy")
        except agrad.BackendError as error:
            print(error)
    """)
    first, second = out.splitlines()
    assert first.startswith(f"False {reason}")
    assert second.startswith(f"the cupy backend is not available: {reason}")


# -- its own code on the stand-in -------------------------------------------------------------------------------------

START = """
    import fake_cupy
    cupy = fake_cupy.install()
    import numpy as np, agrad as ag
    def same(tensor, expected, device="cupy:0"):
        assert isinstance(tensor._data, cupy.ndarray), type(tensor._data)
        assert tensor.device == device, tensor.device
        np.testing.assert_allclose(tensor._data.get(), expected, rtol=1e-12, strict=isinstance(expected, np.ndarray))
"""


def fake(source):
    out = python(textwrap.dedent(START) + textwrap.dedent(source) + "\nprint('done')")
    assert out.splitlines()[-1] == "done"


def test_row_and_devices():
    fake("""
        row = next(row for row in ag.backends() if row.name == "cupy")
        assert (row.available, row.version, row.devices) == (True, "0.0.fake", ("cupy:0", "cupy:1")), row
        assert ag.zeros(2, device="cupy").device == "cupy:0"
        assert ag.zeros(2, device="cupy:1").device == "cupy:1"
        for made in (ag.ones((2,), device="cupy:1"), ag.arange(3, device="cupy:1"), ag.eye(2, device="cupy:1"),
                     ag.full((2,), 2.0, device="cupy:1"), ag.linspace(0, 1, 3, device="cupy:1"),
                     ag.asarray([1.0], device="cupy:1"), ag.empty((2,), device="cupy:1")):
            assert made.device == "cupy:1" and made._data.device.id == 1
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
        assert type(x.grad._data) is np.ndarray
        np.testing.assert_allclose(x.grad.numpy(), 8 * a * a)
    """)


def test_samples():
    fake("""
        for sampler in (ag.rand, ag.randn, lambda *s, **k: ag.randint(0, 10, s, **k)):
            ag.manual_seed(1)
            first, second = sampler(50, device="cupy"), sampler(50, device="cupy:1")
            assert second.device == "cupy:1"
            ag.manual_seed(1)
            same(sampler(50, device="cupy"), first._data.get())
            assert (first._data.get() != second._data.get()).any()
        assert ag.rand(3, dtype=ag.float32, device="cupy").dtype == ag.float32
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
        try:
            ag.special.gammainc(x, x)
        except ag.UnsupportedOp as error:
            assert "special.gammainc is not supported by the cupy backend" in str(error), error
        else:
            raise AssertionError
    """)


@pytest.mark.parametrize("devices", [1, 2])
def test_every_op_and_its_rule_run(devices):
    """Each sample of each op, forward and backward: NumPy's values, and nothing falls back to the host."""
    fake(f"""
        fake_cupy.COUNT = {devices}
        from agrad.core.op import OPS
        from agrad.plugin import manager
        from agrad.testing.samples import SAMPLES, resolve

        def host(data):
            return np.array(data.values, dtype=data.dtype).reshape(data.shape)

        def call(sample, make, spec):
            result = OPS[sample.op].entry(
                *[resolve(v, make, spec) for v in sample.args],
                **{{k: resolve(v, make, spec) for k, v in sample.kwargs.items()}},
            )
            return list(result) if OPS[sample.op].rule.outputs is not None else [result]

        done = 0
        for sample in (s for name, samples in SAMPLES.items() if name != "to_device" for s in samples):
            if sample.op.startswith("special.") and sample.beyond:
                continue  # the stand-in has two of CuPy's special functions
            found = {{}}
            for name in ("numpy", "cupy"):
                leaves = []
                def make(data):
                    leaves.append(ag.asarray(host(data), device=name, requires_grad=data.inexact))
                    return leaves[-1]
                def spec(like):
                    return ag.zeros(like.shape, dtype=like.dtype, device=name)._spec
                results = call(sample, make, spec)
                assert all(r._spec.backend.name == name for r in results), sample
                recorded = [r for r in results if r.requires_grad]
                inputs = [leaf for leaf in leaves if leaf.requires_grad]
                if recorded:
                    ones = [ag.ones_like(r.detach()) for r in recorded]
                    results += ag.autograd.grad(recorded, inputs, ones, materialize_grads=True)
                found[name] = results
            for ours, theirs in zip(found["cupy"], found["numpy"], strict=True):
                same(ours.detach(), theirs.detach().numpy())
                done += 1
        assert done > 500, done
    """)
