"""Keywords of PyTorch's, NumPy's and Keras's calls that agrad's functions do not take: the errors themselves say what to write."""

from __future__ import annotations

import copy
import importlib
import inspect
import logging
import pickle
import traceback
from types import FunctionType

import pytest

import agrad as ag
from agrad.core.names import UnexpectedKeyword

POSITION = "takes it by position, without a name"
OUT = "to fill a tensor write out[...] ="

#: Calls, in the other library's words, and what their errors say.
ELEMENTWISE = {
    "ag.sin(input=x)": f"agrad.sin {POSITION}",
    "ag.cos(x=x)": f"agrad.cos {POSITION}",
    "ag.abs(a=x)": f"agrad.abs {POSITION}",
    "ag.add(input=x, other=x)": f"agrad.add {POSITION}",
    "ag.pow(x, other=2)": f"agrad.pow {POSITION}",
    "ag.maximum(x, other=x)": f"agrad.maximum {POSITION}",
    "ag.atan2(y=x, x=x)": f"agrad.atan2 {POSITION}",
    "ag.exp(x, out=y)": f"{OUT} agrad.exp(...)",
    "ag.logaddexp(x, x, out=y)": f"{OUT} agrad.logaddexp(...)",
    "ag.add(x, x, alpha=2)": "multiply the second operand by it",
    "ag.sin(x, where=x > 0)": "choose afterwards: agrad.where(condition, agrad.sin(...), otherwise)",
    "ag.sqrt(x, dtype='float32')": "convert what it returns: agrad.sqrt(...).to(dtype)",
    "ag.multiply(x, x, casting='unsafe')": "convert the operands with x.to(dtype)",
    "ag.tanh(x, order='C')": "leave it out: the array library chooses the layout",
    "ag.log(x, subok=False)": "leave it out: what it returns is a Tensor",
    "ag.clip(x, a_min=0, a_max=1)": "agrad.clip has min= for it",
    "ag.round(x, decimals=2)": "x.round(decimals=2)",
}
REDUCTIONS = {
    "ag.sum(a=x)": f"agrad.sum {POSITION}",
    "ag.mean(input=x, dim=0)": f"agrad.mean {POSITION}",
    "ag.sum(x, dims=0)": "agrad.sum has axis= for it",
    "ag.prod(x, keep_dims=True)": "agrad.prod has keepdims= for it",
    "ag.var(x, ddof=1)": "agrad.var has correction= for it",
    "ag.max(x, out=y)": f"{OUT} agrad.max(...)",
    "ag.searchsorted(x, x, right=True)": "agrad.searchsorted has side= for it",
    "ag.where(x > 0)": "agrad.nonzero(condition) gives the indices where a condition holds",
}
METHODS = {
    "x.sum(dims=0)": "x.sum has axis= for it",
    "x.mean(dimension=0)": "x.mean has dim= for it",
    "x.prod(keep_dims=True)": "x.prod has keepdims= for it",
    "x.sum(out=y)": f"{OUT} x.sum(...)",
    "x.max(out=y)": f"{OUT} x.max(...)",
    "x.argmax(out=y)": f"{OUT} x.argmax(...)",
    "x.all(axes=0)": "x.all has axis= for it",
    "x.any(dims=0)": "x.any has axis= for it",
    "x.std(ddofs=1)": "did you mean x.std's ddof=?",
    "x.var(biased=True)": "did you mean x.var's unbiased=?",
    "x.sort(axis=0)": "x.sort has dim= for it",
    "x.argsort(axes=0)": "x.argsort has axis= for it",
    "x.amax(axis=0)": "x.amax has dim= for it",
    "x.amin(0, keepdims=True)": "x.amin has keepdim= for it",
    "x.median(axis=0)": "x.median has dim= for it",
    "x.norm(axis=0)": "x.norm has dim= for it",
    "x.norm(ord=1)": "x.norm has p= for it",
    "x.count_nonzero(axis=0)": "x.count_nonzero has dim= for it",
    "x.squeeze(axes=0)": "x.squeeze has axis= for it",
    "x.topk(2, axis=0)": "x.topk has dim= for it",
    "x.cumsum(0, out=y)": f"{OUT} x.cumsum(...)",
}
TORCH_FUNCTIONS = {
    "ag.clamp(x, a_min=0)": "agrad.clamp has min= for it",
    "ag.amax(x, axis=0)": "x.amax has dim= for it",
    "ag.logsumexp(x, axis=0)": "agrad.logsumexp has dim= for it",
    "ag.scatter(x, axis=0)": "agrad.scatter has dim= for it",
}
CREATION = {
    "ag.zeros(3, out=y)": f"{OUT} agrad.zeros(...)",
    "ag.zeros((2,), layout=None)": "leave it out: tensors are dense",
    "ag.zeros((2,), order='F')": "leave it out: the array library chooses the layout",
    "ag.ones((2,), pin_memory=True)": "leave it out: arrays need no pinning",
    "ag.ones((2,), like=x)": "name the backend: device=",
    "ag.empty((2,), memory_format=None)": "leave it out",
    "ag.empty(newshape=(2,))": "agrad.empty has shape= for it",
    "ag.full((2,), value=3)": "agrad.full has fill_value= for it",
    "ag.full((2,), 3.0, out=y)": f"{OUT} agrad.full(...)",
}
MODULES = {
    "ag.nn.Linear(2, 1, use_bias=False)": "agrad.nn.Linear has bias= for it",
    "ag.nn.Linear(in_channels=2, out_features=3)": "agrad.nn.Linear has in_features= for it",
    "ag.nn.Linear(in_features=2, units=3)": "agrad.nn.Linear has out_features= for it",
    "ag.nn.Conv2d(1, 1, kernel=3)": "agrad.nn.Conv2d has kernel_size= for it",
    "ag.nn.Conv2d(1, 1, 3, strides=2)": "agrad.nn.Conv2d has stride= for it",
    "ag.nn.Conv1d(1, filters=2, kernel_size=3)": "agrad.nn.Conv1d has out_channels= for it",
    "ag.nn.Dropout(rate=0.5)": "agrad.nn.Dropout has p= for it",
    "ag.nn.Softmax(axis=1)": "agrad.nn.Softmax has dim= for it",
    "ag.nn.LayerNorm(4, epsilon=1e-5)": "agrad.nn.LayerNorm has eps= for it",
    "ag.nn.BatchNorm1d(features=3)": "agrad.nn.BatchNorm1d has num_features= for it",
    "ag.nn.Embedding(input_dim=3, embedding_dim=2)": "agrad.nn.Embedding has num_embeddings= for it",
    "ag.nn.MaxPool2d(pool_size=2)": "agrad.nn.MaxPool2d has kernel_size= for it",
    "ag.nn.MSELoss(size_average=True)": "use reduction='mean' or 'sum'",
    "ag.nn.LSTM(2, units=3)": "agrad.nn.LSTM has hidden_size= for it",
    "ag.nn.MultiheadAttention(4, nhead=2)": "agrad.nn.MultiheadAttention has num_heads= for it",
    "ag.nn.LeakyReLU(slope=0.1)": "agrad.nn.LeakyReLU has negative_slope= for it",
}
OPTIMIZERS = {
    "ag.optim.Adam([w], learning_rate=0.1)": "agrad.optim.Adam has lr= for it",
    "ag.optim.Adam([w], beta1=0.9)": "agrad.optim.Adam has betas= for it",
    "ag.optim.AdamW([w], epsilon=1e-8)": "agrad.optim.AdamW has eps= for it",
    "ag.optim.SGD([w], lr=0.1, decay=0.1)": "agrad.optim.SGD has weight_decay= for it",
    "ag.optim.SGD([w], lr=0.1, momentums=1)": "did you mean agrad.optim.SGD's momentum=?",
    "ag.optim.RMSprop([w], rho=0.9)": "agrad.optim.RMSprop has alpha= for it",
    "ag.optim.lr_scheduler.ExponentialLR(optimizer, decay_rate=0.9)": "ExponentialLR has gamma= for it",
    "ag.optim.lr_scheduler.StepLR(optimizer, step=3)": "StepLR has step_size= for it",
    "ag.optim.lr_scheduler.CosineAnnealingLR(optimizer, T=3)": "CosineAnnealingLR has T_max= for it",
    "ag.utils.data.DataLoader(data_source=[1])": "agrad.utils.data.DataLoader has dataset= for it",
}
FORWARDS = {
    "ag.nn.Linear(3, 1)(x=x)": "Linear.forward() got an unexpected keyword argument 'x'",
    "ag.nn.Linear(3, 1)(inputs=x)": "did you mean agrad.nn.Linear.forward's input=?",
    "ag.nn.MSELoss()(x, targets=x)": "did you mean agrad.nn.MSELoss.forward's target=?",
    "ag.nn.MultiheadAttention(4, 2)(x, x, x, mask=None)": "agrad.nn.MultiheadAttention.forward has attn_mask= for it",
    "ag.nn.LSTM(3, 2)(x, initial_state=None)": "agrad.nn.LSTM.forward has hx= for it",
    "ag.nn.Sequential(ag.nn.Tanh())(x=x)": "agrad.nn.Sequential.forward has input= for it",
}
DISTRIBUTIONS = {
    "ag.distributions.Normal(mean=0.0, scale=1.0)": "agrad.distributions.Normal has loc= for it",
    "ag.distributions.Normal(0.0, stddev=1.0)": "agrad.distributions.Normal has scale= for it",
    "ag.distributions.Bernoulli(p=0.5)": "agrad.distributions.Bernoulli has probs= for it",
    "ag.distributions.Gamma(alpha=1.0, rate=1.0)": "agrad.distributions.Gamma has concentration= for it",
    "ag.distributions.Beta(alpha=1.0, beta=1.0)": "agrad.distributions.Beta has concentration1= for it",
    "ag.distributions.Uniform(a=0.0, high=1.0)": "agrad.distributions.Uniform has low= for it",
    "ag.distributions.MultivariateNormal(x, cov=x)": "MultivariateNormal has covariance_matrix= for it",
}
CALLS = (
    ELEMENTWISE | REDUCTIONS | METHODS | TORCH_FUNCTIONS | CREATION | MODULES | FORWARDS | OPTIMIZERS | DISTRIBUTIONS
)


