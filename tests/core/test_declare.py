"""Operations of the users' own: declared with a line of derivative, checked there, differentiable to any order."""

from __future__ import annotations

import math

import numpy as np
import pytest

import agrad as ag
from agrad.core import forward as forward_mode
from agrad.core.declare import primitive
from agrad.core.facts import Facts
from agrad.core.op import OPS, facts_of


@pytest.fixture(autouse=True)
def _own_ops_are_removed():
    before = set(OPS)
    yield
    kernels = vars(ag.tensor(0.0)._spec.xp)
    for name in set(OPS) - before:
        del OPS[name]
        kernels.pop(name, None)


def scalar(value):
    return ag.tensor(value, requires_grad=True)


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def tangent(function, *pairs):
    """The tangent of a function of duals."""
    with forward_mode.level() as level:
        duals = [
            forward_mode.with_tangent(ag.asarray(p), ag.asarray(t), level) if t is not None else p for p, t in pairs
        ]
        return forward_mode.tangent_of(function(*duals), level).tolist()


# -- what is refused when declared ------------------------------------------------------------------------------------


REFUSED = {
    "elementwise": (
        lambda: ag.elementwise(x=lambda y: y),
        lambda x, /: None,
        r"<lambda>: the derivative by x asks for 'y', which is not known here. It can ask for: ans, ans_spec, x, x_s",
    ),
    "elementwise asks for g": (
        lambda: ag.elementwise(x=lambda g: g),
        lambda x, /: None,
        "asks for 'g', which is not known",
    ),
    "two unknown names": (
        lambda: ag.linear(x=lambda g, a, b: g),
        lambda x, /: None,
        "asks for 'a', 'b', which is not known",
    ),
    "linear": (lambda: ag.linear(x=lambda g, z: g), lambda x, /: None, "by x asks for 'z'"),
    "multilinear": (lambda: ag.multilinear(x=lambda g, other: g), lambda x, y, /: None, "by x asks for 'other'"),
    "custom": (lambda: ag.custom(vjp={"x": lambda g, t_x: g}, jvp=None), lambda x, /: None, "by x asks for 't_x'"),
    "custom, jvp": (
        lambda: ag.custom(vjp={"x": lambda g: g}, jvp=lambda t_y: t_y),
        lambda x, /: None,
        "the jvp asks for 't_y'",
    ),
    "fused": (
        lambda: ag.fused(
            define=lambda xp, x: x, kernel=lambda xp, x: (x, x), vjp={"x": lambda g, q: g}, residuals=("p",)
        ),
        lambda x, /: None,
        "by x asks for 'q', which is not known here. It can ask for: .*, p, x",
    ),
    "spec of nothing": (lambda: ag.linear(x=lambda g, y_spec: g), lambda x, /: None, "asks for 'y_spec'"),
    "derivative by no name": (
        lambda: ag.elementwise(y=lambda x: x),
        lambda x, /: None,
        r"'y' is no name of its signature \(x\)",
    ),
    "index of no name": (
        lambda: ag.linear(index=("key",), x=lambda g: g),
        lambda x, /: None,
        "'key' is no name of its signature",
    ),
    "sequence of no name": (
        lambda: ag.linear(sequence="xs", xs=lambda g: g),
        lambda x, /: None,
        "'xs' is no name of its",
    ),
    "no Python function": (
        lambda: ag.elementwise(x=math.cos),
        lambda x, /: None,
        "by x must be a Python function or a number",
    ),
    "no function": (
        lambda: ag.custom(vjp={"x": 1}, jvp="text"),
        lambda x, /: None,
        "the jvp must be a Python function",
    ),
    "operand of none": (lambda: ag.nondifferentiable("y"), lambda x, /: None, "'y' is no name of its signature"),
}


