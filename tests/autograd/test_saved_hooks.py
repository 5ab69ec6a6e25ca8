"""Saved-tensor hooks: what goes through them, in which order, and that gradients stay what they are without."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

import agrad as ag
from agrad.autograd.graph import (
    disable_saved_tensors_hooks,
    save_on,
    save_on_cpu,
    save_on_disk,
    saved_tensors_hooks,
)
from agrad.utils.checkpoint import checkpoint


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def identity():
    return saved_tensors_hooks(lambda t: t, lambda t: t)


class Log:
    """Hooks that count."""

    def __init__(self):
        self.packed, self.unpacked = [], []

    def __call__(self):
        def pack(t):
            self.packed.append(t)
            return len(self.packed) - 1

        def unpack(i):
            self.unpacked.append(i)
            return self.packed[i].detach()

        return saved_tensors_hooks(pack, unpack)


def test_a_value_is_packed_when_saved_and_unpacked_when_used(backend):
    log = Log()
    x = ag.asarray(np.array([2.0, 3.0]), device=backend, requires_grad=True)
    with log():
        y = ag.sum(x * x)
    assert [t is x for t in log.packed] == [True, True]
    assert log.unpacked == []
    y.backward(retain_graph=True)
    assert log.unpacked == [0, 1]
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0])
    y.backward()
    assert log.unpacked == [0, 1, 0, 1]
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_ops_that_save_nothing_pack_nothing():
    log = Log()
    x = leaf(1.0, 2.0)
    with log():
        ag.sum(x + 1.0).backward()
        _ = x.detach() * x.detach()
    assert log.packed == []


def test_second_order_goes_through_the_hooks_too():
    log = Log()
    x = leaf(2.0)
    with log():
        y = ag.sum(x**3)
        (g,) = ag.grad(y, x, create_graph=True)
    before = len(log.unpacked)
    (gg,) = ag.grad(g, x)
    assert gg.item() == 12.0
    assert len(log.unpacked) > before


def test_what_hooks_give_back_is_what_is_used():
    x = leaf(2.0)
    with saved_tensors_hooks(lambda t: t * 10.0, lambda t: t):
        y = x * x
    y.sum().backward()
    assert x.grad.item() == 40.0


def test_hooks_do_not_record():
    x = leaf(2.0)
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(ag.is_grad_enabled()) or t.detach(), lambda t: t):
        (x * x).sum().backward()
    assert seen == [False, False]


def test_inner_hooks_pack_first():
    order = []

    def named(name):
        def pack(t):
            order.append(f"pack {name}")
            return t + 0.0

        def unpack(t):
            order.append(f"unpack {name}")
            return t

        return saved_tensors_hooks(pack, unpack)

    x = leaf(2.0)
    with named("outer"), named("inner"):
        y = ag.exp(x)
    y.sum().backward()
    assert order == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
    assert x.grad.item() == pytest.approx(np.exp(2.0))


def test_an_outer_pair_gets_tensors_only():
    outer = Log()
    x = leaf(2.0)
    with outer(), saved_tensors_hooks(lambda t: t.tolist(), lambda v: ag.tensor(v)):
        y = ag.exp(x)
    y.sum().backward()
    assert outer.packed == []
    assert x.grad.item() == pytest.approx(np.exp(2.0))


def test_keys_and_lists_of_operands():
    log = Log()
    x = leaf(1.0, 2.0, 3.0)
    index = ag.tensor([2, 0])
    with log():
        y = x[index]
        z = ag.concat([y, y * y])
    assert any(t.dtype == ag.int64 for t in log.packed)
    ag.sum(z).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1 + 2 * 1.0, 0.0, 1 + 2 * 3.0])


def test_function():
    log = Log()

    class Cube(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    x = leaf(2.0)
    with log():
        y = Cube.apply(x)
    assert log.packed[0] is x
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    assert g.item() == 12.0
    assert log.unpacked == [0]
    (gg,) = ag.grad(g.sum(), x)
    assert gg.item() == 12.0


def test_fused_ops(backend):
    log = Log()
    logits = np.array([[0.5, -1.0, 2.0]])
    target = np.array([1])

    def gradient(hooks):
        x = ag.asarray(logits, device=backend, requires_grad=True)
        t = ag.asarray(target, device=backend)
        with hooks:
            loss = ag.nn.functional.cross_entropy(x, t)
        loss.backward()
        return x.grad.numpy()

    softmax = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(gradient(log()), softmax - np.eye(3)[target], rtol=1e-12)
    assert log.unpacked


def test_masked_cotangents_and_hooks_on_nodes():
    x = leaf(0.0, 4.0)
    with identity(), np.errstate(all="ignore"):
        y = ag.where(x > 0, ag.sqrt(x), 0.0)
    y.grad_fn.register_hook(lambda inputs, outputs: None)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.25])


def test_forward_mode_inside():
    from agrad.core.forward import level, tangent_of, with_tangent

    x = leaf(2.0)
    with level() as at, identity():
        dual = with_tangent(x, ag.tensor([1.0]), at)
        (g,) = ag.grad(ag.sum(dual**3), x)
        assert tangent_of(g, at).item() == 12.0


def test_the_value_packed_is_kept_though_its_tensor_gets_another():
    w = leaf(2.0)
    with identity():
        y = w**3
    with ag.no_grad():
        w.fill_(1.0)
    y.sum().backward()
    assert w.grad.item() == 12.0


def test_changing_the_argument_raises():
    def pack(t):
        t.mul_(2)
        return t

    x = leaf(1.0, 2.0) * 1.0
    with saved_tensors_hooks(pack, lambda t: t), pytest.raises(RuntimeError, match="pack hook is modifying its input"):
        ag.sum(x * x)


def test_unpack_must_give_a_tensor():
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: t.detach(), lambda _: 3):
        y = ag.sum(x * x)
    with pytest.raises(TypeError, match="expected to be a Tensor but got result of type int") as caught:
        y.backward()
    assert any("MultiplyBackward0" in note for note in caught.value.__notes__)
    assert x.grad is None


def test_disabled():
    with disable_saved_tensors_hooks("no hooks here"):
        with pytest.raises(RuntimeError, match="no hooks here"), identity():
            pass
        x = leaf(2.0)
        (x * x).sum().backward()
    assert x.grad.item() == 4.0


def test_hooks_end_with_their_block_also_after_an_error():
    log = Log()
    with pytest.raises(ZeroDivisionError), log():
        1 / 0
    x = leaf(2.0)
    _ = x * x
    assert log.packed == []


def test_set_grad_enabled_within():
    log = Log()
    x = leaf(2.0)
    with log():
        ag.set_grad_enabled(False)
        ag.set_grad_enabled(True)
        _ = x * x
    assert len(log.packed) == 2


def test_an_identity_pack_on_a_result_leaks_nothing():
    gc.collect()
    gc.disable()
    try:
        x = leaf(2.0)
        with identity():
            y = ag.exp(x)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("hooks", [lambda: save_on("numpy"), save_on_cpu, save_on_disk], ids=["on", "cpu", "disk"])
def test_offloading(backend, hooks):
    x = ag.asarray(np.array([1.0, 2.0]), device=backend, requires_grad=True)
    with hooks():
        y = ag.sum(ag.exp(x * x))
    (g,) = ag.grad(y, x, create_graph=True)
    assert g.device == x.device
    v = np.array([1.0, 2.0])
    np.testing.assert_allclose(g.detach().numpy(), 2 * v * np.exp(v * v))
    (gg,) = ag.grad(ag.sum(g), x)
    np.testing.assert_allclose(gg.numpy(), (2 + 4 * v * v) * np.exp(v * v))


def test_files_go_with_the_graph(tmp_path):
    x = leaf(1.0, 2.0)
    with save_on_disk(str(tmp_path)):
        y = ag.sum(x * x * x)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0 or os.name == "nt"
    assert len(list(folder.glob("*.agrad"))) == 4
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 12.0])
    assert os.listdir(tmp_path) == []


OFFLOADS = """
import os, signal, sys
import agrad as ag
x = ag.tensor([1.0, 2.0], requires_grad=True)
with ag.autograd.graph.save_on_disk(sys.argv[1]):
    y = ag.sum(x * x * x)
