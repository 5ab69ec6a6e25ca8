"""Drawn programs, judged by finite differences and by composition: the short form of ``nox -s soak``."""

from __future__ import annotations

from collections import Counter

import programs
import pytest
from programs import ON_NUMPY, Leaf, Program, drawn, judge, shrunk

from agrad.program.executing import may_choose_native


def check(count, judges, longest):
    """Judge drawn programs; the differences can tell about nearly all of them."""
    tally = Counter()
    for seed in range(count):
        program = drawn(seed, judges, longest)
        try:
            judge(program, tally)
        except Exception as error:
            message = f"{type(error).__name__}: {error}\nseed {seed}: judge({shrunk(program, 30.0)!r})"
            raise AssertionError(message) from error
    assert tally["judged"] >= 0.9 * tally["programs"], tally
    return tally


def test_programs_on_numpy():
    check(25, ON_NUMPY, 40)


def test_programs_are_captured_and_replayed():
    check(10, ("replayed",), 40)


def test_patterns_of_their_jacobians_are_never_too_small():
    pytest.importorskip("scipy.sparse")
    tally = check(80, ("patterned",), 25)
    assert tally["found by colours"] >= 10, tally


def test_programs_are_compiled():
    tally = check(10, ("compiled",), 20)
    assert tally["compiled to programs"] >= 2, tally


def test_programs_are_machine_code():
    if not may_choose_native():
        pytest.skip("there is no native executor here")
    check(6, ("native",), 20)


def test_programs_on_dask():
    pytest.importorskip("agrad_dask")
    check(4, ("dask",), 12)


@pytest.mark.parametrize("share", [0.999, 1.001])
@pytest.mark.parametrize("name", ["Pair", "Gauss", "Once", "Partial", "Doubled"])
def test_a_gradient_that_is_wrong_in_the_third_decimal_is_found(name, share, monkeypatch):
    program = Program((Leaf((2, 3)), Leaf((3, 2))), (("function", name, 0, 1), ("apply", "sin", 2, 0)), judges=ON_NUMPY)
    judge(program)
    function = getattr(programs, name)
    right = function.backward

    def wrong(ctx, *cotangents):
        first, *rest = right(ctx, *cotangents)
        return first * share, *rest

    monkeypatch.setattr(function, "backward", staticmethod(wrong))
    with pytest.raises(AssertionError, match=r"gradient: .* by differences"):
        judge(program)


def test_a_failure_is_shrunk(monkeypatch):
    """Of a long program what fails is left: one call of the function that is wrong."""

    def wrong(ctx, g):
        first, second = right(ctx, g)
        return first * 1.1, second

    def fails(program):
        try:
            judge(program)
        except AssertionError:
            return True
        return False

    right = programs.Once.backward
    monkeypatch.setattr(programs.Once, "backward", staticmethod(wrong))
    candidates = (drawn(seed, ("grad",)) for seed in range(100))
    program = next(p for p in candidates if "function Once" in programs.traits(p) and len(p.steps) > 10 and fails(p))
    (step,) = shrunk(program).steps
    while step[0] == "block":  # it may stand in one, as in a checkpoint
        (step,) = step[3]
    assert step[:2] == ("function", "Once")
