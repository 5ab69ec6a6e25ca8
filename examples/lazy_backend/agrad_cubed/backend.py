"""cubed as a backend: its own functions run chunk by chunk; all others, in one task that holds whole operands.

cubed knows beforehand how much a task will hold, and refuses one that needs more than its Spec allows. So nothing here
counts bytes except `whole`, which declares the memory of its task.
"""

from __future__ import annotations

import copy
from typing import ClassVar, NamedTuple

import cubed
import cubed.array_api as xp
import networkx as nx
import numpy as np
from cubed.array_api.array_object import Array
from cubed.core.ops import elemwise, general_blockwise
from cubed.core.optimization import can_fuse_predecessors, predecessor_ops_and_arrays
from cubed.primitive.blockwise import ChunkKey, FunctionArgs, fuse_multiple
from cubed.storage.virtual import VirtualInMemoryArray

import agrad as ag
from agrad import Backend
from agrad.plugin.backend import PRIMITIVES, Place, Spec, check_bounds, key_parts
from agrad.plugin.programs import infer

#: cubed keeps arrays of up to this many bytes in memory, as parts of its plans.
IN_MEMORY = 10**6


class CubedBackend(Backend):
    """Arrays of cubed: lazy, in chunks, computed within the memory of their Spec, through Zarr."""

    name = "cubed"
    contract = 2
    is_lazy = True
    capabilities: ClassVar = {
        "empty arrays": "cubed cannot index, rechunk or join arrays without elements",
    }
    computes: ClassVar = {
        "nonzero": "cubed has no arrays of unknown shape",
        "unique_all": "cubed has no arrays of unknown shape",
    }

    def namespace(self):
        return xp

    def availability(self):
        return True, str(cubed.__version__)

    def spec(self, array):
        return Spec(self, array.shape, array.dtype, self.device_of(array), array.chunks)

    def device_of(self, array):
        return Place(self.name, array.spec)  # cubed does not mix arrays of different resources

    def creation(self, device):
        spec = context_of(device)
        return {} if spec is None else {"spec": spec}

    def kernel(self, op):
        rule, numpy = ag.rules.get(op), host_kernel(op)
        composed = op.startswith(("nn.", "extra.")) and op not in WINDOWS
        if rule is None or numpy is None or op in PRIMITIVES or composed:
            return None  # the contract's kernel, or agrad's composition
        if op in COMPUTED:
            return computed(numpy)
        by_name = getattr(xp, op, None) if op in OWN or rule.kind == "elementwise" else None
        own = KERNELS.get(op, by_name)
        if own is not None:
            return apart(own)
        return by_chunk(op) if rule.kind == "elementwise" else whole(op)

    # -- making arrays and reading them --------------------------------------------------------------------------------

    def asarray(self, value, *, dtype=None, device=None, copy=None, like=None):
        dtype = None if dtype is None else self.dtype(dtype)
        if isinstance(value, Array):
            value = twin(value) if copy else value  # recordings know arrays by identity
            return value if dtype is None or dtype == value.dtype else xp.astype(value, dtype)
        return placed(np.asarray(value, dtype=dtype), context_of(device) if like is None else like.spec)

    def from_host(self, buffer, device):
        return placed(np.array(buffer), context_of(device))

    def to_host(self, array):
        return values_of(array)[0]

    def from_dlpack(self, x, *, copy=None):
        return self.from_host(np.from_dlpack(x), self.name)

    def item(self, array):
        return self.to_host(array).item()

    def tolist(self, array):
        return self.to_host(array).tolist()

    def scalar(self, value, spec):
        return placed(np.asarray(value, self.scalar_dtype(value, spec)), context_of(spec.device))

    def realize(self, *arrays, keep="host", max_memory=None, progress=None):
        """Compute arrays in one pass; small ones are in memory afterwards, others in cubed's storage."""
        lazy = [a for a in arrays if not is_known(a)]
        if lazy:
            cubed.compute(*lazy, optimize_function=fused, _return_in_memory_array=False)
        return tuple(a if is_known(a) else stored(a) for a in arrays)

    # -- the primitives ------------------------------------------------------------------------------------------------

    def broadcast_like(self, array, spec):
        array = copy.copy(array)
        if spec.layout is None:  # in a program, which holds no chunks
            return xp.broadcast_to(array, spec.shape)
        new = len(spec.shape) - array.ndim
        repeated = [k < new or array.shape[k - new] == 1 for k in range(len(spec.shape))]
        chunks = [c if repeated[k] else array.chunksize[k - new] for k, c in enumerate(sizes(spec.layout))]
        return self.in_layout(xp.broadcast_to(array, spec.shape, chunks=tuple(chunks)), spec)

    def in_layout(self, array, spec):
        alike = spec.layout in (None, array.chunks) or array.shape != spec.shape
        return array if alike else copy.copy(array).rechunk(sizes(spec.layout))

    def setitem(self, array, key, value):
        check_bounds(array.shape, key)
        return self.in_layout(SETITEM(array, with_masks(key), value), self.spec(array))

    def scatter_add(self, spec, key, values):
        arrays = []
        call = taken(((spec.shape, with_masks(key), values), {}), arrays)
        (made,) = one_task(task_of(scattered, call), arrays, [(spec.shape, values.dtype)])
        return self.in_layout(made, spec)

    def random(self, kind, shape, key, *, dtype, device, **p):
        if kind == "permutation":
            return placed(generator(key).permutation(p["n"]).astype(dtype), context_of(device))
        empty = xp.empty(shape, dtype=dtype, spec=context_of(device))
        return cubed.map_blocks(draw, empty, dtype=dtype, kind=kind, key=key, p=p)


