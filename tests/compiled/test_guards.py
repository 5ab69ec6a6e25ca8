"""Python's state that a compiled function read and that changes between calls: the function is captured anew, never stale."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sysconfig
import types
import warnings

import numpy as np
import pytest
from support import with_text

import agrad as ag
from agrad.compiled import tracking
from agrad.core.op import OPS

X = np.array([0.5, -1.0])
CASES = {}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def case(make):
    """Note a case: gives a function, and what changes the state that it reads."""
    CASES[make.__name__.replace("_", " ").strip()] = make
    return make


class Thing:
    def __init__(self, **held):
        vars(self).update(held)


# -- containers ---------------------------------------------------------------------------------------------------------


@case
def an_entry_of_a_dict():
    config = {"a": 2.0}
    return (lambda x: x * config["a"]), lambda: config.update(a=3.0)


@case
def a_new_entry_of_a_dict():
    config = {"a": 2.0}
    return (lambda x: x * config.get("b", 1.0)), lambda: config.update(b=3.0)


@case
def a_first_entry_of_a_dict():
    config = {}
    return (lambda x: x * config.get("b", 1.0)), lambda: config.update(b=3.0)


@case
def an_entry_that_goes():
    config = {"a": 2.0, "b": 3.0}
    return (lambda x: x * config.get("b", 1.0)), lambda: config.pop("b")


@case
def a_dict_in_a_dict():
    config = {"inner": {"a": 2.0}}
    return (lambda x: x * config["inner"]["a"]), lambda: config["inner"].update(a=5.0)


@case
def a_list_of_an_object():
    thing = Thing(config={"a": [1.0, 2.0]})
    return (lambda x: x * thing.config["a"][1]), lambda: thing.config["a"].__setitem__(1, 7.0)


@case
def a_longer_list():
    factors = [1.0, 2.0]
    return (lambda x: x * sum(factors)), lambda: factors.append(5.0)


@case
def one_more_tensor_in_a_list():
    tensors = [ag.tensor([1.0, 2.0])]
    return (lambda x: functools.reduce(lambda a, b: a * b, tensors, x)), lambda: tensors.append(ag.tensor([3.0, 4.0]))


@case
def a_set():
    factors = {1.0}
    return (lambda x: x * sum(factors)), lambda: (factors.remove(1.0), factors.add(4.0))


@case
def a_deque():
    factors = collections.deque([2.0])
    return (lambda x: x * factors[0]), lambda: factors.__setitem__(0, 3.0)


# -- functions and classes ----------------------------------------------------------------------------------------------


@case
def another_function_in_a_cell():
    inner = functools.partial(lambda x: x * 2)

    def change():
        nonlocal inner
        inner = ag.sin

    return (lambda x: inner(x)), change


@case
def another_function_in_a_dict():
    inner = {"f": lambda x: x * 2}
    return (lambda x: inner["f"](x)), lambda: inner.update(f=lambda x: x * 3)


@case
def another_function_of_an_object():
    thing = Thing(inner=lambda x: x * 2)
    return (lambda x: thing.inner(x)), lambda: setattr(thing, "inner", lambda x: x * 3)


def helper(x):
    return x * 2


@case
def another_function_in_the_module():
    def change():
        globals()["helper"] = lambda x: x * FACTOR * 5

    globals()["helper"] = lambda x: x * 2
    return (lambda x: helper(x)), change


@case
def the_code_of_a_function():
    def inner(x):
        return x * 2

    def change():
        inner.__code__ = (lambda x: x * 5).__code__

    return (lambda x: inner(x)), change


FACTOR = 2.0


class Scaling:
    factor = 2.0

    def __call__(self, x):
        return x * FACTOR

    def by_method(self, x):
        return x * FACTOR

    @classmethod
    def by_class(cls, x):
        return x * cls.factor

    @staticmethod
    def by_static(x):
        return x * FACTOR

    @property
    def two(self):
        return FACTOR


def set_factor(value):
    globals()["FACTOR"] = value


@pytest.fixture(autouse=True)
def factor_again():
    yield
    set_factor(2.0)
    Scaling.factor = 2.0
    Scaling.by_method = BY_METHOD


BY_METHOD = Scaling.by_method


@case
def a_global_of_a_method():
    thing = Scaling()
    return (lambda x: thing.by_method(x)), lambda: set_factor(3.0)


@case
def a_global_of_a_call():
    thing = Scaling()
    return (lambda x: thing(x)), lambda: set_factor(3.0)


@case
def a_global_of_a_static_method():
    return (lambda x: Scaling.by_static(x)), lambda: set_factor(3.0)


@case
def a_global_of_a_property():
    thing = Scaling()
    return (lambda x: x * thing.two), lambda: set_factor(3.0)


@case
def an_attribute_of_a_class():
    return (lambda x: x * Scaling.factor), lambda: setattr(Scaling, "factor", 3.0)


@case
def an_attribute_of_the_class_of_an_object():
    thing = Scaling()
    return (lambda x: x * thing.factor), lambda: setattr(Scaling, "factor", 3.0)


@case
def an_attribute_of_a_class_in_a_class_method():
    return (lambda x: Scaling.by_class(x)), lambda: setattr(Scaling, "factor", 3.0)


class Scaled(Scaling):
    factor = 4.0

    def __init__(self):
        self.by = 1.0


@case
def an_attribute_of_an_object_of_a_class_with_a_base():
    thing = Scaled()
    return (lambda x: x * thing.by * thing.factor), lambda: setattr(thing, "by", 3.0)


@case
def another_method():
    thing = Scaling()
    return (lambda x: thing.by_method(x)), lambda: setattr(Scaling, "by_method", lambda self, x: x * 7)


@case
def an_attribute_by_its_name():
    thing = Thing(k=2.0)
    return (lambda x: x * getattr(thing, "k")), lambda: setattr(thing, "k", 3.0)  # noqa: B009 (that is the case)


@case
def an_attribute_where_there_was_none():
    thing = Thing()
    return (lambda x: x * getattr(thing, "k", 1.0)), lambda: setattr(thing, "k", 3.0)


@case
def a_slot():
    class Slotted:
        __slots__ = ("k",)

    thing = Slotted()
    thing.k = 2.0
    return (lambda x: x * thing.k), lambda: setattr(thing, "k", 3.0)


@case
def a_default():
    def f(x, k=2.0):
        return x * k

    return f, lambda: setattr(f, "__defaults__", (3.0,))


@case
def what_a_partial_gives():
    f = functools.partial(lambda x, k: x * k, k=2.0)
    return f, lambda: f.keywords.update(k=3.0)


@case
def an_attribute_of_a_module():
    module = types.ModuleType("settings")
    module.__file__, module.k = "settings.py", 2.0
    return (lambda x: x * module.k), lambda: setattr(module, "k", 3.0)


@case
def a_function_of_a_module():
    module = types.ModuleType("settings")
    module.__file__, module.inner = "settings.py", lambda x: x * 2
    return (lambda x: module.inner(x)), lambda: setattr(module, "inner", lambda x: x * 3)


@case
def a_global_of_a_folder_beside_the_package():
    names = with_text("def scale(): return k", {"k": 2.0}, ag.__path__[0] + "_experiments/train.py")
    scale = names["scale"]
    return (lambda x: x * scale()), lambda: names.update(k=3.0)


@case
def a_global_of_a_folder_beside_pythons_own():
    names = with_text("def scale(): return k", {"k": 2.0}, sysconfig.get_path("stdlib") + "x/train.py")
    scale = names["scale"]
    return (lambda x: x * scale()), lambda: names.update(k=3.0)


# -- values of other kinds ----------------------------------------------------------------------------------------------


class Way(enum.Enum):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Config:
    k: float


Named = collections.namedtuple("Named", "k")  # noqa: PYI024 (a plain one, as users have)


def rebound(before, after, use):
    def make():
        value = before

        def change():
            nonlocal value
            value = after

        return (lambda x: use(x, value)), change

    return make


CASES |= {
    "another scalar of NumPy": rebound(np.float64(2.0), np.float64(3.0), lambda x, k: x * k),
    "another dtype": rebound(ag.float64, ag.float32, lambda x, k: ag.asarray([1 / 3, 2 / 3], dtype=k) * x),
    "another member of an enumeration": rebound(Way.A, Way.B, lambda x, k: x * 2 if k is Way.A else x * 3),
    "another slice": rebound(slice(0, 1), slice(1, 2), lambda x, k: x[k]),
    "another range": rebound(range(2), range(4), lambda x, k: x * len(list(k))),
    "another dataclass": rebound(Config(2.0), Config(3.0), lambda x, k: x * k.k),
    "another named tuple": rebound(Named(2.0), Named(3.0), lambda x, k: x * k.k),
    "a negative zero": rebound(0.0, -0.0, lambda x, k: ag.copysign(x, k)),
}


@case
def an_array_of_another_library():
    array = np.array([1.0, 2.0])
    return (lambda x: x * array), lambda: array.__setitem__(0, 9.0)


# -- modules, optimisers, hooks -----------------------------------------------------------------------------------------


def linear():
    return ag.nn.Linear(2, 2).double()


@case
def one_more_layer():
    net = ag.nn.Sequential(linear())
    return (lambda x: net(x)), lambda: net.append(linear())


@case
def another_layer_without_parameters():
    net = ag.nn.Sequential(linear(), ag.nn.Tanh())
    return (lambda x: net(x)), lambda: net.__setitem__(1, ag.nn.Sigmoid())


@case
def a_setting_of_a_layer():
    net = ag.nn.Sequential(ag.nn.LeakyReLU(0.1))
    return (lambda x: net(x)), lambda: setattr(net[0], "negative_slope", 0.5)


@case
def a_hook_on_a_module():
    net = linear()
    return (lambda x: net(x)), lambda: net.register_forward_hook(lambda module, inputs, result: result * 3)


def with_optimizer(read, change):
    def make():
        w = ag.tensor([1.0, 2.0], requires_grad=True)
        optimizer = ag.optim.SGD([w], lr=0.1)
        schedule = ag.optim.lr_scheduler.StepLR(optimizer, 1000)
        return (lambda x: x * read(optimizer, schedule)), lambda: change(optimizer, schedule)

    return make


def set_rate(optimizer, schedule):
    optimizer.param_groups[0]["lr"] = 0.7


def sum_of_rates(optimizer, schedule):
    return sum(value for group in optimizer.param_groups for key, value in group.items() if key == "lr")


CASES |= {
    "a rate, read by hand": with_optimizer(lambda o, s: o.param_groups[0]["lr"], set_rate),
    "a rate, read in a loop": with_optimizer(lambda o, s: sum(g.get("lr") for g in o.param_groups), set_rate),
    "a rate among all settings": with_optimizer(sum_of_rates, set_rate),
    "a rate, asked for": with_optimizer(lambda o, s: s.get_last_lr()[0], set_rate),
    "a default of an optimizer": with_optimizer(lambda o, s: o.defaults["lr"], lambda o, s: o.defaults.update(lr=0.9)),
    "an epoch": with_optimizer(lambda o, s: s.last_epoch, lambda o, s: setattr(s, "last_epoch", 9)),
    "a base rate": with_optimizer(lambda o, s: s.base_lrs[0], lambda o, s: s.base_lrs.__setitem__(0, 9.0)),
}


@case
def a_group_that_is_held():
    group = ag.optim.SGD([ag.tensor([1.0, 2.0], requires_grad=True)], lr=0.1).param_groups[0]
    return (lambda x: x * group["lr"]), lambda: group.update(lr=0.7)


@case
def a_hook_on_a_parameter():
    w = ag.tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        w.grad = None
        ag.sum(w * x).backward()
        return w.grad

    return f, lambda: w.register_hook(lambda g: g * 3)


@case
def a_second_hook_on_a_parameter():
    f, change = a_hook_on_a_parameter()
    change()
    return f, change


@case
def what_a_hook_reads():
    w, factor = ag.tensor([1.0, 2.0], requires_grad=True), 2.0
    w.register_hook(lambda g: g * factor)

    def f(x):
        return ag.grad(ag.sum(w * w * x), w)[0]

    def change():
        nonlocal factor
        factor = 5.0

    return f, change


@case
def a_hook_on_a_parameter_and_its_gradient_asked_for():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    return (lambda x: ag.grad(ag.sum(w * x), w)[0]), lambda: w.register_hook(lambda g: g * 3)


def value_of(found):
    return found.detach().numpy() if isinstance(found, ag.Tensor) else np.asarray(found)


@pytest.mark.parametrize("name", CASES)
def test_what_changes_is_seen(name):
    ag.manual_seed(0)
    function, change = CASES[name]()
    compiled = ag.compile(function, check=False)
    before = value_of(function(ag.asarray(X)))
    for _ in range(3):
        np.testing.assert_array_equal(value_of(compiled(X)), before, strict=True)
    assert len(compiled.programs) == 1
    change()
    after = value_of(function(ag.asarray(X)))
    assert (
        before.shape != after.shape
        or not np.array_equal(before, after)
        or np.signbit(before[0]) != np.signbit(after[0])
    )
    for _ in range(3):
        np.testing.assert_array_equal(value_of(compiled(X)), after, strict=True)


def test_tensors_that_become_one_are_captured_anew():
    a, b = (ag.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))

    def step(x):
        a.grad = b.grad = None
        ag.sum(a * x + b * b).backward()
        return a.grad

    compiled = ag.compile(step, check=False)
    for _ in range(3):
        np.testing.assert_array_equal(value_of(compiled(X)), X)
    b = a
    for _ in range(3):
        np.testing.assert_array_equal(value_of(compiled(X)), X + 2 * a.detach().numpy())


def test_the_state_of_an_optimizer_is_no_part_of_a_program():
    optimizer = ag.optim.SGD([ag.tensor([1.0, 2.0], requires_grad=True)], lr=0.1)
    compiled = ag.compile(lambda x: x * optimizer.state_dict()["param_groups"][0]["lr"])
    with pytest.warns(ag.func.CompileWarning, match="state of an optimizer"):
        np.testing.assert_array_equal(compiled(X), X * 0.1)
    optimizer.param_groups[0]["lr"] = 0.5
    np.testing.assert_array_equal(compiled(X), X * 0.5)


def test_what_nothing_reads_is_no_guard():
    thing = Thing(k=2.0, other=1.0, losses=[])
    compiled = ag.compile(lambda x: x * thing.k)
    for i in range(5):
        thing.other = float(i)
        thing.losses.append(i)
        np.testing.assert_array_equal(compiled(X), X * 2)
    assert len(compiled.programs) == 1


def test_a_compiled_function_within_another_may_learn():
    inner = ag.compile(lambda x: x * 2)
    outer = ag.compile(lambda x: inner(x) + 1)
    for n in range(1, 5):
        inner(np.ones(n))
        np.testing.assert_array_equal(outer(X), X * 2 + 1)
    assert len(outer.programs) == 1


TABLE = {}


def test_what_agrad_notes_for_itself_is_no_state(monkeypatch):
    monkeypatch.setitem(globals(), "helper", ag.nn.functional.silu)
    monkeypatch.setitem(TABLE, "op", OPS["add"])
    compiled = ag.compile(lambda x: helper(ag.special.expit(x)) + len(TABLE["op"].name))
    for shape in ((2,), (1, 1, 1, 1, 2)):  # an operation notes what it has met
        for _ in range(4):
            compiled(np.ones(shape) + np.ones(2))
    assert len(compiled.programs) == 2


def test_a_generator_goes_on():
    generator = ag.random.Generator(3)
    compiled = ag.compile(lambda x: x + ag.rand(2, generator=generator))
    found = [value_of(compiled(X)) for _ in range(6)]
    other = ag.random.Generator(3)
    expected = [X + ag.rand(2, generator=other).numpy() for _ in range(6)]
    np.testing.assert_array_equal(found, expected)
    assert len(compiled.programs) == 1


ONE = TWO = ag.tensor([2.0, 3.0])
ROWS = COLUMNS = np.asarray([2.0, 3.0])


@pytest.mark.parametrize(
    ("first", "other", "function"),
    [("ONE", "TWO", lambda x: x * ONE + TWO), ("ROWS", "COLUMNS", lambda x: x * ROWS + COLUMNS)],
    ids=["tensors", "arrays"],
)
def test_a_tensor_of_two_names_one_of_which_is_rebound(first, other, function, monkeypatch):
    here = globals()
    compiled = ag.compile(check=False)(function)
    for name in (other, first):
        for _ in range(2):
            np.testing.assert_array_equal(value_of(compiled(X)), X * np.asarray(here[first]) + np.asarray(here[other]))
        monkeypatch.setitem(here, name, here[name] * 5.0)
    np.testing.assert_array_equal(value_of(compiled(X)), X * np.asarray(here[first]) + np.asarray(here[other]))
    assert len(compiled.programs) == 2  # they are one, or two


def test_a_tensor_of_two_names_that_is_written_to_by_one(monkeypatch):
    here = globals()
    monkeypatch.setitem(here, "ONE", ag.zeros(2))
    monkeypatch.setitem(here, "TWO", here["ONE"])

    @ag.compile(check=False)
    def step():
        ONE.add_(1.0)
        TWO.add_(10.0)

    step()
    step()
    assert here["ONE"].tolist() == [22.0, 22.0]
    monkeypatch.setitem(here, "TWO", ag.zeros(2))
    step()
    assert (here["ONE"].tolist(), here["TWO"].tolist()) == ([23.0, 23.0], [10.0, 10.0])


@pytest.mark.parametrize("versions", [True, False])
def test_the_members_of_a_class_are_seen_however_they_change(versions, monkeypatch):
    """By CPython's version of the class, where that is known; members that are as before need no capture, one that changes does."""
    if not versions:
        monkeypatch.setattr(tracking, "version_of", {}.get)  # a function of the test's own would be seen to run

    class Base:
        def scale(self):
            return 2.0

    class Scaled(Base):
        @property
        def factor(self):
            return self.scale()

    one = Scaled()
    compiled = ag.compile(lambda x: x * one.factor, check=False)

    def calls(wanted, programs):
        for _ in range(3):
            np.testing.assert_array_equal(value_of(compiled(X)), X * wanted)
        assert len(compiled.programs) == programs

    calls(2.0, 1)
    first = Base.scale
    Base.scale = first  # another version, with the same members
    calls(2.0, 1)
    Base.scale = lambda self: 3.0
    calls(3.0, 2)
    Base.scale = first
    calls(2.0, 2)
    Scaled.scale = lambda self: 5.0
    calls(5.0, 3)
    del Scaled.scale
    calls(2.0, 3)


