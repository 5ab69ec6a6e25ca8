"""Distribution functions under the names of Cephes: their derivatives with respect to the argument and continuous parameters.

Counts have no derivative. A function ``xtri`` is the inverse of ``xtr`` in one operand; its derivatives follow from
the implicit function theorem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.declare import elementwise
from agrad.ops.special.incomplete import in_double
from agrad.ops.special.series import refused

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = [
    "bdtr", "bdtrc", "bdtri", "btdtria", "btdtrib", "chdtr", "chdtrc", "chdtri", "chdtriv", "fdtr", "fdtrc", "fdtri",
    "gdtr", "gdtrc", "gdtria", "gdtrib", "gdtrix", "nbdtr", "nbdtrc", "nbdtri", "pdtr", "pdtrc", "pdtri", "stdtr",
    "stdtrit",
]  # fmt: skip

# -- Student's t ------------------------------------------------------------------------------------------------------


def _t_density(xp: Any, df: Any, x: Any) -> Any:
    tail = -(df + 1) / 2 * xp.log1p(x * x / df) - xp.special.betaln(df / 2, xp.zeros_like(df) + 0.5)
    return xp.exp(tail) / xp.sqrt(df)


def _t_score(xp: Any, df: Any, x: Any) -> Any:
    """The derivative of the logarithm of the density by the degrees of freedom."""
    square = x * x
    gap = xp.special.psi(df / 2) - xp.special.psi((df + 1) / 2)
    return (-xp.log1p(square / df) + (df + 1) / df * (square / (df + square)) - gap - 1 / df) / 2


@in_double
def _t_by_df(xp: Any, df: Any, x: Any, order: int = 1) -> Any:
    """By the incomplete beta function of df / (df + x**2) or its complement, whichever is smaller."""
    square = x * x
    near = square < df
    half = xp.zeros_like(df + square) + 0.5
    p = xp.where(near, half, df / (df + square))
    q = xp.where(near, square / (df + square), half)
    a = df / 2 + 0 * half
    low, high = xp.special.betainc_by(half, a, q, 0, order), xp.special.betainc_by(a, half, p, order, 0)
    part = xp.where(near, -low, high)
    edge = xp.abs(x) * _t_density(xp, df, x) / df
    if order == 1:
        return -xp.sign(x) / 2 * (part / 2 + edge)
    score = -xp.log1p(square / df) - xp.special.psi(df / 2) + xp.special.psi((df + 1) / 2)
    return -xp.sign(x) / 2 * (part / 4 + edge * (score / 2 + _t_score(xp, df, x) - 1 / df))


def _t_higher(xp: Any, df: Any, x: Any, order: int, *, by_df: bool) -> Any:
    if order > 1:
        raise NotImplementedError("special.stdtr: the third derivative by 'df' is not implemented")
    return xp.special.stdtr_by_df(df, x, 2) if by_df else _t_density(xp, df, x) * _t_score(xp, df, x)


@elementwise(
    name="special.stdtr_by_df",
    df=lambda xp, df, x, order: _t_higher(xp, df, x, order, by_df=True),
    x=lambda xp, df, x, order: _t_higher(xp, df, x, order, by_df=False),
    kernel=_t_by_df,
    memory="fresh",
)
def stdtr_by_df(df: Any, x: Any, order: int = 1, /) -> Tensor:
    """The derivative of `stdtr` by the degrees of freedom, of order 1 or 2."""


@elementwise(
    name="special.stdtr",
    df=lambda xp, df, x: xp.special.stdtr_by_df(df, x),
    x=lambda xp, df, x: _t_density(xp, df, x),
    memory="fresh",
)
def stdtr(df: Any, x: Any, /) -> Tensor:
    """Distribution function of Student's t.

    df: Degrees of freedom, positive.
    Returns: The probability of at most `x`.
    The derivative by `x` is the density; the one by `df` that of the incomplete beta function. It falls off as
    ``df**-2`` and has a relative error of about ``3e-16 * df**2``.

    >>> ag.special.stdtr(ag.asarray([1.0, 10.0]), 1.0)
    tensor([0.7500, 0.8296])
    """


@elementwise(
    name="special.stdtrit",
    df=lambda xp, ans, df: -xp.special.stdtr_by_df(df, ans) / _t_density(xp, df, ans),
    p=lambda xp, ans, df: 1 / _t_density(xp, df, ans),
    memory="fresh",
)
def stdtrit(df: Any, p: Any, /) -> Tensor:
    """Inverse of `stdtr` in `x`.

    df: Degrees of freedom, positive.
    Returns: The quantiles of Student's t.
    Derivatives as for `stdtr`.

    >>> ag.special.stdtrit(ag.asarray([1.0, 10.0]), 0.75)
    tensor([1.0000, 0.6998])
    """


# -- chi-squared and gamma --------------------------------------------------------------------------------------------


def _chi_density(xp: Any, v: Any, x: Any) -> Any:
    return xp.special.gamma_density(v / 2, x / 2) / 2


def _chi_by_v(xp: Any, v: Any, x: Any) -> Any:
    return xp.special.gammainc_by_a(v / 2, x / 2) / 2


@elementwise(name="special.chdtr", v=_chi_by_v, x=_chi_density, memory="fresh")
def chdtr(v: Any, x: Any, /) -> Tensor:
    """Distribution function of the chi-squared distribution.

    v: Degrees of freedom, positive.
    x: Not negative.
    Returns: The probability of at most `x`, ``gammainc(v / 2, x / 2)``.
    Derivatives as for `gammainc`.

    >>> ag.special.chdtr(ag.asarray([1.0, 2.0]), 1.0)
    tensor([0.6827, 0.3935])
    """


@elementwise(
    name="special.chdtrc",
    v=lambda xp, v, x: -_chi_by_v(xp, v, x),
    x=lambda xp, v, x: -_chi_density(xp, v, x),
    memory="fresh",
)
def chdtrc(v: Any, x: Any, /) -> Tensor:
    """Survival function of the chi-squared distribution.

    v: Degrees of freedom, positive.
    x: Not negative.
    Returns: The probability of more than `x`, ``gammaincc(v / 2, x / 2)``.
    Derivatives as for `gammainc`.

    >>> ag.special.chdtrc(ag.asarray([1.0, 2.0]), 1.0)
    tensor([0.3173, 0.6065])
    """


@elementwise(
    name="special.chdtri",
    v=lambda xp, ans, v: -_chi_by_v(xp, v, ans) / _chi_density(xp, v, ans),
    p=lambda xp, ans, v: -1 / _chi_density(xp, v, ans),
    memory="fresh",
)
def chdtri(v: Any, p: Any, /) -> Tensor:
    """Inverse of `chdtrc` in `x`.

    v: Degrees of freedom, positive.
    Returns: The `x` with ``chdtrc(v, x) = p``.
    Derivatives as for `gammainc`.

    >>> ag.special.chdtri(ag.asarray([1.0, 2.0]), 0.5)
    tensor([0.4549, 1.3863])
    """


@elementwise(
    name="special.chdtriv",
    p=lambda xp, ans, x: 1 / _chi_by_v(xp, ans, x),
    x=lambda xp, ans, x: -_chi_density(xp, ans, x) / _chi_by_v(xp, ans, x),
    memory="fresh",
)
def chdtriv(p: Any, x: Any, /) -> Tensor:
    """Inverse of `chdtr` in `v`.

    x: Positive.
    Returns: The `v` with ``chdtr(v, x) = p``.
    Derivatives as for `gammainc`.

    >>> ag.special.chdtriv(ag.asarray([0.25, 0.5]), 1.0)
    tensor([2.6825, 1.5971])
    """


@elementwise(
    name="special.gdtr",
    a=lambda xp, a, b, x: x * xp.special.gamma_density(b, a * x),
    b=lambda xp, a, b, x: xp.special.gammainc_by_a(b, a * x),
    x=lambda xp, a, b, x: a * xp.special.gamma_density(b, a * x),
    memory="fresh",
)
def gdtr(a: Any, b: Any, x: Any, /) -> Tensor:
    """Distribution function of the gamma distribution.

    a: The rate, positive.
    b: The shape, positive.
    x: Not negative.
    Returns: The probability of at most `x`, ``gammainc(b, a * x)``.
    Derivatives as for `gammainc`.

    >>> ag.special.gdtr(ag.asarray([1.0, 2.0]), 2.0, 1.0)
    tensor([0.2642, 0.5940])
    """


@elementwise(
    name="special.gdtrc",
    a=lambda xp, a, b, x: -x * xp.special.gamma_density(b, a * x),
    b=lambda xp, a, b, x: -xp.special.gammainc_by_a(b, a * x),
    x=lambda xp, a, b, x: -a * xp.special.gamma_density(b, a * x),
    memory="fresh",
)
def gdtrc(a: Any, b: Any, x: Any, /) -> Tensor:
    """Survival function of the gamma distribution.

    a: The rate, positive.
    b: The shape, positive.
    x: Not negative.
    Returns: The probability of more than `x`, ``gammaincc(b, a * x)``.
    Derivatives as for `gammainc`.

    >>> ag.special.gdtrc(ag.asarray([1.0, 2.0]), 2.0, 1.0)
    tensor([0.7358, 0.4060])
    """


@elementwise(
    name="special.gdtria",
    p=lambda xp, ans, b, x: 1 / (x * xp.special.gamma_density(b, ans * x)),
    b=lambda xp, ans, b, x: -xp.special.gammainc_by_a(b, ans * x) / (x * xp.special.gamma_density(b, ans * x)),
    x=lambda ans, x: -ans / x,
    memory="fresh",
)
def gdtria(p: Any, b: Any, x: Any, /) -> Tensor:
    """Inverse of `gdtr` in the rate.

    b: The shape, positive.
    x: Positive.
    Returns: The `a` with ``gdtr(a, b, x) = p``.
    Derivatives as for `gammainc`.

    >>> ag.special.gdtria(ag.asarray([0.25, 0.5]), 2.0, 1.0)
    tensor([0.9613, 1.6783])
    """


@elementwise(
    name="special.gdtrib",
    a=lambda xp, ans, a, x: -x * xp.special.gamma_density(ans, a * x) / xp.special.gammainc_by_a(ans, a * x),
    p=lambda xp, ans, a, x: 1 / xp.special.gammainc_by_a(ans, a * x),
    x=lambda xp, ans, a, x: -a * xp.special.gamma_density(ans, a * x) / xp.special.gammainc_by_a(ans, a * x),
    memory="fresh",
)
def gdtrib(a: Any, p: Any, x: Any, /) -> Tensor:
    """Inverse of `gdtr` in the shape.

    a: The rate, positive.
    x: Positive.
    Returns: The `b` with ``gdtr(a, b, x) = p``.
    Derivatives as for `gammainc`.

    >>> ag.special.gdtrib(ag.asarray([1.0, 2.0]), 0.5, 1.0)
    tensor([1.3143, 2.3235])
    """


@elementwise(
    name="special.gdtrix",
    a=lambda ans, a: -ans / a,
    b=lambda xp, ans, a, b: -xp.special.gammainc_by_a(b, a * ans) / (a * xp.special.gamma_density(b, a * ans)),
    p=lambda xp, ans, a, b: 1 / (a * xp.special.gamma_density(b, a * ans)),
    memory="fresh",
)
def gdtrix(a: Any, b: Any, p: Any, /) -> Tensor:
    """Inverse of `gdtr` in `x`.

    a: The rate, positive.
    b: The shape, positive.
    Returns: The `x` with ``gdtr(a, b, x) = p``.
    Derivatives as for `gammainc`.

    >>> ag.special.gdtrix(ag.asarray([1.0, 2.0]), 2.0, 0.5)
    tensor([1.6783, 0.8392])
    """


# -- beta and F -------------------------------------------------------------------------------------------------------


@elementwise(
    name="special.btdtria",
    p=lambda xp, ans, b, x: 1 / xp.special.betainc_by(ans, b, x, 1, 0),
    b=lambda xp, ans, b, x: -xp.special.betainc_by(ans, b, x, 0, 1) / xp.special.betainc_by(ans, b, x, 1, 0),
    x=lambda xp, ans, b, x: -xp.special.beta_density(ans, b, x) / xp.special.betainc_by(ans, b, x, 1, 0),
    memory="fresh",
)
def btdtria(p: Any, b: Any, x: Any, /) -> Tensor:
    """Inverse of `betainc` in its first operand.

    b: Positive.
    x: From 0 to 1.
    Returns: The `a` with ``betainc(a, b, x) = p``.
    Derivatives as for `betainc`.

    >>> ag.special.btdtria(ag.asarray([0.25, 0.5]), 2.0, 0.5)
    tensor([3.4449, 2.0000])
    """


@elementwise(
    name="special.btdtrib",
    a=lambda xp, ans, a, x: -xp.special.betainc_by(a, ans, x, 1, 0) / xp.special.betainc_by(a, ans, x, 0, 1),
    p=lambda xp, ans, a, x: 1 / xp.special.betainc_by(a, ans, x, 0, 1),
    x=lambda xp, ans, a, x: -xp.special.beta_density(a, ans, x) / xp.special.betainc_by(a, ans, x, 0, 1),
    memory="fresh",
)
def btdtrib(a: Any, p: Any, x: Any, /) -> Tensor:
    """Inverse of `betainc` in its second operand.

    a: Positive.
    x: From 0 to 1.
    Returns: The `b` with ``betainc(a, b, x) = p``.
    Derivatives as for `betainc`.

    >>> ag.special.btdtrib(ag.asarray([1.0, 2.0]), 0.5, 0.5)
    tensor([1.0000, 2.0000])
    """


def _f_parts(xp: Any, dfn: Any, dfd: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Half the degrees of freedom, the argument of the incomplete beta function, and its density there."""
    total = dfd + dfn * x
    a, b = dfn / 2 + xp.zeros_like(total), dfd / 2 + xp.zeros_like(total)
    z, w = dfn * x / total, dfd / total
    low = z < w
    # of the two, 1 - z and z, the smaller one is accurate to the last digit
    density = xp.special.beta_density(xp.where(low, a, b), xp.where(low, b, a), xp.where(low, z, w))
    return a, b, z, density


