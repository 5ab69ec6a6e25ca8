"""ndarray's methods on tensors: the same value and effect as NumPy's, or an error, never silently another meaning."""

from __future__ import annotations

import contextlib
import importlib
import re

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

VALUES = {
    "v": np.array([3.0, 1.0, 2.0]),
    "z": np.array([1.0, 0.0, 2.0]),
    "m": np.array([[0.5, -1.0, 2.0, 0.0], [3.0, 1.5, -2.0, 4.0], [2.5, -0.5, 1.0, 6.0]]),
    "q": np.arange(16.0).reshape(4, 4) % 7,
    "k": np.sin(np.arange(64.0)).reshape(4, 4, 4),
    "c": np.cos(np.arange(24.0)).reshape(2, 3, 4),
    "one": np.arange(3.0).reshape(1, 3, 1),
    "i": np.array([2, 0, 1, 0]),
    "s": np.array(2.5),
    "b": np.array([True, False, True]),
    "w": np.array([3.0, 1.0, 2.0]) + 1j * np.array([0.0, 2.0, 1.0]),
}

#: Calls that mean the same on both.
SAME = """
m.argsort() m.argsort(0) m.argsort(axis=0) m.argsort(None) m.argsort(axis=None) m.argsort(-1,'stable')
m.argsort(-1,None) m.argsort(kind='stable') m.argsort(0,kind='stable') m.argpartition(1,0) m.argpartition(1,None)
m.transpose() c.transpose() c.transpose(0,2,1) c.transpose((2,0,1)) m.transpose(1,0) m.transpose((0,1)) c.transpose(None)
v.transpose() s.transpose() c.swapaxes(0,2) one.squeeze() one.squeeze(0) one.squeeze((0,2)) m.T v.T s.T m.mT c.mT
m.take(2) m.take([2,0]) m.take([2,0],0) m.take([2,0],axis=1) m.take(i,1,None,'wrap') m.compress([True,False,True],0)
v.round() v.round(1) m.round(decimals=1) i.round() s.round() w.round(1)
m.std() m.std(0) m.std(1,ddof=1) m.std(axis=0,keepdims=True) m.var() m.var(0) m.var(1,ddof=1) i.std() w.var()
m.max() m.max(0) m.max((0,1)) m.max(0,None) m.max(axis=1,keepdims=True) m.min() m.min(0) b.min() w.max()
m.argmax() m.argmax(0) m.argmax(1,None) m.argmax(axis=0,keepdims=True) m.argmin() m.argmin(1) w.argmax()
m.sum() m.sum(0) m.sum((0,1)) m.sum(0,'float32') m.sum(0,None) m.sum(0,None,None) m.sum(0,float) b.sum() i.sum()
m.mean() m.mean(0) m.mean(0,None) m.mean((0,1)) i.mean() b.mean() m.prod() m.prod(0) m.prod(0,None) b.prod()
b.all() b.any() q.all(0) q.any(1) q.any(0,keepdims=True) v.cumsum() m.cumsum(0) m.cumsum(1) i.cumsum() b.cumsum() m.cumprod(1)
m.diagonal() m.diagonal(1) c.diagonal() c.diagonal(0,1,2) c.diagonal(1,0,2) c.diagonal(axis1=1,axis2=2) c.diagonal(0,2,1)
m.trace() q.trace() q.trace(1) q.trace(offset=-1) c.trace() c.trace(0,1,2) c.trace(axis1=1,axis2=2) i[:,None].trace()
m.flatten() c.flatten() s.flatten() m.ravel() s.ravel() m.reshape(4,3) m.reshape((4,3)) m.reshape(-1) m.reshape([2,6])
v.clip(1.5,2.5) v.clip(1.5) v.clip(None,2.5) v.clip(min=1.5) v.dot(v) m.dot(q) c.dot(q) v.dot(2.0) m.dot(2.0) s.dot(v)
q.dot(k) m.dot(k) k.dot(k) v.dot([1,2,3]) v.searchsorted(9.0) w.conj() w.conjugate() v.conj() w.real w.imag i.imag
s.item() v.tolist() m.tolist() s.tolist() v.astype('float32') v.astype(int) v.astype(bool) v.astype(complex)
m.ndim m.nbytes m.itemsize m.flat[3] m.flat[2:5] v.copy() v.tobytes() len(m) float(s) abs(v) v@v
i.choose([q[0],q[1],q[2]])
m.put([0],[9.0]) v.fill(3.0)
m.reshape(4,3,order='F') m.reshape((4,3),order='F') c.reshape(-1,order='F') m.ravel('F') m.ravel(order='F') c.ravel('C')
m.ravel('K') m.flatten('C') m.flatten('F') m.flatten(order='F') c.flatten('F') m.cumsum() m.cumprod() m.cumsum(axis=None)
c.cumsum() s.cumsum() m.cumsum(0,'float32') m.cumsum(dtype=complex) i.cumprod(dtype=float) v.item(2) m.item(5) m.item(1,2)
m.item((1,2)) v.item(-1) c.item(1,2,3) v.astype('f4') v.astype('i8') v.astype('d') i.astype('float') v.astype('c16') v.astype('?')
m.sum(initial=3.0) m.sum(where=m>0) m.sum(0,initial=2,where=m>0) m.sum(axis=1,keepdims=True,where=m>0) i.sum(initial=2.5)
i.sum(where=i>0) b.sum(where=b) w.sum(initial=1j) m.sum(dtype='f4',where=m>0) m.mean(where=m>-9) m.mean(0,where=m>-9)
m.mean(dtype='f4') m.mean(axis=1,dtype='f4',keepdims=True,where=m>-9) i.mean(where=i>0) i.mean(dtype=complex) w.mean(where=b)
m.prod(initial=2.0) m.prod(where=m!=0) i.prod(dtype=float,where=i>0) m.prod(1,dtype='f4') m.max(initial=9.0) m.max(0,initial=-9,where=m>0)
m.min(initial=-9.0) m.min(1,initial=9,where=m>0) v[:0].max(initial=3.0) v[:0].sum(initial=3.0) i.max(initial=9) m.std(where=m>-9)
m.std(0,ddof=1,where=m>-2) m.std(dtype='f4') m.var(where=m>0) m.var(1,ddof=1,dtype='f4') i.var(where=i>0) m.all(where=m>0)
m.any(0,where=m>9) b.all(where=b) q.any(axis=1,keepdims=True,where=q>3) m.max(where=m>0,initial=0.0,axis=(0,1)) c.sum((0,2),where=c>0)
"""

