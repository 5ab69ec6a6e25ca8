"""SciPy's other names of special functions, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.scipy import special

X = np.asarray([0.3, 1.7, 4.0])


@pytest.mark.parametrize("name", ["jn", "yn"])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_bessel_functions_of_integer_order(name, n):
    found = getattr(special, name)(n, X)
    np.testing.assert_allclose(found.numpy(), getattr(scipy.special, name)(n, X), rtol=1e-13)
    x = ag.tensor(X, requires_grad=True)
    assert gradcheck(lambda x: getattr(special, name)(n, x), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: getattr(special, name)(n, x), (x,), check_fwd_over_rev=True)


def test_all_of_agrad_special_is_there():
    assert set(special.__all__) == {*ag.special.__all__, "jn", "yn"}
    assert all(callable(getattr(special, name)) for name in special.__all__)


def test_modules_are_found_by_name():
    import agrad.scipy

    assert agrad.scipy.special is special
    assert "special" in dir(agrad.scipy)
    with pytest.raises(AttributeError, match=r"module 'agrad\.scipy' has no attribute 'cluster'"):
        agrad.scipy.cluster
