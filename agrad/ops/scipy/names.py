"""The names of `agrad.scipy`, by module; and what SciPy's own functions, which make NumPy arrays of tensors, say of them."""

from __future__ import annotations

from types import FrameType

from agrad.core.errors import line_of
from agrad.ops import special

#: By module, its ``__all__``: what stands below them cannot import them.
NAMES = {
    "integrate": ("odeint", "solve_ivp"),
    "interpolate": ("CubicSpline", "RegularGridInterpolator", "interp1d", "make_interp_spline"),
    "linalg": (
        *("block_diag", "cho_factor", "cho_solve", "cholesky", "det", "expm", "expm_frechet", "inv", "logdet", "logm"),
        *("lstsq", "lu", "pinv", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm", "toeplitz"),
    ),
    "optimize": ("brentq", "fixed_point", "least_squares", "minimize", "root"),
    "signal": ("convolve", "correlate", "fftconvolve", "lfilter", "sosfilt"),
    "special": ("jn", "yn", *vars(special)["__all__"]),
    "stats": (
        *("bernoulli", "beta", "binom", "chi2", "dirichlet", "expon", "gamma", "laplace", "lognorm"),
        *("multivariate_normal", "norm", "poisson", "t", "uniform"),
    ),
}


def instead_of(frame: FrameType | None) -> str:
    """Return the sentence that names the function to call, if the frames that called are of one of SciPy's; nothing otherwise."""
    found = ""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("scipy."):
        if not frame.f_globals.get("__name__", "").startswith(("agrad.", "numpy", "array_api_compat")):
            return ""
        frame = frame.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("scipy.", "numpy")):
        found = _name_of(frame) or found
        frame = frame.f_back
    if not found:
        return ""
    line = f", called at {line_of(frame.f_code, frame.f_lasti)}," if frame is not None else ""
    return f"\n  SciPy's own function{line} takes arrays only: use agrad.scipy.{found}."


def _name_of(frame: FrameType) -> str:
    """Return the name here of SciPy's function that a frame runs, or of that which a wrapper is for; nothing if there is none."""
    kept = frame.f_locals
    inner = kept.get("f")
    module, name = frame.f_globals["__name__"], frame.f_code.co_name
    if name == "wrapper" and callable(inner):
        module, name = getattr(inner, "__module__", ""), getattr(inner, "__name__", "")
    chapter = f"{module}..".split(".")[1]
    names = NAMES.get(chapter, ())
    if "self" in kept:
        kind = type(kept["self"]).__name__.removesuffix("_gen").removesuffix("_frozen")
        if chapter == "stats":
            return f"stats.{kind}.{name}" if kind in names and not name.startswith("_") else ""
        name = kind
    return f"{chapter}.{name}" if name in names else ""