FACTS = {
    "requires a gradient": lambda t: t.requires_grad_(),
    "is no leaf": lambda t: t.requires_grad_() * 1.0,
    "has a gradient": lambda t: setattr(t, "grad", ag.ones(2)),
    "another shape": lambda t: ag.tensor([[1.0, 2.0]], dtype=ag.float64),
    "another dtype": lambda t: ag.tensor([1.0, 2.0], dtype=ag.float32),
    "another class": lambda t: ag.nn.Parameter(t),
    "an array": lambda t: np.asarray(t),
}


@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize("name", FACTS)
def test_what_is_asked_of_a_tensor_but_for_its_values(name, is_leaf):
    def asked(t):
        facts = type(t).__name__, t.shape, str(t.dtype)
        return facts if isinstance(t, np.ndarray) else (*facts, t.requires_grad, t.is_leaf, t.grad is None)

    met = ag.tensor([1.0, 2.0], dtype=ag.float64, requires_grad=is_leaf)

    def function(x):
        facts = asked(met)
        return x * float(sum(map(ord, repr(facts))))

    compiled = ag.compile(function, check=False)
    with ag.no_grad():
        for _ in range(3):
            np.testing.assert_array_equal(value_of(compiled(X)), value_of(function(ag.asarray(X))))
        changed = FACTS[name](met)
        met = met if changed is None else changed
        for _ in range(3):
            np.testing.assert_array_equal(value_of(compiled(X)), value_of(function(ag.asarray(X))))
        met = ag.tensor([4.0, 2.0], dtype=ag.float64, requires_grad=is_leaf)
        np.testing.assert_array_equal(value_of(compiled(X)), value_of(function(ag.asarray(X))))