@pytest.mark.parametrize(("declare", "stub", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_declarations_raise_at_once(declare, stub, message):
    before = set(OPS)
    with pytest.raises(ag.RuleError, match=message):
        declare()(stub)
    assert set(OPS) == before


def test_rule_error_is_a_type_error_that_names_the_op():
    assert issubclass(ag.RuleError, TypeError)
    with pytest.raises(ag.RuleError, match=r"^my\.op: "):
        ag.elementwise(name="my.op", x=lambda nothing: nothing)(lambda x, /: None)


def test_duplicate_names_are_refused():
    ag.elementwise(name="mine", x=lambda x: x)(lambda x, /: None)
    for name in ("mine", "multiply"):
        with pytest.raises(ag.RuleError, match=f"{name}: an op of this name exists already"):
            ag.elementwise(name=name, x=lambda x: x)(lambda x, /: None)
    assert ag.multiply(ag.tensor(2.0), 3.0).item() == 6.0


# -- the kinds --------------------------------------------------------------------------------------------------------


BARE = """
@ag.elementwise(name="bare.square", x=lambda x: 2 * x, kernel=lambda xp, x: x * x)
def square(x, /): ...

x = ag.tensor(3.0, requires_grad=True)
y = square(x)
y.backward()
"""


def test_where_the_program_has_no_name():
    space = {"ag": ag}
    exec(BARE, space)  # as some runners of scripts and cells do: there is no __name__
    assert (space["y"].item(), space["x"].grad.item()) == (9.0, 6.0)
    assert "bare.square" in str(ag.rules["bare.square"])


def test_elementwise():
    @ag.elementwise(x=lambda xp, ans: 1 - ans * ans, kernel=lambda xp, x: xp.tanh(x), source="a book")
    def my_tanh(x, /):
        """Hyperbolic tangent."""

    t = math.tanh(0.5)
    x = scalar(0.5)
    y = my_tanh(x)
    assert y.item() == t
    assert y.grad_fn.name() == "MyTanhBackward0"
    (g,) = ag.grad(y, x, create_graph=True)
    assert g.item() == pytest.approx(1 - t * t)
    (h,) = ag.grad(g, x)
    assert h.item() == pytest.approx(-2 * t * (1 - t * t))
    assert tangent(my_tanh, (0.5, 3.0)) == pytest.approx(3 * (1 - t * t))
    assert my_tanh.__doc__ == "Hyperbolic tangent."
    assert my_tanh.__name__ == "my_tanh"
    assert ag.my_tanh is my_tanh
    assert "lambda xp, ans: 1 - ans * ans" in str(ag.rules["my_tanh"])
    assert "source: a book" in str(ag.rules["my_tanh"])
    assert "saves ans" in str(ag.rules["my_tanh"])


def test_elementwise_of_two_operands():
    @ag.elementwise(x=lambda x, y: 2 * x * y, y=lambda x: x * x, kernel=lambda xp, x, y: x * x * y)
    def square_times(x, y, /):
        """x^2 y, with broadcasting."""

    x, y = ag.tensor([[1.0], [2.0]], requires_grad=True), leaf(3.0, 4.0, 5.0)
    z = square_times(x, y)
    assert z.tolist() == [[3.0, 4.0, 5.0], [12.0, 16.0, 20.0]]
    z.sum().backward()
    assert x.grad.tolist() == [[24.0], [48.0]]
    assert y.grad.tolist() == [5.0, 5.0, 5.0]
    assert square_times(3.0, y).tolist() == [27.0, 36.0, 45.0]
    assert square_times(np.array([1.0, 2.0, 3.0]), y).grad_fn.name() == "SquareTimesBackward0"
    a, b = scalar(2.0), scalar(3.0)
    ga, gb = ag.grad(square_times(a, b), (a, b), create_graph=True)
    assert [h.item() for h in ag.grad(ga, (a, b), retain_graph=True)] == [6.0, 4.0]
    assert ag.grad(gb, a)[0].item() == 4.0
    assert tangent(square_times, (2.0, 1.0), (3.0, 10.0)) == 12.0 + 40.0


def test_elementwise_saves_what_it_asks_for_of_operands_that_need_it():
    @ag.elementwise(x=lambda y: y, y=lambda x: x, kernel=lambda xp, x, y: x * y)
    def my_product(x, y, /):
        """x y."""

    w, c = leaf(1.0), ag.tensor([5.0])
    assert [s.tolist() for s in my_product(w, c).grad_fn.saved] == [[5.0]]
    assert [s.tolist() for s in my_product(c, w).grad_fn.saved] == [[5.0]]
    assert len(my_product(w, w).grad_fn.saved) == 2


def test_elementwise_constant_partials():
    @ag.elementwise(x=1, y=-1, z=0, kernel=lambda xp, x, y, z: x - y + xp.floor(z))
    def mixed(x, y, z, /):
        """x - y + floor(z)."""

    x, y, z = scalar(1.0), scalar(2.0), scalar(3.5)
    mixed(x, y, z).backward()
    assert [t.grad.item() for t in (x, y, z)] == [1.0, -1.0, 0.0]


def test_elementwise_of_complex_operands_is_conjugated():
    @ag.elementwise(x=lambda x: 2 * x, kernel=lambda xp, x: x * x)
    def my_square(x, /):
        """x^2, holomorphic."""

    z = ag.tensor(1 + 2j, requires_grad=True)
    (g,) = ag.grad(my_square(z), z, ag.tensor(1 + 0j))
    assert g.item() == 2 - 4j


def test_elementwise_parameters():
    @ag.elementwise(x=lambda x, power: power * x ** (power - 1), kernel=lambda xp, x, *, power=2: x**power)
    def power_of(x, /, *, power=2):
        """A power that is a parameter."""

    x = scalar(3.0)
    assert ag.grad(power_of(x), x)[0].item() == 6.0
    assert ag.grad(power_of(x, power=3), x)[0].item() == 27.0
    with pytest.raises(TypeError, match="power_of\\(\\) got an unexpected keyword argument 'exponent'"):
        power_of(x, exponent=3)


def test_linear():
    @ag.linear(
        x=lambda xp, g, step: step * xp.flip(g),
        kernel=lambda xp, x, /, *, step=1.0: step * xp.flip(x),
        name="mine.reversed",
    )
    def my_reversed(x, /, *, step=1.0):
        """The elements backwards, scaled."""

    x = leaf(1.0, 2.0, 3.0)
    y = my_reversed(x, step=2.0)
    assert y.tolist() == [6.0, 4.0, 2.0]
    assert y.grad_fn.name() == "MineReversedBackward0"
    assert y.grad_fn.saved == ()
    (g,) = ag.grad(y, x, ag.tensor([1.0, 10.0, 100.0]))
    assert g.tolist() == [200.0, 20.0, 2.0]
    v = leaf(1.0, 10.0, 100.0)
    (g,) = ag.grad(my_reversed(x), x, v, create_graph=True)
    assert ag.grad(g, v, ag.tensor([1.0, 2.0, 3.0]))[0].tolist() == [3.0, 2.0, 1.0]
    assert tangent(my_reversed, ([1.0, 2.0], [5.0, 7.0])) == [7.0, 5.0]


def test_linear_of_a_list():
    @ag.linear(
        sequence="xs",
        xs=lambda xp, g, xs_spec: [g * (i + 1) for i in range(len(xs_spec))],
        kernel=lambda xp, xs: sum(x * (i + 1) for i, x in enumerate(xs)),
    )
    def weighted(xs, /):
        """x_0 + 2 x_1 + 3 x_2 ..."""

    a, b, c = leaf(1.0), ag.tensor([1.0]), leaf(1.0)
    y = weighted([a, b, c])
    assert y.tolist() == [6.0]
    y.backward(ag.ones(1))
    assert (a.grad.tolist(), c.grad.tolist()) == ([1.0], [3.0])


def test_linear_with_an_index():
    @ag.linear(
        index=("at",),
        x=lambda xp, g, x_spec, at: xp.scatter_add(x_spec, at, g),
        kernel=lambda xp, x, at: x[at],
    )
    def pick(x, at, /):
        """x[at]."""

    x = leaf(1.0, 2.0, 3.0)
    pick(x, ag.tensor([0, 2, 2])).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 2.0]


def test_multilinear():
    @ag.multilinear(x=lambda xp, g, y, x_spec: g * y, y=lambda xp, g, x: xp.sum(g * x), kernel=lambda xp, x, y: x * y)
    def scaled(x, y, /):
        """A vector times a number."""

    x, y = leaf(1.0, 2.0), scalar(3.0)
    gx, gy = ag.grad(scaled(x, y).sum(), (x, y), create_graph=True)
    assert (gx.tolist(), gy.item()) == ([3.0, 3.0], 3.0)
    assert ag.grad(gx.sum(), y, retain_graph=True)[0].item() == 2.0
    assert ag.grad(gy, x)[0].tolist() == [1.0, 1.0]
    assert tangent(scaled, ([1.0, 2.0], [1.0, 0.0]), (3.0, 10.0)) == [13.0, 20.0]
    assert tangent(scaled, ([1.0, 2.0], [1.0, 0.0]), (3.0, None)) == [3.0, 0.0]


def test_custom():
    @ag.custom(
        vjp={"x": lambda xp, g, ans: g * ans},
        jvp=lambda t_x, ans: t_x * ans,
        kernel=lambda xp, x: xp.exp(x),
    )
    def my_exp(x, /):
        """e^x."""

    x = scalar(1.0)
    y = my_exp(x)
    for _ in range(3):
        (y,) = ag.grad(y, x, create_graph=True)
    assert y.item() == pytest.approx(math.e)
    assert tangent(my_exp, (1.0, 2.0)) == pytest.approx(2 * math.e)


def test_custom_without_jvp():
    @ag.custom(vjp={"x": lambda g: g}, jvp=None, kernel=lambda xp, x: x * 1)
    def same(x, /):
        """x."""

    with pytest.raises(NotImplementedError, match="Trying to use forward AD with same that does not support it"):
        tangent(same, (1.0, 2.0))


def test_custom_with_several_results():
    def vjp(xp, g, x):
        total = None
        for part, partial in zip(g, (xp.cos(x), -xp.sin(x)), strict=True):
            if part is not None:
                term = part * partial
                total = term if total is None else total + term
        return total

    @ag.custom(
        vjp={"x": vjp},
        jvp=lambda xp, t_x, ans: (t_x * ans[1], -t_x * ans[0]),
        kernel=lambda xp, x: (xp.sin(x), xp.cos(x)),
        outputs=2,
    )
    def sincos(x, /):
        """Sine and cosine."""

    x = scalar(0.5)
    s, c = sincos(x)
    assert (s.output_nr, c.output_nr) == (0, 1)
    assert ag.grad(s, x, retain_graph=True)[0].item() == pytest.approx(math.cos(0.5))
    assert ag.grad(c, x, retain_graph=True)[0].item() == pytest.approx(-math.sin(0.5))
    (g,) = ag.grad(s * c, x, create_graph=True)
    assert g.item() == pytest.approx(math.cos(1.0))
    assert ag.grad(g, x)[0].item() == pytest.approx(-2 * math.sin(1.0))
    assert tangent(lambda x: sincos(x)[1], (0.5, 2.0)) == pytest.approx(-2 * math.sin(0.5))


def test_a_rule_that_gives_the_wrong_shape_is_named():
    @ag.linear(x=lambda xp, g: xp.ones((7,)), kernel=lambda xp, x: x * 2)
    def wrong(x, /):
        """2 x."""

    x = leaf(1.0, 2.0)
    message = (
        r"Function WrongBackward0 returned an invalid gradient at index 0 - got \[7\] but expected shape compatible"
    )
    with pytest.raises(RuntimeError, match=message) as info:
        wrong(x).sum().backward()
    assert __file__ in str(info.value)
    assert x.grad is None


def test_operands_with_one_function_for_all_their_cotangents():
    calls = []

    def both(xp, g, a, b):
        calls.append(1)
        return g * b * b, 2 * g * a * b

    def of(joint, vjp):
        return ag.fused(
            name=f"mine.joint_{len(OPS)}",
            define=lambda xp, a, b, c: a * b * b + c,
            kernel=lambda xp, a, b, c: a * b * b + c,
            joint=joint,
            vjp={**vjp, "c": lambda g: g},
        )

    @of(("a", "b"), {"a": both, "b": both})
    def product(a, b, c, /):
        """a b^2 + c."""

    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ag.tensor(2.0, requires_grad=True)
    product(x, y, x).sum().backward()
    assert len(calls) == 1
    assert x.grad.tolist() == [5.0, 5.0, 5.0]
    assert y.grad.item() == 24.0
    assert ag.autograd.grad(product(1.0, y, 0.0), y)[0].item() == 4.0
    assert ag.autograd.gradcheck(product, (x, y, x), check_forward_ad=True)
    assert ag.autograd.gradgradcheck(product, (x, y, x))
    for wrong in ({"a": both}, {"a": both, "b": lambda g: g}):
        with pytest.raises(ag.RuleError, match="joint= names operands that have one function in vjp"):

            @of(("a", "b"), wrong)
            def refused(a, b, c, /):
                """Refused."""


def test_fused():
    calls = []

    def kernel(xp, x):
        calls.append("kernel")
        p = 1 / (1 + xp.exp(-x))
        return xp.log(p), p

    def define(xp, x):
        calls.append("define")
        return -xp.log(1 + xp.exp(-x))

    def vjp(g, p):
        calls.append("vjp")
        return g * (1 - p)

    @ag.fused(define=define, kernel=kernel, vjp={"x": vjp}, residuals=("p",))
    def my_logsigmoid(x, /):
        """log(sigmoid(x))."""

    p = 1 / (1 + math.exp(-0.5))
    x = scalar(0.5)
    y = my_logsigmoid(x)
    assert y.item() == pytest.approx(math.log(p))
    assert calls == ["kernel"]
    assert ag.grad(y, x, retain_graph=True)[0].item() == pytest.approx(1 - p)
    assert calls == ["kernel", "vjp"]
    (g,) = ag.grad(y, x, create_graph=True)
    assert g.item() == pytest.approx(1 - p)
    (h,) = ag.grad(g, x)
    assert h.item() == pytest.approx(-p * (1 - p))  # a residual taken for a constant would lose this
    assert tangent(my_logsigmoid, (0.5, 2.0)) == pytest.approx(2 * (1 - p))


def test_nondifferentiable():
    @ag.nondifferentiable("x", kernel=lambda xp, x, /, *, than=0.0: x > than)
    def larger(x, /, *, than=0.0):
        """Whether elements are larger."""

    y = larger(leaf(1.0, -1.0), than=0.5)
    assert y.tolist() == [True, False]
    assert not y.requires_grad


def test_ops_reach_every_namespace():
    @ag.elementwise(x=lambda x: 2 * x, kernel=lambda xp, x: x * x)
    def my_square(x, /):
        """x^2."""

    xp = ag.tensor(1.0).__array_namespace__()
    assert xp.my_square(ag.tensor(3.0)).item() == 9.0

    @ag.elementwise(x=lambda xp, x: 2 * xp.my_square(x) / x, kernel=lambda xp, x: xp.my_square(x))
    def again(x, /):
        """By another op's kernel and in its derivative."""

    x = scalar(3.0)
    (g,) = ag.grad(again(x), x, create_graph=True)
    assert g.item() == 6.0
    assert ag.grad(g, x)[0].item() == 2.0


def test_an_op_without_kernel_says_so():
    @ag.elementwise(x=lambda x: x)
    def bodiless(x, /):
        """Nothing computes it."""

    with pytest.raises(ag.UnsupportedOp, match="bodiless is not supported by the numpy backend"):
        bodiless(leaf(1.0))


def test_rules_are_a_table():
    assert len(ag.rules) == len(OPS)
    assert "multiply" in ag.rules
    assert set(ag.rules) == set(OPS)
    assert "by x1: lambda x2: x2" in str(ag.rules["multiply"])
    assert repr(ag.rules).startswith("<rules of ")
    with pytest.raises(KeyError):
        ag.rules["no such op"]


@pytest.mark.parametrize("name", ["node", "saved", "g", "fit"])
def test_an_argument_cannot_have_a_name_that_derivatives_use(name):
    scope = {}
    exec(f"def stub(x, /, {name}): 'x'", scope)
    with pytest.raises(ag.RuleError, match=f"{name} cannot be the name of an argument"):
        ag.linear(x=lambda g: g, name="mine.taken")(scope["stub"])


def test_a_parameter_may_be_called_as_derivatives_were():
    @ag.elementwise(name="mine.scaled_by", x=lambda by_x: by_x, kernel=lambda xp, x, by_x: x * by_x)
    def scaled(x, /, by_x=2.0):
        """x times a number."""

    x = ag.tensor([3.0], requires_grad=True)
    scaled(x, 4.0).sum().backward()
    assert x.grad.tolist() == [4.0]
    with pytest.raises(ag.RuleError, match="_by_x"):

        @ag.elementwise(name="mine.refused_by", x=lambda x: x, kernel=lambda xp, x, _by_x: x)
        def refused(x, /, _by_x=2.0):
            """Refused."""


def test_a_kernel_that_gives_a_tensor_is_told_with_the_line_of_the_call():
    factor = ag.tensor(2.0, requires_grad=True)

    @ag.elementwise(name="mine.gives_a_tensor", x=lambda x: factor, kernel=lambda xp, x: x * factor)
    def scaled(x, /):
        "factor x"

    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor(?s:.*)Called at .*test_declare\.py:\d+"):
        scaled(ag.ones(2))


def test_where_a_result_lies_is_said_in_four_words():
    for memory in ("new", "", None):
        with pytest.raises(ag.RuleError, match=r"memory= is one of 'fresh', 'view', 'lent', 'may share'; got"):
            ag.elementwise(name="mine.elsewhere", x=1, memory=memory)(lambda x, /: None)
    assert "mine.elsewhere" not in OPS
    assert facts_of("mine.elsewhere").memory == "may share"

    @ag.elementwise(name="mine.here", x=1, memory="fresh", facts=Facts(broadcasts_exactly=True))
    def here(x, /):
        """Declared."""

    assert facts_of("mine.here") == Facts(memory="fresh", broadcasts_exactly=True)

    @ag.elementwise(name="mine.there", x=1, facts=Facts(memory="lent"))
    def there(x, /):
        """Declared."""

    assert facts_of("mine.there").memory == "lent"


def test_a_write_to_what_is_a_view_elsewhere_warns():
    @ag.linear(name="mine.rows", x=lambda g: g, kernel=lambda xp, x: x[...], memory="view")
    def rows(x, /):
        """The rows."""

    x = ag.ones((2, 2))
    y = rows(x)
    with pytest.warns(UserWarning, match="NumPy and PyTorch"):
        y += 1.0
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_decorator_of_hips_autograd_is_another():
    with pytest.raises(TypeError, match=r"name must be a str, not function\n.*agrad.compat.autograd.primitive"):
        ag.primitive(lambda x: x)


def test_kernels_without_an_op_are_declared_once():
    assert facts_of("zeros").creates == "here"
    assert facts_of("ones_like").fills == 1
    for name in ("zeros", "add"):
        with pytest.raises(ag.RuleError, match=f"{name} is declared already"):
            primitive(name)
    with pytest.raises(ag.RuleError, match="creates= is one of"):
        Facts(creates="there")
    with pytest.raises(ag.RuleError, match="needs= are some of 'float64'"):
        Facts(needs=("blas",))


def test_python_has_each_operator_once():
    symbols = [(op.facts.symbol, len(op.array_slots)) for op in OPS.values() if op.facts.symbol]
    assert len(symbols) == len(set(symbols)) == 13 + 6 + 4