"""


def offloads(source, folder):
    command = [sys.executable, "-c", OFFLOADS + textwrap.dedent(source), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_removes_no_files_of_its_parent(tmp_path):
    done = offloads(
        """
        if os.fork() == 0:
            with ag.autograd.graph.save_on_disk(sys.argv[1]):
                z = ag.sum(x * x)
            z.backward()
            assert x.grad.tolist() == [2.0, 4.0]
            del y, z
            sys.exit(0)
        assert os.wait()[1] == 0
        y.backward()
        print(x.grad.tolist())
        """,
        tmp_path,
    )
    assert (done.stdout, done.stderr) == ("[3.0, 12.0]\n", "")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, and locks that end with a process")
def test_files_of_a_killed_process_go_with_the_next_and_those_of_a_living_one_stay(tmp_path):
    x = leaf(1.0, 2.0)
    with save_on_disk(str(tmp_path)):
        y = ag.sum(x * x * x)
    before = os.listdir(tmp_path)
    assert offloads("os.kill(os.getpid(), signal.SIGKILL)", tmp_path).returncode == -signal.SIGKILL
    (tmp_path / "agrad-saved-without-a-lock").mkdir()
    assert len(os.listdir(tmp_path)) == 3
    assert offloads("", tmp_path).stderr == ""
    assert os.listdir(tmp_path) == before
    y.backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    from agrad import serialization

    def full(tensor):
        raise OSError("no space left")

    monkeypatch.setattr(serialization, "to_bytes", full)
    x = leaf(1.0, 2.0)
    with save_on_disk(str(tmp_path)), pytest.raises(OSError, match="no space left"):
        x * x
    assert os.listdir(tmp_path) == []


def test_pinned_memory_is_refused():
    with pytest.raises(NotImplementedError, match="pin_memory"):
        save_on_cpu(pin_memory=True)


def test_looking_at_saved_values():
    x, w = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    y = x * w
    assert y.grad_fn._saved_x2.tolist() == [3.0, 4.0]
    assert y.grad_fn._saved_x1 is None
    e = ag.exp(x)
    assert e.grad_fn._saved_ans.tolist() == e.tolist()
    with saved_tensors_hooks(lambda t: t.tolist(), lambda v: ag.tensor(v)):
        z = x * w
    assert z.grad_fn._saved_x2.tolist() == [3.0, 4.0]
    z.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        _ = z.grad_fn._saved_x2


def test_the_second_time_names_the_pass_that_freed():
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match=r"freed by the backward pass called at .*test_saved_hooks\.py:\d+"):
        y.backward()


def test_hooks_belong_to_their_thread():
    log = Log()
    x = leaf(2.0)
    with log():
        thread = threading.Thread(target=lambda: x * x)
        thread.start()
        thread.join()
    assert log.packed == []


def test_hooks_that_are_no_functions():
    with pytest.raises(TypeError, match="pack_hook must be callable, not int"):
        saved_tensors_hooks(3, lambda t: t)


def test_a_value_of_another_shape_is_refused():
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t[:1]):
        y = ag.sum(x**3)
    with pytest.raises(RuntimeError, match=r"has shape \(1,\), where the value saved had \(2,\)"):
        y.backward()
    assert x.grad is None


def assigned_twice(x):
    y = x * x
    y[0] = x[1] * 2.0
    y[ag.asarray([1, 2])] = 3.0
    return ag.sum(y * ag.tensor([1.0, 10.0, 100.0, 1000.0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f(x),
        lambda f, x: under(saved_tensors_hooks(lambda t: t.detach(), lambda t: t), f, x),
        lambda f, x: under(ag.autograd.graph.save_on("numpy"), f, x),
        checkpoint,
    ],
    ids=["plain", "hooks", "save_on", "checkpoint"],
)
def test_a_second_assignment(call):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    loss = call(assigned_twice, x)
    assert loss.item() == 4.0 + 30.0 + 300.0 + 16_000.0
    loss.backward()
    assert x.grad.tolist() == [0.0, 2.0, 0.0, 8000.0]


def under(context, function, *args):
    with context:
        return function(*args)


def test_an_assignment_whose_hook_raises_leaves_value_and_history():
    def pack(tensor):
        raise KeyError

    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * x
    y[0] = 2.0
    node = y.grad_fn
    with pytest.raises(KeyError), saved_tensors_hooks(pack, lambda t: t):
        y[ag.asarray([1, 2])] = 3.0
    assert y.tolist() == [2.0, 4.0, 9.0, 16.0]
    assert y.grad_fn is node


@pytest.mark.parametrize("hooks", [saved_tensors_hooks, None], ids=["hooks", "checkpoint"])
def test_nothing_lazy_is_computed(hooks, never_computes):
    import dask.array as da

    x = ag.asarray(da.ones((4, 3), chunks=(2, 3)), requires_grad=True)

    def f(x):
        return ag.sum(ag.exp(x) * ag.nn.functional.dropout(x, 0.5))

    if hooks is None:
        y = checkpoint(f, x)
    else:
        with hooks(lambda t: t.detach(), lambda t: t):
            y = f(x)
    y.backward()
    assert x.grad.shape == (4, 3)
