"""What functions with state are made of: the tables that `stateful` draws from. See there.

In these texts ``$`` is the number of the piece, ``{e}`` and ``{o}`` are expressions of two values, ``{n}`` of the one that
comes later, ``{h}`` is the way to a container, and ``v`` what was read. ``y`` is the tensor that the function works on, ``x``
its argument, both of shape (2,). What is done to ``y`` does not commute, so that an order shows.
"""

from __future__ import annotations

# fmt: off (tables: a row is a line)

# -- values: what is held somewhere, what becomes of it, and what a function does with it -------------------------------------

NUMBER = (
    "y = y * v + 1.0",
    "y = y * (2.0 if v > 2.5 else 3.0)",
    "y = y * (2.0 if v == 2.0 else 3.0)",
    "y = y + math.sin(v)",
    "y = y * np.float32(v)",
    "y = y * (2.0 if isinstance(v, float) else 3.0)",
    "y = y * float(f'{v:.3f}')",
    "y = y * max(v, 2.5)",
    "y = y * (2.0 if v else 3.0)",
)
TENSOR = (
    "y = y * v.sum() + 1.0",
    "y = y * v + 1.0",
    "y = y / v.shape[0]",
    "y = y * len(v)",
    "y = y * v.numel()",
    "y = y * (2.0 if v.requires_grad else 3.0)",
    "y = y * (2.0 if v.dtype == ag.float64 else 3.0)",
    "y = y * (2.0 if v.grad is None else 3.0)",
    "y = y * (2.0 if v.is_leaf else 3.0)",
    "y = y * (2.0 if isinstance(v, ag.nn.Parameter) else 3.0)",
    "y = y * float(v.sum())",
    "y = y * (0.5 * float(v.sum()))",
    "y = y * v.sum().item()",
    "y = y * 2.0 if v.sum() > 6.0 else y * 3.0",
    "y = y + (v.grad.sum() if v.grad is not None else 0.0); y = y * v.sum()",
    "y = y * (2.0 if v is x else 3.0)",
    "y = y * v.detach().sum()",
    "y = y * sum(float(q) for q in v)",
    "y = y * v[0] + 1.0",
)
IN_PLACE = (
    "{v}.data = ag.ones(3)",
    "{v}.data.add_(1.0)",
    "with ag.no_grad(): {v}.add_(1.0)",
    "{v}.requires_grad_(not {v}.requires_grad)",
    "{v}.grad = ag.ones_like({v})",
    "{v}.grad = None",
)

#: By name: the value, another in its place, a third beside it, what changes it in place, what is done with it.
VALUES = {
    "float": ("2.0", "7.0", "3.0", (), NUMBER),
    "int": (
        *("2", "3", "5", ()),
        (*NUMBER, "y = y * ag.ones(v).sum()", "for _ in range(v): y = y * 1.5", "y = y * (v % 2 + 1)"),
    ),
    "bool": ("True", "False", "True", (), ("y = y * 2.0 if v else y * 3.0", "y = y * (2.0 if v is True else 3.0)")),
    "optional": ("None", "2.0", "3.0", (), ("y = y * 3.0 if v is None else y * v",)),
    "type": (
        "2",
        "2.0",
        "2",
        (),
        ("y = y * (2.0 if type(v) is int else 3.0)", "y = y * (5.0 if isinstance(v, int) else 7.0)"),
    ),
    "str": (
        *("'tanh'", "'sin'", "'cos'", ()),
        (
            "y = getattr(ag, v)(y)",
            "y = y * (2.0 if v == 'tanh' else 3.0)",
            "y = y * (2.0 if 'a' in v else 3.0)",
            "y = y * len(v)",
            "y = y * {'tanh': 2.0}.get(v, 3.0)",
        ),
    ),
    "numpy float": ("np.float64(2.0)", "np.float64(7.0)", "np.float64(3.0)", (), NUMBER),
    "fraction": (
        "fractions.Fraction(1, 2)",
        "fractions.Fraction(5, 2)",
        "fractions.Fraction(1, 3)",
        (),
        ("y = y * float(v)",),
    ),
    "bytes": (
        "bytearray(b'ab')",
        "bytearray(b'cd')",
        "bytearray(b'e')",
        ("{v}[0] = 7", "{v}.append(3)"),
        ("y = y * v[0]", "y = y * len(v)"),
    ),
    "array.array": (
        *("array.array('d', [2.0])", "array.array('d', [7.0])", "array.array('d', [3.0])"),
        *(("{v}[0] = 5.0", "{v}.append(3.0)"), ("y = y * v[0]", "y = y * sum(v)")),
    ),
    "array": (
        *("np.array([2.0, 3.0])", "np.array([5.0, 6.0])", "np.array([1.0, 4.0])"),
        (
            "{v}[0] = 7.0",
            "{v} *= 2.0",
            "{v}.sort(); {v}[:] = {v}[::-1].copy()",
            "{v}.resize(3, refcheck=False)",
            "{v}.fill(4.0)",
        ),
        (
            "y = y * v[0]",
            "y = y * float(v[0])",
            "y = y * v.sum()",
            "y = y * np.sum(v)",
            "y = y - np.mean(v)",
            "y = y * v.tolist()[0]",
            "y = y * v.item(0)",
            "y = y * ag.ones(int(v[0])).sum()",
            "y = y * 2.0 if v[0] > 4.0 else y * 3.0",
            "for q in v: y = y * q + 1.0",
            "for q in v: y = y * float(q) + 1.0",
            "y = y * len(v)",
            "y = y * v.shape[0]",
            "y = y * v[0].item()",
            "y = y * v[:2] + 1.0",
            "y = y * ag.asarray(v[:2])",
            "y = y * v[:1]",
            "y = y * (2.0 if (v > 4.0).any() else 3.0)",
            "y = y * float(v @ v)",
            "y = y * (2.0 if 7.0 in v else 3.0)",
        ),
    ),
    "integers": (
        *("np.array([2, 3])", "np.array([3, 1])", "np.array([1, 1])", ("{v}[0] = 1",)),
        ("y = y * ag.ones(int(v[0])).sum()", "y = y * v[0]", "y = y * ag.ones(tuple(v)).sum()", "y = y * int(v.max())"),
    ),
    "records": (
        *("np.array([(2.0, 1)], [('a', 'f8'), ('b', 'i8')])", "np.array([(5.0, 1)], [('a', 'f8'), ('b', 'i8')])"),
        *(
            "np.array([(3.0, 2)], [('a', 'f8'), ('b', 'i8')])",
            ("{v}['a'] = 7.0",),
            ("y = y * v['a'][0]", "y = y * v[0]['a']"),
        ),
    ),
    "objects": (
        *("np.array([2.0, None], object)", "np.array([5.0, None], object)", "np.array([3.0, 1], object)"),
        *(("{v}[0] = 7.0",), ("y = y * v[0]",)),
    ),
    "tensor": ("ag.asarray([2.0, 3.0])", "ag.asarray([5.0, 6.0])", "ag.asarray([1.0, 4.0])", IN_PLACE, TENSOR),
    "tensor, other size": ("ag.ones(2)", "ag.ones(5)", "ag.ones(3)", (), TENSOR),
    "tensor, other dtype": ("ag.ones(2)", "ag.ones(2, dtype=ag.float32)", "ag.ones(3)", (), TENSOR),
    "parameter": (
        *("ag.nn.Parameter(ag.asarray([2.0, 3.0]))", "ag.nn.Parameter(ag.asarray([5.0, 6.0]))"),
        *("ag.nn.Parameter(ag.asarray([1.0, 4.0]))", IN_PLACE, TENSOR),
    ),
    "function": (
        *("(lambda u: u * 2.0)", "(lambda u: u * 7.0 + 1.0)", "(lambda u: u + 3.0)"),
        (
            "{v}.__code__ = (lambda u: u * 5.0).__code__",
            "{v}.k = 3.0",
            "{v}.__defaults__ = (3.0,)",
        ),
        (
            "y = v(y)",
            "y = functools.reduce(lambda a, g: g(a), [v], y)",
            "y = list(map(v, [y]))[0]",
            "y = y * getattr(v, 'k', 2.0)",
        ),
    ),
    "function with a default": (
        *("(lambda u, k=2.0: u * k)", "(lambda u, k=7.0: u * k)", "(lambda u, k=3.0: u * k)"),
        *(("{v}.__defaults__ = (5.0,)",), ("y = v(y)",)),
    ),
    "object": (
        *(
            "O(k=2.0)",
            "O(k=7.0)",
            "O(k=3.0)",
            ("{v}.k = 5.0", "vars({v})['k'] = 5.0", "{v}.__class__ = P", "{v}.extra = 4.0"),
        ),
        (
            "y = y * v.k + 1.0",
            "y = y * getattr(v, 'k')",
            "y = y * vars(v)['k']",
            "y = y * getattr(v, 'extra', 2.0)",
            "y = y * v.scale()",
            "y = y * (2.0 if hasattr(v, 'extra') else 3.0)",
            "y = y * (2.0 if isinstance(v, P) else 3.0)",
            "y = y * sum(vars(v).values())",
            "y = y * len(vars(v))",
        ),
    ),
    "list": (
        *("[2.0, 3.0]", "[7.0, 8.0]", "[5.0]", ("{v}.append(4.0)", "{v}.reverse()", "{v}[0] = 6.0", "{v}.pop()")),
        (
            "y = y * v[0]",
            "y = y * sum(v)",
            "y = y * len(v)",
            "for q in v: y = y * q + 1.0",
            "y = y * (2.0 if 4.0 in v else 3.0)",
        ),
    ),
    "enum": ("Kind.A", "Kind.B", "Kind.C", (), ("y = y * v.value", "y = y * (2.0 if v is Kind.A else 3.0)")),
    "range": ("range(2)", "range(3)", "range(1)", (), ("for q in v: y = y * 1.5 + q",)),
    "slice": ("slice(0, 1)", "slice(1, 2)", "slice(0, 2)", (), ("y = y * y[v].sum()",)),
    "date": (
        "datetime.date(2020, 1, 2)",
        "datetime.date(2020, 1, 7)",
        "datetime.date(2020, 1, 3)",
        (),
        ("y = y * v.day",),
    ),
}

