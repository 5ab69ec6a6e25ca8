"""Arguments that stand in every script for PyTorch: taken where they change nothing, and refused with what to write."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.nn import functional as F

FUNCTIONS = {
    "relu": lambda x, **more: F.relu(x, **more),
    "leaky_relu": lambda x, **more: F.leaky_relu(x, 0.2, **more),
    "elu": lambda x, **more: F.elu(x, 1.3, **more),
    "silu": lambda x, **more: F.silu(x, **more),
    "dropout": lambda x, **more: F.dropout(x, 0.5, **more),
    "ReLU": lambda x, **more: ag.nn.ReLU(**more)(x),
    "LeakyReLU": lambda x, **more: ag.nn.LeakyReLU(0.2, **more)(x),
    "ELU": lambda x, **more: ag.nn.ELU(1.3, **more)(x),
    "SiLU": lambda x, **more: ag.nn.SiLU(**more)(x),
    "Dropout": lambda x, **more: ag.nn.Dropout(0.5, **more)(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inplace_gives_the_tensor_itself_the_same_value_and_gradient(name, make, value):
    function = FUNCTIONS[name]
    found = []
    for more in ({}, {"inplace": False}, {"inplace": True}):
        ag.manual_seed(0)
        x = make(np.array([-1.5, 0.5, 2.0, -0.25]), requires_grad=True)
        y = x * 2.0
        result = function(y, **more)
        assert (result is y) == more.get("inplace", False)
        (result * make(np.array([1.0, 2.0, 3.0, 4.0]))).sum().backward()
        found.append((value(result), value(x.grad)))
    for result, grad in found[1:]:
        np.testing.assert_array_equal(result, found[0][0])
        np.testing.assert_array_equal(grad, found[0][1])


def test_inplace_as_a_statement_and_on_what_cannot_change():
    y = ag.tensor([-1.0, 2.0])
    F.relu(y, inplace=True)
    assert y.tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        F.relu(ag.ones(2, requires_grad=True), inplace=True)
    with pytest.raises(TypeError, match="with inplace=True it takes a tensor, not ndarray"):
        F.relu(np.ones(2), inplace=True)
    assert repr(ag.nn.ReLU(True)) == "ReLU(inplace=True)"
    assert repr(ag.nn.LeakyReLU(0.1, True)) == "LeakyReLU(negative_slope=0.1, inplace=True)"
    assert repr(ag.nn.Dropout(0.1)) == "Dropout(p=0.1, inplace=False)"


#: PyTorch's defaults, by module, function and parameter, which make_defaults.py has written.
DEFAULTS = json.loads(Path(__file__).with_name("defaults.json").read_text(encoding="utf-8"))

#: Those that are others here, with the reason.
OTHER_DEFAULTS = {
    ".cdist.compute_mode": "there is one way",
    ".compile.backend": "the executor in use",
    ".load.weights_only": "files run no code, whatever it is",
    ".meshgrid.indexing": "the standard's: xy",
    ".norm.p": "the vector's",
    ".tensordot.dims": "it is `axes`, by another name",
    "nn.ModuleList.modules": "no modules",
    "nn.ParameterList.values": "no parameters",
}


@pytest.mark.parametrize("path", DEFAULTS)
def test_defaults_are_pytorchs(path):
    module = importlib.import_module(f"agrad.{path}" if path else "agrad")
    other = {}
    for name, defaults in DEFAULTS[path].items():
        parameters = inspect.signature(getattr(module, name)).parameters
        for key, default in defaults.items():
            found = parameters[key].default
            if (list(found) if isinstance(found, tuple) else found) != default:
                other[f"{path}.{name}.{key}"] = found
    assert other.keys() == {each for each in OTHER_DEFAULTS if each.rsplit(".", 2)[0] == path}, other


#: The order of PyTorch's parameters, likewise.
POSITIONS = json.loads(Path(__file__).with_name("positions.json").read_text(encoding="utf-8"))

FLAGS = "size_average and reduce are not there: a bool in their place is refused"
#: Functions that take another parameter at a position, with the reason. A wrong value there must raise.
OTHER_POSITIONS = {
    **dict.fromkeys(
        [
            "nn.functional.binary_cross_entropy", "nn.functional.binary_cross_entropy_with_logits",
            "nn.functional.cosine_embedding_loss", "nn.functional.cross_entropy", "nn.functional.kl_div",
            "nn.functional.l1_loss", "nn.functional.margin_ranking_loss", "nn.functional.mse_loss", "nn.functional.nll_loss",
            "nn.functional.smooth_l1_loss", "nn.functional.triplet_margin_loss", "nn.BCELoss", "nn.BCEWithLogitsLoss",
            "nn.CosineEmbeddingLoss", "nn.CrossEntropyLoss", "nn.KLDivLoss", "nn.L1Loss", "nn.MSELoss",
            "nn.MarginRankingLoss", "nn.NLLLoss", "nn.SmoothL1Loss", "nn.TripletMarginLoss",
        ],
        FLAGS,
    ),
    "nn.functional.embedding_bag": "max_norm is not there: a number is no mode",
    "nn.functional.tanh": "the name of the operand",
    "nn.Embedding": "max_norm is not there: a number is no device",
    ".compile": "the name of the function",
    **dict.fromkeys([".enable_grad", "autograd.enable_grad"], "the name of the function"),
    ".from_dlpack": "the name of the array",
    ".load": "the name of the file",
    ".norm": "ord is p, and axis is dim",
    ".save": "the name of the file",
    ".set_default_dtype": "the name of the dtype",
    ".tensordot": "axes is dims",
}  # fmt: skip


@pytest.mark.parametrize("path", POSITIONS)
def test_positions_are_pytorchs(path):
    """A call by position means the same: no value goes to a parameter that means something else."""
    module = importlib.import_module(f"agrad.{path}" if path else "agrad")
    other = {}
    for name, text in POSITIONS[path].items():
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        ours = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if any(mine != theirs for mine, theirs in zip(ours, text.split(), strict=False)):
            other[f"{path}.{name}"] = ours
    assert other.keys() == {each for each in OTHER_POSITIONS if each.rpartition(".")[0] == path}, other


@pytest.mark.parametrize("flag", [True, False])
def test_the_flag_of_an_older_signature_is_refused(flag):
    """PyTorch's fourth argument was size_average: as the index of a class that does not count it would change the loss."""
    x, y = ag.zeros((2, 3)), ag.tensor([0, 1])
    said = f"(?s)ignore_index .* not {flag}.*reduction='{'mean' if flag else 'sum'}'.*test_torch_arguments"
    for call in (
        lambda: ag.nn.functional.cross_entropy(x, y, None, flag),
        lambda: ag.nn.functional.nll_loss(x, y, None, flag),
        lambda: ag.nn.CrossEntropyLoss(None, flag),
        lambda: ag.nn.NLLLoss(None, flag),
    ):
        with pytest.raises(TypeError, match=said):
            call()
    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "KLDivLoss"):
        with pytest.raises(ValueError, match="not a valid value for reduction"):
            getattr(ag.nn, name)(flag)


