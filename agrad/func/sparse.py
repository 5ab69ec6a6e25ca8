"""Jacobians and Hessians that exploit their zeros: patterns, sparse matrices from few products, operators, covariances.

The pattern comes from the captured program (`program.sparsity`), its colours from `coloring`; the products of all
colours are one call of `vmap`, and the matrix is one of SciPy's.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from agrad import tree
from agrad.compiled.adaptive import AdaptiveFunction
from agrad.core import mode as modes
from agrad.core.errors import called
from agrad.core.tensor import Tensor, wrap
from agrad.func.coloring import Coloring, as_pattern, coloring
from agrad.func.grad import grad, jvp, of_chosen, value_and_grad, vjp
from agrad.func.vmap import vmap
from agrad.numpy.protocol import to_numpy
from agrad.ops.creation import asarray
from agrad.ops.manipulation import concat, reshape
from agrad.ops.searching import take
from agrad.plugin.manager import get, scipys
from agrad.program.arguments import (
    NUMBERS,
    Argnums,
    argument_of,
    bare_all,
    check_argnums,
    check_kind,
    is_raw,
    moves,
    name_of,
    refuse_kind,
)
from agrad.program.blank_recording import ShapeDtype
from agrad.program.capture import capture
from agrad.program.program import spec_of_value
from agrad.program.recording import CaptureError

__all__ = [
    "SparseDerivative", "gauss_newton_operator", "hessian_operator", "hessian_sparsity", "jacobian_operator",
    "jacobian_sparsity", "propagate", "sparse_hessian", "sparse_jacobian",
]  # fmt: skip

#: The largest total number of elements in products that are computed together.
AT_A_TIME = 2**24

#: With fewer columns and rows, a dense matrix needs no warning.
SMALL = 100

#: So many rows are looked at of those whose products with a vector are nearly what they are to be.
LINES = 10

#: So many calls go before the one that is captured as a program.
BEFORE = 2


def jacobian_sparsity(func: Callable[..., Any], argnums: Argnums = 0, *, local: bool = False) -> Callable[..., Any]:
    """Return the function that computes the pattern of the Jacobian: the elements that may be nonzero.

    Parameters
    ----------
    func : callable
        Takes and returns tensors or containers of tensors; a program must be able to hold it (see `capture`).
    argnums : int or tuple of int, optional
        By which arguments.
    local : bool, optional
        Compute the pattern at the values of the arguments, and not for all values: branches that a condition does not
        choose do not count, nor do values multiplied by 0.

    Returns
    -------
    callable
        Takes the arguments of `func`; returns a boolean ``scipy.sparse.csr_array``: a row for each element of the
        results, a column for each element of the chosen arguments, in the order of containers.

    Raises
    ------
    BackendError
        If SciPy is not installed.
    CaptureError
        When called: if no program can hold the function, for example because it branches on a value.

    Notes
    -----
    The pattern is never too small. It holds for all values of floating-point arguments; it holds only for the current
    integers and booleans among the arguments, and for the current outer values that the function uses. If an operation
    has no rule, all its results are assumed to depend on all operands; ``python -m agrad sparsity`` lists these
    operations.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.func.jacobian_sparsity(lambda x: x[1:] - x[:-1] ** 2)(ag.ones(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    check_kind(argnums)

    @functools.wraps(func)
    def pattern(*args: Any, **kwargs: Any) -> Any:
        return _pattern("jacobian_sparsity", func, func, argnums, args, kwargs, local=local)[0]

    return pattern


def hessian_sparsity(func: Callable[..., Any], argnums: Argnums = 0, *, local: bool = False) -> Callable[..., Any]:
    """Return the function that computes the pattern of the Hessian: the pattern of the Jacobian of the gradient.

    Parameters
    ----------
    func : callable
        Returns a scalar; otherwise as for `jacobian_sparsity`.
    argnums, local
        As for `jacobian_sparsity`.

    Returns
    -------
    callable
        Takes the arguments of `func`; returns a symmetric boolean ``scipy.sparse.csr_array``.

    Raises
    ------
    BackendError, CaptureError
        As for `jacobian_sparsity`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.func.hessian_sparsity(lambda x: ag.sum(x[1:] * x[:-1]))(ag.ones(4)).toarray().astype(int)
    array([[0, 1, 0, 0],
           [1, 0, 1, 0],
           [0, 1, 0, 1],
           [0, 0, 1, 0]])
    """
    check_kind(argnums)

    @functools.wraps(func)
    def pattern(*args: Any, **kwargs: Any) -> Any:
        of = grad(func, argnums)
        return _symmetric(_pattern("hessian_sparsity", func, of, argnums, args, kwargs, local=local)[0])

    return pattern


def _pattern(
    what: str,
    func: Callable[..., Any],
    of: Callable[..., Any],
    argnums: Argnums,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    local: bool,
) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return the pattern of the derivative of a function at arguments, by its program; and the outer values it depends on.

    For each such tensor, that is where it is found and its current relevant part.
    """
    scipys("sparse", by=f"agrad.func.{what}")
    seen: set[int] = set()

    def apart(leaf: Any) -> Any:
        """Give an array that is an argument twice as two."""
        spec = None if isinstance(leaf, NUMBERS | str | None) else spec_of_value(leaf)
        if spec is not None and (spec.backend.is_batched or (spec.backend.is_lazy and spec.inexact and not local)):
            return ShapeDtype(spec.shape, spec.backend.dtype_name(spec.dtype))
        if isinstance(leaf, Tensor):
            leaf = wrap(leaf._raw, leaf._spec)
        raw = leaf._raw if isinstance(leaf, Tensor) else leaf
        if isinstance(raw, NUMBERS) or id(raw) not in seen:
            seen.add(id(raw))
            return leaf
        return asarray(leaf, copy=True)

    def lifted(leaf: Any) -> Any:
        """Return a float as an array: a program would hold it as a constant."""
        return asarray(leaf) if type(leaf) is float else leaf

    args, kwargs = tree.map(apart, args), tree.map(apart, kwargs)
    chosen = check_argnums(argnums, len(args))
    every = tuple(tree.map(lifted, arg) for arg in args), tree.map(lifted, kwargs)
    try:
        try:
            program = capture(of)(*every[0], **every[1])
        except CaptureError:  # perhaps because of a float that is no longer a Python number
            args = tuple(tree.map(lifted, arg) if i in chosen else arg for i, arg in enumerate(args))
            program = capture(of)(*args, **kwargs)
    except CaptureError as error:
        error.add_note(f"{what}: pass the pattern of {name_of(func)} as sparsity=, because no program yields it.")
        raise
    found = program.sparsity(*args, argnums=chosen, local=local)
    return found, [(origin, _structure(origin.find())) for origin in program.outside.values()]


def _symmetric(pattern: Any) -> Any:
    return as_pattern(pattern + pattern.T)


def _structure(value: Any) -> Any:
    """Return the part of an outer value that a pattern depends on: for floating-point values, where they are 0."""
    if value is None:
        return None
    tensor = value if isinstance(value, Tensor) else asarray(value)
    host = _host(tensor)
    return host == 0 if tensor._spec.inexact else host.copy()


def sparse_jacobian(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    sparsity: Any = None,
    mode: str = "auto",
    with_value: bool = False,
    chunk_size: int | None = None,
) -> SparseDerivative:
    """Return the function that computes the Jacobian as a sparse matrix, with as many products as its pattern has colours.

    Parameters
    ----------
    func : callable
        Takes and returns real tensors or containers of them.
    argnums : int or tuple of int, optional
        By which arguments.
    sparsity : Coloring or matrix, optional
        The pattern, with or without colours. Default: found at the first call, from the program of the function, and
        kept for arguments of these shapes.
    mode : {"auto", "forward", "reverse", "mixed"}, optional
        As for `coloring`.
    with_value : bool, optional
        Give ``(jacobian, value)``.
    chunk_size : int, optional
        The number of products computed at a time; fewer need less memory. Default: as many as have 16 million elements
        together.

    Returns
    -------
    SparseDerivative
        Called with the arguments of `func`, it gives a ``scipy.sparse.csr_array``: a row for each element of the results, a
        column for each element of the chosen arguments, in the order of containers. For CuPy's arguments it is a matrix of
        ``cupyx.scipy.sparse``, for Dask's a Dask array in chunks of rows.

    Raises
    ------
    BackendError
        If SciPy is not installed.
    ValueError
        When called: if a pattern does not hold: at the 1st, 2nd, 4th, 8th... call a product with a random vector is compared;
        on Dask, where the matrix is computed.
    TypeError
        When called: if arguments or results are complex.

    Notes
    -----
    From the third call on, it runs a program if one can hold the computation (see `compile`). ``values(...)`` returns
    only the entries, as a tensor that can be differentiated and used within other transforms.

    Examples
    --------
    >>> import agrad as ag
    >>> jacobian = ag.func.sparse_jacobian(lambda x: x[1:] * x[:-1])
    >>> jacobian(ag.tensor([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> jacobian.coloring(ag.tensor([1.0, 2.0, 3.0]))
    <Coloring: 2 colours for 3 columns; 4 entries>
    """
    return SparseDerivative(func, argnums, sparsity, mode, with_value=with_value, chunk_size=chunk_size, order=1)


def sparse_hessian(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    sparsity: Any = None,
    mode: str = "auto",
    with_value: bool = False,
    chunk_size: int | None = None,
) -> SparseDerivative:
    """Return the function that computes the Hessian as a sparse matrix, with as many products as its pattern has colours.

    Parameters
    ----------
    func : callable
        Returns a real scalar; otherwise as for `sparse_jacobian`.
    argnums, sparsity, mode, with_value, chunk_size
        As for `sparse_jacobian`. ``"auto"`` colours columns so that an entry may be read from its mirror image.

    Returns
    -------
    SparseDerivative
        Called with the arguments of `func`, it gives a ``scipy.sparse.csr_array``, with a row and a column for each element of
        the chosen arguments; of other libraries as by `sparse_jacobian`. Products are made forward over reverse.

    Raises
    ------
    BackendError, ValueError, TypeError
        As for `sparse_jacobian`.

    Examples
    --------
    >>> import agrad as ag
    >>> hessian = ag.func.sparse_hessian(lambda x: ag.sum(x[1:] * x[:-1] ** 2))
    >>> hessian(ag.tensor([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    """
    return SparseDerivative(func, argnums, sparsity, mode, with_value=with_value, chunk_size=chunk_size, order=2)


class _CachedPattern:
    """The data kept for arguments of one form.

    Attributes
    ----------
    coloring : Coloring
        The pattern and its colours.
    run : callable
        Computes the entries of the matrix, and the value of the function.
    outside : list of (Origin, array)
        The parts of outer tensors that the pattern depends on.
    own : bool
        Whether the pattern was found here, rather than passed by the user.
    calls : int
        How often it was called.
    known : dict
        What the library keeps of the pattern, if its matrices are its own.
    """

    def __init__(self, found: Coloring, run: Callable[..., Any], outside: list[tuple[Any, Any]], *, own: bool) -> None:
        self.coloring, self.run, self.outside, self.own, self.calls = found, run, outside, own, 0
        self.known: dict[Any, Any] = {}
        self.adaptive = AdaptiveFunction(run)
        self.adaptive._before = BEFORE

    def is_current(self) -> bool:
        """Return whether the parts of outer tensors that the pattern depends on are unchanged."""
        np = get("numpy").module("numpy")
        try:
            return all(np.array_equal(_structure(origin.find()), was) for origin, was in self.outside)
        except LookupError:
            return False


class SparseDerivative:
    """A function that computes a sparse matrix of derivatives; created by `sparse_jacobian` and `sparse_hessian`.

    Parameters
    ----------
    func : callable
        The function to differentiate.
    argnums, sparsity, mode, with_value, chunk_size
        As for `sparse_jacobian`.
    order : {1, 2}
        Whether it is the Jacobian or the Hessian.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        argnums: Argnums,
        sparsity: Any,
        mode: str,
        *,
        with_value: bool,
        chunk_size: int | None,
        order: int,
    ) -> None:
        check_kind(argnums)
        self.what = "sparse_jacobian" if order == 1 else "sparse_hessian"
        if chunk_size is not None and not chunk_size > 0:
            raise ValueError(f"{self.what}: `chunk_size` should be greater than 0.{called()}")
        scipys("sparse", by=f"agrad.func.{self.what}")
        self.func: Callable[..., Any] = func
        self.argnums: Argnums = argnums
        self.mode: str = mode
        self.order: int = order
        self.with_value: bool = with_value
        self.chunk_size: int | None = chunk_size
        symmetric = order == 2 and mode == "auto"
        self._given = sparsity
        if sparsity is not None and not isinstance(sparsity, Coloring):
            self._given = coloring(sparsity, mode, symmetric=symmetric)
        self._symmetric = symmetric
        self._is_own = True
        self._kept: dict[Any, _CachedPattern] = {}
        functools.update_wrapper(self, func, updated=())

    def __repr__(self) -> str:
        return f"<{self.what} of {name_of(self.func)}>"

    def coloring(self, *args: Any, **kwargs: Any) -> Coloring:
        """Return the pattern with its colours for arguments of this form: found now, or kept from an earlier call."""
        return self._for(args, kwargs)[0].coloring

    def values(self, *args: Any, **kwargs: Any) -> Any:
        """Return the entries of the matrix as a tensor, in the order of ``coloring(...).pattern``, and the result of `func`.

        They can be differentiated, and used within `compile`, `vmap` and the other transforms. This method does not
        check the pattern.
        """
        kept, tensors = self._for(args, kwargs)
        entries, value = kept.run(*tensors)
        return (entries, value) if self.with_value else entries

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the matrix, and with `with_value` the result of `func`."""
        kept, tensors = self._for(args, kwargs)
        programs = len(kept.adaptive._cached_programs)
        entries, value = self._entries(kept, tensors)
        is_later = self._makes_its_own(entries) and entries._spec.backend.is_lazy
        # a program that is new, or none, may be of another state of Python
        asked = (
            kept.calls & (kept.calls - 1) == 0
            or len(kept.adaptive._cached_programs) != programs
            or not kept.adaptive._is_open
        )
        asked |= is_later and kept.own
        if asked and not is_later and not self._holds(kept, entries, args, kwargs):
            self._kept.clear()  # what the function finds outside of its arguments has changed since
            kept, tensors = self._for(args, kwargs)
            entries, value = self._entries(kept, tensors)
            self._holds(kept, entries, args, kwargs)
        proof = self._proof(kept, args, kwargs) if asked and is_later else None
        found = self._matrix(kept, entries, value if self.order == 1 else self._inputs(args, kwargs), proof)
        if not self.with_value:
            return found
        return found, bare_all(value) if is_raw(*args, *kwargs.values()) else value

    def _makes_its_own(self, entries: Tensor) -> bool:
        return self._is_own and entries._spec.backend._csr is not None

    def _matrix(self, kept: _CachedPattern, entries: Tensor, rows: Any, proof: Any) -> Any:
        """Return the matrix of entries: of their library, if that has sparse ones, else of SciPy's."""
        if not self._makes_its_own(entries):
            return kept.coloring.matrix(_host(entries))
        make: Any = entries._spec.backend._csr
        arrays = [leaf._raw for leaf in tree.flatten(rows)[0]]
        more = {} if proof is None else {"proof": proof}
        return make(entries.detach()._raw, kept.coloring.pattern, arrays, kept.known, **more)

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """Return the leaves of the chosen arguments."""
        chosen = of_chosen(self.func, self.argnums, args, kwargs)[1]
        return [argument_of(leaf, self.what) for leaf in tree.flatten(chosen)[0]]

    def _entries(self, kept: _CachedPattern, tensors: Sequence[Any]) -> tuple[Tensor, Any]:
        kept.calls += 1
        plain = [t for t in tensors if isinstance(t, Tensor)]
        as_it_is = moves(plain) or len(plain) < len(tensors)
        if not as_it_is and self._is_own:  # before a program is kept it is compared, which computes
            as_it_is = any(t._spec.backend.is_lazy and t._spec.backend._csr is not None for t in plain)
        run = kept.run if as_it_is else kept.adaptive
        entries, value = run(*tensors)
        return entries, value

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_CachedPattern, list[Any]]:
        """Return the data kept for arguments of this form, and these arguments, with tensors for arrays."""
        leaves, structure = tree.flatten((args, kwargs))
        tensors = self._tensors(leaves)
        key = structure, tuple(map(_form, leaves, tensors))
        kept = self._kept.get(key)
        if kept is None or not kept.is_current():
            kept = self._kept[key] = self._made(args, kwargs, structure)
        return kept, tensors

    def _tensors(self, leaves: Sequence[Any]) -> list[Any]:
        """Return arguments with tensors for arrays and floats: a float has the dtype of the first floating-point array."""
        made = [leaf if isinstance(leaf, NUMBERS | str | None) else argument_of(leaf, self.what) for leaf in leaves]
        dtype = next((t.dtype for t in made if isinstance(t, Tensor) and t._spec.inexact), None)
        return [asarray(t, dtype=dtype) if type(t) is float else t for t in made]

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], structure: Any) -> _CachedPattern:
        """Find the pattern and its colours, whatever is being recorded outside; return the function that computes the entries."""
        before = modes.get_mode()
        try:
            modes.push(recorder=None)
            return self._found(args, kwargs, structure)
        finally:
            modes.set_mode(before)

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any], structure: Any) -> _CachedPattern:
        _, chosen = of_chosen(self.func, self.argnums, args, kwargs)
        leaves, chosen_in = tree.flatten(chosen)
        inputs = [argument_of(leaf, self.what) for leaf in leaves]
        if any(x._spec.is_complex for x in inputs):
            raise TypeError(
                f"{self.what}: takes real arguments; split complex ones into real and imaginary parts{called()}"
            )
        for x in inputs:
            if not x._spec.inexact:
                refuse_kind(x, inputs, chosen_in, chosen)
        columns = sum(math.prod(x.shape) for x in inputs)
        found = self._given
        outside: list[tuple[Any, Any]] = []
        if found is None:
            function = self.func if self.order == 1 else grad(self.func, self.argnums)
            pattern, outside = _pattern(self.what, self.func, function, self.argnums, args, kwargs, local=False)
            pattern = pattern if self.order == 1 else _symmetric(pattern)
            found = coloring(pattern, self.mode, symmetric=self._symmetric)
            self._say_dense(found)
        if found.pattern.shape[1] != columns:
            m, n = found.pattern.shape
            raise ValueError(
                f"{self.what}: the pattern has {m} rows and {n} columns, but the arguments have {columns} elements{called()}"
            )
        return _CachedPattern(found, self._products(found, inputs, structure), outside, own=self._given is None)

    def _say_dense(self, found: Coloring) -> None:
        m, n = found.pattern.shape
        products = found.forward + found.reverse
        if min(m, n) >= SMALL and products >= min(m, n):
            density = found.pattern.nnz / (m * n)
            warnings.warn(
                f"{self.what}: the matrix of {name_of(self.func)} has {m:,} rows and {n:,} columns; {density:.0%} of its entries may"
                f" be nonzero. It takes {products:,} products, no fewer than a dense one, and {found.pattern.nnz * 12 / 1e6:,.0f} MB."
                " jacrev, jacfwd and hessian return a dense one; hvp, jvp and the operators need no matrix.",
                UserWarning,
                stacklevel=5,
            )

    def _products(self, found: Coloring, inputs: Sequence[Tensor], structure: Any) -> Callable[..., Any]:
        """Return the function of the arguments' leaves that computes the entries of the matrix, and the value."""
        sizes = [math.prod(x.shape) for x in inputs]
        ahead, back = found.seeds()
        like = inputs[0] if inputs else None
        if like is None:
            raise TypeError(f"{self.what}: there is no argument to differentiate with respect to{called()}")
        seeds, first = [], 0
        for x, size in zip(inputs, sizes, strict=True):
            part = ahead[:, first : first + size].reshape(found.forward, *x.shape)
            seeds.append(_there(part.astype(x._spec.backend.dtype_name(x.dtype)), x))
            first += size
        cotangents = _there(back, like)
        by_rows = like._spec.backend.is_lazy and not found.reverse  # what one row needs lies together then
        m = max(found.pattern.shape[0], 1)
        places = _there(found.places % m * found.forward + found.places // m if by_rows else found.places, like)
        chunk = self.chunk_size or max(1, AT_A_TIME // max(1, sum(found.pattern.shape)))
        vector, of = self._vector(structure)

        def products(*leaves: Any) -> tuple[Tensor, Any]:
            now = modes.recorder()
            if now is not None:
                for tensor in (
                    *seeds,
                    cotangents,
                    places,
                ):  # parts of the program, not tensors that somebody may change
                    now.constant(tensor._raw)
            chosen, function = of(leaves)
            parts, value = [], None
            m, n = found.pattern.shape

            def checked(count: int) -> None:
                if count != m:
                    raise ValueError(
                        f"{self.what}: the pattern has {m} rows and {n} columns, but the results have {count} elements{called()}"
                    )

            if found.forward:

                def push(*directions: Any) -> Any:
                    _, tangent, value = jvp(functools.partial(vector, function), chosen, directions, has_aux=True)
                    return tangent, value

                count = chunk if chunk < found.forward else None
                made, value = vmap(push, out_dims=(0, None), chunk_size=count)(*seeds)
                checked(made.shape[1])
                parts.append(reshape(made.mT if by_rows else made, (-1,)))
            if found.reverse or not parts:
                y, pull, value = vjp(functools.partial(vector, function), *chosen, has_aux=True)
                checked(y.shape[0])
                if found.reverse:
                    given = cotangents if cotangents.dtype == y.dtype else asarray(cotangents, dtype=y.dtype)
                    rows = vmap(pull, chunk_size=chunk if chunk < found.reverse else None)(given)
                    flat = [reshape(row, (found.reverse, -1)) for row in rows]
                    parts.append(reshape(concat(flat, axis=1) if len(flat) > 1 else flat[0], (-1,)))
                else:
                    parts.append(y[:0])
            return take(concat(parts) if len(parts) > 1 else parts[0], places, axis=0), value

        return products

    def _vector(self, structure: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return a function that computes results as one vector, and one that returns the chosen leaves and their containers."""

        def of(leaves: Sequence[Any]) -> tuple[tuple[Any, ...], Callable[..., Any]]:
            args, kwargs = tree.unflatten(structure, list(leaves))
            function, chosen = of_chosen(self.func, self.argnums, args, kwargs)
            flat, inner = tree.flatten(chosen)
            return tuple(flat), lambda *values: function(*tree.unflatten(inner, list(values)))

        def vector(function: Callable[..., Any], *values: Any) -> tuple[Tensor, Any]:
            if self.order == 1:
                value = results = function(*values)
            else:
                value, results = value_and_grad(function, tuple(range(len(values))))(*values)
            return _as_vector(self.what, results), value

        return vector, of

    # -- comparing ----------------------------------------------------------------------------------------------------

    def _proof(self, kept: _CachedPattern, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, str]:
        """Return the derivative along a random vector, which is computed with the matrix; the vector; and what is wrong else."""
        np = get("numpy").module("numpy")
        leaves, structure = tree.flatten((args, kwargs))
        vector, of = self._vector(structure)
        chosen, function = of(self._tensors(leaves))
        inputs = [x.detach() for x in chosen]
        along = np.random.default_rng(kept.calls).integers(64, 192, kept.coloring.pattern.shape[1]) / 128
        _, tangent, _ = jvp(functools.partial(vector, function), tuple(inputs), _split(along, inputs), has_aux=True)
        wrong = f"{self.what}: the pattern of {name_of(self.func)} is too small"
        if kept.own:
            wrong += ": what it finds outside of its arguments has changed. Make a new one of it"
        return tangent._raw, along, wrong

    def _holds(self, kept: _CachedPattern, entries: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Compare a product of the matrix and a random vector with the derivative along that vector.

        Return False if a pattern that was found no longer holds; raise if it is the user's.
        """
        np = get("numpy").module("numpy")
        leaves, structure = tree.flatten((args, kwargs))
        vector, of = self._vector(structure)
        chosen, function = of(self._tensors(leaves))
        inputs = [x.detach() for x in chosen]
        function_of = functools.partial(vector, function)
        matrix = kept.coloring.matrix(_host(entries))
        m, n = matrix.shape
        random = np.random.default_rng(kept.calls)
        is_forward = bool(kept.coloring.forward)
        along = random.integers(64, 192, n if is_forward else m) / 128  # exact in any precision
        if is_forward:
            y, tangent, _ = jvp(function_of, tuple(inputs), _split(along, inputs), has_aux=True)
            wanted, product = _host(tangent), matrix @ along
        else:
            y, pull, _ = vjp(function_of, *inputs, has_aux=True)
            wanted = _joined(pull(_there(along.astype(str(_host(y).dtype)), y)), np)
            product = matrix.T @ along
        scale = abs(matrix if is_forward else matrix.T) @ abs(along)
        eps = max(float(np.finfo(_host(t).dtype).eps) for t in (y, *inputs))
        away = abs(product - wanted)
        apart = away > eps**0.5 * np.maximum(scale, abs(wanted))
        if not apart.any():
            return True
        # Else it may be what rounding left of a 0, as pattern and entries say
        clear = apart & (away > eps**0.5 * scale.max())
        if kept.own and kept.calls > 1 and clear.any():
            return False
        for line in np.flatnonzero(clear if clear.any() else apart)[:LINES].tolist():
            lacking = self._lacking(kept.coloring.pattern, function_of, inputs, y, line, is_forward=is_forward)
            if clear.any() or len(lacking):
                break
        else:
            return True
        lines, others = ("row", "column") if is_forward else ("column", "row")
        raise ValueError(
            f"{self.what}: the pattern of {name_of(self.func)} is too small, in {int(apart.sum())} {lines}s, as in {lines} {line}:"
            f" there {others}s {_listed(lacking)} are not 0. A product with a random vector says so; without sparsity= the pattern"
            f" is found{called()}"
        )

    @staticmethod
    def _lacking(
        pattern: Any, function: Callable[..., Any], inputs: Sequence[Tensor], y: Tensor, line: int, *, is_forward: bool
    ) -> Any:
        """Return where a row, or else a column, of the derivative is not 0 and the pattern has no entry."""
        np = get("numpy").module("numpy")
        unit = np.zeros(pattern.shape[0 if is_forward else 1], dtype=str(_host(y).dtype))
        unit[line] = 1
        if is_forward:
            _, pull, _ = vjp(function, *inputs, has_aux=True)
            whole, known = _joined(pull(_there(unit, y)), np), pattern[[line]].indices
        else:
            _, tangent, _ = jvp(function, tuple(inputs), _split(unit, inputs), has_aux=True)
            whole, known = _host(tangent), pattern[:, [line]].nonzero()[0]
        return np.setdiff1d(np.flatnonzero(whole), known)


def _as_vector(what: str, results: Any) -> Tensor:
    """Return results, in any containers, as one vector."""
    whole = [reshape(_real(what, leaf), (-1,)) for leaf in tree.flatten(results)[0]]
    return concat(whole) if len(whole) != 1 else whole[0]


def _real(what: str, leaf: Any) -> Tensor:
    if not isinstance(leaf, Tensor):
        raise TypeError(f"{what}: expected f to return only tensors, got {type(leaf)}{called()}")
    if leaf._spec.is_complex:
        raise TypeError(f"{what}: takes real results; return real and imaginary parts separately{called()}")
    return leaf


def _form(leaf: Any, tensor: Any) -> Any:
    """Return the properties of an argument that determine the pattern: shape and dtype, and the values of integers."""
    if not isinstance(tensor, Tensor):
        return type(leaf), leaf if isinstance(leaf, NUMBERS | str | None) else id(leaf)
    spec = tensor._spec
    form = tuple(spec.shape), spec.backend.name, spec.dtype, spec.device
    if spec.inexact or spec.backend.is_batched:
        return form
    return *form, _host(tensor).tobytes()


def _host(tensor: Tensor) -> Any:
    return to_numpy(tensor.detach())


def _there(array: Any, beside: Tensor) -> Tensor:
    """Return a NumPy array as a tensor on the backend and device of another one."""
    backend = getattr(beside._spec.backend, "base", beside._spec.backend)
    return (
        asarray(asarray(array), device=beside.device)
        if backend.name == "numpy"
        else asarray(array).to_device(beside.device)
    )


def _split(flat: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return a vector as tensors of the shapes of others."""
    made, first = [], 0
    for x in inputs:
        size = math.prod(x.shape)
        made.append(_there(flat[first : first + size].reshape(x.shape).astype(x._spec.backend.dtype_name(x.dtype)), x))
        first += size
    return tuple(made)


def _joined(tensors: Sequence[Tensor], np: Any) -> Any:
    """Return tensors as one vector on the host."""
    return np.concatenate([_host(t).reshape(-1) for t in tensors])


def _listed(numbers: Any) -> str:
    shown = ", ".join(map(str, numbers[:5].tolist()))
    return f"{shown}, ..." if len(numbers) > 5 else shown


# -- operators ----------------------------------------------------------------------------------------------------------


def jacobian_operator(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes the Jacobian as a linear operator of SciPy: products without a matrix.

    Parameters
    ----------
    func : callable
        Takes and returns real tensors or containers of them.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to.

    Returns
    -------
    callable
        Takes the arguments of `func`; returns a ``scipy.sparse.linalg.LinearOperator`` with a row for each element of
        the results and a column for each element of the chosen arguments. ``matvec`` runs forward mode, ``rmatvec`` the
        backward pass.

    Raises
    ------
    BackendError
        If SciPy is not installed.

    Examples
    --------
    >>> import agrad as ag
    >>> import numpy as np
    >>> J = ag.func.jacobian_operator(lambda x: x * ag.sum(x))(ag.tensor([1.0, 2.0]))
    >>> J @ np.array([1.0, 0.0]), J.T @ np.array([1.0, 0.0])
    (array([4., 2.]), array([4., 1.]))
    """

    @functools.wraps(func)
    def operator(*args: Any, **kwargs: Any) -> Any:
        push, pull, shape, dtype = _linear("jacobian_operator", func, argnums, args, kwargs, order=1)
        return _operator(shape, dtype, push, pull)

    return operator


def hessian_operator(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes the Hessian as a linear operator of SciPy: products without a matrix.

    Parameters
    ----------
    func : callable
        Returns a real scalar.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to.

    Returns
    -------
    callable
        Takes the arguments of `func`; returns a symmetric ``scipy.sparse.linalg.LinearOperator``.

    Raises
    ------
    BackendError
        If SciPy is not installed.

    Examples
    --------
    >>> import agrad as ag
    >>> import numpy as np
    >>> H = ag.func.hessian_operator(lambda x: ag.sum(x**3))(ag.tensor([1.0, 2.0]))
    >>> H @ np.array([1.0, 1.0])
    array([ 6., 12.])
    """

    @functools.wraps(func)
    def operator(*args: Any, **kwargs: Any) -> Any:
        push, _, shape, dtype = _linear("hessian_operator", func, argnums, args, kwargs, order=2)
        return _operator(shape, dtype, push, push)

    return operator


def gauss_newton_operator(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes ``J.T @ J`` as a linear operator of SciPy, where `J` is the Jacobian.

    This is the Hessian of half the sum of squares of the results of `func`, without the second derivatives of `func`.

    Parameters
    ----------
    func : callable
        Returns residuals: real tensors or containers of them.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to.

    Returns
    -------
    callable
        Takes the arguments of `func`; returns a symmetric ``scipy.sparse.linalg.LinearOperator``.

    Raises
    ------
    BackendError
        If SciPy is not installed.

    Examples
    --------
    >>> import agrad as ag
    >>> import numpy as np
    >>> G = ag.func.gauss_newton_operator(lambda x: x**2)(ag.tensor([1.0, 2.0]))
    >>> G @ np.array([1.0, 1.0])
    array([ 4., 16.])
    """

    @functools.wraps(func)
    def operator(*args: Any, **kwargs: Any) -> Any:
        push, pull, (_, n), dtype = _linear("gauss_newton_operator", func, argnums, args, kwargs, order=1)

        def product(v: Any) -> Any:
            return pull(push(v))

        return _operator((n, n), dtype, product, product)

    return operator


def _linear(
    what: str, func: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], kwargs: dict[str, Any], *, order: int
) -> tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[int, int], Any]:
    """Return products of NumPy vectors with a Jacobian or Hessian and its transpose, with the shape and dtype of the matrix."""
    np = get("numpy").module("numpy")
    of, chosen = of_chosen(func, argnums, args, kwargs)
    flat, structure = tree.flatten(chosen)
    inputs = [argument_of(x, what).detach() for x in flat]
    function = of if order == 1 else grad(of, tuple(range(len(chosen))))

    def vector(*values: Any) -> Tensor:
        return _as_vector(what, function(*tree.unflatten(structure, list(values))))

    if any(x._spec.is_complex for x in inputs):
        raise TypeError(f"{what}: takes real arguments; split complex ones into real and imaginary parts{called()}")
    y, back = vjp(vector, *inputs)
    dtype = _host(y).dtype

    def push(v: Any) -> Any:
        return _host(jvp(vector, tuple(inputs), _split(np.asarray(v).reshape(-1), inputs))[1])

    def pull(u: Any) -> Any:
        return _joined(back(_there(np.asarray(u).reshape(-1).astype(dtype), y)), np)

    return push, pull, (y.shape[0], sum(math.prod(x.shape) for x in inputs)), dtype


def _operator(shape: tuple[int, int], dtype: Any, matvec: Callable[[Any], Any], rmatvec: Callable[[Any], Any]) -> Any:
    linalg = scipys("sparse.linalg", by="agrad.func's operators")
    return linalg.LinearOperator(shape, matvec=matvec, rmatvec=rmatvec, dtype=dtype)


# -- covariances --------------------------------------------------------------------------------------------------------


def propagate(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes a value with its covariance, to first order: ``J @ C @ J.T``, where `J` is the Jacobian.

    Parameters
    ----------
    func : callable
        Takes and returns real tensors or containers of them; a program must be able to hold it (see `sparse_jacobian`).
    argnums : int or tuple of int, optional
        Which arguments are uncertain.

    Returns
    -------
    callable
        Takes the arguments of `func`, followed by the covariance of the uncertain ones: a matrix, possibly sparse, with
        a row and a column for each element, in the order of containers; or a vector of variances if they are
        uncorrelated. Returns the result of `func`, and the covariance of its elements: a ``scipy.sparse.csr_array`` if
        the covariance of the arguments is a vector or sparse, otherwise an array.

    Raises
    ------
    BackendError
        If SciPy is not installed.
    ValueError
        When called: if the covariance has the wrong size.

    Examples
    --------
    >>> import agrad as ag
    >>> ohm = ag.func.propagate(lambda volt, ampere: volt / ampere, argnums=(0, 1))
    >>> value, covariance = ohm(ag.tensor(10.0), ag.tensor(2.0), [0.04, 0.01])
    >>> value, covariance.toarray().round(4)
    (tensor(5.), array([[0.0725]]))
    """
    jacobian = sparse_jacobian(func, argnums, with_value=True)
    jacobian._is_own = False

    @functools.wraps(func)
    def propagated(*args: Any, **kwargs: Any) -> Any:
        np, sparse = get("numpy").module("numpy"), scipys("sparse", by="agrad.func.propagate")
        *arguments, given = args
        J, value = jacobian(*arguments, **kwargs)
        if not sparse.issparse(given):
            given = _host(given) if isinstance(given, Tensor) else np.asarray(given, dtype=float)
        n = J.shape[1]
        if given.shape not in ((n,), (n, n)):
            raise ValueError(
                f"propagate: the covariance of {n} elements is a matrix of shape {(n, n)} or a vector of {n} variances, not of"
                f" shape {tuple(given.shape)}{called()}"
            )
        if given.ndim == 1:
            given = sparse.diags_array(given)
        found = J @ given @ J.T
        return value, sparse.csr_array(found) if sparse.issparse(found) else found

    return propagated
