"""The tests specific to this plugin; everything else is in agrad's conformance kit (``pytest --pyargs agrad.testing.suite``)."""

import subprocess
import sys

import cubed
import cubed.array_api as xp
import numpy as np
import pytest
import zarr
from agrad_cubed.backend import fused
from cubed.core.optimization import multiple_inputs_optimize_dag
from cubed.core.plan import arrays_to_plan

import agrad as ag

F = ag.nn.functional


@pytest.fixture
def bound(tmp_path):
    """Return resources that allow a task 20 MB."""
    settings = {"spec.work_dir": str(tmp_path), "spec.allowed_mem": "20MB", "spec.reserved_mem": 0}
    with cubed.config.set(settings):
        yield


def test_agrad_finds_it_without_importing_cubed():
    code = (
        "import agrad, sys; agrad.zeros(1, device='numpy'); print('agrad_cubed' in sys.modules, 'cubed' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "True False\n"
    )


def test_nothing_computes_before_a_value_is_asked_for():
    x = ag.asarray(xp.asarray(np.arange(6.0), chunks=2), requires_grad=True)
    with cubed.raise_if_computes():
        (g,) = ag.autograd.grad((x * x).sum(), x)
    assert g._raw.chunks == x._raw.chunks
    assert g.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


@pytest.mark.usefixtures("bound")
def test_a_gradient_of_more_than_a_task_may_hold(tmp_path):
    """80 MB in chunks of 0.8 MB, with 20 MB allowed; the gradient is that of NumPy's own products."""
    rng = np.random.default_rng(0)
    host, labels = rng.normal(size=(100_000, 100)), (rng.uniform(size=100_000) < 0.5).astype(float)
    zarr.create_array(tmp_path / "X", data=host, chunks=(1_000, 100))
    zarr.create_array(tmp_path / "y", data=labels, chunks=(1_000,))
    X, y = (ag.asarray(cubed.from_zarr(str(tmp_path / name))) for name in "Xy")
    w = ag.asarray(xp.asarray(np.full(100, 0.01)), requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(X @ w, y)
    (g,) = ag.autograd.grad(loss, w)
    plan = cubed.plan(loss._raw, g._raw)
    assert plan.max_projected_mem < 20e6
    assert plan.total_nbytes_written < host.nbytes / 10  # the features are read twice, and never written
    expected = host.T @ (1 / (1 + np.exp(-(host @ np.full(100, 0.01)))) - labels) / len(labels)
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-9)


@pytest.mark.usefixtures("bound")
def test_what_needs_whole_operands_is_refused_where_they_are_too_large():
    X = ag.asarray(cubed.from_array(np.zeros((2_000, 2_000)), chunks=(100, 2_000)))
    with pytest.raises(ValueError, match="memory"):
        ag.sort(X, axis=0).sum().item()


@pytest.mark.usefixtures("bound")
def test_realized_values_are_read_from_where_they_are():
    """Small ones are in memory, others stay in cubed's storage; neither is computed again."""
    x = ag.asarray(cubed.from_array(np.arange(400_000.0), chunks=(10_000,)))
    large, small = ag.compute(x * 2.0, x.sum())
    with cubed.raise_if_computes():
        assert small.item() == np.arange(400_000.0).sum()
    assert cubed.plan(large._raw).num_tasks <= 1
    assert large[5].item() == 10.0


def test_what_is_made_beside_an_operand_has_its_spec(tmp_path):
    """cubed does not mix arrays of different Specs: constants, gradients and random numbers take that of their operands."""
    spec = cubed.Spec(work_dir=str(tmp_path), allowed_mem="50MB", zarr_compressor=None)
    X = ag.asarray(xp.asarray(np.eye(4, 3), chunks=(2, 3), spec=spec))
    y = ag.asarray(xp.asarray(np.asarray([0, 1, 2, 0]), spec=spec))
    w = ag.zeros((3, 3), device=X.device, requires_grad=True)
    F.cross_entropy(X @ w, y).backward()
    assert w.grad._raw.spec == spec
    residual = np.full((4, 3), 1 / 3) - np.eye(3)[[0, 1, 2, 0]]
    np.testing.assert_allclose(w.grad.numpy(), np.eye(4, 3).T @ residual / 4, atol=1e-15)
    assert ag.rand_like(X)._raw.spec == X[X > 0]._raw.spec == ag.sort(X, axis=0)._raw.spec == spec


def test_programs_run_under_the_spec_of_what_they_are_given(tmp_path):
    def f(x):
        made = ag.sum(ag.sin(x * 2.0) + ag.ones(3, device=x.device))
        return made, ag.grad(made, [x])[0]

    specs = [cubed.Spec(work_dir=str(tmp_path / name), allowed_mem="50MB") for name in "ab"]
    programs = [ag.func.capture(f)(ag.asarray(xp.ones(3, spec=spec), requires_grad=True)) for spec in specs]
    for program in programs:
        for spec in specs:
            x = ag.asarray(xp.asarray(np.arange(3.0), spec=spec), requires_grad=True)
            value, slope = program(x)
            assert value._raw.spec == slope._raw.spec == spec
            np.testing.assert_allclose(slope.numpy(), 2 * np.cos(2 * np.arange(3.0)), rtol=1e-15)


def test_plans_are_optimized_as_by_cubed():
    x = ag.asarray(xp.asarray(np.arange(12.0).reshape(4, 3), chunks=(2, 2)), requires_grad=True)
    loss = ag.sum(F.softmax(x @ ag.matrix_transpose(x) * x.sum(axis=0)[:1], 1) ** 2) + ag.linalg.svdvals(x).sum()
    arrays = [t._raw for t in (loss, *ag.autograd.grad(loss, x))]
    plan = arrays_to_plan(*arrays)

    def outline(dag):
        operations = {name: node["primitive_op"] for name, node in dag.nodes(data=True) if "primitive_op" in node}
        said = {name: (op.source_array_names, op.num_tasks, op.projected_mem) for name, op in operations.items()}
        return sorted(dag), sorted(dag.edges()), said

    before = outline(plan.dag)
    found = outline(fused(plan.dag, array_names=plan.array_names))
    assert found == outline(multiple_inputs_optimize_dag(plan.dag, array_names=plan.array_names))
    assert len(found[0]) < len(before[0]) * 2 / 3
    assert outline(plan.dag) == before


@pytest.mark.parametrize("function", [ag.mean, ag.std, ag.var])
def test_means_are_in_their_dtype_where_they_are_computed(function):
    """cubed's reductions are in float64 within a task, whatever their dtype says."""
    host, seen = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32), set()
    made = function(ag.asarray(xp.asarray(host, chunks=(2, 2))), axis=0)

    def look(chunk):
        seen.add(chunk.dtype.name)
        return chunk

    found = cubed.map_blocks(look, made._raw, dtype=np.float32).compute()
    np.testing.assert_allclose(found, getattr(np, function.__name__)(host, axis=0), rtol=1e-6)
    assert seen == {"float32"}


def test_a_program_of_an_argument_without_history():
    """A detached tensor is another array, because recordings know arrays by identity."""
    x = ag.asarray(xp.asarray(np.arange(3.0)), requires_grad=True)
    program = ag.func.capture(lambda x: ag.sin(x.detach()) * x)(x)
    np.testing.assert_allclose(program(x).detach().numpy(), np.sin(np.arange(3.0)) * np.arange(3.0))


def test_copies_are_other_arrays():
    x = xp.asarray(np.arange(3.0))
    made = ag.backends.get("cubed").asarray(x, copy=True)
    assert made is not x
    np.testing.assert_array_equal(made.compute(), np.arange(3.0))