def _f_density(xp: Any, dfn: Any, dfd: Any, x: Any) -> Any:
    *_, density = _f_parts(xp, dfn, dfd, x)
    return density * dfn * dfd / xp.square(dfd + dfn * x)


def _f_by_dfn(xp: Any, dfn: Any, dfd: Any, x: Any) -> Any:
    a, b, z, density = _f_parts(xp, dfn, dfd, x)
    return xp.special.betainc_by(a, b, z, 1, 0) / 2 + density * dfd * x / xp.square(dfd + dfn * x)


def _f_by_dfd(xp: Any, dfn: Any, dfd: Any, x: Any) -> Any:
    a, b, z, density = _f_parts(xp, dfn, dfd, x)
    return xp.special.betainc_by(a, b, z, 0, 1) / 2 - density * dfn * x / xp.square(dfd + dfn * x)


@elementwise(name="special.fdtr", dfn=_f_by_dfn, dfd=_f_by_dfd, x=_f_density, memory="fresh")
def fdtr(dfn: Any, dfd: Any, x: Any, /) -> Tensor:
    """Distribution function of the F distribution.

    dfn, dfd: Degrees of freedom of numerator and denominator, positive.
    x: Not negative.
    Returns: The probability of at most `x`.
    Derivatives as for `betainc`.

    >>> ag.special.fdtr(ag.asarray([1.0, 2.0]), 3.0, 1.0)
    tensor([0.6090, 0.5352])
    """


