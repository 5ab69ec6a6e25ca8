"""Drawn programs, judged by finite differences and by composition: the short form of ``nox -s soak``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages

import programs
from programs import JUDGES, Leaf, Program, judge, shrunk

DRAWN = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],  # `shrunk` is quicker
    suppress_health_check=list(HealthCheck),
)


def check(judges, examples, longest=40):
    """Judge drawn programs, nearly all of which the differences can tell about."""
    tally = Counter()

    @settings(DRAWN, max_examples=examples)
    @given(program=programs.programs(judges, longest))
    def run(program):
        try:
            judge(program, tally)
        except Exception as error:
            message = f"{type(error).__name__}: {error}\njudge({shrunk(program, 30.0)!r})"
            raise AssertionError(message) from error

    run()
    assert tally["judged"] >= 0.9 * tally["programs"], tally
    return tally


def test_programs_on_numpy():
    check(tuple(name for name in JUDGES if name != "dask"), 50)


def test_programs_on_dask():
    pytest.importorskip("agrad_dask")
    check(("dask",), 6, longest=12)


#: A program in which each function has a share, and the checks that have to find it wrong.
ALL = tuple(name for name in JUDGES if name != "dask")


@pytest.mark.parametrize("share", [0.999, 1.001])
@pytest.mark.parametrize("name", ["Pair", "Gauss", "Once", "Partial", "Doubled"])
def test_a_gradient_that_is_wrong_in_the_third_decimal_is_found(name, share, monkeypatch):
    program = Program((Leaf((2, 3)), Leaf((3, 2))), (("function", name, 0, 1), ("apply", "sin", 2, 0)), judges=ALL)
    judge(program)
    function = getattr(programs, name)
    right = function.backward

    def wrong(ctx, *cotangents):
        first, *rest = right(ctx, *cotangents)
        return first * share, *rest

    monkeypatch.setattr(function, "backward", staticmethod(wrong))
    with pytest.raises(AssertionError, match=r"gradient: .* by differences"):
        judge(program)
