"""Functions with state, a family of them per file of ``cases``: compiled, each does what it does as it is.

A case is a small module that defines ``f``, and changes of what it reads, each after a line ``--``. It is written into a
file and run twice: as it is, and with ``f`` compiled and no call compared within. ``f`` is called several times before and
after every change, and after each call all is compared that can be seen: the result, errors, what was printed and warned of,
and every global of the module.

A case whose title ends in ``| replays`` must be a program: at the last call before and after every change none of its Python
runs, and nothing was warned of. One with ``| declines`` must run as it is, and say so once. Others may do either.

Besides ``f`` a case may define ``arguments(n)`` for the n-th call, ``call(f, *args)``, ``after(result)``, and ``seen()``
for what no global leads to.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from stateful import Seen, alike
from support import some_of

import agrad as ag
from agrad.compiled.compiling import CompileWarning

CASES = Path(__file__).parent / "cases"
HEAD = """\
import array, collections, contextlib, contextvars, copy, dataclasses, datetime, enum, fractions, functools, io, itertools
import heapq, logging, math, operator, os, pickle, queue, random, string, sys, threading, time, types, typing, warnings, weakref

import numpy as np

import agrad as ag
import agrad.nn.functional as F
from agrad import nn

"""
#: Calls before the first change, and after each.
CALLS = 4, 3


@dataclass(frozen=True)
class Case:
    """A case of a family: its text, its changes, and whether it ``replays``, ``declines`` or may do either ("")."""

    family: str
    title: str
    must: str
    text: str
    changes: tuple

    def __str__(self):
        return f"{self.family}: {self.title}"


def cases_of(path):
    """Give the cases of a file."""
    for block in f"\n{path.read_text(encoding='utf-8')}".split("\n== ")[1:]:
        heading, _, text = block.partition("\n")
        title, _, must = heading.partition(" | ")
        if must not in {"", "replays", "declines"}:
            raise ValueError(f"{path.name}: {heading}")
        first, *changes = f"{text.strip()}\n".split("\n--\n")
        yield Case(path.stem, title, must, first, tuple(changes))


ALL = [case for path in sorted(CASES.glob("*.txt")) for case in cases_of(path)]


@dataclass(frozen=True)
class Call:
    """What was seen of a call, which functions of the case ran, and whether it was the last one before a change."""

    when: str
    seen: list
    ran: set
    is_last: bool


class World:
    """The module of a case, its function compiled in some way or left as it is."""

    def __init__(self, case, folder, compiled=None):
        ag.manual_seed(0)
        folder.mkdir()
        self.folder, self.changes, self.declined, self.count = folder, case.changes, [], 0
        path = folder / "world.py"
        path.write_text(f"{HEAD}{case.text}", encoding="utf-8")
        spec = importlib.util.spec_from_file_location("world", path)
        self.module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        self.names = vars(self.module)
        exec(HEAD, self.names)
        self.names.update(Kind=(), FOLDER=folder)  # `Seen` asks for the one, cases for the other
        self.known = {*self.names, "f"}
        spec.loader.exec_module(self.module)
        self.function = compiled(self.names["f"]) if compiled else self.names["f"]

    def calls(self, stale_from=None):
        """Do the changes, with calls before and after each."""
        found = []
        for done, change in enumerate(("", *self.changes)):
            path = self.folder / f"change{done}.py"  # what it defines has a text, too
            path.write_text(change, encoding="utf-8")
            exec(compile(change, str(path), "exec", dont_inherit=True), self.names)
            if done == stale_from:
                self.function.is_stale = True
            for left in reversed(range(CALLS[done > 0])):
                found += [self.called(f"after {done} changes, {left} calls to come", is_last=not left)]
        return found

    def called(self, when, *, is_last):
        """Call the function, and what follows."""
        names, printed, ran, outcome = self.names, io.StringIO(), set(), {}
        args = names["arguments"](self.count) if "arguments" in names else (two_numbers(self.count),)
        call = names.get("call", lambda f, *args: f(*args))
        self.count += 1
        own = str(self.folder)

        def note(frame, event, _):  # of each call anywhere: by strings alone
            if event == "call":
                code = frame.f_code
                if code.co_name != "call" and os.path.dirname(code.co_filename) == own:
                    ran.add(code.co_name)

        with warnings.catch_warnings(record=True) as said, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            before = sys.getprofile()
            sys.setprofile(note)
            try:
                outcome["result"] = call(self.function, *args)
            except Exception as error:  # noqa: BLE001 (whatever it raises is compared)
                outcome["raised"] = type(error).__name__
            finally:
                sys.setprofile(before)
            outcome["modes"] = ag.is_grad_enabled(), str(ag.get_default_dtype())
            if "after" in names and "result" in outcome:
                try:
                    names["after"](outcome["result"])
                except Exception as error:  # noqa: BLE001 (as above)
                    outcome["raised after it"] = type(error).__name__
        self.declined += [str(one.message) for one in said if issubclass(one.category, CompileWarning)]
        theirs = [str(one.message) for one in said if one.category.__module__ == "builtins"]
        return Call(
            when, self.seen({**outcome, "printed": printed.getvalue(), "warned": theirs, "args": args}), ran, is_last
        )

    def seen(self, outcome):
        """Give what can be seen of an outcome and of the module, layers and optimisers by their tensors."""
        seen, names = Seen(self.module), self.names
        found = {**outcome, **{name: names[name] for name in sorted(set(names) - self.known) if name[:2] != "__"}}
        for name, value in {**found, "seen()": names["seen"]() if "seen" in names else None}.items():
            if isinstance(value, ag.nn.Module):
                seen.put(name, [module.training for module in value.modules()])
                seen.see(name, [*value.named_parameters(), *value.named_buffers()])
            elif isinstance(value, ag.optim.Optimizer):
                seen.see(name, [value.param_groups, list(value.state.values())])
            else:
                seen.see(name, value)
        return seen.found


def two_numbers(n):
    """Give what a function is called with the n-th time, where its case says nothing."""
    return ag.asarray([0.5, -1.25 + 0.5 * (n % 3)])


@contextlib.contextmanager
def as_before():
    """Put back what a case leaves set."""
    modules, environment = set(sys.modules), dict(os.environ)
    try:
        yield
    finally:
        ag.autograd.set_grad_enabled(True)
        ag.set_default_dtype(ag.float64)
        os.environ.clear()
        os.environ.update(environment)
        for name in set(sys.modules) - modules:
            if name == "world" or name.startswith("made_"):
                del sys.modules[name]


def difference(plain, seen):
    """Give where two calls differ first, or None."""
    for (path, atom), (other, new) in zip([*plain, ("end", ())], [*seen, ("end", ())], strict=False):
        if path != other or not alike(atom, new):
            return f"{other} is {new}; as it is, {path} is {atom}"
    return None


def run(case, folder, compiled):
    """Run a case in both worlds; give the first difference, or None, with the world that is compiled and its calls."""
    with as_before():
        wanted = World(case, folder / "plain").calls()
    with as_before():
        world = World(case, folder / "compiled", compiled)
        calls = world.calls()
    for plain, call in zip(wanted, calls, strict=True):
        different = difference(plain.seen, call.seen)
        if different is not None:
            return f"{call.when}: {different} ({world.declined or 'nothing was warned of'})", world, calls
    return None, world, calls


@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_compiled_function_does_what_it_does_as_it_is(case, tmp_path):
    made = []
    different, world, calls = run(case, tmp_path, lambda f: made.append(ag.compile(f, check=False)) or made[0])
    assert different is None
    if case.must == "replays":
        assert world.declined == []
        assert made[0].programs
        assert [(call.when, call.ran) for call in calls if call.is_last and call.ran] == []
    elif case.must == "declines":
        assert len(world.declined) == 1


@pytest.mark.parametrize("case", some_of(ALL, 8), ids=str)
def test_the_comparison_of_the_second_call_raises_no_false_alarm(case, tmp_path):
    different, world, _ = run(case, tmp_path, lambda f: ag.compile(f, check="first"))
    assert different is None
    if case.must == "replays":
        assert world.declined == []


@pytest.mark.long
@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_function_does_the_same_in_both_worlds(case, tmp_path):
    """A case that does something else when it is run again, as it is, would say nothing of compiling."""
    assert run(case, tmp_path, lambda f: f)[0] is None


class Stale:
    """Does what the function does, until it is told to go on giving what it gave last."""

    is_stale = False

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        if not self.is_stale:
            self.error = None
            try:
                self.result = self.function(*args, **kwargs)
            except Exception as error:
                self.error = error
                raise
        if self.error is not None:
            raise self.error
        return self.result


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in ALL if case.changes], ids=str)
def test_every_change_shows(case, tmp_path):
    """A change that leaves no trace where a function is stale from then on would test nothing."""
    for done in range(len(case.changes)):
        short = replace(case, changes=case.changes[: done + 1])
        with as_before():
            wanted = World(short, tmp_path / f"right{done}").calls()
        with as_before():
            stale = World(short, tmp_path / f"stale{done}", Stale).calls(stale_from=done + 1)
        assert any(difference(one.seen, other.seen) for one, other in zip(wanted, stale, strict=True)), short