# -- arrays -----------------------------------------------------------------------------------------------------------


def sizes(chunks):
    """Return the chunks of an array in the form for cubed's functions: one size per axis."""
    return tuple(along[0] for along in chunks)


def context_of(device):
    """Return the Spec of a place, None for a device's name: then cubed's configuration applies."""
    return getattr(device, "context", None)


def twin(array):
    """Return another array with the same values."""
    return copy.copy(array)


def placed(host, spec=None):
    """Create an array from data in memory."""
    if host.nbytes <= IN_MEMORY:
        return xp.asarray(host, spec=spec)
    return cubed.from_array(host, spec=spec)


def is_known(array):
    """Return whether the values are in memory."""
    return isinstance(array._zarray, VirtualInMemoryArray)


def values_of(*arrays):
    """Return arrays as NumPy's; those that are not in memory are computed, in one pass."""
    lazy = [a for a in arrays if not is_known(a)]
    found = iter(cubed.compute(*lazy, optimize_function=fused) if lazy else ())
    return [np.asarray(a._zarray.array if is_known(a) else next(found)) for a in arrays]


def fused(dag, *, array_names):
    """Optimize a plan as cubed does, in one copy of it: cubed makes one for each operation that it fuses."""
    dag = dag.copy()
    for name in list(nx.topological_sort(dag)):
        if name.startswith("array-") or not can_fuse_predecessors(dag, name, array_names=array_names):
            continue
        node, before = dag.nodes[name], list(predecessor_ops_and_arrays(dag, name))
        made = fuse_multiple(
            node["primitive_op"], *(dag.nodes[op]["primitive_op"] if fits else None for op, _, fits in before)
        )
        node |= {"primitive_op": made, "pipeline": made.pipeline}
        sources = [source for op, _, fits in before if fits for source, _ in dag.in_edges(op)]
        dag.remove_nodes_from({gone for op, between, fits in before if fits for gone in (op, between)})
        dag.add_edges_from((source, name) for source in sources)
    return dag


def stored(array):
    """Return a computed array as one that is read from the place of its values."""
    if array.nbytes <= IN_MEMORY:
        return xp.asarray(np.asarray(array._read_stored()), chunks=sizes(array.chunks), spec=array.spec)
    return cubed.from_array(array._zarray.open(), spec=array.spec)