#: Calls that NumPy and PyTorch give two meanings.
TWOFOLD = """
v.repeat(2) m.repeat(2) m.repeat(2,0) c.repeat(2,2) m.repeat((2,)) v.repeat([1,2,3]) v.repeat((1,2,3)) s.repeat(2)
z.nonzero() m.nonzero() i.nonzero() b.nonzero() v.sort() m.sort() m.sort(0) m.sort(-1) w.sort()
m.transpose(0,1) m.transpose(-2,-1)
"""

#: Those that PyTorch refuses, as repeat of fewer numbers than axes.
REFUSED = {"m.repeat(2)", "m.repeat((2,))", "c.repeat(2,2)"}


def called(text, values, **names):
    """Return what a call gives in a file that has imported these names, and its operand afterwards."""
    scope = {"np": np, **values, **names}
    return eval(compile(text, "elsewhere.py", "eval"), scope), scope.get(text.partition(".")[0])


def equal(found, expected):
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(equal, found, expected))
    if expected is None or isinstance(expected, bytes):
        return found == expected
    found, expected = (np.asarray(x.detach() if isinstance(x, ag.Tensor) else x) for x in (found, expected))
    return found.shape == expected.shape and found.dtype == expected.dtype and np.allclose(found, expected)


def fresh(convert):
    return {name: convert(value.copy()) for name, value in VALUES.items()}


@pytest.mark.filterwarnings("ignore:x.(std|var).. divides by n")  # which is NumPy's meaning
@pytest.mark.parametrize("text", SAME.split())
def test_values_and_effects_are_numpys(text):
    expected, after = called(text, fresh(lambda value: value))
    found, changed = called(text, fresh(ag.asarray))
    assert equal(found, expected), (found, expected)
    if after is not None:
        assert equal(changed, after)