# -- what holds values ------------------------------------------------------------------------------------------------

#: How it is made, the way to the first value, ways to read one or (``for``) all, and changes.
ITEMS = ("{h}[0] = {n}", "{h}.append({n})", "{h}.insert(0, {n})", "{h}.reverse()")
ENTRIES = (
    *("{h}['a'] = {n}", "{h}.update(a={h}.pop('a'))", "{h}['c'] = {n}", "{h}.pop('b')", "{h}.update(a={n})"),
    "{h}.setdefault('c', {n})",
)
READ_ENTRIES = (
    *("{h}['a']", "{h}.get('a', 1.0)", "for {h}.values()", "next(iter({h}.values()))", "{h}[min({h})]"),
    *("(lambda **k: k['a'])(**{h})", "operator.itemgetter('a')({h})", "{{**{h}}}['a']", "for ({h}[k] for k in {h})"),
    *("for (v for _, v in {h}.items())", "[v for k, v in {h}.items() if k == 'a'][0]", "{h}[f'{{chr(97)}}']"),
    "{h}[list({h})[0]]",
)
READ_ITEMS = (
    *("{h}[0]", "{h}[-1]", "next(iter({h}))", "for {h}", "[*{h}][0]", "for [v for v in {h}]", "for (v for v in {h})"),
    *(
        "for map(lambda v: v, {h})",
        "(lambda *a: a[0])(*{h})",
        "for reversed({h})",
        "for sorted({h}, key=id)[:0] or {h}",
    ),
    *(
        "operator.itemgetter(0)({h})",
        "for itertools.chain({h})",
        "for [v for _, v in zip(range(9), {h})]",
        "for filter(lambda v: True, {h})",
    ),
    *("max({h}, key=lambda v: 0)", "functools.reduce(lambda a, b: a, {h})", "for [v for _, v in enumerate({h})]"),
)
HOLDERS = {
    "list": (
        "[{e}, {o}]",
        "{h}[0]",
        (*READ_ITEMS, "{h}[0:1][0]"),
        (*ITEMS, "{h}[:] = [{n}]", "{h}.pop()", "{h}.clear()"),
    ),
    "dict": ("{{'a': {e}, 'b': {o}}}", "{h}['a']", READ_ENTRIES, (*ENTRIES, "{h}.clear()")),
    "defaultdict": (
        "collections.defaultdict(lambda: 2.0, {{'a': {e}, 'b': {o}}})",
        "{h}['a']",
        (*READ_ENTRIES, "{h}['d']"),
        ENTRIES,
    ),
    "OrderedDict": (
        *("collections.OrderedDict([('a', {e}), ('b', {o})])", "{h}['a']", READ_ENTRIES),
        (*ENTRIES, "{h}.move_to_end('a')"),
    ),
    "subclass of dict": (
        "Table({{'a': {e}, 'b': {o}}})",
        "{h}['a']",
        (*READ_ENTRIES, "{h}.first()"),
        (*ENTRIES, "{h}.extra = 1.0"),
    ),
    "subclass of list": ("Stack([{e}, {o}])", "{h}[0]", (*READ_ITEMS, "{h}.first()"), (*ITEMS, "{h}.extra = 1.0")),
    "UserDict": ("collections.UserDict({{'a': {e}, 'b': {o}}})", "{h}['a']", READ_ENTRIES, ENTRIES),
    "ChainMap": (
        "collections.ChainMap({{'a': {e}}}, {{'b': {o}}})",
        "{h}['a']",
        READ_ENTRIES,
        ("{h}['a'] = {n}", "{h}.maps[1]['c'] = {n}"),
    ),
    "mappingproxy": (
        "types.MappingProxyType(hidden(dict(a={e}, b={o}), '$'))",
        *(
            "{h}['a']",
            READ_ENTRIES,
            ("HIDDEN['$']['a'] = {n}", "HIDDEN['$'].update(a=HIDDEN['$'].pop('a'))", "HIDDEN['$']['c'] = {n}"),
        ),
    ),
    "dict.get": (
        "hidden(dict(a={e}, b={o}), '$').get",
        "{h}('a')",
        ("{h}('a')", "{h}('c', 2.0)"),
        ("HIDDEN['$']['a'] = {n}", "HIDDEN['$']['c'] = 5.0"),
    ),
    "tuple": ("({e}, {o})", "{h}[0]", READ_ITEMS, ()),
    "tuple with a list": (
        "([{e}], {o})",
        "{h}[0][0]",
        ("{h}[0][0]", "for {h}[0]"),
        ("{h}[0][0] = {n}", "{h}[0].append({n})"),
    ),
    "long tuple": ("(([{e}],) + ({o},) * 70)", "{h}[0][0]", ("{h}[0][0]", "for {h}[0]"), ("{h}[0][0] = {n}",)),
    "long list": (
        "([{e}] + [{o}] * 100)",
        "{h}[0]",
        ("{h}[0]", "next(iter({h}))"),
        ("{h}[0] = {n}", "{h}.insert(0, {n})"),
    ),
    "long dict": (
        *("dict([(i, {o}) for i in range(100)], a={e})", "{h}['a']"),
        *(("{h}['a']", "{h}[max({h}, key=str)]"), ("{h}['a'] = {n}", "{h}.update(a={n})")),
    ),
    "named tuple": ("Two({e}, {o})", "{h}.a", ("{h}.a", "{h}[0]", "for {h}", "{h}._asdict()['a']"), ()),
    "deque": (
        "collections.deque([{e}, {o}])",
        "{h}[0]",
        READ_ITEMS[:-1],
        (*ITEMS, "{h}.rotate()", "{h}.appendleft({n})"),
    ),
    "object": (
        *("O(a={e}, b={o})", "{h}.a"),
        (
            "{h}.a",
            "getattr({h}, f'{{chr(97)}}')",
            "vars({h})['a']",
            "for vars({h}).values()",
            "operator.attrgetter('a')({h})",
            "{h}.__dict__['a']",
        ),
        (
            "{h}.a = {n}",
            "vars({h})['a'] = {n}",
            "{h}.__dict__ = {{'a': {n}}}",
            "{h}.__dict__.update(a={h}.__dict__.pop('a'))",
            "{h}.c = {n}",
        ),
    ),
    "dataclass": (
        *("Pair({e}, {o})", "{h}.a"),
        (
            "{h}.a",
            "for dataclasses.asdict({h}).values()",
            "for dataclasses.astuple({h})",
            "getattr({h}, dataclasses.fields({h})[0].name)",
            "matched({h})",
            "{h}.derived",
        ),
        ("{h}.a = {n}", "{h}.derived = {n}"),
    ),
    "slots": ("Slots({e})", "{h}.a", ("{h}.a", "{h}.read()", "getattr({h}, {h}.__slots__[0])"), ("{h}.a = {n}",)),
    "private slots": ("Private({e})", "{h}.read()", ("{h}.read()",), ("{h}.put({n})",)),
    "property": ("Property({e})", "{h}.a", ("{h}.a", "getattr({h}, 'a')"), ("{h}._hidden = {n}", "{h}.a = {n}")),
    "cached property": (
        "Cached({e})",
        "{h}.a",
        ("{h}.a",),
        ("{h}.a = {n}", "{h}.source = {n}; vars({h}).pop('a', None)"),
    ),
    "__getattr__": (
        "Lazy({e})",
        "{h}.a",
        ("{h}.a", "getattr({h}, 'a', 2.0)"),
        ("{h}._store['a'] = {n}", "{h}.a = {n}"),
    ),
    "__getattribute__": ("Answers({e})", "{h}.a", ("{h}.a",), ("STORE[:] = [{n}]",)),
    "__getitem__": ("Items({e})", "{h}['a']", ("{h}['a']",), ("{h}._store['a'] = {n}",)),
    "__call__": ("Callable({e})", "{h}()", ("{h}()",), ("{h}.value = {n}",)),
    "descriptor": ("Described({e})", "{h}.a", ("{h}.a",), ("{h}.a = {n}",)),
    "namespace": ("types.SimpleNamespace(a={e}, b={o})", "{h}.a", ("{h}.a", "vars({h})['a']"), ("{h}.a = {n}",)),
    "nn.Module": (
        *("with_attribute(ag.nn.Module(), {e})", "{h}.a", ("{h}.a", "vars({h}).get('a', 2.0)", "getattr({h}, 'a')")),
        ("{h}.a = {n}",),
    ),
    "cell": ("cell({e})", "{h}()", ("{h}()",), ("{h}.__closure__[0].cell_contents = {n}",)),
    "partial": ("functools.partial(lambda v: v, {e})", "{h}()", ("{h}()", "{h}.args[0]"), ()),
    "partial with a keyword": (
        "functools.partial(lambda *, v: v, v={e})",
        "{h}()",
        ("{h}()",),
        ("{h}.keywords['v'] = {n}",),
    ),
    "bound method": ("O(a={e}).get", "{h}()", ("{h}()", "{h}.__self__.a"), ("{h}.__self__.a = {n}",)),
    "weakref": ("weakref.ref(hidden(O(a={e}), '$'))", "{h}().a", ("{h}().a",), ("HIDDEN['$'].a = {n}",)),
    "weak dictionary": (
        "weakref.WeakValueDictionary(a=hidden(O(a={e}), '$'))",
        "{h}['a'].a",
        ("{h}['a'].a",),
        ("HIDDEN['$'].a = {n}", "{h}['a'] = hidden(O(a={n}), '$')"),
    ),
    "context variable": ("variable({e})", "{h}.get()", ("{h}.get()",), ("{h}.set({n})",)),
    "thread's own": (
        "with_attribute(threading.local(), {e})",
        "{h}.a",
        ("{h}.a", "getattr({h}, 'a', 2.0)"),
        ("{h}.a = {n}",),
    ),
    "lru_cache": (
        *("functools.lru_cache(None)(hidden(cell({e}), '$'))", "{h}()", ("{h}()",)),
        ("HIDDEN['$'].__closure__[0].cell_contents = {n}; {h}.cache_clear()",),
    ),
    "set": (
        "{{O(a={e})}}",
        "next(iter({h})).a",
        ("next(iter({h})).a", "[o.a for o in {h}][0]"),
        ("next(iter({h})).a = {n}",),
    ),
    "key": ("{{O(a={e}): 1}}", "next(iter({h})).a", ("next(iter({h})).a",), ("next(iter({h})).a = {n}",)),
    "frozenset": ("frozenset([O(a={e})])", "next(iter({h})).a", ("next(iter({h})).a",), ("next(iter({h})).a = {n}",)),
    "default": ("with_default({e})", "{h}()", ("{h}()",), ("{h}.__defaults__ = ({n},)",)),
    "keyword default": (
        "with_keyword_default({e})",
        "{h}()",
        ("{h}()",),
        ("{h}.__kwdefaults__['v'] = {n}", "{h}.__kwdefaults__ = {{'v': {n}}}"),
    ),
    "function's attribute": ("with_attribute(lambda: 0, {e})", "{h}.a", ("{h}.a",), ("{h}.a = {n}",)),
    "class": (
        *(
            "type('Made', (Base,), {{'a': {e}}})",
            "{h}.a",
            ("{h}.a", "getattr({h}, 'a', 2.0)", "{h}().a", "vars({h})['a']"),
        ),
        ("{h}.a = {n}",),
    ),
    "module": ("with_attribute(types.ModuleType('made'), {e})", "{h}.a", ("{h}.a", "vars({h})['a']"), ("{h}.a = {n}",)),
}

