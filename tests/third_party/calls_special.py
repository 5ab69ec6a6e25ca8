"""SciPy's special functions: `agrad.special` has its own of the same names, which SciPy calls by itself."""

from __future__ import annotations

import numpy as np
from calls import LONG, A, P, Q, Section, U, V, X, Y, Z
from scipy import special

call = Section("scipy.special", special)

WHOLE = np.asarray([1, 2, 3, 4, 2])

CALLS = [
    *call.each(
        "cbrt cosdg cosm1 digamma erf erfc erfcx exp10 exp2 expi expit exprel gamma gammaln i0 i0e i1 i1e"
        " j0 j1 log_ndtr ndtr psi rgamma sinc sindg tandg cotdg zetac",
        X,
    ),
    *call.each("entr exp1 k0 k0e k1 k1e loggamma spence y0 y1", P),
    *call.each("ellipk ellipkm1 erfinv logit ndtri", U),
    *call.each(
        "betaln binom boxcox boxcox1p chdtr chdtrc gammainc gammaincc huber kl_div poch pseudo_huber"
        " rel_entr xlog1py xlogy inv_boxcox inv_boxcox1p",
        P,
        Q,
    ),
    *call.each("chdtri gammaincinv gammainccinv", P, U),
    *call.each("betainc betaincc betaincinv fdtr fdtrc fdtri gdtr gdtrc", P, Q, U),
    call("hyp1f1", lambda x: special.hyp1f1(0.7, 1.4, x), X),
    call("hyp1f1(a, b)", special.hyp1f1, P, Q, X),
    *call.each("pdtr pdtrc", WHOLE, P),
    call("pdtri", special.pdtri, WHOLE, U),
    call("pdtr(k)", special.pdtr, P + 0.1, Q),
    call("stdtr", special.stdtr, P, X),
    call("stdtrit", special.stdtrit, P, U, tolerance=1e-5),
    call("gammasgn", special.gammasgn, X, constant=True),
    call("expn", lambda x: special.expn(2, x), P),
    call("expn(n=array)", lambda n, x: special.expn(n, x), WHOLE, P),
    call("yn", lambda n, x: special.yn(n, x), WHOLE, P),
    call("lpmv", lambda x: special.lpmv(1, 2, x), U),
    call("radian", special.radian, P, Q, X),
    call("zeta", lambda x: special.zeta(x + 1.5), P),
    call("zeta(q)", lambda q: special.zeta(2.5, q), Q),
    call("polygamma", lambda x: special.polygamma(2, x), P),
    call("multigammaln", lambda x: special.multigammaln(x + 3.0, 3), P),
    *call.each("bdtr bdtrc bdtri", U, by=lambda f: lambda p: f(2.0, 5, p)),
    *call.each("nbdtr nbdtrc nbdtri", WHOLE, WHOLE, U),
    call("logsumexp", special.logsumexp, X),
    call("logsumexp(axis, b)", lambda x, b: special.logsumexp(x, axis=1, b=b), A, np.abs(A)),
    call("logsumexp(return_sign)", lambda x, b: special.logsumexp(x, b=b, return_sign=True), X, Y),
    call("logsumexp(complex)", special.logsumexp, Z),
    call("softmax", lambda x: special.softmax(x, axis=1), A),
    call("log_softmax", lambda x: special.log_softmax(x, axis=1), A),
    call("loggamma(complex)", special.loggamma, Z),
    # the ones that SciPy does not dispatch: its ufuncs ask the operand's class
    *call.each("dawsn erfi expm1 log_expit sici shichi fresnel wofz airy", X),
    *call.each("ellipe erfcinv", U),
    *call.each("log1p lambertw", P),
    *call.each("beta agm elliprc", P, Q),
    call("ellipkinc", special.ellipkinc, X, U),
    call("ellipeinc", special.ellipeinc, X, U),
    *call.each("jv yv iv kv ive kve jve", P, by=lambda f: lambda x: f(1.5, x)),
    call("hyp0f1", special.hyp0f1, P, X),
    call("hyp2f1", lambda z: special.hyp2f1(0.5, 1.5, 2.5, z), U),
    call("hyp2f1(a, b, c)", special.hyp2f1, P, Q, P + 2.0, U),
    call("voigt_profile", lambda x: special.voigt_profile(x, 0.7, 0.4), X),
    call("owens_t", special.owens_t, X, Y),
    call("eval_legendre", lambda x: special.eval_legendre(3, x), X),
    call("eval_chebyt", lambda x: special.eval_chebyt(3, x), X),
    call("eval_hermite", lambda x: special.eval_hermite(3, x), X),
    call("eval_laguerre", lambda x: special.eval_laguerre(3, x), X),
    call("spherical_jn", lambda x: special.spherical_jn(2, x), P),
    call("comb", lambda n: special.comb(n, 2), P + 3.0),
    call("perm", lambda n: special.perm(n, 2), P + 3.0),
    call("factorial", lambda n: special.factorial(n), WHOLE, constant=True),
    call("diric", lambda x: special.diric(x, 5), X),
    call("softmax(all axes)", special.softmax, LONG),
    call("nrdtrimn", special.nrdtrimn, U, P, X),
    call("kolmogorov", special.kolmogorov, V + 0.3),
    call("smirnov", lambda d: special.smirnov(5, d), V),
]