def generator(key, block=0):
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([*key, block])))


def draw(chunk, block_id=None, *, kind, key, p):
    source = generator(key, sum(k * 2**20**i for i, k in enumerate(block_id)))
    if kind == "integers":
        return source.integers(p["low"], p["high"], chunk.shape, chunk.dtype)
    drawn = source.random(chunk.shape) if kind == "uniform" else source.standard_normal(chunk.shape)
    return drawn.astype(chunk.dtype)


# -- kernels that cubed lacks --------------------------------------------------------------------------------------------


def host_kernel(op):
    """Return the kernel of agrad's NumPy backend, None if there is none."""
    found = ag.backends.get("numpy").xp
    for part in op.split("."):
        found = getattr(found, part, None)
    return found


def apart(function):
    """Return a kernel that passes on copies of its operands: the results' plans hold them, and must not hold agrad's."""

    def kernel(*args, **parameters):
        arrays = []
        call = taken((args, parameters), arrays)
        args, parameters = given(call, [copy.copy(a) for a in arrays])
        return function(*args, **parameters)

    return kernel


def by_chunk(op):
    """Return a kernel that runs an elementwise operation by NumPy, on the chunks of its operands."""

    def kernel(*args, **parameters):
        arrays = []
        call = taken((args, parameters), arrays)
        ((_, dtype),) = results(op, args, parameters)
        return elemwise(task_of(host_kernel(op), call), *arrays, dtype=dtype)

    return kernel


def computed(function):
    """Return a kernel whose results have shapes that depend on values: it computes its operands."""

    def kernel(*args, **parameters):
        arrays = []
        call = taken((args, parameters), arrays)
        args, parameters = given(call, values_of(*arrays))
        made, spec = function(*args, **parameters), arrays[0].spec
        return tuple(placed(m, spec) for m in made) if isinstance(made, tuple) else placed(made, spec)

    return kernel


class Slot(NamedTuple):
    """The position of a task's operand in the arguments of its function."""

    number: int


def taken(value, arrays):
    """Return arguments with slots for the arrays in them, which are added to a list."""
    if isinstance(value, Array):
        arrays.append(value)
        return Slot(len(arrays) - 1)
    if isinstance(value, tuple | list):
        return type(value)(taken(v, arrays) for v in value)
    return {k: taken(v, arrays) for k, v in value.items()} if isinstance(value, dict) else value


def given(value, values):
    """Return arguments with values for the slots in them."""
    if isinstance(value, Slot):
        return values[value.number]
    if isinstance(value, tuple | list):
        return type(value)(given(v, values) for v in value)
    return {k: given(v, values) for k, v in value.items()} if isinstance(value, dict) else value


def whole(op, function=None):
    """Return a kernel that runs an operation by NumPy in one task, on whole operands, if its memory allows for them."""

    def kernel(*args, **parameters):
        arrays = []
        call = taken((args, parameters), arrays)
        run = task_of(function or host_kernel(op), call)
        expected = results(op, args, parameters)
        if any(0 not in shape for shape, _ in expected):
            done = one_task(run, arrays, expected)
        else:  # there is nothing to wait for
            done = tuple(placed(np.empty(shape, dtype), arrays[0].spec) for shape, dtype in expected)
        return done[0] if ag.rules[op].outputs is None else done

    return kernel


def task_of(function, call):
    """Return a function of only the values of a call's arrays."""

    def run(*values):
        args, parameters = given(call, values)
        return function(*args, **parameters)

    return run


def results(op, args, parameters):
    """Return the shapes and dtypes of an operation's results, without computing anything."""
    backend = ag.backends.get("cubed")

    def outlined(value):
        if isinstance(value, Array):
            return backend.spec(value)
        return type(value)(map(outlined, value)) if type(value) in (tuple, list) else value

    found = infer(op, outlined(args), {name: outlined(value) for name, value in parameters.items()})
    if found is None:
        raise ag.UnsupportedOp(op, "cubed", "the shape of its result depends on values")
    return [(one.shape, np.dtype(one.dtype)) for one in found]