def refused(call):
    """Return the error of a call."""
    w = ag.ones(3, requires_grad=True)
    known = {"ag": ag, "x": ag.ones(3), "y": ag.ones(3), "w": w, "optimizer": ag.optim.SGD([w], lr=0.1)}
    with pytest.raises(TypeError) as caught:
        eval(call, known)
    return caught.value


@pytest.mark.parametrize("call", CALLS)
def test_the_error_itself_says_what_to_write(call):
    """Whoever catches, prints or sends the error has the hint."""
    assert CALLS[call] in str(refused(call))


def takes_any(function):
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


#: agrad's classes in namespaces that other libraries have too.
CLASSES = sorted(
    {
        kind
        for namespace in (
            "agrad.nn",
            "agrad.optim",
            "agrad.optim.lr_scheduler",
            "agrad.utils.data",
            "agrad.distributions",
        )
        for kind in (
            getattr(importlib.import_module(namespace), name) for name in dir(importlib.import_module(namespace))
        )
        if isinstance(kind, type) and kind.__module__.startswith("agrad")
    },
    key=str,
)
MADE = [kind for kind in CLASSES if isinstance(kind.__init__, FunctionType) and not takes_any(kind.__init__)]
CALLED = [kind for kind in CLASSES if issubclass(kind, ag.nn.Module) and not takes_any(kind.forward)]


