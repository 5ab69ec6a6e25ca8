"""Layers with parameters against PyTorch: results, gradients by operands and parameters, and names of parameters.

The numbers stand in expected.json, which `make_expected.py` has written.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from support import some_of

import agrad as ag

HERE = Path(__file__).parent

spec = importlib.util.spec_from_file_location("nn_cases", HERE / "cases.py")
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))["layers"]


def agree(found, expected):
    expected = np.asarray(expected).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max(initial=0.0)))


def test_the_file_belongs_to_the_layers():
    assert set(EXPECTED) == set(cases.LAYERS)


#: Compiled, array-api-strict runs the steps that it runs anyway: some layers of these will do.
GRID = [
    *itertools.product(cases.LAYERS, ["eager"], ["numpy", "strict"]),
    *itertools.product(cases.LAYERS, ["compiled"], ["numpy"]),
    *some_of(list(itertools.product(cases.LAYERS, ["compiled"], ["strict"])), 6),
]


@pytest.mark.parametrize(("case", "how", "backend"), GRID, indirect=["backend"])
def test_results_and_gradients(case, how, make, value, backend):
    build, call, *arrays = cases.LAYERS[case]
    expected = EXPECTED[case]
    net = build(ag.nn).to(device=backend)
    named = dict(net.named_parameters())
    assert set(named) == set(expected["parameters"])
    for i, (_, p) in enumerate(sorted(named.items())):
        p.data = make(cases.parameter(i, p.shape))
    operands = [make(a, requires_grad=True) for a in arrays]
    masks = {id(mask): make(mask) for mask in (cases.HIDING, cases.PADDING)}

    def step(*operands):
        return tuple(cases.flat(call(net, lambda mask: masks[id(mask)], *operands)))

    results = step(*operands)
    if how == "compiled":
        compiled = ag.compile(step)
        compiled(*operands)
        results = compiled(*operands)
    assert [list(r.shape) for r in results] == expected["shapes"]
    for result, numbers in zip(results, expected["values"], strict=True):
        agree(value(result), numbers)
    sum((r * make(cases.cotangent(r.shape))).sum() for r in results).backward()
    for operand, numbers in zip(operands, expected["gradients"], strict=True):
        agree(value(operand.grad), numbers)
    for name, numbers in expected["parameters"].items():
        agree(value(named[name].grad), numbers)