# -- where what a function reads begins -----------------------------------------------------------------------------------

#: Text of the module, of `build`, ways to it, ways to put another there, whose first one is plain.
ROOTS = {
    "global": (
        *("k$ = {e}", "", ("k$", "globals()['k$']", "eval('k$')", "sys.modules[__name__].k$")),
        ("global k$; k$ = {n}", "globals()['k$'] = {n}"),
    ),
    "closure": ("", "k$ = {e}", ("k$", "(lambda: k$)()", "[k$ for _ in range(1)][0]"), ("nonlocal k$; k$ = {n}",)),
    "attribute": (
        *("", "o$ = O(k$={e})"),
        (
            *(
                "o$.k$",
                "getattr(o$, f'k_{$}')",
                "vars(o$)['k$']",
                "operator.attrgetter('k$')(o$)",
                "getter(f'k_{$}')(o$)",
            ),
            *(
                "(lambda **k: k['k$'])(**vars(o$))",
                "o$.__dict__['k$']",
                "next(iter(vars(o$).values()))",
                "o$.get(f'k_{$}')",
            ),
        ),
        (
            "o$.k$ = {n}",
            "vars(o$)['k$'] = {n}",
            "o$.__dict__ = {{'k$': {n}}}",
            "delattr(o$, 'k$'); setattr(o$, 'k$', {n})",
        ),
    ),
    "attribute of a class": (
        *("class Base$: k$ = {e}\nclass Sub$(Base$): pass\nclass Other$: k$ = 3.0", "s$ = Sub$()"),
        ("s$.k$", "Sub$.k$", "getattr(Sub$, 'k$', 2.0)", "type(s$).k$", "getattr(s$, 'k$')"),
        (
            "Sub$.k$ = {n}",
            "Base$.k$ = {n}",
            "s$.k$ = {n}",
            "Other$.k$ = {n}; s$.__class__ = Other$",
            "Other$.k$ = {n}; Sub$.__bases__ = (Other$,)",
        ),
    ),
    "attribute or a property": (
        *("class C$: pass", "s$ = C$(); s$.k$ = {e}", ("s$.k$",)),
        (
            "C$.k$ = property(lambda s: {n})",
            "s$.__class__ = type('D', (C$,), {{'k$': property(lambda s: {n})}})",
            "s$.k$ = {n}",
        ),
    ),
    "attribute that is not there": (
        *(
            "class C$: pass",
            "s$ = C$(); first$ = {e}",
            ("getattr(s$, 'k$', first$)", "getattr(C$, 'k$', first$)", "(s$.k$ if hasattr(s$, 'k$') else first$)"),
        ),
        ("C$.k$ = {n}", "s$.k$ = {n}"),
    ),
    "metaclass": (
        "class M$(type): k$ = {e}\nclass C$(metaclass=M$): pass",
        "",
        ("C$.k$",),
        ("M$.k$ = {n}", "C$.k$ = {n}"),
    ),
    "dunder": ("class C$: __k__ = {e}", "s$ = C$()", ("s$.__k__", "C$.__k__"), ("C$.__k__ = {n}", "s$.__k__ = {n}")),
    "default": (
        *("", "def d$(v={e}): return v", ("d$()", "(lambda w=d$: w())()")),
        ("d$.__defaults__ = ({n},)", "d$.__code__ = (lambda v: [v, v][1]).__code__; d$.__defaults__ = ({n},)"),
    ),
    "imported": (
        "def settings(): pass\nsettings = types.ModuleType('settings_$'); settings.k$ = {e}; sys.modules['settings_$'] = settings; settings$ = settings",
        *("", ("imported$()",), ("settings$.k$ = {n}",)),
    ),
    "lazy module": (
        "lazy$ = types.ModuleType('lazy_$'); lazy_store$ = {{'k$': {e}}}\ndef answer$(name):\n    if name not in lazy_store$: raise AttributeError(name)\n    return lazy_store$[name]\nlazy$.__getattr__ = answer$",
        *("", ("lazy$.k$",), ("lazy_store$['k$'] = {n}", "lazy$.k$ = {n}")),
    ),
    "global that is not there": (
        *("", "first$ = {e}", ("(later$ if 'later$' in globals() else first$)", "tried$(first$)")),
        ("global later$; later$ = {n}",),
    ),
    "argument": ("", "k$ = {e}", ("a$",), ("nonlocal k$; k$ = {n}",)),
    "argument and outside": ("", "k$ = {e}", ("a$", "k$"), ("nonlocal k$; k$ = {n}",)),
    "keyword argument": ("", "k$ = {e}", ("w['k$']", "for w.values()"), ("nonlocal k$; k$ = {n}",)),
    "context variable": ("c$ = contextvars.ContextVar('c$')", "c$.set({e})", ("c$.get()",), ("c$.set({n})",)),
    "self": (
        *(
            "class R$:\n    def __init__(self, k): self.k = k\n    def read(self): return self.k\n    @property\n    def here(self): return self.k",
            "r$ = R$({e})",
        ),
        ("r$.read()", "r$.here", "operator.methodcaller('read')(r$)"),
        ("r$.k = {n}", "R$.read = lambda self: {n}", "r$.read = lambda: {n}"),
    ),
}
#: The way to the value from outside the function, where it is not the first one there.
PATHS = {
    "attribute that is not there": "first$",
    "default": "d$.__defaults__[0]",
    "imported": "settings$.k$",
    "lazy module": "lazy_store$['k$']",
    "global that is not there": "first$",
    "argument": "k$",
    "argument and outside": "k$",
    "keyword argument": "k$",
    "self": "r$.k",
}
#: Text of the module that some roots need.
ROOT_HELP = {
    "imported": "def imported$():\n    import settings_$ as s\n    return s.k$",
    "global that is not there": "def tried$(first):\n    try: return later$\n    except NameError: return first",
}

#: At the head of every module.
HEAD = """\
import array, collections, contextlib, contextvars, copy, dataclasses, datetime, enum, fractions, functools, heapq, io, itertools
import math, operator, os, queue, random, statistics, string, sys, threading, types, warnings, weakref

import numpy as np

import agrad as ag
from stateful import reversal


class O:
    def __init__(self, **k): vars(self).update(k)
    def scale(self): return self.k * 2.0
    def get(self, name="a"): return getattr(self, name)


class P(O):
    def scale(self): return self.k * 3.0


class Kind(enum.Enum):
    A, B, C = 2.0, 7.0, 3.0


class Base: pass


class Table(dict):
    def first(self): return next(iter(self.values()))


class Stack(list):
    def first(self): return self[0]


Two = collections.namedtuple("Two", "a b")


@dataclasses.dataclass
class Pair:
    a: object = None
    b: object = None

    def __post_init__(self): self.derived = self.a


def matched(pair):
    match pair:
        case Pair(a): return a


class Slots:
    __slots__ = ("a", "__weakref__")
    def __init__(self, a): self.a = a
    def read(self): return self.a


class Private:
    __slots__ = ("__a",)
    def __init__(self, a): self.__a = a
    def read(self): return self.__a
    def put(self, a): self.__a = a


class Property:
    def __init__(self, a): self._hidden = a
    @property
    def a(self): return self._hidden
    @a.setter
    def a(self, new): self._hidden = new


class Cached:
    def __init__(self, a): self.source = a
    @functools.cached_property
    def a(self): return self.source


class Lazy:
    def __init__(self, a): self._store = {"a": a}
    def __getattr__(self, name):
        try: return self.__dict__["_store"][name]
        except KeyError: raise AttributeError(name) from None


STORE = []


class Answers:
    def __init__(self, a): STORE[:] = [a]
    def __getattribute__(self, name): return STORE[0]


class Items:
    def __init__(self, a): self._store = {"a": a}
    def __getitem__(self, key): return self._store[key]


class Callable:
    def __init__(self, value): self.value = value
    def __call__(self): return self.value


class Descriptor:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, instance, owner=None): return vars(instance)[self.name]
    def __set__(self, instance, value): vars(instance)[self.name] = value


class Described:
    a = Descriptor()
    def __init__(self, a): self.a = a


HIDDEN = {}


def hidden(value, number):
    HIDDEN[number] = value
    return value


def cell(value): return lambda: value


def with_attribute(thing, value):
    thing.a = value
    return thing


def with_default(value): return lambda v=value: v


def with_keyword_default(value): return lambda *, v=value: v


def variable(value):
    made = contextvars.ContextVar("made")
    made.set(value)
    return made


def getter(name): return operator.attrgetter(name)


@contextlib.contextmanager
def scaled(o, k):
    before, o.k = o.k, k
    try: yield o
    finally: o.k = before


class Managed:
    count = 0
    def __enter__(self): self.count += 1; return self
    def __exit__(self, *what): return False


def doubled(f):
    @functools.wraps(f)
    def g(*args, **kwargs): return f(*args, **kwargs) * 2.0
    return g
"""


