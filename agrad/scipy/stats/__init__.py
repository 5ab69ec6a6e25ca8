"""Distributions under SciPy's names, with SciPy's arguments: densities, distribution functions and their inverses.

They are written in agrad's functions: they broadcast on every backend, and have derivatives of all orders, also in
forward mode, with respect to the variable (except counts) and every parameter.

Examples
--------
>>> import agrad as ag
>>> from agrad.scipy.stats import norm
>>> mean = ag.tensor(1.0, requires_grad=True)
>>> norm.logpdf(ag.asarray([0.0, 3.0]), mean, 2.0).sum().backward()
>>> mean.grad
tensor(0.2500)
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.ops.docs import referring as _referring
from agrad.scipy.stats.continuous import (
    beta,
    cauchy,
    chi2,
    expon,
    f,
    gamma,
    gumbel_r,
    halfnorm,
    invgamma,
    laplace,
    logistic,
    lognorm,
    norm,
    pareto,
    t,
    uniform,
    weibull_min,
)
from agrad.scipy.stats.discrete import bernoulli, binom, geom, nbinom, poisson
from agrad.scipy.stats.multivariate import dirichlet, multivariate_normal

__all__ = [
    "bernoulli",
    "beta",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "f",
    "gamma",
    "geom",
    "gumbel_r",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "uniform",
    "weibull_min",
]

for _name in __all__:  # HIPS autograd has a module for each: ``import agrad.scipy.stats.norm as norm``
    _sys.modules[f"{__name__}.{_name}"] = globals()[_name]
    _referring(globals()[_name], type(globals()[_name]).__doc__ or "", f"scipy.stats.{_name}")

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