@elementwise(
    name="special.fdtrc",
    dfn=lambda xp, dfn, dfd, x: -_f_by_dfn(xp, dfn, dfd, x),
    dfd=lambda xp, dfn, dfd, x: -_f_by_dfd(xp, dfn, dfd, x),
    x=lambda xp, dfn, dfd, x: -_f_density(xp, dfn, dfd, x),
    memory="fresh",
)
def fdtrc(dfn: Any, dfd: Any, x: Any, /) -> Tensor:
    """Survival function of the F distribution.

    dfn, dfd: Degrees of freedom of numerator and denominator, positive.
    x: Not negative.
    Returns: The probability of more than `x`.
    Derivatives as for `betainc`.

    >>> ag.special.fdtrc(ag.asarray([1.0, 2.0]), 3.0, 1.0)
    tensor([0.3910, 0.4648])
    """


@elementwise(
    name="special.fdtri",
    dfn=lambda xp, ans, dfn, dfd: -_f_by_dfn(xp, dfn, dfd, ans) / _f_density(xp, dfn, dfd, ans),
    dfd=lambda xp, ans, dfn, dfd: -_f_by_dfd(xp, dfn, dfd, ans) / _f_density(xp, dfn, dfd, ans),
    p=lambda xp, ans, dfn, dfd: 1 / _f_density(xp, dfn, dfd, ans),
    memory="fresh",
)
def fdtri(dfn: Any, dfd: Any, p: Any, /) -> Tensor:
    """Inverse of `fdtr` in `x`.

    dfn, dfd: Degrees of freedom of numerator and denominator, positive.
    Returns: The `x` with ``fdtr(dfn, dfd, x) = p``.
    Derivatives as for `betainc`.

    >>> ag.special.fdtri(ag.asarray([1.0, 2.0]), 3.0, 0.5)
    tensor([0.5851, 0.8811])
    """