class Piece(dict):
    """A part of a function: text by where it stands; what is not there is empty."""

    def __missing__(self, key):
        return "" if key in {"top", "local", "body", "after"} else ()


def counted(local, write, state="n$", top=""):
    """Give a piece that writes something at every call, and reads nothing."""
    return Piece(top=top, local=local, body=write, state=(state,))


def piece(body, local="", changes=(), **more):
    """Give a piece."""
    return Piece(body=body, local=local, changes=changes, **more)


# -- what is done beside tensors ------------------------------------------------------------------------------------------

EFFECTS = {
    "print": piece("print('step')"),
    "print a value": piece("print(f'{float(y.sum()):.4f}')"),
    "print to a file": counted("n$ = io.StringIO()", "print('step', file=n$)", "n$.getvalue()"),
    "write": piece("sys.stdout.write('s')"),
    "warn": piece("warnings.warn('mine', stacklevel=1)"),
    "warn as deprecated": piece("warnings.warn('mine', DeprecationWarning, stacklevel=2)"),
    "global count": Piece(top="n$ = 0\ndef up$():\n    global n$\n    n$ += 1", body="up$()", state=("n$",)),
    "global count that is read": Piece(
        top="n$ = 0\ndef up$():\n    global n$\n    n$ += 1\n    return n$", body="y = y * up$()", state=("n$",)
    ),
    "closure count": counted("n$ = 0", "nonlocal n$; n$ += 1"),
    "attribute count": counted("n$ = O(n=0)", "n$.n += 1"),
    "attribute count that is read": counted("n$ = O(n=0)", "n$.n += 1; y = y * n$.n"),
    "class count": counted("class C$: n = 0", "C$.n += 1", "C$.n"),
    "private slot": counted("n$ = Private(0)", "n$.put(n$.read() + 1)", "n$.read()"),
    "append": counted("n$ = []", "n$.append(1)"),
    "append a tensor": counted("n$ = []", "n$.append(y)"),
    "append a number": counted("n$ = []", "n$.append(y.sum().item())"),
    "map append": counted("n$ = []", "list(map(n$.append, [1]))"),
    "extend": counted("n$ = []", "nonlocal n$; n$ += [1]"),
    "array count": counted("n$ = np.zeros(2)", "n$[0] += 1"),
    "array count by a ufunc": counted("n$ = np.zeros(2)", "np.add(n$, 1, out=n$)"),
    "array put": counted("n$ = np.zeros(2)", "np.put(n$, 0, n$[0] + 1)"),
    "array of a value": counted("n$ = np.zeros(2)", "n$[0] = float(y.sum())"),
    "bytearray": counted("n$ = bytearray(1)", "n$[0] = (n$[0] + 1) % 250"),
    "array.array": counted("n$ = array.array('d', [0.0])", "n$[0] += 1"),
    "deque": counted("n$ = collections.deque([0.0], maxlen=1)", "n$.append(n$[0] + 1.0)"),
    "deque of results": counted(
        "n$ = collections.deque([0.0], maxlen=1); t$ = ag.zeros(2)", "t$.add_(1.0); y = y * t$.sum(); n$.append(y)"
    ),
    "queue": counted("n$ = queue.SimpleQueue()", "n$.put(1)", "n$.qsize()"),
    "long list": counted("n$ = [0] * 100", "n$[3] += 1"),
    "long dict of results": counted(
        "n$ = dict.fromkeys(range(100)); t$ = ag.zeros(2)", "t$.add_(1.0); y = y * t$.sum(); n$[3] = y"
    ),
    "Counter": counted("n$ = collections.Counter()", "n$.update(['a'])"),
    "defaultdict": counted("n$ = collections.defaultdict(int)", "n$['a'] += 1"),
    "defaultdict that is read": counted("n$ = collections.defaultdict(int)", "n$[len(n$)]"),
    "set": counted("n$ = set()", "n$.add(len(n$))"),
    "move to end": counted(
        "n$ = collections.OrderedDict(a=2.0, b=3.0)", "n$.move_to_end(next(iter(n$))); y = y * next(iter(n$.values()))"
    ),
    "heap": counted("n$ = []", "heapq.heappush(n$, -len(n$))"),
    "iterator": counted("n$ = iter([2.0, 3.0, 5.0] * 9)", "y = y * next(n$)", "operator.length_hint(n$)"),
    "itertools.count": counted("n$ = itertools.count(1)", "y = y * next(n$)", "repr(n$)"),
    "itertools.cycle": counted("n$ = itertools.cycle([2.0, 3.0])", "y = y * next(n$)", "0"),
    "generator": counted(
        "def gen$():\n    k = 1.0\n    while True:\n        yield k\n        k += 1.0\nn$ = gen$()",
        "y = y * next(n$)",
        "n$.gi_frame.f_locals.get('k')",
    ),
    "context variable": counted(
        "", "v$.set(v$.get() + 1)", "v$.get()", top="v$ = contextvars.ContextVar('v$', default=0)"
    ),
    "environ": counted(
        "os.environ['AGRAD_STATEFUL'] = '1'",
        "os.environ['AGRAD_STATEFUL'] += '1'; y = y * len(os.environ['AGRAD_STATEFUL'])",
        "os.environ['AGRAD_STATEFUL']",
    ),
    "weak object": counted("n$ = O(n=0); r$ = weakref.ref(n$)", "r$().n += 1"),
    "in a deque": counted("n$ = collections.deque([O(n=0)])", "n$[0].n += 1"),
    "result kept": counted("n$ = {}", "n$['last'] = y"),
    "number kept": counted("n$ = {}", "n$['last'] = y.sum().item()"),
    "total": counted("n$ = O(total=0.0)", "n$.total += float(y.detach().sum())"),
    "total of items": counted("n$ = O(total=0.0)", "n$.total += y.detach().sum().item()"),
    "set and put back": piece("old, n$.k = n$.k, 5.0; y = y * n$.k; n$.k = old", "n$ = O(k=2.0)", state=("n$",)),
    "append and pop": piece("n$.append(1); y = y * len(n$); n$.pop()", "n$ = [1]", ("n$.append(1)",), state=("n$",)),
    "scaled within": piece("with scaled(n$, 5.0): y = y * n$.k", "n$ = O(k=2.0)", ("n$.k = 3.0",), state=("n$",)),
    "managed": piece("with m$: y = y * 2.0", "m$ = Managed()", state=("m$.count",)),
    "suppressed": piece(
        "with contextlib.suppress(ZeroDivisionError):\n    n$.append(1)\n    y = y * (1 / len(n$))",
        "n$ = []",
        state=("n$",),
    ),
    "lru_cache": Piece(
        top="calls$ = []\n@functools.lru_cache(None)\ndef cached$(k):\n    calls$.append(k)\n    return k * 2.0",
        body="y = y * cached$(2.0)",
        changes=("cached$.cache_clear()",),
        state=("len(calls$)",),
    ),
    "attribute set": counted("n$ = O()", "n$.mark = True"),
    "attribute deleted": piece("if hasattr(n$, 'k'): del n$.k", "n$ = O(k=1.0)", ("n$.k = 2.0",), state=("n$",)),
    "once": piece("if not n$: n$.append(1); y = y * 3.0", "n$ = []", ("n$.clear()",), state=("n$",)),
    "cleared flag": piece(
        "if n$.first: n$.first = False; y = y * 3.0", "n$ = O(first=True)", ("n$.first = True",), state=("n$",)
    ),
    "random": piece("y = y * r$.random()", "r$ = random.Random(3)", ("r$.seed(3)",), state=("r$.getstate()[1][-1]",)),
    "NumPy's random": piece(
        "y = y * r$.normal()", "r$ = np.random.default_rng(3)", state=("r$.bit_generator.state['state']['state']",)
    ),
    "NumPy's old random": piece("y = y * np.random.rand()", "np.random.seed(3)"),
    "finally": counted("n$ = []", "try: y = y * 2.0\nfinally: n$.append(1)"),
    "sort": piece("n$.sort(); y = y * n$[0]", "n$ = [3.0, 2.0]", ("n$.insert(0, 9.0)",), state=("n$",)),
    "file": counted("n$ = io.BytesIO()", "n$.write(b'a')", "n$.getvalue()"),
    "tensor in a list": piece("y = y * n$[-1].sum(); n$[-1] = n$[-1] + 1.0", "n$ = [ag.ones(2)]", state=("n$",)),
    "tensor in an attribute": piece(
        "y = y * n$.h; n$.h = y.detach() * 0.5", "n$ = O(h=ag.ones(2))", ("n$.h = ag.ones(2)",), state=("n$",)
    ),
    "default argument": piece(
        "y = y * len(d$())", "def d$(seen=[]):\n    seen.append(1)\n    return seen", state=("d$.__defaults__",)
    ),
    "function's attribute": piece("c$.n += 1", "def c$(): pass\nc$.n = 0", state=("c$.n",)),
    "view of an array": counted("n$ = np.zeros(4); m$ = n$[1:3]", "m$[:] += 1"),
    "transposed": counted("n$ = np.zeros((2, 3)); m$ = n$.T", "m$[0, 1] += 1"),
    "memory of a tensor": piece(
        "y = y * t$", "n$ = np.ones(2); t$ = ag.asarray(n$)", ("n$[0] = 5.0",), state=("t$", "n$")
    ),
    "array wrapped inside": piece(
        "t = ag.asarray(n$); t.add_(1.0); y = y * t.sum()", "n$ = np.ones(2)", ("n$[0] = 5.0",), state=("n$",)
    ),
}