def test_running_statistics_of_instance_norm_are_refused():
    x = ag.tensor([[[1.0, 3.0], [10.0, 30.0]]])
    assert ag.nn.functional.instance_norm(x, None, None, ag.tensor([2.0, 3.0]), eps=0.0).tolist() == [
        [[-2, 2], [-3, 3]]
    ]
    for more in ((ag.zeros(2), ag.ones(2)), (None, None, None, None, False)):
        with pytest.raises(TypeError, match=r"(?s)takes no running statistics.*use batch_norm"):
            ag.nn.functional.instance_norm(x, *more)


def test_grad_takes_only_inputs_before_allow_unused():
    x, y = ag.ones(2, requires_grad=True), ag.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        ag.autograd.grad((x * 2).sum(), [x, y], None, None, False, True)
    by_x, by_y = ag.autograd.grad((x * 2).sum(), [x, y], None, None, False, True, True)
    assert by_x.tolist() == [2.0, 2.0]
    assert by_y is None


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("SGD", {"foreach": True, "fused": None, "differentiable": False}),
        ("Adam", {"foreach": None, "fused": True, "capturable": False, "differentiable": False}),
        ("AdamW", {"foreach": False, "fused": None, "capturable": False, "differentiable": False}),
        ("Adagrad", {"foreach": True, "fused": False, "differentiable": False}),
        ("RMSprop", {"foreach": True, "capturable": False, "differentiable": False}),
    ],
)
def test_optimizers_take_how_pytorch_loops(name, more):
    found = []
    for arguments in ({}, more):
        w = ag.tensor([1.0, -2.0], requires_grad=True)
        optimizer = getattr(ag.optim, name)([w], lr=0.1, **arguments)
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        found.append(w.tolist())
    assert found[0] == found[1]
    with pytest.raises(
        ValueError, match=r"differentiable=True is not there(.|\n)*create_graph=True(.|\n)*test_torch_arg"
    ):
        getattr(ag.optim, name)([w], differentiable=True)