@pytest.mark.parametrize("kind", MADE, ids=str)
def test_every_public_class_refuses_a_keyword_itself(kind):
    """So what is known of a keyword stands in the error, whichever class it was written to."""
    with pytest.raises(UnexpectedKeyword, match="unexpected keyword argument 'no_such'"):
        kind(no_such=1)


@pytest.mark.parametrize("kind", CALLED, ids=str)
@pytest.mark.parametrize("hook", [None, "register_forward_hook", "register_full_backward_hook"])
def test_every_module_refuses_a_keyword_of_its_call_itself(kind, hook):
    module = kind.__new__(kind)
    if hook:
        getattr(module, hook)(lambda *_: None)
    with pytest.raises(UnexpectedKeyword, match=rf"{kind.__name__}.forward\(\) got .* 'no_such'"):
        module(no_such=1)


def test_public_classes_are_found():
    assert len(MADE) > 100
    assert len(CALLED) > 80


def test_errors_from_within_a_module_stay_as_they_are():
    """Those of the user's own `forward`, and of what it calls, by any depth of modules."""

    class Net(ag.nn.Module):
        def forward(self, x):
            return float(x, base=2)

    class Mine(ag.nn.Linear):
        def forward(self, x):
            return super().forward(x)

    for call in (lambda: Net()(inputs=ag.ones(3)), lambda: Mine(3, 1)(input=ag.ones(3))):
        with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
            call()
        assert type(caught.value) is TypeError
    within = ag.nn.Sequential(Net())
    with pytest.raises(TypeError, match="float") as caught:
        within(ag.ones(3))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "return float(x, base=2)"