# -- arguments ------------------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "list appended": piece("a$.append(1)", "k$ = []", argument="k$", state=("k$",)),
    "list appended with a number": piece("a$.append(y.sum().item())", "k$ = []", argument="k$", state=("k$",)),
    "dict written": piece("a$['n'] = a$.get('n', 0) + 1", "k$ = {}", argument="k$", state=("k$",)),
    "dict gets a tensor": piece("a$['h'] = y * 2.0", "k$ = {}", argument="k$", state=("k$",)),
    "dataclass written": piece("a$.a += 1", "k$ = Pair(0, 1.0)", argument="k$", state=("k$",)),
    "object written": piece("a$.n += 1", "k$ = O(n=0)", argument="k$", state=("k$",)),
    "array written": piece("a$[0] += 1.0", "k$ = np.zeros(2)", argument="k$", state=("k$",)),
    "nested": piece(
        "a$['l'][0].append(2.0); y = y * sum(a$['l'][0])", "k$ = {'l': [[1.0]]}", argument="k$", state=("k$",)
    ),
    "order changed": piece(
        "a$['a'] = a$.pop('a'); y = y * next(iter(a$.values()))",
        "k$ = {'a': 2.0, 'b': 3.0}",
        argument="k$",
        state=("k$",),
    ),
    "popped": piece("y = y * a$.pop()", "k$ = [2.0, 3.0, 5.0] * 9", argument="k$", state=("k$",)),
    "the very object": piece(
        "y = y * (2.0 if a$ is k$ else 3.0)",
        "k$ = [1.0]; l$ = [1.0]",
        ("nonlocal k$; k$, l$ = l$, k$", "nonlocal k$; k$ = [1.0]"),
        argument="k$",
        state=("k$",),
    ),
    "another object": piece(
        "y = y * (2.0 if a$ is l$ else 3.0)",
        "k$ = [1.0]; l$ = [1.0]",
        ("nonlocal k$; k$, l$ = l$, k$",),
        argument="k$",
        state=("k$",),
    ),
    "returned": piece("y = y * 2.0", "k$ = [ag.ones(2)]", results=("a$",), argument="k$", state=("k$",)),
    "tensor returned": piece(
        "y = y * 2.0",
        "k$ = ag.ones(2)",
        ("nonlocal k$; k$ = ag.zeros(2)",),
        results=("a$",),
        argument="k$",
        state=("k$",),
    ),
    "tensor written": piece(
        "a$.add_(1.0); y = y * a$", "k$ = ag.ones(2)", ("nonlocal k$; k$ = ag.ones(2)",), argument="k$", state=("k$",)
    ),
    "outside and written": piece(
        "t$.add_(1.0); y = y * 2.0",
        "t$ = ag.asarray([1.0, 2.0]); k$ = t$",
        ("nonlocal k$; k$ = ag.asarray([9.0, 8.0])", "nonlocal k$; k$ = t$"),
        argument="k$",
        state=("t$", "k$"),
    ),
    "outside and read": piece(
        "y = y * t$ + a$",
        "t$ = ag.asarray([1.0, 2.0]); k$ = t$",
        ("nonlocal k$; k$ = ag.asarray([9.0, 8.0])", "nonlocal k$; k$ = t$", "t$.add_(1.0)"),
        argument="k$",
        state=("t$", "k$"),
    ),
    "outside and not read": piece(
        "y = y * d$['v'] + a$",
        "d$ = {'x': ag.ones(2), 'v': ag.ones(2)}; k$ = d$['x']",
        ("nonlocal k$; k$ = ag.zeros(2)", "d$['v'] = ag.zeros(2)"),
        argument="k$",
        state=("d$", "k$"),
        must=True,
    ),
    "twice": piece(
        "y = y * a$[0]; a$[1].add_(1.0)",
        "t$ = ag.ones(2); k$ = [t$, t$]",
        ("nonlocal k$; k$ = [t$, ag.ones(2)]",),
        argument="k$",
        state=("k$", "t$"),
    ),
    "gradient cleared": piece(
        "a$.grad = None; y = y * a$", "k$ = ag.nn.Parameter(ag.asarray([1.0, -1.0]))", argument="k$", state=("k$",)
    ),
    "gradient asked for": piece(
        "y = y * (2.0 if a$.grad is None else 3.0)",
        "k$ = ag.ones(2).requires_grad_()",
        ("k$.grad = ag.ones(2)", "k$.grad = None"),
        argument="k$",
        state=("k$",),
    ),
    "leaf asked for": piece(
        "y = y * (2.0 if a$.is_leaf else 3.0)",
        "t$ = ag.ones(2).requires_grad_(); k$ = t$",
        ("nonlocal k$; k$ = t$ * 1.0", "nonlocal k$; k$ = t$"),
        argument="k$",
        state=("k$",),
    ),
    "node asked for": piece(
        "y = y * (2.0 if a$.grad_fn is None else 3.0)",
        "t$ = ag.ones(2).requires_grad_(); k$ = t$",
        ("nonlocal k$; k$ = t$ * 1.0",),
        argument="k$",
        state=("k$",),
    ),
    "class asked for": piece(
        "y = y * (2.0 if isinstance(a$, ag.nn.Parameter) else 3.0)",
        "k$ = ag.nn.Parameter(ag.ones(2))",
        ("nonlocal k$; k$ = ag.ones(2).requires_grad_()",),
        argument="k$",
        state=("k$",),
    ),
    "needs a gradient": piece(
        "y = y * (2.0 if a$.requires_grad else 3.0)",
        "k$ = ag.ones(2)",
        ("k$.requires_grad_(not k$.requires_grad)", "nonlocal k$; k$ = ag.nn.Parameter(ag.ones(2))"),
        argument="k$",
        state=("k$",),
    ),
    "dtype": piece(
        "y = y * a$.to(y.dtype); y = y * (2.0 if a$.dtype == ag.float32 else 3.0)",
        "k$ = ag.ones(2)",
        ("nonlocal k$; k$ = ag.ones(2, dtype=ag.float32)",),
        argument="k$",
        state=("k$",),
    ),
    "shape": piece(
        "y = y * a$.sum() / a$.shape[0]",
        "k$ = ag.ones(2)",
        ("nonlocal k$; k$ = ag.ones(5)", "nonlocal k$; k$ = ag.ones((3, 2))"),
        argument="k$",
        state=("k$",),
    ),
    "dict in another order": piece(
        "for v in a$.values(): y = y * v + 1.0",
        "k$ = {'a': 2.0, 'b': 3.0}",
        ("k$['a'] = k$.pop('a')", "nonlocal k$; k$ = {'b': 3.0, 'a': 2.0}"),
        argument="k$",
        state=("k$",),
    ),
    "dict of tensors in another order": piece(
        "for v in a$.values(): y = y * v + 1.0",
        "k$ = {'a': ag.ones(2), 'b': ag.ones(2) * 3.0}",
        ("k$['a'] = k$.pop('a')",),
        argument="k$",
        state=("k$",),
    ),
    "keywords in another order": piece(
        "for v in w.values(): y = y * v + 1.0",
        "k$ = {'p$': 2.0, 'q$': 3.0}",
        ("k$['p$'] = k$.pop('p$')",),
        keywords="k$",
        state=("k$",),
    ),
    "field that is none": piece(
        "y = y * a$.derived",
        "k$ = Pair(3.0, 1.0)",
        ("k$.derived = 5.0", "nonlocal k$; k$ = Pair(4.0, 1.0)"),
        argument="k$",
        state=("k$",),
    ),
    "attribute of a dict": piece(
        "y = y * a$.scale", "k$ = Table(a=1.0); k$.scale = 6.0", ("k$.scale = 5.0",), argument="k$", state=("k$",)
    ),
    "attribute of a list": piece(
        "y = y * a$.scale", "k$ = Stack([1.0]); k$.scale = 6.0", ("k$.scale = 5.0",), argument="k$", state=("k$",)
    ),
    "class of a container": piece(
        "y = y * (2.0 if type(a$) is Table else 3.0)",
        "k$ = Table(a=1.0)",
        ("nonlocal k$; k$ = {'a': 1.0}", "nonlocal k$; k$ = collections.OrderedDict(a=1.0)"),
        argument="k$",
        state=("k$",),
    ),
    "function": piece(
        "y = a$(y)",
        "k$ = lambda u: u * 2.0",
        ("nonlocal k$; k$ = lambda u: u * 7.0", "k$.__code__ = (lambda u: u * 5.0).__code__"),
        argument="k$",
    ),
    "generator": piece(
        "for v in a$: y = y * v", "k$ = [2.0, 3.0]", ("k$.append(4.0)",), argument="(v for v in k$)", state=("k$",)
    ),
    "iterator": piece(
        "y = y * next(a$)", "k$ = iter([2.0, 3.0] * 20)", argument="k$", state=("operator.length_hint(k$)",)
    ),
    "object": piece(
        "y = y * a$.k",
        "k$ = O(k=2.0)",
        ("k$.k = 5.0", "nonlocal k$; k$ = O(k=7.0)", "nonlocal k$; k$ = P(k=2.0)"),
        argument="k$",
        state=("k$",),
    ),
    "module": piece(
        "y = a$(y.to(ag.float64))",
        "ag.manual_seed(1); k$ = ag.nn.Linear(2, 2)",
        (
            "k$.weight = ag.nn.Parameter(ag.ones((2, 2)))",
            "k$.bias = None",
            "k$.requires_grad_(False)",
            "nonlocal k$; k$ = ag.nn.Tanh()",
            "k$.weight.data.add_(1.0)",
        ),
        argument="k$",
        state=("k$",),
    ),
    "array": piece(
        "y = y * a$[0] + float(a$.sum())",
        "k$ = np.array([2.0, 3.0])",
        ("k$[0] = 7.0", "nonlocal k$; k$ = np.array([5.0, 6.0])", "nonlocal k$; k$ = np.array([2.0, 3.0], np.float32)"),
        argument="k$",
        state=("k$",),
    ),
    "array whole": piece(
        "y = y * a$",
        "k$ = np.array([2.0, 3.0])",
        ("k$[0] = 7.0", "nonlocal k$; k$ = np.array([5.0, 6.0])"),
        argument="k$",
        state=("k$",),
    ),
    "option": piece(
        "y = y * 2.0 if a$ else y * 3.0",
        "k$ = True",
        ("nonlocal k$; k$ = False", "nonlocal k$; k$ = 0", "nonlocal k$; k$ = None"),
        argument="k$",
    ),
    "1, 1.0 and True": piece(
        "y = y * (2.0 if type(a$) is int else 3.0)",
        "k$ = 1",
        ("nonlocal k$; k$ = 1.0", "nonlocal k$; k$ = True", "nonlocal k$; k$ = np.int64(1)"),
        argument="k$",
    ),
    "0.0 and -0.0": piece("y = y + math.copysign(1.0, a$)", "k$ = 0.0", ("nonlocal k$; k$ = -0.0",), argument="k$"),
}

