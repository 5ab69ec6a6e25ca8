"""Functions of three numbers with transforms inside, which several tests capture."""

from __future__ import annotations

import numpy as np

import agrad as ag

V = np.array([0.3, -1.2, 0.8])
AT = np.array([0.6, -2.4, 1.6])
ROWS = np.array([[1.0, -0.5, 0.3], [0.2, 0.4, -0.9]])
LABELS = np.array([2, 0])


def smooth(x):
    return ag.sum(ag.sin(x) * x**2) + ag.prod(x) * ag.exp(ag.sum(x) / 4)


def several(x):
    return ag.stack([ag.sum(x**3), ag.prod(x), ag.sum(ag.sin(x) * ag.flip(x))])


def normal(x):
    return ag.sum(ag.nn.functional.layer_norm(ag.stack([x, x**2]), (3,), x + 2.0) ** 3)


def entropy(x):
    return ag.nn.functional.cross_entropy(ag.asarray(ROWS) * x, ag.asarray(LABELS))


def attended(x):
    q = ag.asarray(ROWS)[None] * x
    return ag.sum(ag.nn.functional.scaled_dot_product_attention(q, q + 1, q * q, is_causal=True) ** 2)


#: Functions of three numbers with transforms inside.
TRANSFORMED = {
    "grad": ag.grad(smooth),
    "value and grad": lambda x: ag.concat([ag.reshape(part, (-1,)) for part in ag.value_and_grad(smooth)(x)]),
    "grad of grad": ag.grad(lambda x: ag.sum(ag.grad(smooth)(x) ** 2)),
    "elementwise": ag.func.elementwise_grad(lambda x: ag.sin(x) * x**2),
    "hessian": ag.hessian(smooth),
    "forward over reverse": ag.jacfwd(ag.grad(smooth)),
    "jacrev": ag.jacrev(several),
    "vjp": lambda x: ag.vjp(several, x)[1](x**2)[0],
    "vjp by its cotangent": lambda v: ag.vjp(several, ag.asarray(AT))[1](v)[0],
    "jvp": lambda x: ag.jvp(ag.grad(smooth), (x,), (ag.asarray(V),))[1],
    "jvp by its tangent": lambda v: ag.jvp(ag.grad(smooth), (ag.asarray(AT),), (v**2,))[1],
    "hvp": lambda x: ag.func.hvp(smooth, (x,), (ag.asarray(V),)),
    "hvp by its vector": lambda v: ag.func.hvp(smooth, (ag.asarray(AT),), (v,)),
    "linearize": lambda x: ag.func.linearize(several, x)[1](x**2),
    "vmap of grad": lambda x: ag.vmap(ag.grad(lambda row: smooth(row * x)))(ag.asarray(ROWS)),
    "vmap of hessian": lambda x: ag.vmap(ag.hessian(smooth))(ag.asarray(ROWS) * x),
    "grad of vmap": ag.grad(lambda x: ag.sum(ag.vmap(smooth)(ag.asarray(ROWS) * x))),
    "solve": ag.grad(lambda x: ag.sum(ag.linalg.solve(3 * ag.eye(3) + ag.linalg.outer(x, x), x) ** 2)),
    "where": ag.grad(lambda x: ag.sum(ag.where(x > 0, ag.exp(x), x**3))),
    "places": ag.grad(lambda x: ag.sum(x[ag.asarray(LABELS)] ** 3) + ag.sum(ag.sort(x) ** 2 * ag.asarray(V))),
    "checkpoint": ag.grad(lambda x: ag.utils.checkpoint.checkpoint(smooth, x, use_reentrant=False)),
    "layer_norm": ag.grad(normal),
    "hessian of layer_norm": ag.hessian(normal),
    "vmap of layer_norm": lambda x: ag.vmap(ag.grad(lambda row: normal(row * x)))(ag.asarray(ROWS)),
    "cross_entropy": ag.grad(entropy),
    "jvp of cross_entropy": lambda x: ag.jvp(ag.grad(entropy), (x,), (ag.asarray(V),))[1],
    "attention": ag.grad(attended),
    "vmap of attention": lambda x: ag.vmap(ag.grad(lambda row: attended(row * x)))(ag.asarray(ROWS)),
    "auxiliary value": lambda x: ag.grad(lambda x: (smooth(x), ag.sum(x**2)), has_aux=True)(x)[1],
    "functional": lambda x: ag.autograd.functional.vjp(several, x, ag.asarray(V), create_graph=True)[1],
}
