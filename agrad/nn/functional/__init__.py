"""Activations, layers and losses as functions, with PyTorch's names and arguments.

A function of an array of any backend runs on that backend. Images are (N, C, H, W): batch, channels, height, width; an
image without the batch axis, (C, H, W), is treated as a batch of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.nn.functional.activations import (
    elu,
    gelu,
    glu,
    gumbel_softmax,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    silu,
    softplus,
)
from agrad.nn.functional.attention import scaled_dot_product_attention
from agrad.nn.functional.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d
from agrad.nn.functional.images import (
    affine_grid,
    fold,
    grid_sample,
    interpolate,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from agrad.nn.functional.layers import dropout, dropout2d, embedding, embedding_bag, linear, one_hot
from agrad.nn.functional.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    triplet_margin_loss,
)
from agrad.nn.functional.normalization import (
    batch_norm,
    cosine_similarity,
    group_norm,
    instance_norm,
    layer_norm,
    normalize,
    pairwise_distance,
    rms_norm,
)
from agrad.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    max_pool1d,
    max_pool2d,
)
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import tanh
from agrad.ops.extra.activations import log_softmax, sigmoid, softmax

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "affine_grid", "avg_pool1d", "avg_pool2d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout2d", "elu", "embedding", "embedding_bag", "fold", "gelu", "glu",
    "grid_sample", "group_norm", "gumbel_softmax", "hardtanh", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool1d", "max_pool2d", "mish", "mse_loss",
    "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu",
    "relu6", "rms_norm", "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax",
    "softplus", "tanh", "triplet_margin_loss", "unfold",
]  # fmt: skip

_complete(
    globals(),
    {
        "ceil_mode": "bool, optional",
        "dilation": "int or pair, optional\n    Steps between the elements of a window.",
        "eps": "float, optional",
        "ignore_index": "int, optional",
        "inplace": "bool, optional\n    Give `input` itself, with the new value.",
        "input": "Tensor\n    Any shape, real.",
        "kernel_size": "int or pair\n    Height and width of a window.",
        "p": "float, optional",
        "padding": "int or pair, optional",
        "reduction": '{"mean", "sum", "none"}, optional\n    What to do with the values.',
        "stride": "int or pair, optional\n    Steps between windows. Default: `kernel_size`.",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