def one_task(run, arrays, expected):
    """Return the results of a function of whole arrays as arrays of one chunk each, made by one task."""
    ndim = max(len(shape) for shape, _ in expected)  # for several results cubed requires as many chunks along each axis
    shapes = [(1,) * (ndim - len(shape)) + shape for shape, _ in expected]
    dtypes = [dtype for _, dtype in expected]
    sources = [copy.copy(a).rechunk(a.shape) if a.ndim else copy.copy(a) for a in arrays]

    def task(*values):
        made = run(*values)
        made = made if isinstance(made, tuple | list) else (made,)
        made = tuple(np.reshape(m, s) for m, s in zip(made, shapes, strict=True))
        return made if len(made) > 1 else made[0]

    def operands(out):
        return FunctionArgs(*(ChunkKey(a.name, (0,) * a.ndim) for a in sources), output_name=out.name)

    taken = sum(a.nbytes for a in arrays) + sum(int(np.prod(s)) * d.itemsize for s, d in expected)
    made = general_blockwise(
        task,
        operands,
        *sources,
        shapes=shapes,
        dtypes=dtypes,
        chunkss=shapes,
        target_stores=[None] * len(shapes) if len(shapes) > 1 else None,
        extra_projected_mem=2 * taken,
        op_name="whole",
    )
    made = made if isinstance(made, tuple) else (made,)
    return tuple(
        xp.squeeze(m, tuple(range(ndim - len(shape)))) if len(shape) < ndim else m
        for m, (shape, _) in zip(made, expected, strict=True)
    )


def scattered(shape, key, values):
    made = np.zeros(shape, values.dtype)
    np.add.at(made, key, values)
    return made


def assigned(array, key, value):
    made = np.array(array)
    made[key] = value
    return made


SETITEM = whole("setitem", assigned)
GETITEM = whole("getitem", lambda x, key: x[key])


def getitem(x, key, /):
    """Index: cubed supports forward slices and one array of integers; any other key gets a separate task."""
    check_bounds(x.shape, key)
    parts = key_parts(key)
    arrays = [part for part in parts if isinstance(part, Array)]
    if arrays:
        return GETITEM(x, with_masks(key))
    backwards = [isinstance(part, slice) and part.step is not None and part.step < 0 for part in parts]
    return GETITEM(x, parts) if any(backwards) or not x.ndim else x[parts]


def with_masks(key):
    """Return a key with indices in place of its masks: the shape of their result depends on values, so they are computed."""
    parts = key_parts(key)
    values = iter(values_of(*(part for part in parts if is_mask(part))))
    found = []
    for part in parts:
        found += [placed(k, part.spec) for k in np.nonzero(next(values))] if is_mask(part) else [part]
    return tuple(found)


def is_mask(part):
    return isinstance(part, Array) and part.dtype == bool


def reshape(x, /, shape, *, copy=None):  # noqa: ARG001 (arrays of cubed are never written to)
    """Reshape chunk by chunk if chunks are mapped to chunks, otherwise in one task."""
    try:
        return xp.reshape(x, shape)
    except (NotImplementedError, ValueError):
        return RESHAPE(x, shape=tuple(shape))


def matrix_transpose(x, /):
    """Transpose, and remember the operand: cubed would write a transpose of data larger than memory to its storage."""
    made = xp.matrix_transpose(x)
    made.turned = x if x.ndim == 2 else None
    return made


def matmul(x, y, /):
    """Multiply matrices; a transpose is read as its operand."""
    left, right = getattr(x, "turned", None), getattr(y, "turned", None)
    if (left is None and right is None) or not 0 < min(x.ndim, y.ndim) <= max(x.ndim, y.ndim) < 3:
        return xp.matmul(x, y)
    axes = (x.ndim - 1 if left is None else 0,), (0 if right is None else 1,)
    return xp.tensordot(x if left is None else left, y if right is None else right, axes=axes)


