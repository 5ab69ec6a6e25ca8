"""What `where` drops stays out of the gradient across the border of a compiled function, in the first and second order."""

import numpy as np
import pytest

import agrad as ag

X = np.array([-1.0, 0.0, 4.0, 9.0])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def root(x):
    return ag.sqrt(x)


def both(x):
    return ag.sqrt(x), x * 2.0


def chosen(taken, x, other):
    return ag.where(taken, x, other)


def first_and_second(y, x):
    (first,) = ag.grad(ag.sum(y), x, create_graph=True)
    (second,) = ag.grad(ag.sum(first), x)
    return first.detach().numpy(), second.numpy()


@pytest.mark.parametrize("name", ["root", "chosen", "root and chosen"])
def test_where_outside_and_inside(name):
    inner = ag.compile(root) if "root" in name else root
    outer = ag.compile(chosen) if "chosen" in name else chosen
    for _ in range(4):
        x = ag.tensor(X, requires_grad=True)
        first, second = first_and_second(outer(x > 0, inner(x), 0.0), x)
        np.testing.assert_allclose(first, [0.0, 0.0, 0.25, 1 / 6], rtol=1e-12)
        np.testing.assert_allclose(second, [0.0, 0.0, -0.25 * 4**-1.5, -0.25 * 9**-1.5], rtol=1e-12)
        x = ag.tensor(X, requires_grad=True)
        ag.sum(outer(x > 0, inner(x), 0.0)).backward()
        np.testing.assert_allclose(x.grad.numpy(), [0.0, 0.0, 0.25, 1 / 6], rtol=1e-12)


def test_what_is_not_dropped_keeps_its_nan():
    """0 times an infinite derivative is NaN where no `where` stands between, as without compiling."""
    compiled = ag.compile(both)
    for _ in range(4):
        x = ag.tensor([0.0, 4.0], requires_grad=True)
        y, z = compiled(x)
        (y * 0.0 + z).sum().backward()
        e = ag.tensor([0.0, 4.0], requires_grad=True)
        y, z = both(e)
        (y * 0.0 + z).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), e.grad.numpy())
        assert np.isnan(e.grad.numpy()[0])


def test_only_the_target_that_is_dropped_is_masked():
    """Of two arguments the one that `where` chooses from is masked, the other one is not."""

    def mixed(taken, a, b):
        return ag.where(taken, a, 0.0).sum() + (b * 0.0).sum()

    compiled = ag.compile(mixed)
    for _ in range(4):
        grads = []
        for function in (mixed, compiled):
            x = ag.tensor([0.0, 4.0], requires_grad=True)
            u = ag.tensor([0.0, 4.0], requires_grad=True)
            function(x > 0, ag.sqrt(x), ag.sqrt(u)).backward()
            grads.append((x.grad.numpy(), u.grad.numpy()))
        np.testing.assert_array_equal(*[g[0] for g in grads])
        np.testing.assert_array_equal(*[g[1] for g in grads])
        assert np.isnan(grads[0][1][0])
        assert grads[0][0][0] == 0
