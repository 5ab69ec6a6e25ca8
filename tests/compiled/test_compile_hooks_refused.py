"""What hooks change beside computing, in all ways that Python has: a capture refuses each before it is done."""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import functools
import heapq
import itertools
import logging
import operator
import random
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import agrad as ag


class Plain:
    shared = 0

    def __init__(self):
        self.n = 0

    @property
    def number(self):
        return self.n

    @number.setter
    def number(self, value):
        self.n = value

    def __iadd__(self, other):
        self.n += other
        return self

    def __enter__(self):
        self.n += 1
        return self

    def __exit__(self, *error):
        pass

    def __getattr__(self, name):
        if name == "made":
            self.n += 1
            return 1.0
        raise AttributeError(name)


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


@dataclasses.dataclass
class Record:
    n: int = 0


class Deleted:
    def __del__(self):
        LIST.append("gone")


class Formatted:
    def __format__(self, spec):
        LIST.append("text")
        return "text"

    def __bool__(self):
        LIST.append("truth")
        return True

    def __len__(self):
        LIST.append("length")
        return 1

    def __eq__(self, other):
        LIST.append("equal")
        return True

    __hash__ = object.__hash__

    def __iter__(self):
        LIST.append("iter")
        return iter(())

    def __index__(self):
        LIST.append("index")
        return 0


LIST, NUMBERS = [0, 3, 1], [3, 1, 2]
DICT, SET, DEQUE = {"a": 1}, {1}, collections.deque([1])
DEFAULT, COUNTER = collections.defaultdict(list), collections.Counter()
BYTES, ARRAY = bytearray(b"ab"), np.zeros(3)
PLAIN, SLOTTED, RECORD, FORMATTED = Plain(), Slotted(), Record(), Formatted()
NAMESPACE = type(sys.implementation)(n=0)
COUNT, ITERATOR = itertools.count(), iter([1, 2, 3])
VARIABLE, LOCAL = contextvars.ContextVar("variable", default=0), threading.local()
WEAK = weakref.WeakValueDictionary()
GLOBAL = 0
LOGGED = []


@functools.lru_cache
def cached(x):
    LIST.append("cached")
    return x


class Handler(logging.Handler):
    def emit(self, record):
        LOGGED.append(record.msg)


LOGGER = logging.getLogger("hooks_refused")
LOGGER.addHandler(Handler())
LOGGER.propagate = False


def state():
    """Give all that hooks here may change, as text."""
    rows = [LIST, NUMBERS, DICT, sorted(SET), list(DEQUE), dict(DEFAULT), dict(COUNTER), bytes(BYTES), ARRAY.tolist()]
    rows += [vars(PLAIN), Plain.shared, SLOTTED.n, RECORD.n, vars(NAMESPACE), copy.copy(COUNT), vars(LOCAL), dict(WEAK)]
    rows += [
        GLOBAL,
        LOGGED,
        VARIABLE.get(),
        ITERATOR.__length_hint__(),
        random.getstate()[1][-1],
        "hooks_made" in globals(),
    ]
    rows += [
        cached.cache_info().currsize,
        LOGGER.level,
        sys.getrecursionlimit(),
        LIST_OF_CELL[0].__closure__[0].cell_contents,
    ]
    return str(rows)


def _loud(xp, x):
    LIST.append("kernel")
    return xp.multiply(x, 1.0)


@ag.elementwise(name="hooks_refused_test.loud", x=1.0, kernel=_loud)
def loud(x, /): ...


def counting():
    n = 0

    def count(g):
        nonlocal n
        n += 1
        return g

    return count


LIST_OF_CELL = [counting()]


def binds(g):
    global GLOBAL  # noqa: PLW0603
    GLOBAL = 1


def unbinds(g):
    global GLOBAL  # noqa: PLW0603
    del GLOBAL


def binds_in_loops(g):
    global GLOBAL
    for GLOBAL in range(3):  # noqa: B007
        pass


def binds_by_with(g):
    with PLAIN:
        return g


def class_body(g):
    class Inside:
        LIST.append(1)

    return g


def decorated(g):
    @LIST.append
    def inside():
        pass


def by_generator(g):
    def values():
        LIST.append(1)
        yield 1.0

    return g * sum(values())


def by_comprehension(g):
    return g * sum([1.0 for _ in (1,) if LIST.append(1) is None])


def by_default(g):
    def inside(x=LIST.append(1)):  # noqa: B008
        return g

    return inside()


def by_finally(g):
    try:
        return g
    finally:
        LIST.append(1)


def by_match(g):
    match {"k": LIST}:
        case {"k": found}:
            found.append(1)


def by_assert(g):
    assert not LIST.append(1)


def by_star(g):
    LIST[:] = [*LIST, 1]


