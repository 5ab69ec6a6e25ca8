"""The expected texts were printed by PyTorch 2.13 (default dtype float64) for the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import inf, nan
from typing import Any

import pytest

import agrad as ag
from agrad.plugin import manager
from agrad.view.format import PrintOptions, edges, format_tensor


def shape_of(values: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(values, list):
        shape.append(len(values))
        values = values[0]
    return tuple(shape)


def case(name: str, values: Any, kind: str, expected: str | list[str], *suffixes: str) -> Any:
    text = expected if isinstance(expected, str) else "\n".join(expected)
    return pytest.param(values, kind, suffixes, text, id=name)


CASES = [
    case("scalar float", 2.0, "float", "tensor(2.)"),
    case("scalar negative zero", -0.0, "float", "tensor(-0.)"),
    case("scalar small", 1e-05, "float", "tensor(1.0000e-05)"),
    case("scalar nan", nan, "float", "tensor(nan)"),
    case("scalar inf", -inf, "float", "tensor(-inf)"),
    case("scalar int", -7, "int", "tensor(-7)"),
    case("scalar bool", True, "bool", "tensor(True)"),
    case("scalar complex", 1.5 - 2j, "complex", "tensor(1.5000-2.j)"),
    case("scalar complex infinite", complex(inf, nan), "complex", "tensor(inf+nanj)"),
    case("whole floats", [1.0, -20.0, 0.0, -0.0], "float", "tensor([  1., -20.,   0.,  -0.])"),
    case(
        "fractions in scientific notation",
        [0.1, -20.0, 0.0, 1234.56789],
        "float",
        "tensor([ 1.0000e-01, -2.0000e+01,  0.0000e+00,  1.2346e+03])",
    ),
    case("ratio of a thousand", [1.0, 1000.0], "float", "tensor([   1., 1000.])"),
    case("ratio of a thousand with fractions", [0.5, 500.0], "float", "tensor([  0.5000, 500.0000])"),
    case("ratio above a thousand", [1.0, 1001.0], "float", "tensor([1.0000e+00, 1.0010e+03])"),
    case("ratio above a thousand with fractions", [0.5, 1001.0], "float", "tensor([5.0000e-01, 1.0010e+03])"),
    case("fractions", [0.1, -20.0, 0.0, 56.789], "float", "tensor([  0.1000, -20.0000,   0.0000,  56.7890])"),
    case("rounding adds a digit", [9.99996, 1.0], "float", "tensor([10.0000,  1.0000])"),
    case("whole numbers at the limit", [1e8, 2e8 - 1e8, 2e5], "float", "tensor([100000000., 100000000.,    200000.])"),
    case("large", [123456789.0, 1e8], "float", "tensor([1.2346e+08, 1.0000e+08])"),
    case("small", [0.0001, 0.00009], "float", "tensor([1.0000e-04, 9.0000e-05])"),
    case("overflowing ratio", [1e300, 1e-300, -5e-324], "float", "tensor([ 1.0000e+300,  1.0000e-300, -4.9407e-324])"),
    case("whole with nan", [1.0, nan, inf, -inf, 300.0], "float", "tensor([  1.,  nan,  inf, -inf, 300.])"),
    case("fractions with nan", [0.25, nan, inf, -inf], "float", "tensor([0.2500,    nan,    inf,   -inf])"),
    case("nothing finite", [nan, inf, -inf], "float", "tensor([nan, inf, -inf])"),
    case("zeros only", [0.0, -0.0, 0.0], "float", "tensor([0., -0., 0.])"),
    case("zeros with nan", [0.0, nan], "float", "tensor([0., nan])"),
    case(
        "scientific with zero and nan",
        [0.0, nan, -1e-10, 1.0],
        "float",
        "tensor([ 0.0000e+00,         nan, -1.0000e-10,  1.0000e+00])",
    ),
    case(
        "ints",
        [[1, -200], [30, 4]],
        "int",
        [
            "tensor([[   1, -200],",
            "        [  30,    4]])",
        ],
    ),
    case(
        "bools",
        [[True, False], [False, False]],
        "bool",
        [
            "tensor([[ True, False],",
            "        [False, False]])",
        ],
    ),
    case(
        "more bits than a float has",
        [2**62 + 1, -(2**62) - 1],
        "int",
        "tensor([ 4611686018427387905, -4611686018427387905])",
    ),
    case("all true", [True, True], "bool", "tensor([True, True])"),
    case(
        "wrapped vector",
        [i / 7 for i in range(20)],
        "float",
        [
            "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,",
            "        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,",
            "        2.5714, 2.7143])",
        ],
    ),
    case(
        "wrapped ints",
        list(range(1000, 1020)),
        "int",
        [
            "tensor([1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011,",
            "        1012, 1013, 1014, 1015, 1016, 1017, 1018, 1019])",
        ],
    ),
    case(
        "wide elements",
        [10**17 + i for i in range(6)],
        "int",
        [
            "tensor([100000000000000000, 100000000000000001, 100000000000000002,",
            "        100000000000000003, 100000000000000004, 100000000000000005])",
        ],
    ),
    case(
        "matrix of a wide row",
        [[i / 3 for i in range(12)], [-i / 3 for i in range(12)]],
        "float",
        [
            "tensor([[ 0.0000,  0.3333,  0.6667,  1.0000,  1.3333,  1.6667,  2.0000,  2.3333,",
            "          2.6667,  3.0000,  3.3333,  3.6667],",
            "        [ 0.0000, -0.3333, -0.6667, -1.0000, -1.3333, -1.6667, -2.0000, -2.3333,",
            "         -2.6667, -3.0000, -3.3333, -3.6667]])",
        ],
    ),
    case(
        "cube",
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        "int",
        [
            "tensor([[[1, 2],",
            "         [3, 4]],",
            "",
            "        [[5, 6],",
            "         [7, 8]]])",
        ],
    ),
    case(
        "four axes",
        [[[[1.0]], [[2.0]]], [[[3.0]], [[4.5]]]],
        "float",
        [
            "tensor([[[[1.0000]],",
            "",
            "         [[2.0000]]],",
            "",
            "",
            "        [[[3.0000]],",
            "",
            "         [[4.5000]]]])",
        ],
    ),
    case("ones on every axis", [[[1.5]]], "float", "tensor([[[1.5000]]])"),
    case("complex", [1 + 2j, -1.5 - 0.5j], "complex", "tensor([ 1.0000+2.0000j, -1.5000-0.5000j])"),
    case(
        "complex columns",
        [[complex(1, 0), complex(0, -10)], [complex(-0.0, -0.0), complex(100, 1)]],
        "complex",
        [
            "tensor([[  1.+0.j,   0.-10.j],",
            "        [ -0.-0.j, 100.+1.j]])",
        ],
    ),
    case(
        "complex scientific",
        [complex(1e-9, 1), complex(1, 1e9)],
        "complex",
        "tensor([1.0000e-09+1.0000e+00j, 1.0000e+00+1.0000e+09j])",
    ),
    case(
        "complex nonfinite",
        [complex(nan, inf), complex(1, -inf), complex(2, nan)],
        "complex",
        "tensor([nan+infj, 1.-infj, 2.+nanj])",
    ),
    case(
        "complex wrapped",
        [complex(i / 3, -i) for i in range(9)],
        "complex",
        [
            "tensor([0.0000+0.j, 0.3333-1.j, 0.6667-2.j, 1.0000-3.j, 1.3333-4.j, 1.6667-5.j,",
            "        2.0000-6.j, 2.3333-7.j, 2.6667-8.j])",
        ],
    ),
    case("leaf", [1.0, 2.0], "float", "tensor([1., 2.], requires_grad=True)", "requires_grad=True"),
    case("node", [1.0, 2.5], "float", "tensor([1.0000, 2.5000], grad_fn=<AddBackward0>)", "grad_fn=<AddBackward0>"),
    case(
        "dtype and leaf",
        [1.0],
        "float",
        "tensor([1.], dtype=torch.float32, requires_grad=True)",
        "dtype=torch.float32",
        "requires_grad=True",
    ),
    case(
        "suffix on a new line",
        [i / 4 for i in range(8)],
        "float",
        [
            "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500],",
            "       requires_grad=True)",
        ],
        "requires_grad=True",
    ),
    case(
        "suffixes on a new line",
        [i / 4 for i in range(8)],
        "float",
        [
            "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500],",
            "       dtype=torch.float32, grad_fn=<CloneBackward0>)",
        ],
        "dtype=torch.float32",
        "grad_fn=<CloneBackward0>",
    ),
    case(
        "suffix that just fits",
        [-0.25 * i for i in range(1, 6)],
        "float",
        "tensor([-0.2500, -0.5000, -0.7500, -1.0000, -1.2500], grad_fn=<CloneBackward0>)",
        "grad_fn=<CloneBackward0>",
    ),
    case(
        "suffix one column too long",
        [-0.25 * i for i in range(1, 6)],
        "float",
        [
            "tensor([-0.2500, -0.5000, -0.7500, -1.0000, -1.2500],",
            "       grad_fn=<SelectBackward0>)",
        ],
        "grad_fn=<SelectBackward0>",
    ),
    case(
        "suffix behind a matrix",
        [[1.0, 2.0], [3.0, 4.0]],
        "float",
        [
            "tensor([[1., 2.],",
            "        [3., 4.]], grad_fn=<AddBackward0>)",
        ],
        "grad_fn=<AddBackward0>",
    ),
    case("summarised vector", list(range(1001)), "int", "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    case(
        "summarised floats",
        [i / 10 for i in range(2000)],
        "float",
        [
            "tensor([0.0000e+00, 1.0000e-01, 2.0000e-01,  ..., 1.9970e+02, 1.9980e+02,",
            "        1.9990e+02], requires_grad=True)",
        ],
        "requires_grad=True",
    ),
    case(
        "summarised rows",
        [[100 * i + j for j in range(4)] for i in range(300)],
        "int",
        [
            "tensor([[    0,     1,     2,     3],",
            "        [  100,   101,   102,   103],",
            "        [  200,   201,   202,   203],",
            "        ...,",
            "        [29700, 29701, 29702, 29703],",
            "        [29800, 29801, 29802, 29803],",
            "        [29900, 29901, 29902, 29903]])",
        ],
    ),
    case(
        "summarised columns",
        [[1000 * i + j for j in range(600)] for i in range(2)],
        "int",
        [
            "tensor([[   0,    1,    2,  ...,  597,  598,  599],",
            "        [1000, 1001, 1002,  ..., 1597, 1598, 1599]])",
        ],
    ),
    case(
        "summarised both",
        [[100.0 * i + j for j in range(100)] for i in range(100)],
        "float",
        [
            "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,",
            "         9.9000e+01],",
            "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,",
            "         1.9900e+02],",
            "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,",
            "         2.9900e+02],",
            "        ...,",
            "        [9.7000e+03, 9.7010e+03, 9.7020e+03,  ..., 9.7970e+03, 9.7980e+03,",
            "         9.7990e+03],",
            "        [9.8000e+03, 9.8010e+03, 9.8020e+03,  ..., 9.8970e+03, 9.8980e+03,",
            "         9.8990e+03],",
            "        [9.9000e+03, 9.9010e+03, 9.9020e+03,  ..., 9.9970e+03, 9.9980e+03,",
            "         9.9990e+03]], grad_fn=<CloneBackward0>)",
        ],
        "grad_fn=<CloneBackward0>",
    ),
    case(
        "summarised cube",
        [[[100 * i + 10 * j + k for k in range(10)] for j in range(11)] for i in range(12)],
        "int",
        [
            "tensor([[[   0,    1,    2,  ...,    7,    8,    9],",
            "         [  10,   11,   12,  ...,   17,   18,   19],",
            "         [  20,   21,   22,  ...,   27,   28,   29],",
            "         ...,",
            "         [  80,   81,   82,  ...,   87,   88,   89],",
            "         [  90,   91,   92,  ...,   97,   98,   99],",
            "         [ 100,  101,  102,  ...,  107,  108,  109]],",
            "",
            "        [[ 100,  101,  102,  ...,  107,  108,  109],",
            "         [ 110,  111,  112,  ...,  117,  118,  119],",
            "         [ 120,  121,  122,  ...,  127,  128,  129],",
            "         ...,",
            "         [ 180,  181,  182,  ...,  187,  188,  189],",
            "         [ 190,  191,  192,  ...,  197,  198,  199],",
            "         [ 200,  201,  202,  ...,  207,  208,  209]],",
            "",
            "        [[ 200,  201,  202,  ...,  207,  208,  209],",
            "         [ 210,  211,  212,  ...,  217,  218,  219],",
            "         [ 220,  221,  222,  ...,  227,  228,  229],",
            "         ...,",
            "         [ 280,  281,  282,  ...,  287,  288,  289],",
            "         [ 290,  291,  292,  ...,  297,  298,  299],",
            "         [ 300,  301,  302,  ...,  307,  308,  309]],",
            "",
            "        ...,",
            "",
            "        [[ 900,  901,  902,  ...,  907,  908,  909],",
            "         [ 910,  911,  912,  ...,  917,  918,  919],",
            "         [ 920,  921,  922,  ...,  927,  928,  929],",
            "         ...,",
            "         [ 980,  981,  982,  ...,  987,  988,  989],",
            "         [ 990,  991,  992,  ...,  997,  998,  999],",
            "         [1000, 1001, 1002,  ..., 1007, 1008, 1009]],",
            "",
            "        [[1000, 1001, 1002,  ..., 1007, 1008, 1009],",
            "         [1010, 1011, 1012,  ..., 1017, 1018, 1019],",
            "         [1020, 1021, 1022,  ..., 1027, 1028, 1029],",
            "         ...,",
            "         [1080, 1081, 1082,  ..., 1087, 1088, 1089],",
            "         [1090, 1091, 1092,  ..., 1097, 1098, 1099],",
            "         [1100, 1101, 1102,  ..., 1107, 1108, 1109]],",
            "",
            "        [[1100, 1101, 1102,  ..., 1107, 1108, 1109],",
            "         [1110, 1111, 1112,  ..., 1117, 1118, 1119],",
            "         [1120, 1121, 1122,  ..., 1127, 1128, 1129],",
            "         ...,",
            "         [1180, 1181, 1182,  ..., 1187, 1188, 1189],",
            "         [1190, 1191, 1192,  ..., 1197, 1198, 1199],",
            "         [1200, 1201, 1202,  ..., 1207, 1208, 1209]]])",
        ],
    ),
    case(
        "summarised wide ints",
        [10**15 + i for i in range(2000)],
        "int",
        [
            "tensor([1000000000000000, 1000000000000001, 1000000000000002,  ...,",
            "        1000000000001997, 1000000000001998, 1000000000001999])",
        ],
    ),
    case(
        "summarised hides the outlier",
        [1.0] * 500 + [1e-9] + [2.0] * 500,
        "float",
        "tensor([1., 1., 1.,  ..., 2., 2., 2.])",
    ),
    case(
        "summarised wide",
        [i + 0.5 for i in range(10**9, 10**9 + 1001)],
        "float",
        [
            "tensor([1.0000e+09, 1.0000e+09, 1.0000e+09,  ..., 1.0000e+09, 1.0000e+09,",
            "        1.0000e+09])",
        ],
    ),
    case(
        "summarised complex",
        [complex(i, -i / 2) for i in range(1001)],
        "complex",
        [
            "tensor([   0.+0.0000j,    1.-0.5000j,    2.-1.0000j,  ...,",
            "         998.-499.0000j,  999.-499.5000j, 1000.-500.0000j])",
        ],
    ),
    case(
        "summarised bools",
        [i % 2 == 0 for i in range(1001)],
        "bool",
        "tensor([ True, False,  True,  ...,  True, False,  True])",
    ),
]


class Grid:
    """An array of which only slices are ever seen: every element is its position in row-major order."""

    def __init__(self, axes: Sequence[Sequence[int]], shape: tuple[int, ...]) -> None:
        self.axes = axes
        self.shape = shape

    def __getitem__(self, key: tuple[slice, ...]) -> Grid:
        untouched = self.axes[len(key) :]
        return Grid([*(axis[part] for axis, part in zip(self.axes, key, strict=False)), *untouched], self.shape)

    @staticmethod
    def concat(parts: Sequence[Grid], *, axis: int) -> Grid:
        first, second = parts
        axes = list(first.axes)
        axes[axis] = [*first.axes[axis], *second.axes[axis]]
        return Grid(axes, first.shape)

    def tolist(self) -> Any:
        def nested(offset: int, axis: int) -> Any:
            if axis == len(self.axes):
                return offset
            stride = math.prod(self.shape[axis + 1 :])
            return [nested(offset + index * stride, axis + 1) for index in self.axes[axis]]

        return nested(0, 0)


def grid(*shape: int) -> Grid:
    return Grid([range(size) for size in shape], shape)


@pytest.mark.parametrize(("values", "kind", "suffixes", "expected"), CASES)
def test_text_is_that_of_pytorch(values: Any, kind: Any, suffixes: Sequence[str], expected: str) -> None:
    assert format_tensor(values, shape_of(values), kind=kind, suffixes=suffixes) == expected


@pytest.mark.parametrize(
    ("shape", "suffixes", "expected"),
    [
        ((0,), [], "tensor([])"),
        ((0, 3), [], "tensor([], size=(0, 3))"),
        ((2, 0, 3), ["dtype=torch.int64"], "tensor([], size=(2, 0, 3), dtype=torch.int64)"),
        ((2, 0), ["requires_grad=True"], "tensor([], size=(2, 0), requires_grad=True)"),
        ((0,), ["dtype=torch.bool"], "tensor([], dtype=torch.bool)"),
        ((0, 1), ["device='cupy:0'", "dtype=float32"], "tensor([], device='cupy:0', size=(0, 1), dtype=float32)"),
    ],
)
def test_empty(shape: tuple[int, ...], suffixes: list[str], expected: str) -> None:
    values: Any = []
    for size in reversed(shape[:-1]):
        values = [values] * size
    assert format_tensor(values, shape, kind="float", suffixes=suffixes) == expected


def test_prefix_sets_the_indentation() -> None:
    text = format_tensor([[1, 2], [3, 4]], (2, 2), kind="int", prefix="Parameter(", suffixes=["requires_grad=True"])
    assert text == "Parameter([[1, 2],\n           [3, 4]], requires_grad=True)"


def test_thousand_elements_are_written_in_full() -> None:
    assert format_tensor(list(range(1000)), (1000,), kind="int").count(",") == 999


def test_short_axes_are_never_summarised() -> None:
    text = format_tensor(grid(6, 6, 6, 6).tolist(), (6, 6, 6, 6), kind="int")
    assert "..." not in text
    assert len(text) == 10450


@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((1000,), (1000,)),
        ((1001,), (6,)),
        ((300, 4), (6, 4)),
        ((2, 600), (2, 6)),
        ((12, 11, 10), (6, 6, 6)),
        ((7, 6, 1, 100), (6, 6, 1, 6)),
        ((6, 6, 6, 6), (6, 6, 6, 6)),
        ((10**9, 10**9), (6, 6)),
    ],
)
def test_edges_keeps_what_is_shown(shape: tuple[int, ...], kept: tuple[int, ...]) -> None:
    assert shape_of(edges(grid(*shape), shape, Grid.concat).tolist()) == kept


@pytest.mark.parametrize("shape", [(1001,), (300, 4), (2, 600), (12, 11, 10), (7, 6, 1, 100), (5, 201)])
def test_edges_alone_give_the_same_text(shape: tuple[int, ...]) -> None:
    whole = format_tensor(grid(*shape).tolist(), shape, kind="int")
    assert format_tensor(edges(grid(*shape), shape, Grid.concat).tolist(), shape, kind="int") == whole


def test_huge_array_is_printed_from_its_edges() -> None:
    shape = (10**6, 10**6)
    text = format_tensor(edges(grid(*shape), shape, Grid.concat).tolist(), shape, kind="int")
    assert text == (
        "tensor([[           0,            1,            2,  ...,       999997,\n"
        "               999998,       999999],\n"
        "        [     1000000,      1000001,      1000002,  ...,      1999997,\n"
        "              1999998,      1999999],\n"
        "        [     2000000,      2000001,      2000002,  ...,      2999997,\n"
        "              2999998,      2999999],\n"
        "        ...,\n"
        "        [999997000000, 999997000001, 999997000002,  ..., 999997999997,\n"
        "         999997999998, 999997999999],\n"
        "        [999998000000, 999998000001, 999998000002,  ..., 999998999997,\n"
        "         999998999998, 999998999999],\n"
        "        [999999000000, 999999000001, 999999000002,  ..., 999999999997,\n"
        "         999999999998, 999999999999]])"
    )


@pytest.mark.parametrize(
    ("options", "values", "kind", "expected"),
    [
        (PrintOptions(precision=2), [1.0, 2.5], "float", "tensor([1.00, 2.50])"),
        (PrintOptions(threshold=5, edgeitems=1), list(range(10)), "int", "tensor([0,  ..., 9])"),
        (PrintOptions(sci_mode=True), [1.0, -20.0], "float", "tensor([ 1.0000e+00, -2.0000e+01])"),
        (PrintOptions(sci_mode=True), [0.0], "float", "tensor([0.])"),
        (PrintOptions(sci_mode=False), [1e-9, 2.5], "float", "tensor([0.0000, 2.5000])"),
        (PrintOptions(sci_mode=False), [1.0, 1e9], "float", "tensor([         1., 1000000000.])"),
        (
            PrintOptions(linewidth=40),
            list(range(12)),
            "int",
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,\n         8,  9, 10, 11])",
        ),
    ],
)
def test_options(options: PrintOptions, values: list[Any], kind: Any, expected: str) -> None:
    assert format_tensor(values, (len(values),), kind=kind, options=options) == expected


def test_edgeitems_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="edgeitems must be at least 1, got 0"):
        PrintOptions(edgeitems=0)


def test_a_backend_that_lacks_a_dtype_prints(strict_backend, monkeypatch):
    backend = manager.get("strict")
    whole = type(backend).dtype

    def lacking(self, dtype):
        if self.dtype_name(dtype) in ("complex128", "int64"):
            raise TypeError(f"the backend has no dtype {dtype}")
        return whole(self, dtype)

    tensors = [ag.asarray(v, device="strict", dtype=d) for v, d in ((1.5, None), (1, "int64"), (1.5, "float32"))]
    monkeypatch.setattr(type(backend), "dtype", lacking)
    assert [repr(t) for t in tensors] == [
        "tensor(1.5000, device='strict')",
        "tensor(1, device='strict')",
        "tensor(1.5000, device='strict', dtype=float32)",
    ]