# -- numbers --------------------------------------------------------------------------------------------------------------

RATES = ("nonlocal k$; k$ = 0.7", "nonlocal k$; k$ = 0.1", "nonlocal k$; k$ = 2", "nonlocal k$; k$ = np.float64(0.3)")


def rate(body, **more):
    """Give a piece with a float among the arguments."""
    return piece(body, "k$ = 0.5", RATES, argument="k$", **more)


NUMBERS = {
    "rate": rate("y = y * a$"),
    "class of a rate": rate("y = y * (2.0 if type(a$) is float else 3.0)"),
    "made by the class of a rate": rate("y = y * type(a$)(2.0)"),
    "rate equals": rate("y = y * (2.0 if a$ == 0.1 else 3.0)"),
    "rate compared": rate("y = y * (2.0 if a$ > 0.6 else 3.0)"),
    "rate in math": rate("y = y + math.sin(a$)"),
    "mean of rates": rate("y = y * statistics.mean([a$, a$])"),
    "NumPy's float32 of a rate": rate("y = y * (np.float32(2.0) * a$)"),
    "array of a rate": rate("y = y * np.asarray([a$, 1.0])"),
    "rate rounded": rate("y = y * round(a$, 1) + int(a$ * 10)"),
    "rate formatted": rate("y = y * float(f'{a$:.2f}')"),
    "rate kept": rate("n$['rate'] = a$; y = y * a$", top="n$ = {}", state=("n$",)),
    "rate of a default": rate("y = y * (lambda k=a$: k)()"),
    "rate returned": rate("y = y * a$", results=("a$", "a$ * 2.0", "type(a$)")),
    "rate hashed": rate("y = y * {0.1: 2.0}.get(a$, 3.0)"),
    "rate in a condition": rate("y = y * 2.0 if a$ else y"),
    "power of a rate": rate("y = ag.abs(y) ** a$"),
    "rate times a number of a tensor": rate("y = y * (a$ * float(y.detach().sum()))"),
    "complex of a rate": rate("y = y * complex(a$).real"),
    "rates in order": rate("y = y * sorted([a$, 0.6])[0]"),
    "rate is integer": rate("y = y * (2.0 if float(a$).is_integer() else 3.0)"),
    "float": piece("y = y * float(y.detach().sum())"),
    "product of floats": piece("y = y * (0.1 * float(y.detach().sum()))"),
    "item": piece("y = y * y.detach().sum().item()"),
    "item in math": piece("y = y + math.sin(y.detach().sum().item())"),
    "class of item": piece("y = y * (2.0 if type(y.detach().sum().item()) is float else 3.0)"),
    "item returned": piece("s = y.detach().sum()", results=("s.item()", "float(s)", "int(s)", "bool(s > 0)")),
    "mean of items": piece("y = y * statistics.fmean([q.item() for q in y.detach()])"),
    "int of a tensor": piece("y = y * int(y.detach().sum())"),
    "a way by value": piece("y = y * 2.0 if y.sum() > 0 else y * 3.0"),
    "a way by item": piece("y = y * 2.0 if y.sum().item() > 0 else y * 3.0"),
    "raise by value": piece("if y.sum() > 3.0: raise ValueError('large')"),
    "raise by item": piece("if float(y.sum()) > 3.0: raise ValueError('large')"),
    "assert by value": piece("assert y.sum() < 3.0, 'large'"),
    "loop by value": piece("for _ in range(6):\n    if y.detach().sum() > 10.0: break\n    y = y * 2.0 + 1.0"),
    "while": piece("i = 0\nwhile float(ag.abs(y.detach()).sum()) < 10.0 and i < 6: y = y * 2.0; i += 1"),
    "shape by value": piece("y = y * ag.ones(2 + (int(ag.abs(y.detach()[0])) % 3)).sum()"),
    "mask": piece("y = y * (y[y > 0].sum() + 1.0)"),
    "determinant first": piece(
        "m = ag.diag(ag.relu(x.detach() + 0.75)) if True else None\ny = y * 0.0 if ag.linalg.det(m) == 0 else y * ag.linalg.inv(m).sum()"
    ),
    "bounds first": piece("k = ag.astype(ag.abs(x.detach()[1]), ag.int64)\ny = y * 3.0 if k >= 2 else y * y[k]"),
    "jitter": piece(
        "m = ag.diag(x.detach())\nfor j in (0.0, 10.0, 100.0):\n    try: y = y * ag.linalg.cholesky(m + j * ag.eye(2)).sum(); break\n    except np.linalg.LinAlgError: pass"
    ),
    "definite first": piece(
        "m = ag.diag(x.detach().to(ag.float64))\nif (ag.linalg.eigvalsh(m) <= 0).any(): m = m + 10.0 * ag.eye(2)\ny = y * ag.linalg.cholesky(m).sum()"
    ),
    "error of numbers caught": piece(
        "try:\n    with np.errstate(all='raise'): y = y * (1.0 / (x.detach() - 0.5))\nexcept FloatingPointError: y = y * 7.0"
    ),
    "error caught": piece("try: y = y * ag.ones(3)\nexcept ValueError: y = y * 5.0"),
    "key not there": piece(
        "try: y = y * d$['k']\nexcept KeyError: y = y * 5.0", "d$ = {}", ("d$['k'] = 3.0",), state=("d$",)
    ),
    "attribute not there": piece(
        "try: y = y * d$.k\nexcept AttributeError: y = y * 5.0",
        "d$ = O()",
        ("d$.k = 3.0", "type(d$).k = 4.0"),
        state=("d$",),
        top="",
        after="vars(O).get('k') is None or delattr(O, 'k')",
    ),
}

# -- gradients and training -------------------------------------------------------------------------------------------------

W = "w$ = ag.nn.Parameter(ag.asarray([1.0, -1.0]))"
W_CHANGES = (
    "nonlocal w$; w$ = ag.nn.Parameter(ag.asarray([3.0, 4.0]))",
    "w$.requires_grad_(not w$.requires_grad)",
    "w$.grad = None",
    "w$.grad = ag.ones(2)",
    "w$.data = ag.asarray([2.0, 5.0])",
    "with ag.no_grad(): w$.mul_(2.0)",
)
OPT = f"{W}; opt$ = ag.optim.SGD([w$], lr=0.01)"
OPT_CHANGES = (
    *W_CHANGES,
    "opt$.param_groups[0]['lr'] = 0.05",
    "opt$.param_groups[0]['lr'] *= 0.5",
    "opt$.param_groups[0]['weight_decay'] = 0.1",
    "opt$.param_groups[0]['params'][0] = ag.nn.Parameter(ag.asarray([3.0, 4.0]))",
    "opt$.add_param_group({'params': [ag.nn.Parameter(ag.ones(1))]})",
    "opt$.load_state_dict(opt$.state_dict())",
    "opt$.state.clear()",
    "nonlocal opt$; opt$ = ag.optim.SGD([w$], lr=0.03)",
)
NET = "ag.manual_seed(1); net$ = ag.nn.Linear(2, 2); spare$ = ag.nn.Parameter(ag.ones((2, 2)))"
NET_CHANGES = (
    "net$.weight = spare$",
    "net$.weight = ag.nn.Parameter(ag.ones((2, 2)))",
    "net$.bias = None",
    "net$.weight.requires_grad_(not net$.weight.requires_grad)",
    "net$.weight.data.mul_(2.0)",
    "net$.zero_grad()",
    "net$.eval()",
    "net$.load_state_dict({k: v * 2.0 for k, v in net$.state_dict().items()})",
    "net$.forward = lambda u: u * 5.0",
    "type(net$).forward",
    "net$.register_forward_hook(lambda m, a, out: out * 3.0)",
    "net$.weight.register_hook(lambda g: g * 3.0)",
    "net$.extra = ag.nn.Parameter(ag.ones(2))",
)


def step(optimizer, more="", changes=(), net=NET):
    """Give a piece that takes a step of training."""
    return piece(
        f"opt$.zero_grad()\nloss = ((net$(x.detach().to(ag.float64)) - 1.0) ** 2).sum() + (spare$ * spare$).sum()\nloss.backward(){more}\nopt$.step()\ny = y * loss.detach()",
        f"{net}; opt$ = ag.optim.{optimizer}",
        (
            *NET_CHANGES,
            *changes,
            *(c for c in OPT_CHANGES if "w$" not in c),
            "opt$.param_groups[0]['params'][0] = spare$",
        ),
        state=("net$", "spare$", "opt$.param_groups", "list(opt$.state.values())"),
    )


def layered(top, local, body, changes, **more):
    """Give a piece with a class of modules."""
    return Piece(top=top, local=local, body=body, changes=changes, state=("net$",), **more)


