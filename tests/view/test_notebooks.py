"""What notebooks show: HTML of tensors, modules, rules, profiles, memory and backends."""

from __future__ import annotations

from html.parser import HTMLParser

import dask.array as da
import pytest

import agrad as ag
from agrad import nn

VOID = {"br", "line", "meta", "path", "rect", "text"}


class Balanced(HTMLParser):
    """Whether every element is closed, and what is written in them."""

    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def words(thing):
    parser = Balanced()
    parser.feed(thing._repr_html_())
    parser.close()
    assert parser.open == []
    return " ".join(" ".join(parser.words).split())


def test_a_tensor():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    assert words(x) == "shape (2,) dtype float64 device numpy requires_grad True tensor([1., 2.], requires_grad=True)"
    assert "ExpBackward0" in words(ag.exp(x))


def test_a_lazy_tensor_is_not_computed():
    def fails(block):
        raise AssertionError("computed")

    lazy = da.ones((1000, 4), chunks=(100, 4)).map_blocks(fails, meta=da.ones((1, 1)).compute()[:0])
    shown = words(ag.asarray(lazy))
    assert "(1000, 4)" in shown
    assert "(100, 4)" in shown
    assert "<svg" in ag.asarray(lazy)._repr_html_()


def test_a_module():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    shown = words(net)
    assert "Sequential( (0): Linear(in_features=2" in shown
    assert "0.weight (3, 2)" in shown


def test_rules_profile_memory_and_backends():
    assert "by x: lambda" in words(ag.rules["sin"])
    assert "multiply elementwise x1, x2" in words(ag.rules)
    x = ag.ones((1000,), requires_grad=True)
    with ag.profile() as measured:
        loss = ag.sum(ag.exp(x))
    assert "operation calls forward ms" in words(measured)
    assert "exp 1" in words(measured)
    assert "ExpBackward0 ans float64 (1000,) 7.8 KiB" in words(ag.view.memory(loss))
    assert "peak" in words(ag.func.capture(lambda x: ag.sum(ag.exp(x)))(ag.ones(8)).memory())
    assert "numpy" in words(ag.backends())


@pytest.mark.parametrize("shown", [ag.view.graph, ag.view.text, ag.view.dot, ag.view.html])
def test_parameters_have_their_names_in_graphs(shown):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    loss = ag.sum(net(ag.ones((4, 2))))
    text = str(shown(loss, net))
    assert "0.weight" in text
    assert "0.bias" in text
    assert "AccumulateGrad" not in text
    assert "mine" in str(shown(loss, {"mine": net[0].weight}))


def test_a_generator_says_its_seed():
    assert repr(ag.manual_seed(7)) == "<Generator of seed 7, 0 draws made>"
