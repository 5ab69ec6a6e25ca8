"""Write expected.json: what PyTorch gives for `cases.CASES` and `cases.LAYERS`. Run by hand, where PyTorch is installed; tests need it not.

    python tests/nn/make_expected.py

Per case: the value, the gradients by all operands for `cases.cotangent`, and those of their sum after multiplication by
`cases.direction` (null where that does not depend on an operand, where PyTorch has no second derivative, and for single numbers where it has NaN). Per layer:
its results, and the gradients by operands and parameters.
"""

import json
import math
import warnings
from pathlib import Path

import torch
from cases import CASES, LAYERS, cotangent, direction, flat, parameter

HERE = Path(__file__).parent


def numbers(tensor):
    if tensor is None:
        return None
    values = tensor.detach().clone().flatten().tolist()  # a clone has storage: PyTorch makes zeros without
    return [None if math.isnan(v) else float(f"{v:.15g}") for v in values]


def expected(call, arrays):
    operands = [torch.tensor(a, requires_grad=True) for a in arrays]
    result = call(torch.nn.functional, torch.tensor, *operands)
    start = torch.tensor(cotangent(tuple(result.shape)))
    gradients = torch.autograd.grad(result, operands, start, create_graph=True)
    total = sum((g * torch.tensor(direction(i, tuple(g.shape)))).sum() for i, g in enumerate(gradients))
    second = [None] * len(operands)
    if total.requires_grad:
        try:
            second = torch.autograd.grad(total, operands, allow_unused=True)
        except RuntimeError as error:  # it has no second derivative of some losses
            if "is not implemented" not in str(error):
                raise
            second = None
    return {
        "shape": list(result.shape),
        "value": numbers(result),
        "gradients": [numbers(g) for g in gradients],
        "second": second if second is None else [numbers(g) for g in second],
    }


def expected_of_layer(make, call, arrays):
    net = make(torch.nn).double()
    names = dict(net.named_parameters())
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(names.items())):
            p.copy_(torch.tensor(parameter(i, tuple(p.shape))))
    operands = [torch.tensor(a, requires_grad=True) for a in arrays]
    results = flat(call(net, torch.tensor, *operands))
    total = sum((r * torch.tensor(cotangent(tuple(r.shape)))).sum() for r in results)
    gradients = torch.autograd.grad(total, [*operands, *names.values()])
    return {
        "shapes": [list(r.shape) for r in results],
        "values": [numbers(r) for r in results],
        "gradients": [numbers(g) for g in gradients[: len(operands)]],
        "parameters": dict(zip(names, map(numbers, gradients[len(operands) :]), strict=True)),
    }


def lines(found):
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in found.items())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {name: expected(call, arrays) for name, (call, *arrays) in CASES.items()}
    layers = {name: expected_of_layer(make, call, arrays) for name, (make, call, *arrays) in LAYERS.items()}
    version = torch.__version__.partition("+")[0]
    (HERE / "expected.json").write_text(
        f'{{"torch": "{version}",\n"cases": {{\n{lines(found)}\n}},\n"layers": {{\n{lines(layers)}\n}}}}\n',
        encoding="utf-8",
    )