# -- of counts --------------------------------------------------------------------------------------------------------


def _bernoulli_density(xp: Any, k: Any, n: Any, p: Any) -> Any:
    """The density of the beta distribution for up to k successes among n."""
    k = xp.floor(k)
    all_counts = (k >= n) & ~xp.isnan(p)  # the sum is 1
    density = xp.special.beta_density(k + 1, xp.where(k >= n, n * 0 + 1, n - k), p)
    return xp.where(all_counts, xp.zeros_like(density), density)


@elementwise(
    name="special.bdtr",
    k=refused("bdtr", "k"),
    n=refused("bdtr", "n"),
    p=lambda xp, k, n, p: -_bernoulli_density(xp, k, n, p),
    memory="fresh",
)
def bdtr(k: Any, n: Any, p: Any, /) -> Tensor:
    """Distribution function of the binomial distribution.

    k: Successes, rounded down.
    n: Trials.
    p: The probability of one success.
    Returns: The probability of at most `k`.
    NotImplementedError: If a derivative by a count is asked for.
    The derivative by `p` is that of ``betainc(n - k, k + 1, 1 - p)``.

    >>> ag.special.bdtr(1.0, 3.0, ag.asarray([0.25, 0.5]))
    tensor([0.8438, 0.5000])
    """


@elementwise(
    name="special.bdtrc", k=refused("bdtrc", "k"), n=refused("bdtrc", "n"), p=_bernoulli_density, memory="fresh"
)
def bdtrc(k: Any, n: Any, p: Any, /) -> Tensor:
    """Survival function of the binomial distribution.

    k: Successes, rounded down.
    n: Trials.
    p: The probability of one success.
    Returns: The probability of more than `k`.
    NotImplementedError: If a derivative by a count is asked for.
    The derivative by `p` is that of ``betainc(k + 1, n - k, p)``.

    >>> ag.special.bdtrc(1.0, 3.0, ag.asarray([0.25, 0.5]))
    tensor([0.1562, 0.5000])
    """


