"""The rest of SciPy: integrals, derivatives, roots, interpolation, clusters, distances, rotations, linear algebra."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace
from calls import LONG, MORE_POINTS, POINTS, POSITIVE_DEFINITE, SQUARE, A, B, P, Q, Section, U, X, Y, sample
from scipy import cluster, constants, differentiate, integrate, interpolate, linalg, optimize, signal, spatial, stats
from scipy.optimize import elementwise

ONE = np.asarray(0.7)
GRID = np.asarray([0.0, 0.4, 1.1, 1.5, 2.3])


def exp(x):
    return array_namespace(x).exp(x)


def total(x):
    return array_namespace(x).sum(x, axis=0)


def sines(x):
    xp = array_namespace(x)
    return xp.stack([xp.sin(x[0, ...] * x[1, ...]), total(x * x)])


def cubic(x):
    return total(x**3) + x[0, ...] * x[1, ...] * x[2, ...]


call = Section("scipy.integrate")
INTEGRATE = [
    call("trapezoid", integrate.trapezoid, LONG),
    call("trapezoid(x)", lambda y, x: integrate.trapezoid(y, x), X, GRID),
    call("trapezoid(dx, axis)", lambda y: integrate.trapezoid(y, dx=0.3, axis=0), A),
    call("cumulative_trapezoid", integrate.cumulative_trapezoid, LONG),
    call("cumulative_trapezoid(x, initial)", lambda y, x: integrate.cumulative_trapezoid(y, x, initial=0), X, GRID),
    call("simpson", integrate.simpson, LONG),
    call("simpson(x)", lambda y, x: integrate.simpson(y, x), X, GRID),
    call("cumulative_simpson", integrate.cumulative_simpson, LONG),
    call("cumulative_simpson(x, initial)", lambda y, x: integrate.cumulative_simpson(y, x=x, initial=0.0), X, GRID),
    call("romb", integrate.romb, X),
    call("romb(dx)", lambda y: integrate.romb(y, dx=0.5), X),
    call("tanhsinh", lambda a, b: integrate.tanhsinh(lambda x: exp(-x * x), a, b).integral, X, X + P),
    call(
        "tanhsinh(args)",
        lambda c: integrate.tanhsinh(lambda x, c: exp(-c * x), 0.0 * c, 1.0 + 0.0 * c, args=(c,)).integral,
        P,
    ),
    call(
        "tanhsinh(log)",
        lambda c: integrate.tanhsinh(lambda x, c: -c * x, 0.0 * c, 1.0 + 0.0 * c, args=(c,), log=True).integral,
        P,
    ),
    call("nsum", lambda c: integrate.nsum(lambda k, c: exp(-c * k), 1.0 + 0.0 * c, 10.0 + 0.0 * c, args=(c,)).sum, P),
    call(
        "nsum(infinite)",
        lambda c: integrate.nsum(lambda k, c: 1 / (k * k + c), 1.0 + 0.0 * c, np.inf + 0.0 * c, args=(c,)).sum,
        P,
    ),
    call(
        "cubature",
        lambda c: (
            integrate.cubature(
                lambda x, c: exp(-c * x[:, 0] * x[:, 1]), 0 * c[:2], 0 * c[:2] + 1, args=(c[0],)
            ).estimate
        ),
        P,
    ),
    call(
        "cubature(limits)",
        lambda a, b: integrate.cubature(lambda x: x[:, 0] ** 2 * x[:, 1], a, b).estimate,
        X[:2],
        P[:2] + 2,
    ),
    call(
        "qmc_quad",
        lambda a: (
            integrate.qmc_quad(
                lambda x: exp(-total(x)), a, a + 1.0, n_points=64, qrng=stats.qmc.Halton(2, rng=0)
            ).integral
        ),
        P[:2],
    ),
    call("fixed_quad", lambda a: integrate.fixed_quad(exp, a, 1.0)[0], ONE),
    call("quad", lambda b: integrate.quad(lambda x: x * x, 0.0, b)[0], ONE),
    call("quad_vec", lambda c: integrate.quad_vec(lambda x: c * x * x, 0.0, 1.0)[0], P),
    call("solve_ivp", lambda c: integrate.solve_ivp(lambda t, y: -c * y, (0, 1), [1.0], t_eval=[0.5, 1.0]).y, ONE),
]

call = Section("scipy.differentiate")
DIFFERENTIATE = [
    call("derivative", lambda x: differentiate.derivative(lambda t: exp(0.5 * t), x).df, X, tolerance=1e-5),
    call(
        "derivative(args)",
        lambda x, c: differentiate.derivative(lambda t, c: exp(c * t), x, args=(c,)).df,
        X,
        U,
        tolerance=1e-5,
    ),
    call("jacobian", lambda x: differentiate.jacobian(sines, x).df, X, tolerance=1e-5),
    call("hessian", lambda x: differentiate.hessian(cubic, x).ddf, X[:3], tolerance=1e-4),
]

call = Section("scipy.optimize")
OPTIMIZE = [
    call("rosen", optimize.rosen, X),
    call("rosen(2-d)", optimize.rosen, A),
    call("rosen_der", optimize.rosen_der, X),
    call("rosen_hess", optimize.rosen_hess, X),
    call("rosen_hess_prod", optimize.rosen_hess_prod, X, Y),
    call(
        "elementwise.find_root",
        lambda c: elementwise.find_root(lambda x, c: x * x * x - c, (0 * c, 0 * c + 2), args=(c,)).x,
        P,
        tolerance=1e-5,
    ),
    call(
        "elementwise.find_minimum",
        lambda c: elementwise.find_minimum(lambda x, c: (x - c) ** 2, (c - 3, c - 0.3, c + 2), args=(c,)).x,
        P,
        tolerance=1e-5,
    ),
    call(
        "elementwise.find_minimum(f_x)",
        lambda c: (
            elementwise.find_minimum(
                lambda x, c: (x - 1) ** 2 + c * x, (0 * c - 3, 0 * c - 0.3, 0 * c + 2), args=(c,)
            ).f_x
        ),
        P,
        tolerance=1e-5,
    ),
    call(
        "elementwise.bracket_root",
        lambda c: elementwise.bracket_root(lambda x, c: x - 3 * c, 0 * c, args=(c,)).bracket,
        P,
        constant=True,
    ),
    call(
        "elementwise.bracket_minimum",
        lambda c: elementwise.bracket_minimum(lambda x, c: (x - 3 * c) ** 2, 0 * c + 0.1, args=(c,)).bracket,
        P,
        constant=True,
    ),
    call("minimize", lambda c: optimize.minimize(lambda x: (x[0] - c) ** 2, [0.0]).x, ONE, tolerance=1e-4),
    call("brentq", lambda c: optimize.brentq(lambda x: x**3 - c, 0.0, 2.0), ONE),
    call("nnls", lambda a, b: optimize.nnls(a, b)[0], POSITIVE_DEFINITE, P[:3]),
    call("linear_sum_assignment", lambda c: optimize.linear_sum_assignment(c), A, constant=True),
    call("isotonic_regression", lambda y: optimize.isotonic_regression(y).x, X),
]

call = Section("scipy.interpolate")
TREND = np.asarray([0.2, 0.7, 1.6, 1.9, 3.0])
KNOTS = np.asarray([-0.9, -0.5, -0.2, 0.0, 1.0, 2.3, 2.6, 2.7, 3.1])
INSIDE = np.asarray([0.13, 0.77, 1.31, 1.92])
INTERPOLATE = [
    call("CubicSpline", lambda x, y, t: interpolate.CubicSpline(x, y)(t), GRID, X, INSIDE),
    call(
        "CubicSpline(natural, derivative)",
        lambda x, y, t: interpolate.CubicSpline(x, y, bc_type="natural")(t, 1),
        GRID,
        X,
        INSIDE,
    ),
    call("PchipInterpolator", lambda x, y, t: interpolate.PchipInterpolator(x, y)(t), GRID, X, INSIDE),
    call("Akima1DInterpolator", lambda x, y, t: interpolate.Akima1DInterpolator(x, y)(t), GRID, X, INSIDE),
    call("CubicHermiteSpline", lambda x, y, d, t: interpolate.CubicHermiteSpline(x, y, d)(t), GRID, X, Y, INSIDE),
    call("PPoly", lambda c, x, t: interpolate.PPoly(c, x)(t), A, GRID, INSIDE),
    call("BPoly", lambda c, x, t: interpolate.BPoly(c, x)(t), A, GRID, INSIDE),
    call("BSpline", lambda k, c, x: interpolate.BSpline(k, c, 3)(x), KNOTS, X, INSIDE),
    call("make_interp_spline", lambda x, y, t: interpolate.make_interp_spline(x, y)(t), GRID, X, INSIDE),
    call("make_smoothing_spline", lambda x, y, t: interpolate.make_smoothing_spline(x, y, lam=0.1)(t), GRID, X, INSIDE),
    call("RegularGridInterpolator", lambda x, v, t: interpolate.RegularGridInterpolator((x,), v)(t), GRID, X, INSIDE),
    call("RBFInterpolator", lambda y, d, x: interpolate.RBFInterpolator(y, d)(x), POINTS, X[:4], MORE_POINTS),
    call("interp1d", lambda x, y, t: interpolate.interp1d(x, y)(t), GRID, X, INSIDE),
    call("BarycentricInterpolator", lambda x, y, t: interpolate.BarycentricInterpolator(x, y)(t), GRID, X, INSIDE),
    call("KroghInterpolator", lambda x, y, t: interpolate.KroghInterpolator(x, y)(t), GRID, X, INSIDE),
    call("pchip_interpolate", lambda x, y, t: interpolate.pchip_interpolate(x, y, t), GRID, X, INSIDE),
    call("griddata", lambda x, v, t: interpolate.griddata((x,), v, t), GRID, X, INSIDE),
    call("AAA", lambda x: interpolate.AAA(GRID, TREND)(x), INSIDE),
]

call = Section("scipy.cluster")
FEW = sample(2, 3, seed=50)
CLUSTER = [
    call("vq.whiten", cluster.vq.whiten, POINTS),
    call("vq.vq", lambda x, c: cluster.vq.vq(x, c), POINTS, FEW),
    call("vq.vq(codes)", lambda x, c: cluster.vq.vq(x, c)[0], POINTS, FEW, constant=True),
    call("vq.py_vq", lambda x, c: cluster.vq.py_vq(x, c)[1], POINTS, FEW),
    call("vq.kmeans", lambda x, c: cluster.vq.kmeans(x, c, iter=2), POINTS, FEW, tolerance=1e-4),
    call("vq.kmeans2", lambda x, c: cluster.vq.kmeans2(x, c, iter=2, minit="matrix")[0], POINTS, FEW),
    call("hierarchy.linkage", lambda x: cluster.hierarchy.linkage(x, "average")[:, 2], POINTS),
    call("hierarchy.single", lambda y: cluster.hierarchy.single(y)[:, 2], sample(6, seed=51, low=0.5)),
    call("hierarchy.ward", lambda x: cluster.hierarchy.ward(x)[:, 2], POINTS),
    call("hierarchy.fclusterdata", lambda x: cluster.hierarchy.fclusterdata(x, 2.1, "distance"), POINTS, constant=True),
    call("hierarchy.cophenet", lambda x: cluster.hierarchy.cophenet(cluster.hierarchy.linkage(x)), POINTS),
]

call = Section("scipy.spatial.distance", spatial.distance)
DISTANCES = [
    *call.each("euclidean sqeuclidean cityblock chebyshev canberra braycurtis cosine correlation minkowski", P, Q),
    call("jensenshannon", spatial.distance.jensenshannon, P / P.sum(), Q / Q.sum()),
    call("mahalanobis", spatial.distance.mahalanobis, P[:3], Q[:3], POSITIVE_DEFINITE),
    call("seuclidean", spatial.distance.seuclidean, P, Q, P + 1),
    call("hamming", spatial.distance.hamming, P, Q, constant=True),
    *call.each("cdist directed_hausdorff", POINTS, MORE_POINTS),
    call("pdist", spatial.distance.pdist, POINTS),
    call("squareform", spatial.distance.squareform, sample(6, seed=52)),
]

call = Section("scipy.spatial", spatial)
SPATIAL = [
    *call.each("distance_matrix", POINTS, MORE_POINTS),
    *call.each("minkowski_distance procrustes", POINTS, MORE_POINTS[:4]),
]

call = Section("scipy.spatial.transform")
QUATERNION, QUATERNIONS = np.asarray([0.3, -0.5, 0.4, 0.8]), sample(3, 4, seed=53)
VECTORS = sample(3, 3, seed=54)
ROTATION = spatial.transform.Rotation
TRANSFORM = spatial.transform.RigidTransform
ROTATIONS = [
    call("Rotation.from_quat", lambda q: ROTATION.from_quat(q).as_matrix(), QUATERNION),
    call("Rotation.from_quat(several)", lambda q: ROTATION.from_quat(q).as_matrix(), QUATERNIONS),
    call("Rotation.as_quat", lambda q: ROTATION.from_quat(q).as_quat(), QUATERNIONS),
    call("Rotation.from_rotvec", lambda r: ROTATION.from_rotvec(r).as_matrix(), VECTORS),
    call("Rotation.as_rotvec", lambda q: ROTATION.from_quat(q).as_rotvec(), QUATERNIONS),
    call("Rotation.from_euler", lambda a: ROTATION.from_euler("xyz", a).as_matrix(), VECTORS),
    call(
        "Rotation.from_euler(degrees)",
        lambda a: ROTATION.from_euler("ZX", a, degrees=True).as_quat(),
        VECTORS[:, :2] * 20,
    ),
    call("Rotation.as_euler", lambda q: ROTATION.from_quat(q).as_euler("zyx"), QUATERNIONS),
    call("Rotation.from_mrp", lambda r: ROTATION.from_mrp(r).as_matrix(), VECTORS),
    call("Rotation.as_mrp", lambda q: ROTATION.from_quat(q).as_mrp(), QUATERNIONS),
    call(
        "Rotation.from_davenport",
        lambda e, a: ROTATION.from_davenport(e, "extrinsic", a).as_matrix(),
        np.asarray([[1, 0, 0], [0, 1, 0]]),
        X[:2],
    ),
    call(
        "Rotation.from_matrix",
        lambda q, r: ROTATION.from_matrix(ROTATION.from_quat(q).as_matrix()).apply(r),
        QUATERNIONS,
        VECTORS,
    ),
    call("Rotation.apply", lambda q, v: ROTATION.from_quat(q).apply(v), QUATERNIONS, VECTORS),
    call("Rotation.apply(inverse)", lambda q, v: ROTATION.from_quat(q).apply(v, inverse=True), QUATERNION, VECTORS),
    call("Rotation.inv", lambda q: ROTATION.from_quat(q).inv().as_matrix(), QUATERNION),
    call(
        "Rotation.__mul__",
        lambda p, q: (ROTATION.from_quat(p) * ROTATION.from_quat(q)).as_matrix(),
        QUATERNION,
        QUATERNIONS,
    ),
    call("Rotation.__pow__", lambda q: (ROTATION.from_quat(q) ** 0.4).as_matrix(), QUATERNION),
    call("Rotation.magnitude", lambda q: ROTATION.from_quat(q).magnitude(), QUATERNIONS),
    call(
        "Rotation.approx_equal",
        lambda p, q: 1.0 * ROTATION.from_quat(p).approx_equal(ROTATION.from_quat(q)),
        QUATERNION,
        QUATERNIONS,
        constant=True,
    ),
    call("Rotation.mean", lambda q: ROTATION.from_quat(q).mean().as_matrix(), QUATERNIONS),
    call(
        "Rotation.align_vectors",
        lambda a, b: ROTATION.align_vectors(a, b)[0].as_matrix(),
        VECTORS,
        VECTORS[::-1].copy(),
    ),
    call(
        "Rotation.reduce",
        lambda q, r: ROTATION.from_quat(q).reduce(ROTATION.from_quat(r)).as_matrix(),
        QUATERNION,
        QUATERNIONS,
        broken=True,
    ),
    call(
        "Slerp",
        lambda q: spatial.transform.Slerp([0, 1, 2], ROTATION.from_quat(q))([0.3, 1.4]).as_matrix(),
        QUATERNIONS,
    ),
    call("RigidTransform.from_translation", lambda t: TRANSFORM.from_translation(t).as_matrix(), VECTORS),
    call(
        "RigidTransform.from_components",
        lambda t, q: TRANSFORM.from_components(t, ROTATION.from_quat(q)).as_matrix(),
        VECTORS,
        QUATERNIONS,
    ),
    call(
        "RigidTransform.apply",
        lambda t, q, v: TRANSFORM.from_components(t, ROTATION.from_quat(q)).apply(v),
        VECTORS[0],
        QUATERNION,
        VECTORS,
    ),
    call(
        "RigidTransform.inv",
        lambda t, q: TRANSFORM.from_components(t, ROTATION.from_quat(q)).inv().as_matrix(),
        VECTORS[0],
        QUATERNION,
    ),
    call("RigidTransform.from_exp_coords", lambda e: TRANSFORM.from_exp_coords(e).as_matrix(), sample(6, seed=55)),
    call(
        "RigidTransform.as_exp_coords",
        lambda t, q: TRANSFORM.from_components(t, ROTATION.from_quat(q)).as_exp_coords(),
        VECTORS[0],
        QUATERNION,
    ),
    call(
        "RigidTransform.from_dual_quat",
        lambda t, q: TRANSFORM.from_components(t, ROTATION.from_quat(q)).as_dual_quat(),
        VECTORS[0],
        QUATERNION,
    ),
]

call = Section("scipy.linalg", linalg)
LINALG = [
    call("block_diag", linalg.block_diag, A, SQUARE),
    call("fiedler", linalg.fiedler, X),
    call("orthogonal_procrustes", linalg.orthogonal_procrustes, POINTS, MORE_POINTS[:4]),
    *call.each("inv det pinv expm norm svdvals cosm sinm polar", SQUARE),
    call("solve", linalg.solve, SQUARE, X[:3]),
    call("lstsq", lambda a, b: linalg.lstsq(a, b)[0], POINTS, X[:4]),
    call("cholesky", linalg.cholesky, POSITIVE_DEFINITE),
    call("qr", linalg.qr, SQUARE),
    call("eigvalsh", linalg.eigvalsh, POSITIVE_DEFINITE),
    call("logm", linalg.logm, POSITIVE_DEFINITE),
    call("sqrtm", linalg.sqrtm, POSITIVE_DEFINITE),
    call("toeplitz", linalg.toeplitz, X),
    call("circulant", linalg.circulant, X),
    call("solve_triangular", lambda a, b: linalg.solve_triangular(a, b), SQUARE, X[:3]),
    call("khatri_rao", linalg.khatri_rao, A, B),
]

call = Section("scipy.constants")
CONSTANTS = [
    call("convert_temperature", lambda t: constants.convert_temperature(t, "Celsius", "Fahrenheit"), X),
    call("lambda2nu", constants.lambda2nu, P),
    call("nu2lambda", constants.nu2lambda, P),
]

call = Section("scipy.signal.windows", signal.windows)
SPREAD = sample(6, seed=56)


def tapered(*arguments):
    """Give a function that multiplies by a window, which is made in the namespace of its operand."""
    return lambda window: lambda x: window(6, *arguments, xp=array_namespace(x)) * x


WINDOWS = [
    *call.each("hann hamming blackman tukey", SPREAD, by=tapered()),
    *call.each("gaussian kaiser", SPREAD, by=tapered(1.3)),
    *call.each("chebwin", SPREAD, by=tapered(60)),
]

CALLS = [
    *INTEGRATE,
    *DIFFERENTIATE,
    *OPTIMIZE,
    *INTERPOLATE,
    *CLUSTER,
    *DISTANCES,
    *SPATIAL,
    *ROTATIONS,
    *LINALG,
    *CONSTANTS,
    *WINDOWS,
]