def test_an_error_says_it_once_and_can_be_sent():
    error = refused("ag.nn.Dropout(rate=0.5)")
    said = "Dropout() got an unexpected keyword argument 'rate'; agrad.nn.Dropout has p= for it"
    assert str(error) == said
    assert str(pickle.loads(pickle.dumps(error))) == str(copy.copy(error)) == said
    assert "".join(traceback.format_exception(error)).count("for it") == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("ag.nanmean(x, dim=0)", "agrad.nanmean has axis= for it, and keepdims= for keepdim."),
        ("ag.eye(3, M=2)", "agrad.eye takes it by position, without a name."),
        ("ag.zeros_like(input=x)", "agrad.zeros_like takes it by position, without a name."),
    ],
)
def test_logs_have_the_hint_where_python_alone_refuses_a_call(call, said, caplog):
    logging.getLogger("program").error("a step failed", exc_info=refused(call))
    assert f"\n{said}\n" in f"{caplog.text}\n"


def linspace(start):
    return start


def where(condition, x1):
    return x1


class Net:
    def topk(self, k):
        return k


@pytest.mark.parametrize("call", [lambda: linspace(0, steps=3), lambda: where(True), lambda: Net().topk(2, axis=0)])
def test_functions_of_others_with_the_same_name_are_left_alone(call):
    """Every traceback that a program writes passes here, of its own functions and classes too."""
    with pytest.raises(TypeError) as caught:
        call()
    traceback.format_exception(caught.value)
    assert not hasattr(caught.value, "__notes__")


def test_any_error_is_written_out_by_pythons_own_arguments():
    class Unreadable(TypeError):
        def __str__(self):
            raise RuntimeError

    with pytest.raises(Unreadable) as caught:
        raise Unreadable
    error = caught.value
    found = traceback.TracebackException(exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__)
    assert "<exception str() failed>" in "".join(found.format())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("ag.sin()", "sin() missing 1 required positional argument: 'x'"),
        ("ag.add(x)", "add() missing 1 required positional argument: 'x2'"),
        ("ag.matmul(x)", "matmul() missing 1 required positional argument: 'x2'"),
        ("ag.sum(axis=0)", "sum() missing 1 required positional argument: 'x'"),
        ("ag.take(x)", "take() missing 1 required positional argument: 'indices'"),
    ],
)
def test_a_missing_operand_is_named(call, said):
    error = refused(call)
    assert str(error).startswith(said)
    assert not isinstance(error, UnexpectedKeyword)


def test_a_missing_operand_is_named_inside_transforms():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x2'"):
        ag.func.jvp(lambda x: ag.add(x), (ag.ones(3),), (ag.ones(3),))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x2'"):
        ag.vmap(lambda x: ag.add(x))(ag.ones(3))


def test_errors_from_within_a_constructor_stay_as_they_are():
    class Net(ag.nn.Linear):
        def __init__(self, **settings):
            super().__init__(2, 1, **settings)
            self.scale = ag.nn.Parameter(ag.ones(1))

    assert Net(bias=False).bias is None
    with pytest.raises(TypeError, match=r"Linear\(\) .* 'use_bias'; agrad.nn.Linear has bias= for it"):
        Net(use_bias=False)
    with pytest.raises(TypeError, match="optimizer can only optimize Tensors"):
        ag.optim.SGD([1.0], lr=0.1)
    with pytest.raises(TypeError, match=r"Linear.__init__\(\) missing 1 required positional argument: 'out_features'"):
        ag.nn.Linear(2)


def test_constructors_are_found_in_the_order_of_pythons():
    """A class that has no constructor of its own gets none: the one of another base may come first."""

    class Marked(ag.nn.Dropout):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            self.marked = True

    class Both(ag.nn.Dropout2d, Marked):
        pass

    assert "__init__" not in vars(ag.nn.Dropout2d)
    assert Both(0.25).marked
    with pytest.raises(TypeError, match=r"Dropout2d\(\) .* 'rate'; agrad.nn.Dropout2d has p= for it"):
        ag.nn.Dropout2d(rate=0.5)


def test_an_own_op_may_have_an_argument_of_any_name():
    """Its generated function uses such names itself."""

    @ag.elementwise(
        name="tests.named", x=lambda unknown: unknown, kernel=lambda xp, x, unknown: xp.multiply(x, unknown)
    )
    def named(x, /, *, unknown=2.0): ...

    assert named(ag.ones(2), unknown=3.0).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        named(ag.ones(2), out=None)