def by_unpacking(g):
    PLAIN.n, DICT["b"] = 1, 2


def by_for(g):
    for DICT["c"] in (1, 2):
        pass


def by_walrus(g):
    return g * (0.0 if [PLAIN.__setattr__("n", y := 1)] and y else 1.0)


def deletes(g):
    del DICT["a"], PLAIN.n, LIST[0]


def augments(g):
    PLAIN.n += 1


def augments_an_object(g):
    plain = PLAIN
    plain += 1


def in_a_thread(g):
    thread = threading.Thread(target=LIST.append, args=(1,))
    thread.start()
    thread.join()


def an_object_that_goes(g):
    Deleted()
    return g


def swallowed(g):
    for change in (lambda: LIST.append(1), lambda: DICT.clear(), lambda: setattr(PLAIN, "n", 5), lambda: next(COUNT)):
        try:
            change()
        except BaseException:  # noqa: BLE001
            g = g * 2.0
    LIST.append(2)


HOOKS = {
    **{f.__name__: f for f in (binds, unbinds, binds_in_loops, binds_by_with, class_body, decorated, by_generator)},
    **{f.__name__: f for f in (by_comprehension, by_default, by_finally, by_match, by_assert, by_star, by_unpacking)},
    **{f.__name__: f for f in (by_for, by_walrus, deletes, augments, augments_an_object, in_a_thread, swallowed)},
    **{f.__name__: f for f in (an_object_that_goes,)},
    "cell": lambda g: LIST_OF_CELL[0](g),
    "kernel": lambda g: loud(g),
    "called by agrad": lambda g: ag.tree.map(LIST.append, [1]) and None,
    "append": lambda g: LIST.append(1),
    "extend": lambda g: LIST.extend([1]),
    "clear": lambda g: LIST.clear(),
    "sort": lambda g: NUMBERS.sort(),
    "item": lambda g: LIST.__setitem__(0, 5),
    "add in place": lambda g: LIST.__iadd__([1]) and None,
    "operator.setitem": lambda g: operator.setitem(LIST, 0, 5),
    "operator.iadd": lambda g: operator.iadd(LIST, [5]) and None,
    "attrgetter": lambda g: operator.methodcaller("append", 1)(LIST),
    "unbound": lambda g: list.append(LIST, 1),
    "partial": lambda g: functools.partial(LIST.append, 1)(),
    "reduce": lambda g: functools.reduce(lambda a, b: LIST.append(b), [1, 2]),
    "map": lambda g: list(map(LIST.append, [1])) and None,
    "filter": lambda g: list(filter(LIST.append, [1])) and None,
    "sorted": lambda g: sorted([1, 2], key=LIST.append) and None,
    "min": lambda g: min([1, 2], key=lambda x: LIST.append(x) or x) and None,
    "heap": lambda g: heapq.heappush(LIST, 1),
    "shuffle": lambda g: random.shuffle(NUMBERS),
    "random": lambda g: random.random() and None,
    "numpy random": lambda g: np.random.random() and None,
    "update": lambda g: DICT.update(b=2),
    "setdefault": lambda g: DICT.setdefault("b", 2) and None,
    "pop": lambda g: DICT.pop("a") and None,
    "or in place": lambda g: operator.ior(DICT, {"b": 1}) and None,
    "set": lambda g: SET.add(2),
    "deque": lambda g: DEQUE.appendleft(2),
    "defaultdict": lambda g: DEFAULT["new"] and None,
    "counter": lambda g: COUNTER.update("abc"),
    "bytearray": lambda g: BYTES.append(1),
    "array": lambda g: ARRAY.fill(1.0),
    "array item": lambda g: ARRAY.__setitem__(0, 1.0),
    "array out": lambda g: np.add(1.0, 2.0, out=ARRAY) is None or None,
    "copyto": lambda g: np.copyto(ARRAY, 1.0),
    "setattr": lambda g: setattr(PLAIN, "n", 1),
    "delattr": lambda g: delattr(PLAIN, "n"),
    "object.__setattr__": lambda g: object.__setattr__(PLAIN, "n", 1),
    "__dict__": lambda g: PLAIN.__dict__.update(n=1),
    "vars": lambda g: vars(PLAIN).update(n=1),
    "class attribute": lambda g: setattr(Plain, "shared", 1),
    "by the object's class": lambda g: setattr(type(PLAIN), "shared", 1),
    "property": lambda g: setattr(PLAIN, "number", 1),
    "__getattr__": lambda g: g * PLAIN.made,
    "slots": lambda g: setattr(SLOTTED, "n", 1),
    "dataclass": lambda g: setattr(RECORD, "n", 1),
    "namespace": lambda g: setattr(NAMESPACE, "n", 1),
    "globals": lambda g: globals().update(hooks_made=1),
    "exec": lambda g: exec("LIST.append(1)"),
    "eval": lambda g: eval("LIST.append(1)"),
    "count": lambda g: next(COUNT) and None,
    "iterator": lambda g: next(ITERATOR) and None,
    "gone through": lambda g: [None for _ in ITERATOR] and None,
    "context variable": lambda g: VARIABLE.set(1) and None,
    "thread's own": lambda g: setattr(LOCAL, "n", 1),
    "weak": lambda g: WEAK.update(a=PLAIN),
    "cached": lambda g: cached(1) and None,
    "logging": lambda g: LOGGER.warning("said"),
    "level": lambda g: LOGGER.setLevel(50),
    "print": lambda g: print("said"),
    "write": lambda g: sys.stdout.write("said") and None,
    "warning": lambda g: warnings.warn("said", stacklevel=1),
    "clock": lambda g: g * (time.time() * 0.0),
    "recursion limit": lambda g: sys.setrecursionlimit(5000),
    "format": lambda g: f"{FORMATTED}" and None,
    "str.format": lambda g: "{}".format(FORMATTED) and None,  # noqa: UP032
    "truth": lambda g: None if FORMATTED else g,
    "bool": lambda g: bool(FORMATTED) and None,
    "length": lambda g: len(FORMATTED) and None,
    "equality": lambda g: (FORMATTED == 1) and None,
    "in": lambda g: [1].count(FORMATTED) and None,
    "list of": lambda g: list(FORMATTED) and None,
    "index": lambda g: [1][FORMATTED] and None,
    "seed": lambda g: ag.manual_seed(0) and None,
    "default dtype": lambda g: ag.set_default_dtype(ag.float32),
}


