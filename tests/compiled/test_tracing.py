"""Numbers that a recorder knows by identity: the plain ones that it gives out are no other objects, and are their values."""

import math

import pytest

import agrad as ag
from agrad.compiled.tracing import TracedFloat, Tracer, own_integer
from agrad.core import mode

FLOATS = [0.0, -0.0, 1.0, 0.1, -2.5, math.inf, -math.inf, math.nan, 5e-324, 1e308]
INTEGERS = [0, 1, -1, 3, 255, 256, 257, -5, -6, 2**15, 2**15 - 1, -(2**30), 2**62, -(2**63), 10**40]


@pytest.mark.parametrize("value", FLOATS)
def test_a_float_that_is_given_out_is_no_other_object(value):
    tracer = Tracer()
    first = tracer.float_argument(value)
    second = tracer.plain_for_user(tracer.traced_of(first))
    assert type(first) is type(second) is float
    assert repr(first) == repr(second) == repr(value)
    assert len({id(first), id(second), id(value)}) == 3
    assert tracer.traced_of(first) is tracer.traced_of(second)
    assert tracer.number_of_float(first) == tracer.number_of_float(second) is not None


@pytest.mark.parametrize("value", FLOATS)
def test_a_float_of_the_same_value_is_not_known(value):
    tracer = Tracer()
    tracer.float_argument(value)
    assert tracer.traced_of(value) is None
    assert tracer.number_of_float(value) is None


def test_a_float_stays_known_while_others_come_and_go():
    tracer = Tracer()
    number = tracer.number_of_float(tracer.float_argument(0.5))  # nobody else keeps it
    for i in range(1000):
        assert tracer.number_of_float(float(i) + 0.25) is None
    assert number in {tracer.number_of(live.array) for _, live in tracer.numbers.values()}


@pytest.mark.parametrize("value", INTEGERS)
def test_an_integer_of_its_own_is_equal_and_no_other_object(value):
    made = own_integer(value)
    assert type(made) is int
    assert (made, hash(made), repr(made), made + 1) == (value, hash(value), repr(value), value + 1)
    assert made is not own_integer(value)
    assert made is not value


@pytest.fixture
def tracer():
    """Give a recorder that is on."""
    found, before = Tracer(), mode.get_mode()
    mode.push(recorder=found)
    yield found
    mode.set_mode(before)


def test_an_item_is_a_number_whose_arithmetic_is_steps(tracer):
    live = ag.sum(ag.tensor([1.0, 2.0])).item()
    assert type(live) is TracedFloat
    given = tracer.plain_for_user(live)
    made = 2.0 * tracer.traced_of(given) + 1.0
    assert type(made) is TracedFloat
    assert float.__pos__(made) == 7.0
    assert not tracer.conditions
    assert made > 0.0
    assert [condition.value for condition in tracer.conditions] == [7.0]


def test_a_plain_float_is_known_as_the_other_side(tracer):
    one, other = (ag.tensor(value).item() for value in (1.5, 0.5))
    made = one + tracer.plain_for_user(other)
    assert type(made) is TracedFloat
    assert float.__pos__(made) == 2.0
    assert not tracer.conditions


def test_an_op_knows_a_plain_float(tracer):
    given = tracer.plain_for_user(ag.tensor(1.5).item())
    count = len(tracer.steps)
    assert (ag.tensor([2.0]) * given)._raw[0] == 3.0
    assert [step.op for step in tracer.steps[count:]] == ["astype", "multiply"]
    assert {array.shape for array in tracer.constants.values()} == {(), (1,)}  # of the two tensors that are made


def test_an_integer_that_is_used_is_a_condition(tracer):
    first, second = (tracer.plain_for_user(ag.tensor([1, value]).sum().item()) for value in (2, 4))
    assert (first, second) == (3, 5)
    assert tracer.number_of_float(second) is not None  # as a result is
    assert not tracer.conditions
    assert tracer.traced_of(first) is None
    assert [condition.value for condition in tracer.conditions] == [3]


def test_what_agrad_reads_of_an_integer_is_a_condition(tracer):
    whole = ag.tensor([1, 2]).sum().item()
    assert whole + 1 == 4
    assert [condition.value for condition in tracer.conditions] == [3]


def test_unseen_numbers_are_conditions():
    tracer, before = Tracer(observes_numbers=False), mode.get_mode()
    mode.push(recorder=tracer)
    try:
        asked = ag.tensor(1.5).item(), ag.tensor(2).item()
    finally:
        mode.set_mode(before)
    assert list(map(type, asked)) == [float, int]
    assert [condition.value for condition in tracer.conditions] == [1.5, 2]
