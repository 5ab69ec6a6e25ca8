"""Drawn functions with state, compiled and as they are: the short form of ``nox -s soak -- --stateful``."""

from __future__ import annotations

from collections import Counter

import pytest
import stateful
from stateful import CompileWarning, difference_of, drawn, judge, shrunk

import agrad as ag
from agrad.program.executing import may_choose_native

SEEDS = range(100)


def test_functions_with_state():
    """Whatever a function reads and changes, a compiled one does the same, and most do so by replaying."""
    tally = Counter()
    for seed in SEEDS:
        judge(drawn(seed), tally)
    share = tally["probed calls that replayed"] / tally["probed calls"]
    print(f"{tally['functions']} functions; of the probed calls {share:.0%} replayed")
    assert share > 0.15, tally  # the others have effects, or meet values


def test_functions_with_state_as_machine_code(monkeypatch):
    """Where the native executor is there, and bit for bit."""
    if not may_choose_native():
        pytest.skip("there is no native executor here")
    monkeypatch.setattr(stateful, "OPTIONS", stateful.NATIVE)
    tally = Counter()
    for seed in range(500, 530):
        judge(drawn(seed), tally)
    assert tally["functions that replayed"] > 3, tally


def test_a_function_does_the_same_in_both_worlds(monkeypatch):
    monkeypatch.setattr(ag, "compile", lambda function, check: function)
    tally = Counter()
    for seed in range(30):
        judge(drawn(seed), tally)
    assert tally["functions that replayed"] == 0


class Stale:
    """Gives what the first call gave, for ever."""

    def __init__(self, function, check):
        self.function, self.first = function, []

    def __call__(self, *args, **kwargs):
        if not self.first:
            self.first.append(self.function(*args, **kwargs))
        return self.first[0]


def test_a_stale_function_is_found_and_shrunk(monkeypatch):
    monkeypatch.setattr(ag, "compile", Stale)
    found = [seed for seed in range(12) if difference_of(drawn(seed)) is not None]
    assert len(found) > 8
    small = shrunk(drawn(found[0]), 30.0)
    assert len(small.pieces) == 1
    assert len(small.events) <= 3
    with pytest.raises(AssertionError, match=r"silent: event \d: .*\njudge\(Case\("):
        judge(small)


def test_a_function_that_runs_as_it_is_does_not_pass_as_one_that_replays(monkeypatch):
    def declined(function, check):
        def call(*args, **kwargs):
            stateful.warnings.warn("runs as it is", CompileWarning, stacklevel=2)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(ag, "compile", declined)
    tally = Counter()
    for seed in range(5):
        judge(drawn(seed), tally)
    assert tally["functions that ran as they are"] == 5
    assert tally["probed calls that replayed"] == 0
