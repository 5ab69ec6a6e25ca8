"""Files that earlier versions wrote: each loads, and holds what was saved. A release adds a folder to ``tests/data``."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import agrad as ag

DATA = Path(__file__).parent / "data"
VERSIONS = sorted(folder.name for folder in DATA.iterdir())

#: By dtype: what stands in ``values.agrad``.
VALUES = {
    "float64": [[0.5, -1.25], [3.0, 1e300]],
    "float32": [0.1, -0.0, 3.5],
    "float16": [0.5, 65504.0],
    "int64": [1, -(2**60)],
    "uint8": [0, 255],
    "bool": [True, False],
    "complex128": [1 + 2j, -0.5j],
}


@pytest.fixture(params=VERSIONS)
def load(request):
    """Give a function that loads a file of one version by its name."""
    return lambda name: ag.load(DATA / request.param / f"{name}.agrad")


def test_tensors_and_containers(load):
    tree = load("values")
    assert list(tree) == ["tensors", "leaf", "again", 7, "nan"]
    for name, values in VALUES.items():
        found = np.asarray(tree["tensors"][name])
        assert found.dtype == name
        np.testing.assert_array_equal(found, np.asarray(values, name), strict=True)
    assert math.copysign(1.0, float(tree["tensors"]["float32"][1])) == -1.0
    assert tree["leaf"].requires_grad
    assert tree["leaf"].tolist() == [1.0, 2.0, 3.0]
    assert tree["again"][0] is tree["leaf"]
    assert tree["again"][1] == (1, 2.5, None, True, "text", 3j)
    assert tree[7] == {"nested": []}
    assert tree["nan"] == math.inf


def test_a_module_and_its_optimizer(load):
    saved = load("training")
    module = ag.nn.Sequential(ag.nn.Linear(3, 2), ag.nn.BatchNorm1d(2))
    module.load_state_dict(saved["module"])
    optimizer = ag.optim.Adam(module.parameters(), lr=1.0)
    optimizer.load_state_dict(saved["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.01
    assert module[0].weight.tolist() == [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.25]]
    # a mean of two rows, weighted by 0.1: of 7.5 and -0.5 the first column, of -1.0 and -0.25 the second
    np.testing.assert_allclose(module[1].running_mean.tolist(), [0.35, -0.0625])
    module.eval()
    assert module(ag.zeros((1, 3))).shape == (1, 2)


def test_a_program_with_its_gradient(load):
    gradient, value = load("program")(ag.asarray([0.1, -0.2]), ag.asarray([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]))
    x, w = np.asarray([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]), np.asarray([0.1, -0.2])
    t = np.tanh(x @ w)
    np.testing.assert_allclose(value.item(), (t**2).sum())
    np.testing.assert_allclose(gradient.tolist(), x.T @ (2 * t * (1 - t**2)))


def test_a_program_with_a_loop(load):
    rows = [0.5, 1.0, -2.0]
    carried, found = load("loop")(ag.asarray(rows))
    c, expected = 0.0, []
    for row in rows:
        expected.append(c * row)
        c = math.sin(c) + row
    np.testing.assert_allclose(carried.item(), c)
    np.testing.assert_allclose(found.tolist(), expected)
