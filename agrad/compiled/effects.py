"""The effects of functions written in C, as a table: how each reads, keeps, changes or returns its arguments.

A line of the table is ``reads returns [keyword=letter ...]: names``, with "!" after ``returns`` if the functions change their
first argument; `ArgumentEffects` defines the words. A block of lines belongs to a module or to a class. Functions without
a row are unknown. Names missing from this version of Python or NumPy are skipped, and so are functions that were replaced by
Python code.

The rows of an array library are added once the program has imported it: nothing here imports one.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, cast

__all__ = ["ArgumentEffects", "add_imported", "effects_of", "method_effects", "side_effect_of"]

_NONE: Mapping[str, str] = MappingProxyType({})


class ArgumentEffects(NamedTuple):
    """How a function treats its arguments.

    Attributes
    ----------
    reads : str
        A letter per positional argument, including `self`. The last letter repeats, and applies to keywords that are not in
        `named` ("dd-d": the third argument's treatment is unknown, and keywords are read). The function

        - "d" reads it with everything it holds (compares floats or computes with them; reads entries, an array's values);
        - "e" takes its entries, and passes them on unread (``list(xs)``, ``zip``); it may look up keys of a dict;
        - "m" takes a mapping as "e", or pairs as "d" (``dict(pairs)`` reads each pair, and hashes its first element);
        - "n" reads only its number of entries, its truth, its class or, for an array, its shape and dtype;
        - "p" passes it on or keeps it, without inspecting it;
        - "c" calls it with the content of the other arguments, unless it is None (``key=None``);
        - "f" calls it without arguments;
        - "-" treats it in an unknown way: a call with such an argument is treated as one of an unknown function.

        A function that reads an iterator exhausts it.
    returns : str
        What the result may be; each word includes the ones before it:

        - "plain" a number, a text, None or a bool;
        - "new" an object created by the call, whose content may come from the arguments;
        - "member" an argument, or an object that one holds;
        - "view" an object that continues to read an argument (``dict.keys()``, iterators, arrays on an array's memory).

        The entries of an array are views of it, even in a new list. NumPy's functions may return the objects that lists and
        arrays of objects hold.
    changes : bool
        Whether the function changes its first argument (`self` of a method).
    named : Mapping
        The letters of keywords.
    """

    reads: str
    returns: str
    changes: bool = False
    named: Mapping[str, str] = _NONE


#: All C functions of these modules only compute with their arguments.
_ARITHMETIC = ("math", "cmath")

#: Those of them that return the result of an argument's method (``__ceil__``, ``__mul__``), which may be any object.
_CALLING_METHODS = ("ceil", "floor", "prod", "sumprod", "trunc")

#: Functions and constructors, by module.
_FUNCTIONS = {
    "builtins": """
        d plain: all any ascii bin bytes chr complex float format hex int oct ord repr str
        d member: abs divmod pow round sum
        d new: bytearray range set
        d new key=c: sorted
        d member key=c default=p: max min
        d member: frozenset
        n plain: bool callable len
        ne plain: isinstance issubclass
        n- member: type
        e new: list
        e member: tuple
        mp new: dict
        p new: object slice
        e new: property staticmethod classmethod
        n view: memoryview
        ed view: enumerate
        e view strict=d: zip
        e view: reversed
        e- view: iter
        ce view strict=d: map
        cd view: filter
        ep member!: next
    """,
    "operator": """
        d member: abs add and_ floordiv index inv invert lshift mod mul matmul neg or_ pos pow rshift sub truediv xor
        d member: eq ne lt le gt ge
        d member: concat
        n plain: truth not_
        d plain: contains countOf indexOf
        ed view: getitem
        pdp plain!: setitem
        ed plain!: delitem
        d member!: iadd iand ifloordiv ilshift imod imul imatmul ior ipow irshift isub itruediv ixor
        d member!: iconcat
        p new: attrgetter itemgetter methodcaller
    """,
    "itertools": """
        dc view initial=d: accumulate
        e view: chain pairwise
        e view fillvalue=p: zip_longest
        ed view: batched combinations combinations_with_replacement compress islice permutations
        e view repeat=d: product
        cd view: dropwhile filterfalse starmap takewhile
        dc view: groupby
        pd view: repeat
    """,
    "functools": """
        cep member: reduce
        p new: cmp_to_key partial
    """,
    "collections": """
        ed new: deque
        mp new: OrderedDict
        fmp new: defaultdict
        d plain!: _count_elements
    """,
    "types": """
        p new: MethodType
        mp new: SimpleNamespace
        p view: MappingProxyType
    """,
    "heapq": """
        d plain!: heappush heapify _heapify_max heapify_max heappush_max
        d member!: heappop heapreplace heappushpop _heappop_max _heapreplace_max heappop_max heapreplace_max heappushpop_max
    """,
    "bisect": """
        d plain key=c: bisect bisect_left bisect_right
        d plain! key=c: insort insort_left insort_right
    """,
}

#: Members of the classes in `_VALUES` that do more than read values and return one; all others only do that.
_MORE_THAN_READING = """
    __new__ __init__ __init_subclass__ __subclasshook__ __class_getitem__ __getattribute__ __setattr__ __delattr__ __dir__ __doc__
    __reduce__ __reduce_ex__ __setstate__ __getformat__ __sizeof__ __buffer__ __release_buffer__ __iter__ __hash__
"""
_VALUES = ("int", "float", "complex", "bool", "str", "bytes", "range", "slice")

#: By class: members that return more than a value, and ``__hash__`` where the value determines it (the hash of a NaN, and
#: that of most objects, depends on the address).
_NOT_PLAIN = {
    "int": "d plain: __hash__",
    "slice": "e member: start stop step",
    "str": """
        d plain: __hash__
        d new: split rsplit splitlines partition rpartition
        d view: __iter__
    """,
    "bytes": """
        d plain: __hash__
        d new: split rsplit splitlines partition rpartition
        d view: __iter__
    """,
    "range": """
        d plain: __hash__
        d view: __iter__ __reversed__
    """,
}

_COMPARISONS = "__eq__ __ne__ __lt__ __le__ __gt__ __ge__"

_DICT = """
    pmp plain!: __init__ update
    edp member: get
    ed member: __getitem__
    p view: keys values items __iter__ __reversed__
    e new: copy __copy__ __or__ __ror__
    pm member!: __ior__
    ed plain: __contains__
    n plain: __len__
    d plain: __eq__ __ne__ __repr__
    pdp plain!: __setitem__
    ed plain!: __delitem__
    edp member!: pop setdefault
    ed member!: popitem
    p plain!: clear
"""

_SET = f"""
    d new: __and__ __or__ __sub__ __xor__ __rand__ __ror__ __rsub__ __rxor__
    d new: difference intersection symmetric_difference union
    d plain: isdisjoint issubset issuperset {_COMPARISONS} __contains__ __repr__
    n plain: __len__
    e view: __iter__
    e new: copy
"""

_TUPLE = f"""
    d plain: count index {_COMPARISONS} __contains__ __repr__
    ed member: __getitem__ __mul__ __rmul__
    e member: __add__
    n plain: __len__
    e view: __iter__
    e new: __getnewargs__
"""

_VIEW = """
    n plain: __len__
    e view: __iter__ __reversed__
"""

_KEYS = f"""
    d new: __and__ __or__ __sub__ __xor__ __rand__ __ror__ __rsub__ __rxor__
    d plain: {_COMPARISONS} __contains__ __repr__ isdisjoint
    p view: mapping
"""

_ITERATOR = """
    e member!: __next__
    p member: __iter__
"""

#: Methods, special methods and attributes, by class; the first letter is that of `self`.
_METHODS = {
    "object": """
        p plain: __init__
        d view: __reduce_ex__ __getstate__
    """,
    "list": f"""
        pe plain!: __init__ extend
        p plain!: append clear reverse
        ndp plain!: insert
        nde plain!: __setitem__
        nd plain!: __delitem__
        d plain!: remove
        d plain! key=c: sort
        ed member!: pop __imul__
        pe member!: __iadd__
        ed member: __getitem__
        e new: copy __add__
        ed new: __mul__ __rmul__
        d plain: count index {_COMPARISONS} __contains__ __repr__
        n plain: __len__
        e view: __iter__ __reversed__
    """,
    "tuple": _TUPLE,
    "dict": _DICT,
    "set": f"""
        {_SET}
        d plain!: __init__ update difference_update intersection_update symmetric_difference_update remove discard add
        e member!: pop
        p plain!: clear
        d member!: __iand__ __ior__ __isub__ __ixor__
    """,
    "frozenset": _SET.replace("d new", "d member").replace("e new", "e member"),
    "bytearray": f"""
        pd plain!: __init__ append extend
        p plain!: clear reverse
        nd plain!: insert __setitem__ __delitem__
        d plain!: remove
        d plain!: pop
        d member!: __iadd__ __imul__
        d new: __add__ __mul__ __rmul__ __mod__ copy strip lstrip rstrip split rsplit splitlines partition rpartition replace join
        d plain: count find rfind index rindex startswith endswith decode hex {_COMPARISONS} __contains__ __repr__ __getitem__
        n plain: __len__
        d view: __iter__
    """,
    "memoryview": """
        d plain: __eq__ __ne__ tobytes hex
        d new: tolist
        d view: __getitem__ __iter__ cast toreadonly
        n plain: __len__ nbytes itemsize format ndim shape strides readonly contiguous
        nd plain!: __setitem__
    """,
    "mappingproxy": """
        edp member: get
        ed member: __getitem__
        p view: keys values items __iter__ __reversed__
        e new: copy
        d new: __or__ __ror__
        ed plain: __contains__
        n plain: __len__
        d plain: __eq__ __ne__ __repr__
    """,
    "dict_keys": _VIEW + _KEYS,
    "dict_items": _VIEW + _KEYS,
    "dict_values": _VIEW + "p view: mapping",
    "generator": """
        ep member!: __next__ send throw close
        p member: __iter__
    """,
    "BaseException": """
        p plain!: __init__
        d plain: __str__ __repr__
        e member: args __cause__ __context__ __suppress_context__ value name obj
        p member!: with_traceback
        p plain!: add_note
    """,
    "collections.deque": f"""
        ped plain!: __init__
        p plain!: append appendleft clear reverse
        pe plain!: extend extendleft
        pd plain!: rotate
        e member!: pop popleft
        ndp plain!: insert __setitem__
        nd plain!: __delitem__
        d plain!: remove
        pe member!: __iadd__
        ed member!: __imul__
        ed member: __getitem__
        e new: copy __copy__ __add__
        ed new: __mul__ __rmul__
        d plain: count index {_COMPARISONS} __contains__ __repr__
        n plain: __len__ maxlen
        e view: __iter__ __reversed__
    """,
    "collections.OrderedDict": _DICT + "edd plain!: move_to_end",
    "collections.defaultdict": f"""
        {_DICT}
        pfmp plain!: __init__
        ed member!: __getitem__ __missing__
        e member: default_factory
    """,
    "functools.partial": "e member: func args keywords",
    "operator.itemgetter": "pe view: __call__",
    "re.Pattern": """
        d new: match search fullmatch findall split
        d view: finditer
        dcd plain: sub
        dcd new: subn
        d plain: pattern flags groups
    """,
    "re.Match": """
        d plain: group start end __getitem__ pos endpos lastindex lastgroup string
        d new: groups groupdict span regs
        e member: re
    """,
}

#: The method ``__new__`` of built-in classes, called as ``cls.__new__(cls, ...)``.
_NEW_METHODS = """
    p new: object list dict set BaseException
    pe member: tuple
    pd member: frozenset
    pd plain: int float complex str bytes
"""

#: Class methods and static methods; no letter stands for the class: ``dict.fromkeys(keys)``.
_OF_CLASSES = {
    "dict": "dp new: fromkeys",
    "int": "d plain: from_bytes",
    "float": "d plain: fromhex",
    "bytes": """
        d plain: fromhex
        d new: maketrans
    """,
    "bytearray": "d new: fromhex maketrans",
    "str": "d new: maketrans",
    "object": "p plain: __init_subclass__ __subclasshook__",
    "itertools.chain": "d view: from_iterable",
    "collections.OrderedDict": "dp new: fromkeys",
}

#: NumPy's functions, by module, except ufuncs, which `_EffectsTable` adds. A hyphen marks the position of `out`, which the
#: function would write to (in `np.all`, the third).
_NUMPY = {
    "numpy": """
        d new: allclose append argsort argpartition argwhere array_equal array_equiv average bartlett bincount blackman block
        d new: column_stack common_type convolve corrcoef correlate count_nonzero cov cross delete diag_indices diag_indices_from
        d new: diff digitize dstack ediff1d einsum einsum_path extract flatnonzero full geomspace gradient hamming hanning
        d new: histogram histogram2d histogram_bin_edges histogramdd hstack i0 identity indices inner insert interp intersect1d
        d new: isclose iscomplex isdtype isfortran isin isreal kaiser kron lexsort linspace logspace nonzero
        d new: copy diagflat ones packbits poly polyadd polyder polydiv polyfit polyint polymul polysub polyval promote_types
        d new: ravel_multi_index repeat resize result_type roll roots searchsorted select setdiff1d setxor1d
        d new: sinc sort sort_complex tensordot tile trapezoid tri tril tril_indices tril_indices_from triu
        d new: triu_indices triu_indices_from take_along_axis union1d unique unique_all unique_counts unique_inverse unique_values
        d new: unpackbits unravel_index unwrap vander vdot vstack where eye
        d new: arange zeros fromiter cumulative_prod cumulative_sum min_scalar_type empty empty_like full_like ones_like zeros_like
        d new: dtype finfo iinfo
        d view: ndindex
        d new copy=-: array astype meshgrid
        d-d new copy=-: nan_to_num
        d plain: base_repr binary_repr broadcast_shapes can_cast iscomplexobj isrealobj isscalar issubdtype mintypecode
        d plain: ndim shape size typename
        e plain: iterable
        dd--d new overwrite_input=-: median nanmedian
        ddd--d new overwrite_input=-: percentile quantile nanpercentile nanquantile
        dd-d new: all any amax amin max min nanmax nanmin argmax argmin nanargmax nanargmin ptp round around choose concatenate concat stack
        dd-d new: dot outer
        ddd-d new: sum prod mean std var nansum nanprod nanmean nanstd nanvar cumsum cumprod nancumsum nancumprod take compress clip
        ddddd-d new: trace
        d-d new: fix isneginf isposinf
        ddcd new: pad
        cd new: fromfunction
        cddd new: apply_along_axis apply_over_axes
        d view: asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite require array_split atleast_1d atleast_2d atleast_3d
        d view: broadcast broadcast_arrays broadcast_to diag diagonal dsplit expand_dims flip fliplr flipud hsplit imag
        d view: ix_ matrix_transpose moveaxis ndenumerate permute_dims ravel real real_if_close reshape rollaxis rot90 split squeeze swapaxes
        d view: transpose trim_zeros unstack vsplit frombuffer
        ndd plain!: copyto put place putmask put_along_axis fill_diagonal
        d member: bool float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128 longdouble
        d member: clongdouble longlong ulonglong str_ bytes_ intc uintc intp uintp
    """,
    "numpy.linalg": """
        d new: cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_rank multi_dot norm
        d new: outer pinv qr slogdet solve svd svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm
        d view: diagonal matrix_power matrix_transpose
    """,
    "numpy.fft": """
        dddd-d new: fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft ihfft
        d new: fftfreq rfftfreq fftshift ifftshift
    """,
}

_ARRAY_METHODS = """
    d member: item
    d new: argsort argpartition copy flatten repeat tobytes tolist
    d new: __add__ __and__ __divmod__ __floordiv__ __lshift__ __matmul__ __mod__ __mul__ __or__ __pow__ __rshift__ __sub__
    d new: __radd__ __rand__ __rdivmod__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__
    d new: __rsub__ __rtruediv__ __rxor__ __truediv__ __xor__ __abs__ __invert__ __neg__ __pos__
    d new: __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __copy__ __deepcopy__
    d plain: __bool__ __complex__ __contains__ __float__ __index__ __int__
    dd-d new: all any argmax argmin dot max min round
    ddd-d new: clip compress cumprod cumsum mean prod std sum take var
    ddddd-d new copy=-: astype
    d view: __array__ __getitem__ __iter__ ravel reshape
    d-d view: conj conjugate
    nd view: getfield squeeze transpose view T mT flat imag real
    n plain: __len__ device dtype itemsize nbytes ndim shape size strides
"""

#: The methods that only arrays support: NumPy's numbers have them, too, but raise an error.
_ARRAY_ONLY_METHODS = """
    d new: nonzero searchsorted
    dd-d new: choose
    ddddd-d new: trace
    nd view: diagonal swapaxes
    d plain!: partition sort
    nd plain!: __setitem__ fill put setflags
    d member!: __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __ior__ __ipow__ __irshift__ __isub__
    d member!: __itruediv__ __ixor__
"""

#: Classes of NumPy, with their members.
_NUMPY_METHODS = {
    "ndarray": _ARRAY_METHODS + _ARRAY_ONLY_METHODS,
    "generic": _ARRAY_METHODS
    + "d plain: __round__ __floor__ __ceil__ __trunc__ as_integer_ratio bit_count is_integer hex denominator numerator",
    "dtype": """
        d plain: alignment byteorder char flags hasobject isalignedstruct isbuiltin isnative itemsize kind name ndim num str
        d plain: __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __len__ __str__ __repr__
        d member: base type
        d new: descr names newbyteorder shape subdtype __getitem__
        d view: fields
    """,
    "ufunc": """
        cddd-d new: accumulate reduce
        cdddd-d new: reduceat
        cd new: outer
        n plain: identity nargs nin nout ntypes signature
        n new: types
    """,
    "flatiter": """
        e member!: __next__
        p member: __iter__
        n plain: __len__
        d new: __getitem__ copy __array__
        nd plain!: __setitem__
    """,
}

#: The attributes that instances of these NumPy classes hold in their ``__dict__``.
_NUMPY_FIELDS = {
    "finfo": """
        d plain: bits dtype eps epsneg iexp machep max maxexp min minexp negep nexp nmant precision resolution smallest_normal
        d plain: smallest_subnormal tiny
    """,
    "iinfo": "d plain: bits dtype kind max min",
}


def _rows(text: str) -> Iterator[tuple[str, ArgumentEffects]]:
    """Yield the names in a block of the table, each with its row; a later line overrides an earlier one."""
    for line in filter(None, map(str.strip, text.splitlines())):
        row, _, names = line.partition(": ")
        reads, returns, *named = row.split()
        letters = MappingProxyType(dict(pair.split("=") for pair in named)) if named else _NONE
        made = ArgumentEffects(reads, returns.removesuffix("!"), returns.endswith("!"), letters)
        for name in names.split():
            yield name, made


class _EffectsTable:
    """The rows, by function and by class; a module's rows are added once the program has imported it."""

    def __init__(self) -> None:
        #: By ``id``, with the function itself: hashing an unknown object may run Python code.
        self.functions: dict[int, tuple[object, ArgumentEffects]] = {}
        #: By the ``id`` of a class: its methods and attributes, by name.
        self.members: dict[int, dict[str, ArgumentEffects]] = {}
        #: By the ``id`` of a class and the name: its class methods.
        self.of_classes: dict[tuple[int, str], ArgumentEffects] = {}
        #: These classes, which must live as long as their ids are keys.
        self.kinds: list[type] = []
        #: The length of `sys.modules` at the last search for the table's modules; 0: search again.
        self.modules = 0
        #: By module that was not imported yet: the method that adds its rows.
        self.waiting: dict[str, Callable[[ModuleType], None]] = {
            **dict.fromkeys([*_FUNCTIONS, *_NUMPY, "re"], self._add_functions),
            **dict.fromkeys(_ARITHMETIC, self._add_arithmetic),
            "builtins": self._add_builtins,
            "itertools": self._add_itertools,
            "numpy": self._add_numpy,
        }

    def add_imported(self) -> None:
        """Add the rows of modules that the program has imported since the last call."""
        if self.modules == len(sys.modules):
            return
        self.modules = len(sys.modules)
        for name, add in list(self.waiting.items()):
            module = sys.modules.get(name)
            # Another thread may still be importing it
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                add(module)
                self.waiting.pop(name, None)
            elif module is not None:
                self.modules = 0

    def add(self, function: object, row: ArgumentEffects) -> None:
        self.functions[id(function)] = function, row

    def add_members(self, kind: type, text: str) -> None:
        names = {name for owner in kind.__mro__ for name in vars(owner)}
        for name, row in _rows(text):
            if name in names:
                self.add_member(kind, name, row)

    def add_member(self, kind: type, name: str, row: ArgumentEffects) -> None:
        if id(kind) not in self.members:
            self.kinds.append(kind)
        self.members.setdefault(id(kind), {})[name] = row
        member = vars(kind).get(name)
        if type(member) in _DESCRIPTORS:
            self.add(member, row)

    def _add_functions(self, module: ModuleType) -> None:
        """Add the table's rows of a module: its functions, and the members of its classes."""
        home = module.__name__
        numpy = home.partition(".")[0] == "numpy"
        for name, row in _rows({**_FUNCTIONS, **_NUMPY}.get(home, "")):
            function = vars(module).get(name)
            if callable(function) and (type(function) is not FunctionType or (numpy and _is_of_numpy(function))):
                self.add(function, row)
        for name, text in _METHODS.items():
            if name.rpartition(".")[0] == home:
                self.add_members(vars(module)[name.rpartition(".")[2]], text)
        for name, text in _OF_CLASSES.items():
            if name.rpartition(".")[0] == home:
                self._add_of_class(vars(module)[name.rpartition(".")[2]], text)

    def _add_of_class(self, kind: type, text: str) -> None:
        for name, row in _rows(text):
            if isinstance(vars(kind)[name], staticmethod):
                self.add(getattr(kind, name), row)
            else:
                self.kinds.append(kind)
                self.of_classes[id(kind), name] = row

    def _add_arithmetic(self, module: ModuleType) -> None:
        for function in vars(module).values():
            if type(function) is BuiltinFunctionType:
                self.add(function, ArgumentEffects("d", "member" if function.__name__ in _CALLING_METHODS else "plain"))

    def _add_builtins(self, module: ModuleType) -> None:
        self._add_functions(module)
        for name, text in _METHODS.items():
            if "." not in name:
                self.add_members(_UNNAMED_CLASSES.get(name) or vars(builtins)[name], text)
        for name, text in _OF_CLASSES.items():
            if "." not in name:
                self._add_of_class(vars(builtins)[name], text)
        for name, row in _rows(_NEW_METHODS):
            self.add(vars(builtins)[name].__new__, row)
        for kind in _ITERATORS:
            self.add_members(kind, _ITERATOR)
        for name in _VALUES:
            kind = vars(builtins)[name]
            for member in vars(kind).keys() - _MORE_THAN_READING.split():
                if not isinstance(vars(kind)[member], staticmethod | ClassMethodDescriptorType):
                    self.add_member(kind, member, ArgumentEffects("d", "plain"))
            self.add_members(kind, _NOT_PLAIN.get(name, ""))
        errors = dict(_rows(_METHODS["BaseException"]))
        for kind in vars(builtins).values():
            if type(kind) is type and issubclass(kind, BaseException):
                reads = "d" if issubclass(kind, _READING_ERRORS) else "p"
                self.add(kind, ArgumentEffects(reads, "new"))
                rows = errors | {"__init__": ArgumentEffects(f"p{reads}", "plain", changes=True)}
                for member in vars(kind).keys() & rows.keys():
                    self.add_member(kind, member, rows[member])

    def _add_itertools(self, module: ModuleType) -> None:
        self._add_functions(module)
        for name, kind in vars(module).items():
            if type(kind) is type and name not in _STATEFUL:
                self.add_members(kind, _ITERATOR)

    def _add_numpy(self, module: ModuleType) -> None:
        self._add_functions(module)
        numpy: Any = module
        for function in vars(numpy).values():
            if isinstance(function, numpy.ufunc):
                reads = "d" * function.nin + "-" * function.nout + "d"
                self.add(function, ArgumentEffects(reads, "new", named=_WHERE))
        for name, text in _NUMPY_METHODS.items():
            self.add_members(vars(numpy)[name], text)
        for name, text in _NUMPY_FIELDS.items():
            self.kinds.append(vars(numpy)[name])
            self.members[id(vars(numpy)[name])] = dict(_rows(text))
        rows = dict(_rows(_NUMPY_METHODS["generic"]))
        for kind in {
            kind for kind in vars(numpy).values() if isinstance(kind, type) and issubclass(kind, numpy.generic)
        }:
            if kind not in (numpy.generic, numpy.object_):
                for name in vars(kind).keys() & rows.keys():
                    self.add_member(kind, name, rows[name])


def _is_of_numpy(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] == "numpy"


#: Methods written in C, as attributes of their class: they take the instance as their first argument.
_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType)

#: Classes in the table that `builtins` does not name.
_UNNAMED_CLASSES: dict[str, type] = {
    "mappingproxy": MappingProxyType,
    "dict_keys": type({}.keys()),
    "dict_items": type({}.items()),
    "dict_values": type({}.values()),
    "generator": GeneratorType,
}

#: The classes of built-in iterators, except those of `itertools`.
_ITERATORS: set[type] = {
    *(
        type(iter(each))
        for each in cast("Any", ((), [], "", "é", b"", bytearray(), {}, {}.values(), {}.items(), set(), range(0)))
    ),
    *(type(reversed(each)) for each in cast("Any", ((), [], {}, {}.values(), {}.items(), range(0)))),
    *(map, filter, zip, enumerate, type(iter(range(1 << 70)))),
}

#: Exceptions whose constructors read their arguments.
_READING_ERRORS = (OSError, UnicodeError, ImportError, SyntaxError, BaseExceptionGroup)

#: Classes of `itertools` whose iterators never end, or keep their input.
_STATEFUL = ("count", "cycle", "tee", "_tee", "_tee_dataobject")

#: The keywords of ufuncs: with ``where=`` a ufunc leaves elements of its result uninitialised, so such a call is unknown.
_WHERE = MappingProxyType({"where": "-"})

_TABLE = _EffectsTable()


def add_imported() -> None:
    """Add the rows of modules that the program has imported since the last call, as `effects_of` does."""
    _TABLE.add_imported()


def effects_of(function: object) -> ArgumentEffects | None:
    """Return how a function treats its arguments, or None if it is unknown.

    The function is one of a module, a class (its constructor), a method of a class (``list.append``: the list is an
    argument) or a class method (``dict.fromkeys``: the class is none). `method_effects` describes ``xs.append``.
    """
    _TABLE.add_imported()
    found = _TABLE.functions.get(id(function))
    if found is not None:
        return found[1]
    if type(function) is BuiltinFunctionType and issubclass(type(function.__self__), type):
        name = function.__name__
        return _TABLE.of_classes.get((id(object if name in _INHERITED else function.__self__), name))
    return None


#: The class methods of `object` whose row holds for every class that inherits them.
_INHERITED = ("__init_subclass__", "__subclasshook__")


def method_effects(kind: type, name: str) -> ArgumentEffects | None:
    """Return how a method or attribute of a class treats its arguments, or None if it is unknown or written in Python."""
    _TABLE.add_imported()
    for owner in kind.__mro__:
        rows = _TABLE.members.get(id(owner))
        if rows is not None and name in rows:
            return rows[name]
        if name in vars(owner):
            return None
    return None


#: Functions and methods of agrad that do more than compute with their arguments. By module: the side effect, as a message
#: states it after the function's name, and the names. "*" stands for all names of the module.
_SIDE_EFFECTS = {
    "agrad.random": {
        "sets the state of a random generator": "manual_seed Generator.manual_seed Generator.set_state _Default.set_state Generator.__setstate__",
        "gives Python the state of a random generator": "Generator.get_state _Default.get_state Generator.__getstate__",
        "makes a random generator": "Generator Generator.__init__",
        "replaces the default random generator": "using",
    },
    "agrad.cuda": {"sets the state of a random generator": "manual_seed manual_seed_all"},
    "agrad.torch_functions": {
        "sets the state of a random generator": "set_rng_state",
        "gives Python the state of a random generator": "initial_seed get_rng_state",
    },
    "agrad.numpy.random": {
        "sets the state of a random generator": "Generator.seed Generator.set_state",
        "gives Python the state of a random generator": "Generator.get_state",
        "makes a random generator": "Generator Generator.__init__ default_rng",
    },
    "agrad.dtypes": {"sets the default dtype": "set_default_dtype"},
    "agrad.plugin.manager": {
        "sets the default backend": "set_default_backend",
        "registers a backend": "register",
    },
    "agrad.compat.autograd.convention": {"sets the convention of complex gradients": "*"},
    "agrad.serialization": {"writes a file": "save", "reads a file": "load"},
    "agrad.autograd.graph": {
        "writes files": "save_on_disk save_on_disk.__init__",
        "looks at nodes of the graph": "get_gradient_edge",
    },
    "agrad.utils.checkpoint": {
        "changes how checkpoints are run again": "set_checkpoint_early_stop set_checkpoint_early_stop.__init__"
    },
    "agrad.utils.data": {"serves data, which no program can record": "*"},
    "agrad.core.declare": {"declares an op": "elementwise linear multilinear custom fused nondifferentiable primitive"},
    "agrad.core.tensor": {
        "gives Python values of a tensor": "Tensor.tolist Tensor.__reduce__",
    },
    "agrad.numpy.protocol": {"gives Python values of a tensor": "Tensor.numpy Tensor.tobytes Tensor.__array__"},
    "agrad.ops.methods": {"gives Python values of a tensor": "Tensor.__dlpack__"},
    "agrad.view": {"converts a tensor to text": "Tensor.__repr__ Tensor._repr_html_ text_of"},
    "agrad.view.drawing": {"looks at the graph": "*"},
    "agrad.view.profile": {"measures": "*"},
    "agrad.lazy": {
        "computes a lazy tensor": "compute persist Tensor.compute Tensor.persist",
        "looks at the graph": "explain",
        "gives Python a lazy array": "Tensor.to_dask_array Tensor.__dask_tokenize__",
    },
    "agrad.optim.optimizer": {
        "gives Python the state of an optimizer": "Optimizer.state_dict",
        "sets the state of an optimizer": "Optimizer.load_state_dict Optimizer.add_param_group",
    },
    "agrad.optim.lr_scheduler": {
        "gives Python the state of a schedule": "LRScheduler.state_dict",
        "sets the state of a schedule": "LRScheduler.load_state_dict",
    },
    "agrad.program.capture": {"captures a program": "capture"},
    "agrad.program.program": {"looks at a program": "Program.source Program.memory Program.explain Program.text"},
    "agrad.testing.gradcheck": {"compares values": "*"},
}


def side_effect_of(function: Any) -> str | None:
    """Return the side effect of one of agrad's functions, as a message states it; None if the function has none.

    Functions that report their effects to the recorder (in-place writes, optimizers' steps, draws, hooks) count as having
    none.
    """
    if type(function) is MethodType:
        function = function.__func__
    # Only its class is inspected: an unknown object may answer `isinstance` by Python code
    if not issubclass(type(function), FunctionType | type):
        return None
    module, name = cast("Any", function).__module__, cast("Any", function).__qualname__
    if type(module) is not str:
        return None
    for words, names in _SIDE_EFFECTS.get(module, {}).items():
        if names == "*" or name in names.split():
            return f"{name}() {words}"
    return None
