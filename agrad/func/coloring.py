"""Colourings: which columns and rows of a sparse matrix share one product, and where in the products its entries are found.

Two columns that have no row in common can have one colour: the product of the matrix and the sum of their unit vectors
has the entries of both. Source: Gebremedhin, Manne and Pothen, What color is your Jacobian?, 2005.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.plugin import manager

__all__ = ["Coloring", "coloring"]

MODES = ("auto", "forward", "reverse", "mixed")

#: The cost of a product in reverse mode, in products in forward mode.
REVERSE_COST = 1.5

#: With no more products than this, a better colouring is not worth its cost.
FEW = 8

#: How many different numbers of dense rows are tried in mixed mode.
TRIED = 4

#: The largest number of cells along a side of a drawing.
CELLS = 120


class Coloring:
    """The pattern of a sparse matrix with colours for its columns, its rows, or both; created by `coloring` and reusable.

    Parameters
    ----------
    pattern : scipy.sparse.csr_array
        Booleans, in order.
    columns, rows : array
        The colour of each column, and of each row, counted from 0; -1 for none.
    symmetric : bool, optional
        The matrix is symmetric, and an entry may be read from its mirror image.

    Attributes
    ----------
    forward, reverse : int
        The number of colours of columns, each one product in forward mode, and of rows, each one in reverse mode.

    Raises
    ------
    ValueError
        If the colours do not determine every entry.

    Examples
    --------
    >>> import agrad as ag
    >>> found = ag.func.coloring([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> print(found)
    <Coloring: 2 colours for 3 columns; 5 entries>
    >>> print(found.spy())
    01.
    .10
    ..0
    >>> found.forward, found.reverse
    (2, 0)
    """

    def __init__(self, pattern: Any, columns: Any, rows: Any, *, symmetric: bool = False) -> None:
        self.pattern: Any = pattern
        self.columns: Any = columns
        self.rows: Any = rows
        self.symmetric: bool = symmetric
        self.forward: int
        self.reverse: int
        self.forward, self.reverse = (int(colors.max(initial=-1)) + 1 for colors in (columns, rows))
        self.places: Any = self._places()

    def _places(self) -> Any:
        """Return the position of each entry of the pattern among the products: first those of forward mode, then of reverse mode."""
        np = _numpy()
        row, column = _entries(self.pattern)
        m, n = self.pattern.shape
        by_column = _alone(row, self.columns[column], self.forward)
        places = np.where(by_column, self.columns[column] * m + row, -1)
        if self.symmetric:
            mirrored = _alone(column, self.columns[row], self.forward)
            places = np.where(by_column | ~mirrored, places, self.columns[row] * m + column)
        elif self.reverse:
            by_row = _alone(column, self.rows[row], self.reverse)
            places = np.where(by_column | ~by_row, places, self.forward * m + self.rows[row] * n + column)
        if (places < 0).any():
            i = int(np.argmax(places < 0))
            raise ValueError(f"these colours do not separate the entry ({row[i]}, {column[i]}) from others{called()}")
        return places

    def seeds(self, dtype: Any = "float64") -> tuple[Any, Any]:
        """Return the sums of unit vectors to multiply by: a row for each colour of columns, and of rows."""
        np = _numpy()
        made = []
        for colors, count in ((self.columns, self.forward), (self.rows, self.reverse)):
            seed = np.zeros((count, len(colors)), dtype=dtype)
            colored = np.flatnonzero(colors >= 0)
            seed[colors[colored], colored] = 1
            made.append(seed)
        return made[0], made[1]

    def matrix(self, entries: Any) -> Any:
        """Return the sparse matrix that has the pattern and these entries, in its order."""
        found = copy.copy(self.pattern)  # the constructor checks and converts, which takes longer than some products
        np = _numpy()
        found.data = np.array(entries, dtype=np.result_type(entries, np.float32))  # SciPy has no half precision
        found.indices, found.indptr = self.pattern.indices.copy(), self.pattern.indptr.copy()
        return found

    def save(self, file: Any) -> None:
        """Write the colouring to a file, as NumPy's ``.npz``; `Coloring.load` reads it."""
        parts = {"columns": self.columns, "rows": self.rows, "shape": self.pattern.shape, "symmetric": self.symmetric}
        _numpy().savez_compressed(file, indices=self.pattern.indices, indptr=self.pattern.indptr, **parts)

    @classmethod
    def load(cls, file: Any) -> Coloring:
        """Read a colouring written by `save`."""
        np = _numpy()
        with np.load(file, allow_pickle=False) as found:
            indices, indptr, shape = found["indices"], found["indptr"], tuple(map(int, found["shape"]))
            pattern = _sparse().csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape=shape)
            pattern.check_format(full_check=True)
            columns, rows = found["columns"], found["rows"]
            if (len(rows), len(columns)) != shape:
                raise ValueError(
                    f"{file!r} has {len(rows)} rows and {len(columns)} columns for a matrix of shape {shape}"
                )
            return cls(pattern, columns, rows, symmetric=bool(found["symmetric"]))

    def __repr__(self) -> str:
        m, n = self.pattern.shape
        said = []
        if self.forward or not self.reverse:
            said.append(f"{_counted(self.forward)} for {n:,} columns")
        if self.reverse:
            said.append(f"{_counted(self.reverse)} for {m:,} rows")
        return (
            f"<Coloring: {' and '.join(said)}{', symmetric' if self.symmetric else ''}; {self.pattern.nnz:,} entries>"
        )

    def spy(self, cells: int = 32) -> str:
        """Return the pattern as text, with the colours of columns, then of rows; for a large matrix, a limited number of cells along a side."""
        grid, colors = self._grid(cells)
        letters = "0123456789abcdefghijklmnopqrstuvwxyz"
        lines = [
            "".join(letters[color % len(letters)] if on else "." for on, color in zip(row, line, strict=True))
            for row, line in zip(grid, colors, strict=True)
        ]
        return "\n".join(lines)

    def _grid(self, cells: int) -> tuple[Any, Any]:
        """Return, for each cell of the pattern, whether it holds an entry, and the colour of one."""
        np = _numpy()
        m, n = self.pattern.shape
        row, column = _entries(self.pattern)
        height, width = min(m, cells), min(n, cells)
        place = row * height // max(m, 1), column * width // max(n, 1)
        grid, colors = np.zeros((height, width), dtype=bool), np.zeros((height, width), dtype=int)
        grid[place] = True
        by_column = self.columns[column] >= 0
        colors[place] = np.where(by_column, self.columns[column], self.forward + self.rows[row])
        return grid, colors

    def _repr_html_(self) -> str:
        grid, colors = self._grid(CELLS)
        height, width = grid.shape
        total = max(self.forward + self.reverse, 1)
        squares = [
            f'<rect x="{j}" y="{i}" width="1" height="1" fill="hsl({int(360 * colors[i, j] / total)},65%,45%)"/>'
            for i, j in zip(*grid.nonzero(), strict=True)
        ]
        side = max(height, width, 1)
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{320 * width // side}"'
            f' height="{320 * height // side}" style="border:1px solid #888">{"".join(squares)}</svg>'
        )
        return f"<div>{svg}<br><code>{repr(self)[1:-1]}</code></div>"


def coloring(pattern: Any, mode: str = "auto", *, symmetric: bool = False) -> Coloring:
    """Return a pattern with colours for its columns, its rows or both, using few colours.

    Parameters
    ----------
    pattern : scipy.sparse array or array
        Its nonzero elements are the elements of the matrix that may be nonzero.
    mode : {"auto", "forward", "reverse", "mixed"}, optional
        Colour columns, for products in forward mode; rows, for reverse mode; or both: a few dense rows get products of
        their own, so that they do not separate columns. Default: the cheapest.
    symmetric : bool, optional
        The matrix is symmetric, like a Hessian: its columns are coloured, with fewer colours where entries can be read
        from their mirror images.

    Returns
    -------
    Coloring
        Pass it as ``sparsity=`` to `sparse_jacobian` and `sparse_hessian`; ``save(file)`` and ``Coloring.load(file)``
        store it. Its text says how many colours there are.

    Raises
    ------
    ValueError
        If the mode is unknown, or a symmetric matrix is not square.

    Notes
    -----
    Greedy colouring, with the columns in their own order, then from the fullest to the emptiest, then with the emptiest
    last, until one has as few colours as the fullest row has entries. Source of the symmetric one (no path of four
    columns has two colours): Gebremedhin, Tarafdar, Manne and Pothen, New acyclic and star coloring algorithms with
    application to computing Hessians, 2007.

    Examples
    --------
    >>> import agrad as ag
    >>> pattern = ag.func.jacobian_sparsity(lambda x: x[1:] * x[:-1])(ag.ones(10000))
    >>> ag.func.coloring(pattern)
    <Coloring: 2 colours for 10,000 columns; 19,998 entries>
    """
    np = _numpy()
    if mode not in MODES:
        raise ValueError(f"mode= is one of {', '.join(map(repr, MODES))}; got {mode!r}{called()}")
    pattern = as_pattern(pattern)
    m, n = pattern.shape
    nothing = np.full(n, -1), np.full(m, -1)
    if symmetric:
        if m != n:
            raise ValueError(f"a matrix of shape {(m, n)} is not symmetric{called()}")
        pattern = as_pattern(pattern + pattern.T)
        columns = _greedy(pattern)
        if columns.max(initial=-1) > 2:  # a path of four vertices takes three colours
            star = _star(pattern)
            columns = star if star.max() < columns.max() else columns
        return Coloring(pattern, columns, nothing[1], symmetric=True)
    if mode == "reverse":
        return Coloring(pattern, nothing[0], _greedy(as_pattern(pattern.T)))
    columns = _greedy(pattern)
    found = [(columns.max(initial=-1) + 1, columns, nothing[1])]
    if mode == "forward":
        return Coloring(pattern, columns, nothing[1])
    fullest = _sizes(pattern.T).max(initial=0)
    if fullest * REVERSE_COST < found[0][0]:
        rows = _greedy(as_pattern(pattern.T))
        found.append(((rows.max(initial=-1) + 1) * REVERSE_COST, nothing[0], rows))
    best = min(cost for cost, *_ in found)
    if mode == "mixed" or best > FEW:
        found += _mixed(pattern, best)
    _, columns, rows = min(found, key=lambda each: each[0])
    return Coloring(pattern, columns, rows)


def as_pattern(pattern: Any) -> Any:
    """Return a matrix as a pattern: compressed rows of booleans, without zeros, in order."""
    np, sparse = _numpy(), _sparse()
    if isinstance(pattern, Tensor):
        pattern = pattern._raw
    if not sparse.issparse(pattern):
        owner = backend_of(pattern)
        pattern = np.asarray(pattern if owner is None else owner.to_host(pattern))
        if pattern.ndim != 2:
            raise ValueError(f"a pattern is a matrix, not an array of shape {pattern.shape}{called()}")
    made = sparse.csr_array(pattern)
    if made is pattern or made.dtype != bool:
        made = sparse.csr_array((made.data != 0, made.indices, made.indptr), shape=made.shape, copy=True)
    made.sum_duplicates()
    made.eliminate_zeros()
    made.sort_indices()
    return made


# -- the algorithms -----------------------------------------------------------------------------------------------------


def _greedy(pattern: Any) -> Any:
    """Return colours of columns: no two columns of one colour share a row; empty columns have the first colour."""
    np = _numpy()
    least = int(_sizes(pattern).max(initial=0))
    turned = pattern.tocsc()
    rows, starts = turned.indices.tolist(), turned.indptr.tolist()
    best: list[int] | None = None
    for order in _orders(pattern):
        colors = _colored(order, rows, starts, pattern.shape[0])
        if best is None or max(colors, default=-1) < max(best, default=-1):
            best = colors
        if max(best, default=-1) + 1 <= max(least, 1):
            break
    return np.asarray(best, dtype=np.int64)


def _colored(order: Iterable[int], rows: Sequence[int], starts: Sequence[int], count: int) -> list[int]:
    """Give each column in turn the first colour that none of its rows has yet: each row stores its colours as the bits of an integer."""
    taken = [0] * count
    colors = [0] * (len(starts) - 1)
    for column in order:
        own = rows[starts[column] : starts[column + 1]]
        used = 0
        for row in own:
            used |= taken[row]
        free = ~used & (used + 1)
        for row in own:
            taken[row] |= free
        colors[column] = free.bit_length() - 1
    return colors


def _orders(pattern: Any) -> Iterable[Any]:
    """Return orders of columns to try: the given one, by the number of columns they meet, and with the fewest of those last."""
    np = _numpy()
    n = pattern.shape[1]
    yield range(n)
    if (
        _sizes(pattern).astype(float) ** 2
    ).sum() > 10**7:  # too many meet: the number of entries is a sufficient measure
        yield np.argsort(-_sizes(pattern.T), kind="stable").tolist()
        return
    counted = pattern.astype(np.int8)
    meets = (counted.T @ counted).tocsr()
    yield np.argsort(-np.diff(meets.indptr), kind="stable").tolist()
    yield _smallest_last(meets)


def _smallest_last(graph: Any) -> list[int]:
    """Return the vertices ordered so that each has few neighbours among those before it."""
    np = _numpy()
    neighbours, starts = graph.indices.tolist(), graph.indptr.tolist()
    degrees = np.diff(graph.indptr).tolist()
    heap = [(degree, vertex) for vertex, degree in enumerate(degrees)]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        degree, vertex = heapq.heappop(heap)
        if degrees[vertex] != degree:
            continue
        degrees[vertex] = -1
        order.append(vertex)
        for other in neighbours[starts[vertex] : starts[vertex + 1]]:
            if degrees[other] > 0:
                degrees[other] -= 1
                heapq.heappush(heap, (degrees[other], other))
    return order[::-1]


def _star(pattern: Any) -> Any:
    """Return colours of the columns of a symmetric matrix: neighbours differ, and no path of four has two colours."""
    np = _numpy()
    neighbours, starts = pattern.indices.tolist(), pattern.indptr.tolist()
    n = len(starts) - 1
    around = [[w for w in neighbours[starts[v] : starts[v + 1]] if w != v] for v in range(n)]
    colors = [-1] * n
    for vertex in np.argsort(-_sizes(pattern), kind="stable").tolist():
        forbidden = set()
        for w in around[vertex]:
            color = colors[w]
            if color < 0:
                for x in around[
                    w
                ]:  # so that w can get a colour of its own later, the vertices beyond it have another one
                    if x != vertex and colors[x] >= 0:
                        forbidden.add(colors[x])
                continue
            forbidden.add(color)
            for x in around[w]:
                if x != vertex and colors[x] >= 0 and any(y != w and colors[y] == color for y in around[x]):
                    forbidden.add(colors[x])
        color = 0
        while color in forbidden:
            color += 1
        colors[vertex] = color
    return np.asarray(colors, dtype=np.int64)


def _mixed(pattern: Any, best: float) -> list[tuple[float, Any, Any]]:
    """Return colourings with separate products for some of the fullest rows, or columns."""
    found = []
    for turned in (False, True):
        matrix = as_pattern(pattern.T) if turned else pattern
        for dense, others in _apart(matrix, best, turned=turned):
            costs = (1.0, REVERSE_COST) if turned else (REVERSE_COST, 1.0)
            cost = (dense.max(initial=-1) + 1) * costs[0] + (others.max(initial=-1) + 1) * costs[1]
            found.append((cost, dense, others) if turned else (cost, others, dense))
    return found


def _apart(pattern: Any, best: float, *, turned: bool) -> Iterable[tuple[Any, Any]]:
    """Return colours for some of the fullest rows, and for the columns of the rest."""
    np = _numpy()
    m = pattern.shape[0]
    order = np.argsort(-_sizes(pattern), kind="stable")
    sizes = _sizes(pattern)[order]
    counts = np.arange(m)
    # Dense rows are assumed to meet, and the fullest other row determines the number of colours
    bounds = counts + sizes
    ends = np.flatnonzero(np.diff(sizes, append=-1)) + 1  # all rows of one size are treated together
    ends = ends[ends < m]
    for count in sorted(ends[np.argsort(bounds[ends], kind="stable")][:TRIED].tolist()):
        if bounds[count] * (1.0 if turned else 0.9) >= best + m:
            continue
        is_dense = np.zeros(m, dtype=bool)
        is_dense[order[:count]] = True
        rest = as_pattern(pattern.multiply(~is_dense[:, None]))
        columns = _greedy(rest)
        columns[_sizes(rest.T) == 0] = -1
        rows = np.full(m, -1)
        chosen = np.flatnonzero(is_dense)
        rows[chosen] = _greedy(as_pattern(pattern[chosen].T))
        yield rows, columns


# -- patterns -----------------------------------------------------------------------------------------------------------


def _alone(lines: Any, colors: Any, count: int) -> Any:
    """Return whether an entry is the only one of its colour in its line."""
    np = _numpy()
    if not count:
        return np.zeros(len(lines), dtype=bool)
    keys = lines.astype(np.int64) * count + colors
    size = int(lines.max(initial=-1) + 1) * count
    if size <= 8 * len(keys) + 1000:
        alone = np.bincount(keys[colors >= 0], minlength=size)[keys] == 1
    else:
        _, place, members = np.unique(keys, return_inverse=True, return_counts=True)
        alone = members[place] == 1
    return alone & (colors >= 0)


def _entries(pattern: Any) -> tuple[Any, Any]:
    """Return the row and the column of every entry."""
    np = _numpy()
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr)), pattern.indices.astype(np.int64)


def _sizes(pattern: Any) -> Any:
    """Return how many entries each row has."""
    np = _numpy()
    return (
        np.diff(pattern.indptr) if pattern.format == "csr" else np.bincount(pattern.indices, minlength=pattern.shape[0])
    )


def _counted(count: int) -> str:
    return f"{count:,} colour{'' if count == 1 else 's'}"


def _numpy() -> Any:
    return manager.get("numpy").module("numpy")


def _sparse() -> Any:
    return manager.scipys("sparse", by="agrad.func.coloring")