def tensordot(x, y, /, *, axes=2):
    if not isinstance(axes, int):
        axes = tuple(a % x.ndim for a in axes[0]), tuple(a % y.ndim for a in axes[1])
    return xp.tensordot(x, y, axes=axes)


def vecdot(x, y, /, *, axis=-1):
    return xp.sum(xp.multiply(conj(x), y), axis=axis)


def conj(x, /):
    return xp.conj(x) if xp.isdtype(x.dtype, "complex floating") else x


def real(x, /):
    return xp.real(x) if xp.isdtype(x.dtype, "complex floating") else x


def in_its_dtype(function):
    """Return a mean or spread in its declared dtype: cubed's are in double precision, which not every storage casts."""

    def reduced(x, /, **parameters):
        made = function(x, **parameters)
        return elemwise(lambda a: np.astype(a, made.dtype, copy=False), made, dtype=made.dtype)

    return reduced


def clip(x, /, min=None, max=None):
    x = x if min is None else xp.maximum(x, min)
    return x if max is None else xp.minimum(x, max)


def concat(arrays, /, *, axis=0):
    """Join: by cubed if every chunk of the result is one of an operand's."""
    axis = None if axis is None else axis % arrays[0].ndim
    if axis is None or len({a.dtype for a in arrays}) > 1:
        return CONCAT(arrays, axis=axis)
    arrays = [a for a in arrays if a.shape[axis]] or arrays[:1]
    if len(arrays) == 1:
        return arrays[0]
    size = arrays[0].chunksize[axis]
    fits = all(a.chunksize == arrays[0].chunksize and a.shape[axis] % size == 0 for a in arrays)
    return xp.concat(arrays, axis=axis) if fits else CONCAT(arrays, axis=axis)


def running(name):
    function, instead = getattr(xp, name), whole(name)

    def accumulated(x, /, *, axis=None, dtype=None, include_initial=False):
        axis = 0 if axis is None else axis
        if include_initial:
            return instead(x, axis=axis, dtype=dtype, include_initial=True)
        return function(x, axis=axis, dtype=dtype)

    return accumulated


CONCAT = whole("concat")
RESHAPE = whole("reshape")

#: The functions that cubed runs chunk by chunk, besides the differentiable elementwise ones.
OWN = {
    *("abs", "astype", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
    *(
        "bitwise_xor",
        "equal",
        "greater",
        "greater_equal",
        "isfinite",
        "isinf",
        "isnan",
        "less",
        "less_equal",
        "logical_and",
    ),
    *("logical_not", "logical_or", "logical_xor", "maximum", "minimum", "not_equal", "sign", "signbit", "where"),
    *("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"),
    *("broadcast_to", "expand_dims", "flip", "permute_dims", "squeeze", "tril", "triu"),
}

#: The same with a preceding step of our own.
KERNELS = {
    "clip": clip,
    "concat": concat,
    "conj": conj,
    "cumulative_prod": running("cumulative_prod"),
    "cumulative_sum": running("cumulative_sum"),
    "getitem": getitem,
    "matmul": matmul,
    "matrix_transpose": matrix_transpose,
    "mean": in_its_dtype(xp.mean),
    "real": real,
    "reshape": reshape,
    "std": in_its_dtype(xp.std),
    "tensordot": tensordot,
    "var": in_its_dtype(xp.var),
    "vecdot": vecdot,
}

#: Functions that cut windows out of images: agrad's compositions use slices with steps, which fail in cubed for some
#: chunks.
WINDOWS = {"nn.conv2d", "nn.conv2d_input", "nn.conv2d_weight", "nn.avg_pool2d", "nn.avg_pool2d_adjoint", "nn.max_pool2d",
           "nn.max_pool2d_adjoint"}  # fmt: skip

#: Functions whose results have a shape that depends on values.
COMPUTED = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