@elementwise(
    name="special.bdtri",
    k=refused("bdtri", "k"),
    n=refused("bdtri", "n"),
    y=lambda xp, ans, k, n: -1 / _bernoulli_density(xp, k, n, ans),
    memory="fresh",
)
def bdtri(k: Any, n: Any, y: Any, /) -> Tensor:
    """Inverse of `bdtr` in `p`.

    k: Successes.
    n: Trials.
    y: The probability.
    Returns: The `p` with ``bdtr(k, n, p) = y``.
    NotImplementedError: If a derivative by a count is asked for.
    Derivative by the implicit function theorem.

    >>> ag.special.bdtri(1.0, 3.0, ag.asarray([0.25, 0.5]))
    tensor([0.6736, 0.5000])
    """


def _waiting_density(xp: Any, k: Any, n: Any, p: Any) -> Any:
    """The density of the beta distribution for up to k failures before the n-th success."""
    return xp.special.beta_density(n, k + 1, p)


@elementwise(name="special.nbdtr", k=refused("nbdtr", "k"), n=refused("nbdtr", "n"), p=_waiting_density, memory="fresh")
def nbdtr(k: Any, n: Any, p: Any, /) -> Tensor:
    """Distribution function of the negative binomial distribution.

    k: Failures.
    n: Successes to wait for.
    p: The probability of one success.
    Returns: The probability of at most `k`.
    NotImplementedError: If a derivative by a count is asked for.
    The derivative by `p` is that of ``betainc(n, k + 1, p)``.

    >>> ag.special.nbdtr(1.0, 3.0, ag.asarray([0.25, 0.5]))
    tensor([0.0508, 0.3125])
    """


