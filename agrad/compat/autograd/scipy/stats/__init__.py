"""``autograd.scipy.stats``: a module per distribution of `agrad.scipy.stats`."""

from agrad.compat.autograd.scipy.stats import beta, chi2, dirichlet, gamma, multivariate_normal, norm, poisson, t

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]
