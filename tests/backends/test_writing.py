"""Tensors written to a store: by chunks, each in the task that makes it, with the losses of gradients."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import agrad as ag

zarr = pytest.importorskip("zarr")
da = pytest.importorskip("dask.array")
import dask  # noqa: E402

import agrad_dask  # noqa: E402
from agrad_dask import arenas  # noqa: E402

ROWS, WIDTH = 64, 2**14  # blocks of 512 KiB where a chunk is 4 rows


class Counted:
    """Data that Dask slices, and how often each row was asked for."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.ndim = values, values.shape, values.dtype, values.ndim
        self.read = np.zeros(len(values), int)

    def __getitem__(self, key):
        self.read[key[0]] += 1
        return self.values[key].copy()


@pytest.fixture
def source():
    return Counted(np.random.default_rng(0).normal(size=(ROWS, WIDTH)))


def descent(source):
    """A loss and its gradient by a field, neighbouring rows of which are compared, so that chunks meet."""
    x = ag.asarray(da.from_array(source, chunks=(4, WIDTH)), requires_grad=True)
    loss = ag.sum(x**2) / 2 + ag.sum((x[1:] - x[:-1]) ** 2)
    loss.backward()
    return loss, x.grad


def expected(values):
    """The same by hand."""
    d = np.diff(values, axis=0)
    gradient = values.copy()
    gradient[1:] += 2 * d
    gradient[:-1] -= 2 * d
    return (values**2).sum() / 2 + (d**2).sum(), gradient


def test_a_gradient_is_written_and_its_loss_comes_along_in_one_pass(source, tmp_path):
    loss, gradient = descent(source)
    target = ag.to_zarr(gradient, tmp_path / "gradient.zarr", compressors=None)
    value, by_hand = expected(source.values)
    np.testing.assert_allclose(target[:], by_hand, rtol=1e-12, atol=1e-12)
    assert target.chunks == (4, WIDTH)
    read = source.read.copy()
    assert read.max() <= 2  # from_array asks for what a slice needs of a chunk by itself
    np.testing.assert_allclose(loss.item(), value, rtol=1e-12)
    np.testing.assert_array_equal(source.read, read)


@pytest.mark.parametrize("how", ["to_zarr", "dataset"])
def test_it_is_never_held_whole(source, tmp_path, how):
    _, gradient = descent(source)
    if how == "dataset":
        xr = pytest.importorskip("xarray")
        pytest.importorskip("agrad.xarray")
        labelled = xr.DataArray(gradient, dims=("time", "place")).to_dataset(name="gradient")

    with dask.config.set(num_workers=1):
        tracemalloc.start()
        if how == "dataset":
            labelled.to_zarr(tmp_path / "gradient.zarr", consolidated=False)
        else:
            ag.to_zarr(gradient, tmp_path / "gradient.zarr")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < source.values.nbytes  # values, gradient and what is in between take several times as much


def test_what_else_is_asked_for_is_computed_in_the_same_pass(source, tmp_path):
    loss, gradient = descent(source)
    new = -0.5 * gradient  # which knows nothing of the loss
    target = ag.to_zarr(new, tmp_path / "new.zarr", together={"loss": loss})
    read = source.read.copy()
    value, by_hand = expected(source.values)
    np.testing.assert_allclose(loss.item(), value, rtol=1e-12)
    np.testing.assert_array_equal(source.read, read)
    np.testing.assert_allclose(target[:], -0.5 * by_hand, rtol=1e-12, atol=1e-12)