@pytest.mark.parametrize("name", HOOKS)
def test_what_a_hook_changes_is_not_changed_by_the_capture(name, capsys):
    hook = HOOKS[name]

    def function(x):
        h = ag.sin(x)
        h.register_hook(hook)
        return ag.sum(h * x)

    before, key = state(), ag.random.default_generator.get_state()
    x = ag.tensor([0.5, 1.0], requires_grad=True)
    with pytest.warns(ag.func.CompileWarning, match="may do more than compute") as told:
        found = ag.compile(function)(x)
    assert state() == before
    assert len(told) == 1
    assert not capsys.readouterr().out
    assert ag.random.default_generator.get_state() == key
    assert ag.get_default_dtype() == ag.float64
    assert found.item() == function(x).item()


class Answering:
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)

    def __call__(self, g):
        return g * 3.0


def test_a_hook_that_cannot_be_looked_into_is_refused_before_the_pass():
    hook = Answering()

    def function(x):
        h = ag.sin(x)
        h.register_hook(hook)
        return ag.sum(h)

    x = ag.tensor([0.5, 1.0], requires_grad=True)
    with pytest.warns(ag.func.CompileWarning, match="has a __getattribute__ or a __class__ of its own"):
        loss = ag.compile(function, pure=True)(x)
    loss.backward()  # the hook stands where it stood
    np.testing.assert_allclose(x.grad.numpy(), 3.0 * np.cos([0.5, 1.0]))


#: Hooks that only compute, in the same ways.
COMPUTING = {
    "a block": lambda g: _within(g),
    "a loop": lambda g: functools.reduce(operator.mul, [g, *(f for f in (2.0, 0.5))]),
    "a class": lambda g: _of_an_object(g),
    "a generator": lambda g: sum(g * f for f in NUMBERS),
    "a dict": lambda g: {**DICT, "g": g}["g"] * DICT["a"],
    "a read of all": lambda g: g * (len(LIST) + PLAIN.number + SLOTTED.n + RECORD.n + max(NUMBERS) + ("a" in DICT)),
    "sorted": lambda g: g * sorted(NUMBERS)[1],
    "math": lambda g: g * np.sqrt(4.0) * abs(-1.0),
}


def _within(g):
    with ag.no_grad():
        return g * 2.0


def _of_an_object(g):
    plain = Plain()
    plain.n = 3.0
    plain += 1.0
    return g * plain.number


@pytest.mark.parametrize("name", COMPUTING)
def test_what_only_computes_is_part_of_the_program(name):
    hook = COMPUTING[name]

    def function(x):
        h = ag.sin(x)
        h.register_hook(hook)
        return ag.sum(h * x)

    compiled, before = ag.compile(function), state()
    for i in range(5):
        gradients = []
        for run in (compiled, function):
            x = ag.tensor([0.5 + i, 1.0], requires_grad=True)
            run(x).backward()
            gradients.append(x.grad.numpy())
        np.testing.assert_array_equal(*gradients)
    assert len(compiled.programs) == 1
    assert state() == before