def test_moving():
    x = ag.tensor([1.0, 2.0])
    assert x.to("cpu", non_blocking=True) is x.to(ag.float64, non_blocking=True) is x
    assert x.to("cpu", copy=True) is not x
    assert x.to("cpu", copy=True).tolist() == x.to(dtype=ag.float32, copy=True).tolist() == [1.0, 2.0]
    net = ag.nn.Linear(2, 1)
    assert net.to("cpu", non_blocking=True) is net
    assert net.cpu() is net
    with pytest.raises(TypeError, match=r"that of the tensor is x\.dtype, float64"):
        x.type()


def test_grad_by_its_inputs_alone():
    x = ag.tensor(3.0, requires_grad=True)
    (g,) = ag.autograd.grad(outputs=x**2, inputs=x, create_graph=True, only_inputs=True)
    assert g.item() == ag.grad(x**2, x, only_inputs=True)[0].item() == 6.0
    with pytest.raises(ValueError, match=r"please use agrad\.autograd\.backward"):
        ag.autograd.grad(x**2, x, only_inputs=False)


def test_load():
    file = io.BytesIO()
    ag.save({"w": ag.ones(2)}, file)

    def load(*args, **kwargs):
        file.seek(0)
        return ag.load(file, *args, **kwargs)["w"].tolist()

    assert load("cpu") == load(map_location="numpy", weights_only=False) == load(weights_only=True) == [1.0, 1.0]
    for more in ({"map_location": lambda storage, place: storage}, {"map_location": "cpu", "device": "numpy"}):
        with pytest.raises(TypeError, match="one device for all tensors"):
            load(**more)
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:  # as torch.save writes it
        archive.writestr("model/data.pkl", b"\x80\x02.")
    with pytest.raises(ValueError, match=r"a file of torch\.save.*safetensors\.torch\.save_file"):
        load()


def test_compile():
    def double(x):
        return x * 2

    for more in (
        {"fullgraph": True},
        {"mode": "reduce-overhead", "dynamic": False, "backend": "inductor"},
        {"options": {"max_autotune": True}},
    ):
        compiled = ag.compile(double, **more)
        assert [compiled(ag.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3
    assert ag.compile(double, disable=True) is ag.compile(disable=True)(double) is double
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        ag.compile(double, mode="default", options={})
    with pytest.raises(ValueError, match="mode must be 'default', 'reduce-overhead', 'max-autotune' or "):
        ag.compile(double, mode="fast")
    with pytest.raises(ValueError, match="no backend 'eager': leave the argument out"):
        ag.compile(double, backend="eager")

    @ag.compile(fullgraph=True)
    def positive(x):
        return x[x > 0] + float(len(repr(x)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            with pytest.raises(ag.func.CompileError, match="positive is not one program: "):
                positive(ag.tensor([1.0, -1.0]))