@elementwise(
    name="special.nbdtrc",
    k=refused("nbdtrc", "k"),
    n=refused("nbdtrc", "n"),
    p=lambda xp, k, n, p: -_waiting_density(xp, k, n, p),
    memory="fresh",
)
def nbdtrc(k: Any, n: Any, p: Any, /) -> Tensor:
    """Survival function of the negative binomial distribution.

    k: Failures.
    n: Successes to wait for.
    p: The probability of one success.
    Returns: The probability of more than `k`.
    NotImplementedError: If a derivative by a count is asked for.
    The derivative by `p` is that of ``betaincc(n, k + 1, p)``.

    >>> ag.special.nbdtrc(1.0, 3.0, ag.asarray([0.25, 0.5]))
    tensor([0.9492, 0.6875])
    """


@elementwise(
    name="special.nbdtri",
    k=refused("nbdtri", "k"),
    n=refused("nbdtri", "n"),
    y=lambda xp, ans, k, n: 1 / _waiting_density(xp, k, n, ans),
    memory="fresh",
)
def nbdtri(k: Any, n: Any, y: Any, /) -> Tensor:
    """Inverse of `nbdtr` in `p`.

    k: Failures.
    n: Successes to wait for.
    y: The probability.
    Returns: The `p` with ``nbdtr(k, n, p) = y``.
    NotImplementedError: If a derivative by a count is asked for.
    Derivative by the implicit function theorem.

    >>> ag.special.nbdtri(1.0, 3.0, ag.asarray([0.25, 0.5]))
    tensor([0.4563, 0.6143])
    """


@elementwise(
    name="special.pdtr",
    k=refused("pdtr", "k"),
    m=lambda xp, k, m: -xp.special.gamma_density(xp.floor(k) + 1, m),
    memory="fresh",
)
def pdtr(k: Any, m: Any, /) -> Tensor:
    """Distribution function of the Poisson distribution.

    k: The count, rounded down.
    m: The mean, not negative.
    Returns: The probability of at most `k`.
    NotImplementedError: If a derivative by the count is asked for.
    The derivative by `m` is that of ``gammaincc(k + 1, m)``.

    >>> ag.special.pdtr(1.0, ag.asarray([1.0, 2.0]))
    tensor([0.7358, 0.4060])
    """


@elementwise(
    name="special.pdtrc",
    k=refused("pdtrc", "k"),
    m=lambda xp, k, m: xp.special.gamma_density(xp.floor(k) + 1, m),
    memory="fresh",
)
def pdtrc(k: Any, m: Any, /) -> Tensor:
    """Survival function of the Poisson distribution.

    k: The count, rounded down.
    m: The mean, not negative.
    Returns: The probability of more than `k`.
    NotImplementedError: If a derivative by the count is asked for.
    The derivative by `m` is that of ``gammainc(k + 1, m)``.

    >>> ag.special.pdtrc(1.0, ag.asarray([1.0, 2.0]))
    tensor([0.2642, 0.5940])
    """


@elementwise(
    name="special.pdtri",
    k=refused("pdtri", "k"),
    y=lambda xp, ans, k: -1 / xp.special.gamma_density(k + 1, ans),
    memory="fresh",
)
def pdtri(k: Any, y: Any, /) -> Tensor:
    """Inverse of `pdtr` in `m`.

    k: The count.
    y: The probability.
    Returns: The `m` with ``pdtr(k, m) = y``.
    NotImplementedError: If a derivative by the count is asked for.
    Derivative by the implicit function theorem.

    >>> ag.special.pdtri(1.0, ag.asarray([0.25, 0.5]))
    tensor([2.6926, 1.6783])
    """
