"""Write expected.json: what PyTorch gives for `cases.CASES`. Run by hand, where PyTorch is installed; tests need it not.

    python tests/nn/make_expected.py

Per case: the value, the gradients by all operands for `cases.cotangent`, and those of their sum after multiplication by
`cases.direction` (null where that does not depend on an operand, and for single numbers where PyTorch has NaN).
"""

import json
import math
import warnings
from pathlib import Path

import torch
from cases import CASES, cotangent, direction

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
        second = torch.autograd.grad(total, operands, allow_unused=True)
    return {
        "shape": list(result.shape),
        "value": numbers(result),
        "gradients": [numbers(g) for g in gradients],
        "second": [numbers(g) for g in second],
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {name: expected(call, arrays) for name, (call, *arrays) in CASES.items()}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in found.items())
    (HERE / "expected.json").write_text(
        f'{{"torch": "{torch.__version__.partition("+")[0]}",\n"cases": {{\n{text}\n}}}}\n', encoding="utf-8"
    )