TRAINING = {
    "parameter": piece("y = y * w$", W, W_CHANGES, state=("w$",)),
    "zero_grad": piece("opt$.zero_grad(); y = (w$ * y - 1.0) ** 2", OPT, OPT_CHANGES, state=("w$",), must=True),
    "zero_grad and a step outside": piece(
        "opt$.zero_grad(); y = (w$ * y - 1.0) ** 2",
        OPT,
        OPT_CHANGES,
        state=("w$", "opt$.param_groups"),
        after="opt$.step()",
    ),
    "grad = None": piece("w$.grad = None; y = (w$ * y - 1.0) ** 2", W, W_CHANGES, state=("w$",), must=True),
    "gradient cleared by a module": piece(
        "net$.zero_grad(); y = net$(y.to(ag.float64))", NET, NET_CHANGES, state=("net$", "spare$")
    ),
    "step outside": piece(
        "y = (w$ * y - 1.0) ** 2", OPT, OPT_CHANGES, state=("w$",), after="opt$.step(); opt$.zero_grad()"
    ),
    "SGD": step("SGD(net$.parameters(), lr=0.01)"),
    "SGD with momentum": step(
        "SGD(net$.parameters(), lr=0.01, momentum=0.9)", changes=("opt$.param_groups[0]['momentum'] = 0.5",)
    ),
    "Adam": step("Adam(net$.parameters(), lr=0.01)", changes=("opt$.param_groups[0]['betas'] = (0.8, 0.9)",)),
    "AdamW": step("AdamW([net$.weight, spare$], lr=0.01, weight_decay=0.1)"),
    "rate set within": step("SGD(net$.parameters(), lr=0.01)", "\nopt$.param_groups[0]['lr'] *= 0.9"),
    "rate read within": step("SGD(net$.parameters(), lr=0.01)", "\ny = y * opt$.param_groups[0]['lr']"),
    "clipped": step("SGD(net$.parameters(), lr=0.01)", "\nag.nn.utils.clip_grad_norm_(net$.parameters(), 0.5)"),
    "schedule": step("SGD(net$.parameters(), lr=0.01); sch$ = ag.optim.lr_scheduler.StepLR(opt$, 2)", "\nsch$.step()"),
    "groups counted": piece("y = y * len(opt$.param_groups)", OPT, OPT_CHANGES, state=("w$",)),
    "parameters counted": piece(
        "y = y * sum(p.numel() for p in net$.parameters())",
        NET,
        (*NET_CHANGES, "net$.weight = ag.nn.Parameter(ag.ones((5, 2)))"),
        state=("net$",),
    ),
    "parameters that need a gradient": piece(
        "y = y * sum(p.requires_grad for p in net$.parameters())", NET, NET_CHANGES, state=("net$",)
    ),
    "by hand": piece(
        "loss = (w$ * x.detach() - 1.0).pow(2).sum()\nw$.grad = None\nloss.backward()\nwith ag.no_grad(): w$.sub_(0.01 * w$.grad)\ny = y * loss.detach()",
        W,
        W_CHANGES[:1] + W_CHANGES[2:],
        state=("w$",),
    ),
    "accumulation": piece(
        "loss = (w$ * x.detach()).sum()\nloss.backward()\nif a$ % 3 == 2: opt$.step(); opt$.zero_grad()\ny = y * loss.detach()",
        f"{OPT}; turn$ = itertools.count()",
        OPT_CHANGES[2:],
        argument="next(turn$)",
        state=("w$",),
    ),
    "accumulation by a flag": piece(
        "(w$ * x.detach()).sum().backward()\nif f$.go: opt$.step(); opt$.zero_grad()",
        f"{OPT}; f$ = O(go=False)",
        ("f$.go = not f$.go",),
        state=("w$",),
    ),
    "gradient read and cleared": piece(
        "y = y * w$ + (w$.grad if w$.grad is not None else 0.0)\nw$.grad = None", W, W_CHANGES, state=("w$",), must=True
    ),
    "gradient read": piece("y = y * (w$.grad.sum() if w$.grad is not None else 3.0)", W, W_CHANGES, state=("w$",)),
    "gradient returned": piece(
        "y = y * 2.0", f"{W}; w$.grad = ag.ones(2)", W_CHANGES, state=("w$",), results=("w$.grad",)
    ),
    "gradient made and returned": piece(
        "w$.grad = None\n(w$ * x.detach()).sum().backward()", W, W_CHANGES[2:], state=("w$",), results=("w$.grad",)
    ),
    "parameter returned": piece("y = y * w$", W, W_CHANGES, state=("w$",), results=("w$",)),
    "detached parameter returned": piece("y = y * w$", W, W_CHANGES, state=("w$",), results=("w$.detach()",)),
    "view returned": piece("y = y * w$", W, W_CHANGES, state=("w$",), results=("w$[:1]", "w$.reshape((2, 1))")),
    "argument returned": piece("y = y * 2.0", results=("x", "x.detach()")),
    "result returned twice": piece("y = y * 2.0; z = y * 3.0", results=("z", "z")),
    "unused result": piece(
        "y = y * 2.0",
        f"{W}; u$ = ag.nn.Parameter(ag.ones(2))",
        state=("w$", "u$"),
        results=("(u$ * x).sum()", "(w$ * x).sum()"),
    ),
    "unused result and AdamW": piece(
        "y = y * u$",
        f"{W}; u$ = ag.nn.Parameter(ag.ones(2)); opt$ = ag.optim.AdamW([w$, u$], lr=0.01, weight_decay=0.1)",
        state=("w$", "u$"),
        results=("(w$ * x).sum()",),
        after="opt$.step(); opt$.zero_grad()",
    ),
    "apart": piece("y = y * 2.0", results=("ag.exp(x).sum()", "ag.sin(x).sum()")),
    "together": piece("z = ag.exp(y)", results=("z.sum()", "(z * 2.0).sum()")),
    "leaf inside": piece("z = x.detach().clone().requires_grad_()", results=("(z ** 2).sum()",)),
    "derivative by a leaf inside": piece(
        "z = x.detach().clone().requires_grad_(True)\n(d,) = ag.autograd.grad((z ** 3 * w$).sum(), z, create_graph=True)\ny = y * (d ** 2).mean()",
        W,
        W_CHANGES,
        state=("w$",),
    ),
    "training by a leaf inside": piece(
        "z = x.detach().clone().requires_grad_(True)\n(d,) = ag.autograd.grad((z ** 3 * w$).sum(), z, create_graph=True)\nloss = (d ** 2).mean()\nw$.grad = None\nloss.backward()\ny = y * loss.detach()",
        W,
        W_CHANGES[2:],
        state=("w$",),
        must=True,
    ),
    "grad": piece(
        "y = y * ag.func.grad(lambda q: (q ** 3 * w$.detach()).sum())(x.detach())", W, W_CHANGES, state=("w$",)
    ),
    "grad by a float": piece("y = y * ag.func.grad(lambda q: (x.detach() * q).sum())(2.0)"),
    "vmap": piece("y = y * ag.vmap(lambda q: q * w$.detach().sum())(x.detach())", W, W_CHANGES, state=("w$",)),
    "no_grad": piece("with ag.no_grad(): z = y * w$\ny = y + z", W, W_CHANGES, state=("w$",)),
    "hook on the parameter": piece(
        "y = y * w$",
        f"{W}; c$ = O(k=2.0); w$.register_hook(lambda g: g * c$.k)",
        (*W_CHANGES, "c$.k = 5.0"),
        state=("w$",),
    ),
    "hook inside": piece(
        "z = y * w$; z.register_hook(lambda g: g * c$.k) if z.requires_grad else None; y = z * 2.0",
        f"{W}; c$ = O(k=2.0)",
        (*W_CHANGES, "c$.k = 5.0"),
        state=("w$",),
    ),
    "hook that counts": piece(
        "z = y * w$; z.register_hook(lambda g: n$.append(1)) if z.requires_grad else None; y = z * 2.0",
        f"{W}; n$ = []",
        W_CHANGES,
        state=("w$", "n$"),
    ),
    "retained": piece(
        "z = y * w$; z.retain_grad() if z.requires_grad else None; y = z * 2.0",
        W,
        W_CHANGES,
        state=("w$",),
        results=("z",),
    ),
    "module": piece("y = net$(y.to(ag.float64))", NET, NET_CHANGES, state=("net$", "spare$")),
    "module's weight": piece("y = y * net$.weight.sum()", NET, NET_CHANGES, state=("net$", "spare$")),
    "tied": piece(
        "y = net$(net2$(y.to(ag.float64)))",
        f"{NET}; net2$ = ag.nn.Linear(2, 2)",
        (*NET_CHANGES, "net2$.weight = net$.weight", "net$.weight = net2$.weight"),
        state=("net$", "net2$"),
    ),
    "sequential": piece(
        "y = net$(y.to(ag.float64))",
        "ag.manual_seed(1); net$ = ag.nn.Sequential(ag.nn.Linear(2, 2), ag.nn.Tanh())",
        (
            "net$[1] = ag.nn.Identity()",
            "net$.append(ag.nn.Tanh())",
            "net$[0].weight = ag.nn.Parameter(ag.ones((2, 2)))",
            "net$[1], net$[0] = net$[0], net$[1]",
        ),
        state=("net$",),
    ),
    "parameters listed": piece(
        "for p in ps$: y = y * p + 1.0",
        "ps$ = ag.nn.ParameterList([ag.ones(2), ag.ones(2) * 2.0])",
        ("ps$.append(ag.nn.Parameter(ag.ones(2)))", "ps$[0] = ag.nn.Parameter(ag.ones(2) * 3.0)"),
        state=("ps$",),
    ),
    "modules by name": piece(
        "for m in ms$.values(): y = m(y)",
        "ms$ = ag.nn.ModuleDict({'a': ag.nn.Tanh(), 'b': ag.nn.Softplus()})",
        ("ms$['a'] = ms$.pop('a')", "ms$['c'] = ag.nn.Tanh()", "ms$['b'] = ag.nn.ReLU()"),
        state=("list(ms$)",),
    ),
    "dropout": piece(
        "y = net$(y)",
        "ag.manual_seed(1); net$ = ag.nn.Dropout(0.5)",
        ("net$.eval()", "net$.train()", "net$.p = 0.1", "ag.manual_seed(7)"),
        state=("net$",),
    ),
    "batch norm": piece(
        "y = net$(ag.stack([y, y * 2.0]).to(ag.float64)).sum(0)",
        "net$ = ag.nn.BatchNorm1d(2)",
        (
            "net$.eval()",
            "net$.train()",
            "net$.momentum = 0.5",
            "net$.running_mean = ag.ones(2)",
            "net$.running_mean.add_(1.0)",
            "net$.eps = 0.1",
        ),
        state=("net$",),
    ),
    "buffer": layered(
        "class Net$(ag.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('b', ag.ones(2))\n    def forward(self, u):\n        self.b.add_(1.0)\n        return u * self.b",
        "net$ = Net$()",
        "y = net$(y)",
        ("net$.b = ag.zeros(2)", "net$.b.zero_()"),
    ),
    "buffer replaced": layered(
        "class Net$(ag.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('b', ag.ones(2))\n    def forward(self, u):\n        self.b = self.b + 1.0\n        return u * self.b",
        "net$ = Net$()",
        "y = net$(y)",
        ("net$.b = ag.zeros(2)",),
    ),
    "forward of a subclass": layered(
        "class A$(ag.nn.Module):\n    def forward(self, u): return u * 2.0\nclass B$(A$): pass",
        "net$ = B$()",
        "y = net$(y)",
        ("B$.forward = lambda self, u: u * 7.0", "A$.forward = lambda self, u: u * 5.0", "net$.__class__ = A$"),
    ),
    "method of a subclass": layered(
        "class A$:\n    def g(self, u): return u * 2.0\nclass B$(A$): pass",
        "net$ = B$()",
        "y = net$.g(y)",
        ("B$.g = lambda self, u: u * 7.0", "A$.g = lambda self, u: u * 5.0", "net$.g = lambda u: u * 3.0"),
    ),
    "class method": layered(
        "class A$:\n    k = 2.0\n    @classmethod\n    def g(cls, u): return u * cls.k\n    @staticmethod\n    def h(u): return u * 2.0\nclass B$(A$): pass",
        "net$ = B$()",
        "y = B$.g(net$.h(y))",
        ("B$.k = 7.0", "A$.k = 5.0", "A$.h = staticmethod(lambda u: u * 3.0)", "B$.g = classmethod(lambda cls, u: u)"),
    ),
    "builtin hidden": Piece(
        top="def hides$(): return abs(-2.0)",
        body="y = y * hides$()",
        changes=("globals()['abs'] = lambda v: 7.0", "globals().pop('abs', None)"),
    ),
    "decorated": Piece(
        top="@doubled\ndef g$(u): return u * 3.0",
        body="y = g$(y)",
        changes=("global g$; g$ = g$.__wrapped__", "g$.__wrapped__.__code__ = (lambda u: u * 5.0).__code__"),
    ),
    "function replaced": Piece(
        top="def g$(u): return u * 3.0",
        body="y = g$(y)",
        changes=("global g$; g$ = lambda u: u * 5.0", "g$.__code__ = (lambda u: u * 7.0).__code__"),
    ),
    "function of a module replaced": Piece(
        top="mod$ = types.ModuleType('mod_$'); mod$.g = lambda u: u * 3.0",
        body="y = mod$.g(y)",
        changes=("mod$.g = lambda u: u * 5.0",),
    ),
    "partial chain": Piece(
        top="def sub$(a, b, c=1.0): return a * b + c",
        local="ps$ = [functools.partial(sub$, b=2.0), functools.partial(sub$, b=3.0, c=0.5)]",
        body="y = functools.reduce(lambda a, g: g(a), ps$, y)",
        changes=("ps$.reverse()", "ps$[0] = functools.partial(sub$, b=5.0)", "ps$[1].keywords['c'] = 4.0"),
    ),
    "sorted by a key": piece(
        "for g in sorted(fs$, key=operator.attrgetter('rank')): y = g(y)",
        "fs$ = [with_rank(lambda u: u * 2.0, 1), with_rank(lambda u: u + 1.0, 2)]",
        ("fs$[0].rank = 3", "fs$.pop()"),
        top="def with_rank(g, rank):\n    g.rank = rank\n    return g",
    ),
    "match": piece(
        "match d$:\n    case {'kind': 'a', 'k': k}: y = y * k\n    case {'kind': 'b'}: y = y + 1.0\n    case [k, *rest]: y = y * k + len(rest)\n    case _: y = y * 3.0",
        "d$ = {'kind': 'a', 'k': 2.0}",
        ("d$['kind'] = 'b'", "d$['k'] = 5.0", "d$.clear()", "nonlocal d$; d$ = [4.0, 1]"),
        state=("d$",),
    ),
    "star": piece(
        "a, *b = l$; y = y * a + sum(b)", "l$ = [2.0, 3.0]", ("l$.append(1.0)", "l$[0] = 5.0"), state=("l$",)
    ),
    "generator function": piece(
        "for v in gen$(): y = y * v + 1.0",
        "l$ = [2.0, 3.0]\ndef gen$():\n    for v in l$: yield v",
        ("l$.append(4.0)", "l$.reverse()"),
        state=("l$",),
    ),
    "identity": piece(
        "y = y * (2.0 if p$.a is p$.b else 3.0)", "p$ = O(a=O(), b=O())", ("p$.a = p$.b", "p$.b = O()"), state=("p$",)
    ),
    "membership": piece("y = y * (2.0 if 'k' in d$ else 3.0)", "d$ = {}", ("d$['k'] = 1",), state=("d$",)),
    "lengths": piece(
        "y = y * len(d$) * len(l$)", "d$ = {'a': 1}; l$ = [1]", ("d$['k'] = 1", "l$.append(1)"), state=("d$", "l$")
    ),
    "equality of objects": Piece(
        top="class E$:\n    def __init__(self, k): self.k = k\n    def __eq__(self, other): return self.k == other.k\n    def __hash__(self): return hash(self.k)\n    def __lt__(self, other): return self.k < other.k\n    def __bool__(self): return self.k > 2\n    def __len__(self): return self.k",
        local="p$, q$ = E$(2), E$(3)",
        body="y = y * (2.0 if p$ == q$ else 3.0) * (2.0 if p$ < q$ else 5.0) * (2.0 if p$ else 7.0) * (2.0 if q$ in {p$: 1} else 3.0)",
        changes=("p$.k = 3", "q$.k = 1", "E$.__eq__ = lambda s, o: True"),
    ),
    "string template": piece("y = y * float('{o.k}'.format(o=o$))", "o$ = O(k=2.0)", ("o$.k = 5.0",), state=("o$",)),
    "repr": Piece(
        top="class R$:\n    k = 2.0\n    def __repr__(self): return str(self.k)",
        local="r$ = R$()",
        body="y = y * float(f'{r$!r}')",
        changes=("r$.k = 5.0", "R$.k = 3.0"),
    ),
    "transposed": piece(
        "y = y * A$[0, 1]; B$.add_(1.0)", "A$ = ag.asarray([[1.0, 2.0], [3.0, 4.0]]); B$ = A$.T", state=("A$", "B$")
    ),
    "view written": piece(
        "v = t$[:1]; v.add_(1.0); y = y * t$",
        "t$ = ag.ones(2)",
        ("t$.zero_()", "nonlocal t$; t$ = ag.ones(2) * 5.0"),
        state=("t$",),
    ),
    "two names": piece(
        "t$.add_(1.0); y = y * u$",
        "t$ = ag.ones(2); u$ = t$",
        ("nonlocal u$; u$ = ag.ones(2)", "nonlocal t$; t$ = ag.ones(2)"),
        state=("t$", "u$"),
    ),
    "draws": piece("y = y * ag.rand(2)", "ag.manual_seed(1)", ("ag.manual_seed(9)",)),
    "draws of a generator": piece(
        "y = y * ag.rand(2, generator=g$)",
        "g$ = ag.random.Generator(); g$.manual_seed(1)",
        ("g$.manual_seed(9)", "nonlocal g$; g$ = ag.random.Generator(); g$.manual_seed(2)"),
    ),
    "seed inside": piece("ag.manual_seed(3); y = y * ag.rand(2)"),
    "seed of a generator inside": piece(
        "g$.manual_seed(3); y = y * ag.rand(2, generator=g$)", "g$ = ag.random.Generator()"
    ),
    "state of a generator inside": piece(
        "g$.set_state(s$); y = y * ag.rand(2, generator=g$)",
        "g$ = ag.random.Generator(); g$.manual_seed(3); s$ = g$.get_state()",
    ),
    "dtype left set": piece("ag.set_default_dtype(ag.float32); y = y * ag.ones(2).to(y.dtype)"),
    "gradients left off": piece("y = y * 2.0; ag.autograd.set_grad_enabled(False)"),
    "gradients left on": piece("ag.autograd.set_grad_enabled(True); y = y * 2.0"),
    "default dtype read": piece("y = y * (2.0 if ag.zeros(1).dtype == ag.float64 else 3.0)"),
    "mode read": piece("y = y * (2.0 if ag.is_grad_enabled() else 3.0)"),
    "operand given back": piece("y = reversal(y) * 1.0"),
    "operand given back alone": piece("y = y * 1.0", results=("reversal(x) * 1.0",)),
    "number of NumPy's returned": piece("y = y * 2.0", results=("np.float64(3.0)",)),
    "fraction returned": piece("y = y * 2.0", results=("fractions.Fraction(1, 3)",)),
    "date returned": piece("y = y * 2.0", results=("datetime.date(2020, 1, 1)",)),
    "range returned": piece("y = y * 2.0", results=("range(3)",)),
    "set returned": piece("y = y * 2.0", results=("{1, 2}",)),
    "function returned": piece("y = y * 2.0", results=("lambda: 1",)),
    "object returned": piece("y = y * 2.0", results=("O(k=2.0)",)),
    "object outside returned": piece(
        "y = y * 2.0", "o$ = O(k=2.0)", ("o$.k = 5.0", "nonlocal o$; o$ = O(k=3.0)"), state=("o$",), results=("o$",)
    ),
    "container outside returned": piece(
        "y = y * 2.0", "l$ = [1.0]", ("l$.append(2.0)", "nonlocal l$; l$ = []"), state=("l$",), results=("l$",)
    ),
    "array returned": piece(
        "y = y * 2.0", "n$ = np.ones(2)", ("n$[0] = 5.0",), state=("n$",), results=("n$", "n$ * 2.0")
    ),
    "shape returned": piece("y = y * 2.0", results=("y.shape", "y.dtype", "y.ndim", "y.requires_grad")),
    "iterator returned": piece("y = y * 2.0", results=("type(iter([1])).__name__", "iter([1])")),
    "complex returned": piece("y = y * 2.0", results=("1.0 + 2.0j", "True", "None", "'a'")),
    "result in place": piece("y = y * 2.0; y.add_(1.0)"),
    "argument in place": piece("x.detach().add_(1.0); y = y * x.detach()"),
}

NAMED = {
    **{f"effect: {name}": one for name, one in EFFECTS.items()},
    **{f"argument: {name}": one for name, one in ARGUMENTS.items()},
    **{f"number: {name}": one for name, one in NUMBERS.items()},
    **{f"tensor: {name}": one for name, one in TRAINING.items()},
}
