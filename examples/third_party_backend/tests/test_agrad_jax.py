"""The tests specific to this plugin; everything else is in agrad's conformance kit (``pytest --pyargs agrad.testing.suite``)."""

import os
import subprocess
import sys

import agrad_jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agrad as ag


def python(code, **environment):
    """Run a program in a separate process and return its output."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True).stdout


#: JAX can pretend to have several CPUs, in a separate process.
TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}


def test_the_array_decides():
    x = ag.asarray(jnp.asarray([1.0, 2.0]), requires_grad=True)
    (x * x).sum().backward()
    assert x.device == f"jax:{jax.devices()[0].platform}:0"
    assert isinstance(x.grad.data._raw, jax.Array)
    assert x.grad.tolist() == [2.0, 4.0]


def test_agrad_finds_it_without_importing_jax():
    code = "import agrad, sys; agrad.zeros(1, device='numpy'); print('agrad_jax' in sys.modules, 'jax' in sys.modules)"
    assert python(code) == "True False\n"


def test_what_the_user_holds_stays():
    a = jnp.zeros(3)
    x = ag.asarray(a)
    x[0] = 1.0
    x += 2.0
    assert x.tolist() == [3.0, 2.0, 2.0]
    assert a.tolist() == [0.0, 0.0, 0.0]


def test_transfers_compile_nothing(caplog):
    """They would for every shape."""
    host = np.ones((2, 3, 5))
    with jax.log_compiles():
        x = ag.asarray(host, device="jax")
    assert [r.getMessage() for r in caplog.records if "Compiling" in r.getMessage()] == []
    host[0] = 2.0
    assert x.tolist() == np.ones((2, 3, 5)).tolist()


def test_double_precision():
    assert ag.zeros(1, device="jax").dtype == ag.float64
    assert ag.zeros(1, device="jax", dtype="float32").dtype == ag.float32


def test_scatter_add_is_the_default_one():
    x = ag.zeros((3, 4), device="jax")
    values = ag.asarray([[1.0, 2.0, 3.0, 4.0]] * 3, device="jax")
    rows = ag.asarray([2, 0, 2], device="jax")._raw
    own = agrad_jax.backend.scatter_add(x._spec, rows, values._raw)
    default = ag.Backend.scatter_add(agrad_jax.backend, x._spec, rows, values._raw)
    assert own.tolist() == default.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0], [2, 4, 6, 8]]


def test_several_devices():
    code = """if True:
        import agrad as ag
        x = ag.ones(3, device="jax:cpu:1", requires_grad=True)
        y = (x * 2).to_device("jax:cpu:0")
        y.sum().backward()
        print(*ag.namespace("jax").__array_namespace_info__().devices(), x.grad.device, y.device)
        try:
            x + y
        except ValueError as error:  # JAX's own words
            print(str(error).splitlines()[0])
    """
    devices, error = python(code, **TWO).splitlines()
    assert devices == "jax:cpu:0 jax:cpu:1 jax:cpu:1 jax:cpu:0"
    assert "incompatible devices" in error


def test_an_array_on_several_devices_is_refused():
    code = """if True:
        import agrad as ag, jax, jax.numpy as jnp
        mesh = jax.make_mesh((2,), ("i",))
        spread = jax.device_put(jnp.zeros(4), jax.NamedSharding(mesh, jax.P("i")))
        try:
            ag.asarray(spread)
        except ag.BackendError as error:
            print(error)
    """
    assert "none of the jax backend's devices: jax:cpu:0, jax:cpu:1" in python(code, **TWO)


def test_indices_out_of_range():
    """JAX itself clamps them, and leaves out an assignment."""
    x = ag.zeros(3, device="jax")
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        x[5]
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        x[-4] = 1.0


def test_compiled_functions_go_through_jit(monkeypatch):
    jitted = []
    jit = jax.jit

    def counted(function):
        jitted.append(function)
        return jit(function)

    monkeypatch.setattr(jax, "jit", counted)

    def step(x, w):
        hidden = ag.nn.functional.dropout(ag.tanh(x @ w), 0.5)
        loss = ag.mean(hidden**2) + ag.nn.functional.cross_entropy(hidden, ag.asarray([0, 2, 1], device=x.device))
        return loss, *ag.autograd.grad(loss, [w])

    x, w = (ag.asarray(jnp.reshape(jnp.arange(9.0) / 9, (3, 3)), requires_grad=r) for r in (False, True))
    for options, count in (({}, 1), ({"exact": True}, 0)):
        jitted.clear()
        compiled = ag.compile(step, **options)
        for seed in (1, 2**64 - 1, 3):  # of the draws, which continue as without it
            ag.manual_seed(seed)
            found = compiled(x, w)
            ag.manual_seed(seed)
            for one, other in zip(found, step(x, w), strict=True):
                assert jnp.allclose(one.detach()._raw, other.detach()._raw, rtol=1e-12)
        assert len(jitted) == count