def test_a_dataset_brings_the_loss_along(source, tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("agrad.xarray")
    loss, gradient = descent(source)
    xr.DataArray(gradient, dims=("t", "x")).to_dataset(name="g").to_zarr(tmp_path / "g.zarr", consolidated=False)
    value, by_hand = expected(source.values)
    read = source.read.copy()
    np.testing.assert_allclose(loss.item(), value, rtol=1e-12)
    np.testing.assert_array_equal(source.read, read)
    np.testing.assert_allclose(zarr.open_group(tmp_path / "g.zarr")["g"][:], by_hand, rtol=1e-12, atol=1e-12)


def test_chunks_of_other_lengths_are_put_together_so_that_no_two_tasks_write_to_one():
    x = ag.asarray(da.from_array(np.arange(24.0).reshape(12, 2), chunks=((1, 5, 4, 2), (2,))))
    made = ag.to_zarr(x * 2, {})
    assert made.chunks == (5, 2)
    np.testing.assert_array_equal(made[:], 2 * np.arange(24.0).reshape(12, 2))
    there = zarr.create_array({}, shape=(12, 2), chunks=(3, 1), dtype="f4")
    assert ag.to_zarr(x, there) is there
    np.testing.assert_array_equal(there[:], np.arange(24.0).reshape(12, 2))


def test_tensors_in_memory_and_numbers_are_written_too():
    np.testing.assert_array_equal(ag.to_zarr(ag.arange(5), {})[:], np.arange(5))
    assert ag.to_zarr(ag.sum(ag.ones(4, device="dask")), {})[()] == 4
    assert ag.to_zarr(ag.ones((3, 0)), {}).shape == (3, 0)


def test_an_array_has_a_name_in_a_group(tmp_path):
    ag.to_zarr(ag.ones(4), tmp_path / "g.zarr", path="there")
    np.testing.assert_array_equal(agrad_dask.from_zarr(tmp_path / "g.zarr", path="there").numpy(), np.ones(4))


def test_what_is_refused():
    x = ag.ones((4, 2), device="dask", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Can't write a Tensor that requires grad.*detach"):
        ag.to_zarr(x, {})
    with pytest.raises(ValueError, match=r"of shape .*4, 2.* to an array of shape \(2, 2\)"):
        ag.to_zarr(x.detach(), zarr.zeros((2, 2)))
    with pytest.raises(MemoryError, match=r"max_memory allows 1\.00 kiB"):
        ag.to_zarr(ag.ones((1000, 1000), device="dask", chunks=(100, 1000)) * 2, {}, max_memory="1kiB")


def test_one_heap_unless_the_user_says_otherwise():
    code = "import os, agrad_dask; from agrad_dask import arenas; print(arenas.use_one())"
    own = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert own.stdout.strip() == str("CS_GNU_LIBC_VERSION" in os.confstr_names)
    code = "import os; os.environ['MALLOC_ARENA_MAX'] = '4'; from agrad_dask import arenas; print(arenas.use_one())"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )


#: A step of a field by its neighbours, of which the gradient and the next field are held, beside what was told of it.
HELD = """
import dask, dask.array as da, numpy as np
import agrad as ag, agrad_dask
from agrad_dask import arenas

def status(key):
    with open("/proc/self/status") as file:
        return 1024 * int(next(line.split()[1] for line in file if line.startswith(key)))

def energy(x, y):
    return (x - y) ** 2 + np.sqrt(sum((np.roll(x, -1, axis) - x) ** 2 for axis in range(3)) + 1e-3)

def step(planes):
    x = ag.asarray(da.from_array(np.ones((planes, 360, 360), "f4"), chunks=(8, 360, 360))).requires_grad_(True)
    loss = ag.sum(agrad_dask.map_overlap(energy, x, x.detach(), depth={0: 2}, boundary="nearest"))
    loss.backward()
    with ag.no_grad():
        made = loss, x.grad, x - 0.2 * x.grad
    return ag.explain(*made).peak, made

with dask.config.set(num_workers=1):
    ag.compute(*step(16)[1])
    told, made = step(400)
    arenas.trim()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    ag.compute(*made)
    print(told, status("VmHWM") - before)
"""


@pytest.mark.long
@pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="the system does not tell the peak of a process"
)
def test_a_process_that_holds_results_grows_by_no_more_than_told(tmp_path):
    """Results lie in memory of larger arrays, chunks with their borders; what is left of it is returned."""
    program = tmp_path / "held.py"  # a file: functions of blocks are captured from their source
    program.write_text(HELD)
    own = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    told, real = map(int, own.stdout.split())
    assert 2 * 400 * 360 * 360 * 4 < real <= told < 1.4 * real


def test_free_memory_is_returned_while_results_that_are_held_grow(monkeypatch):
    trimmed = []
    monkeypatch.setattr(arenas, "trim", lambda: trimmed.append(1))
    monkeypatch.setattr(arenas, "EVERY", 1000)
    x = ag.asarray(da.ones(4000, chunks=25))  # of 200 bytes each, five of which are 1000
    ag.compute(x[:500] * 2.0)
    assert len(trimmed) == 4
    trimmed.clear()
    ag.compute(x * 2.0)
    assert 8 < len(trimmed) < 25, "at last whenever they have grown by an eighth"
    trimmed.clear()
    ag.compute(ag.sum(x * 2.0))
    assert not trimmed, "of no use where one number is held"


def test_after_the_tasks_of_a_small_pass_nothing_is_called(monkeypatch):
    monkeypatch.setattr(arenas, "Trimming", lambda *_: pytest.fail("nothing is to be returned"))
    x = ag.asarray(da.ones(4000, chunks=25))
    np.testing.assert_array_equal((x * 2.0).numpy(), np.full(4000, 2.0))
    assert ag.sum(x * 2.0).item() == 8000
    with pytest.raises(pytest.fail.Exception, match="nothing is to be returned"):
        ag.compute(ag.asarray(da.ones(2**24, chunks=2**22)) * 2.0)  # 128 MiB


def test_progress_is_shown_to_the_end(tmp_path, capsys):
    x = ag.asarray(da.ones((8, 4), chunks=(2, 4)), requires_grad=True)
    (x * x).sum().backward()
    for kept in (x.grad, ag.ones(4)):  # in chunks, and whole with a loss beside it
        ag.to_zarr(kept, tmp_path / f"{kept.device}.zarr", together=x.sum(), progress=True)
        assert "100%" in capsys.readouterr().out
        ag.to_zarr(kept, tmp_path / f"{kept.device} quietly.zarr", together=x.sum())
        assert not capsys.readouterr().out