@pytest.mark.parametrize("module", ["agrad.numpy", "agrad.compat.autograd", "agrad.compat.autograd.numpy"])
@pytest.mark.parametrize("text", TWOFOLD.split())
def test_two_meanings_are_an_error_in_code_for_numpy(text, module):
    with pytest.raises(TypeError, match=r"has two meanings: write .*NumPy's.* or .*PyTorch's") as caught:
        called(text, fresh(ag.asarray), anp=importlib.import_module(module))
    assert "Called at elsewhere.py:1." in str(caught.value)
    # in other files it is PyTorch's
    with pytest.raises(RuntimeError, match="can not be smaller than") if text in REFUSED else contextlib.nullcontext():
        called(text, fresh(ag.asarray))


#: What the errors say to write, and NumPy's method that it stands for.
WRITTEN = {
    "np.repeat(m, 2)": "m.repeat(2)",
    "np.nonzero(m)": "m.nonzero()",
    "np.sort(m)": "m[[[0], [1], [2]], m.argsort()]",
    "m": "m.transpose(0, 1)",
}


@pytest.mark.parametrize("written", WRITTEN)
def test_what_the_errors_say_to_write_is_numpys(written):
    expected, _ = called(WRITTEN[written].strip(), fresh(lambda value: value))
    assert equal(eval(written, {"np": anp, **fresh(ag.asarray)}), expected)


def test_what_the_errors_say_to_write_is_pytorchs():
    m, plain = ag.asarray(VALUES["m"]), VALUES["m"]
    assert equal(m.tile(2), np.tile(plain, 2))
    assert equal(anp.argwhere(m), np.argwhere(plain))
    assert equal(m.T, plain.T)


def test_within_agrad_the_methods_are_pytorchs_for_every_caller():
    x = ag.asarray(VALUES["v"]).requires_grad_()
    assert anp.median(x).item() == 2.0
    assert x.argsort().tolist() == [1, 2, 0]
    assert x.topk(2).values.tolist() == [3.0, 2.0]


@pytest.mark.parametrize("keywords", [{"as_tuple": False}, {"as_tuple": True}])
def test_as_tuple_says_which_is_meant(keywords):
    found = ag.asarray(VALUES["z"]).nonzero(**keywords)
    assert equal(found, (np.array([0, 2]),) if keywords["as_tuple"] else np.array([[0], [2]]))


@pytest.mark.parametrize(
    "text",
    [
        "d",
        "f",
        "e",
        "f2",
        "f4",
        "f8",
        "<f8",
        "c8",
        "c16",
        "F",
        "D",
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u8",
        "=i4",
        "?",
        "b",
        "B",
        "h",
        "q",
        "int",
        "float",
        "complex",
        "single",
        "double",
        "half",
    ],
)
def test_texts_of_dtypes_are_numpys(text):
    assert anp.zeros(2, text).dtype == anp.asarray([0, 1], dtype=text).dtype == np.dtype(text)
    assert ag.asarray(VALUES["i"]).astype(text).dtype == np.dtype(text)


def test_order_of_elements_is_followed():
    weights = np.cos(np.arange(12.0))
    for f in (lambda x: x.reshape(12, order="F"), lambda x: x.ravel("F"), lambda x: x.flatten("F")):
        found = ag.grad(lambda x, f=f: anp.sum(f(x) * weights))(VALUES["m"])
        np.testing.assert_array_equal(found, weights.reshape(4, 3).T)


@pytest.mark.parametrize("maker", ["zeros", "ones", "empty", "full", "reshape"])
def test_a_float_is_no_shape(maker):
    """NumPy's words."""
    args = {"full": (3.0, 1.0), "reshape": (VALUES["v"], 3.0)}.get(maker, (3.0,))
    with pytest.raises(TypeError, match=re.escape("expected a sequence of integers or a single integer, got '3.0'")):
        getattr(np, maker)(*args)
    with pytest.raises(TypeError, match=re.escape("expected a sequence of integers or a single integer, got '3.0'")):
        getattr(anp, maker)(*args)


@pytest.mark.parametrize(
    "text", ["x.ravel()[::5]", "x.flat[::5]", "x.T[0]", "x.reshape(-1)[3]", "np.ravel(x)[0]", "x[0][1]"]
)
@pytest.mark.parametrize("written", ["{} += 1", "{} = 1"])
def test_writes_that_reach_the_matrix_in_numpy_raise(text, written):
    x, plain = anp.ones((4, 4)), np.ones((4, 4))
    exec(written.format(text), {"x": plain, "np": np})
    with pytest.raises(RuntimeError, match=re.escape("np.unravel_index gives i, j for places in x.ravel() or x.flat")):
        exec(written.format(text), {"x": x, "np": anp})
    places = np.flatnonzero(plain != 1.0) if "+=" in written else np.flatnonzero(plain)
    x[anp.unravel_index(places, x.shape)] += 1.0
    np.testing.assert_array_equal(x.detach(), plain + (0.0 if "+=" in written else 1.0))


@pytest.mark.parametrize(
    "text",
    [
        *("x.ravel()", "np.ravel(x)", "x.flat", "x.reshape(-1)", "x.T", "x[0]", "x[:, 1]", "z.real", "np.imag(z)"),
        *("np.real(z)", "w[1:4]"),
    ],
)
@pytest.mark.parametrize("written", ["y[0] = 7.0", "y += 7.0", "y[...] *= 2"])
def test_a_named_view_that_is_written_to_is_an_error_in_code_for_numpy(text, written):
    code = f"from agrad import numpy as np\nx = np.ones((3, 3)) * 2\nz = x * 1j\nw = x.flatten()\ny = {text}\n{written}"
    with pytest.raises(ag.LostWriteWarning, match="changes this tensor alone"):
        exec(compile(code, "elsewhere.py", "exec"), {})


@pytest.mark.parametrize(
    "text",
    [
        "x.flatten()",
        "x.copy()",
        "np.array(x)",
        "x[[0, 1]]",
        "x * 1",
        "x.flatten('F')",
        "x.flatten()[2:]",
        "x[0].flatten()",
    ],
)
def test_writes_to_copies_are_numpys(text):
    code = compile(f"x = np.ones((3, 3)) * 2\ny = {text}\ny[0] = 7.0\ny += 1", "elsewhere.py", "exec")
    found, expected = {"np": anp}, {"np": np}
    exec(code, found)
    exec(code, expected)
    for name in "xy":
        np.testing.assert_array_equal(found[name].detach(), expected[name])


@pytest.mark.parametrize("text", ["np.real(x)", "x.real", "np.real_if_close(x)", "x.conj()"])
def test_the_real_part_of_a_real_array_is_that_array(text):
    for names in ({"np": np, "x": np.ones(3)}, {"np": anp, "x": anp.ones(3)}):
        exec(f"y = {text}\ny[0] = 7.0", names)
        assert names["x"].tolist() == [7.0, 1.0, 1.0]


def test_flatten_is_a_view_to_pytorch():
    code = "import agrad as ag\nx = ag.ones((2, 2))\ny = x.flatten()\ny[0] = 7.0"
    with pytest.warns(ag.LostWriteWarning):
        exec(compile(code, "elsewhere.py", "exec"), {})


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "var", "max", "min"])
def test_derivatives_of_masked_reductions(name):
    values, mask = VALUES["m"] + 0.3, VALUES["m"] > -1.5
    more = {"initial": 0.1} if name in ("max", "min") else {}
    steps = 1e-6 * np.eye(values.size).reshape(-1, *values.shape)
    f = getattr(np, name)
    expected = [(f(values + e, where=mask, **more) - f(values - e, where=mask, **more)) / 2e-6 for e in steps]
    found = ag.grad(lambda x: getattr(x, name)(where=mask, **more))(values)
    np.testing.assert_allclose(found.reshape(-1), expected, atol=1e-6)


def test_a_masked_maximum_needs_a_first_value():
    """NumPy's words."""
    for x in (VALUES["m"], ag.asarray(VALUES["m"])):
        with pytest.raises(ValueError, match="does not have an identity, so to use a where mask one has to specify"):
            x.max(where=x > 0)
