"""Calls of nn.functional whose numbers are compared with PyTorch's: the names and arguments are the same in both.

A case is ``call(F, const, *operands)`` and the operands as arrays; `const` makes a tensor without gradient of an array.
"""

import importlib
import math

import numpy as np

REDUCTIONS = ("mean", "sum", "none")


def wave(*shape, phase=0.0, scale=1.5):
    """Numbers without ties or zeros, the same on every machine."""
    places = np.arange(math.prod(shape), dtype=np.float64)
    return (scale * np.sin(1.3 * places + 0.7 * np.cos(0.9 * places) + phase + 0.2)).reshape(shape)


def share(*shape, phase=0.0):
    """Numbers between 0.05 and 0.95."""
    return 0.5 + 0.3 * wave(*shape, phase=phase)


def probabilities(*shape):
    """Numbers that sum to 1 along axis 1."""
    values = np.exp(wave(*shape, phase=0.4))
    return values / values.sum(axis=1, keepdims=True)


CASES = {
    "relu": (lambda F, c, x: F.relu(x), wave(3, 4)),
    "leaky_relu": (lambda F, c, x: F.leaky_relu(x, 0.2), wave(3, 4)),
    "leaky_relu, slope above 1": (lambda F, c, x: F.leaky_relu(x, 1.5), wave(3, 4)),
    "leaky_relu, falling": (lambda F, c, x: F.leaky_relu(x, -0.5), wave(3, 4)),
    "elu": (lambda F, c, x: F.elu(x, 1.3), wave(3, 4)),
    "softplus": (lambda F, c, x: F.softplus(x), wave(3, 4, scale=15.0)),
    "softplus, falling": (lambda F, c, x: F.softplus(x, beta=-2.0), wave(3, 4, scale=5.0)),
    "softplus, sharp": (lambda F, c, x: F.softplus(x, beta=2.0, threshold=1.5), wave(3, 4)),
    "silu": (lambda F, c, x: F.silu(x), wave(3, 4)),
    "sigmoid": (lambda F, c, x: F.sigmoid(x), wave(3, 4, scale=15.0)),
    "logsigmoid": (lambda F, c, x: F.logsigmoid(x), wave(3, 4, scale=15.0)),
    "tanh": (lambda F, c, x: F.tanh(x), wave(3, 4)),
    "gelu": (lambda F, c, x: F.gelu(x), wave(3, 4, scale=3.0)),
    "gelu, tanh": (lambda F, c, x: F.gelu(x, approximate="tanh"), wave(3, 4, scale=3.0)),
    "softmax": (lambda F, c, x: F.softmax(x, dim=1), wave(3, 4)),
    "softmax, first axis": (lambda F, c, x: F.softmax(x, dim=0), wave(3, 4, 2)),
    "log_softmax": (lambda F, c, x: F.log_softmax(x, dim=-1), wave(3, 4)),
    "linear": (lambda F, c, x, w, b: F.linear(x, w, b), wave(3, 4), wave(2, 4, phase=1), wave(2, phase=2)),
    "linear, no bias": (lambda F, c, x, w: F.linear(x, w), wave(3, 4), wave(2, 4, phase=1)),
    "linear, vector": (lambda F, c, x, w, b: F.linear(x, w, b), wave(4), wave(2, 4, phase=1), wave(2, phase=2)),
    "linear, three axes": (
        lambda F, c, x, w, b: F.linear(x, w, b),
        wave(2, 3, 4),
        wave(2, 4, phase=1),
        wave(2, phase=2),
    ),
    "batch_norm": (lambda F, c, x: F.batch_norm(x, None, None, training=True), wave(4, 3)),
    "batch_norm, affine": (
        lambda F, c, x, w, b: F.batch_norm(x, None, None, w, b, True, eps=1e-3),
        wave(3, 2, 4),
        wave(2, phase=1),
        wave(2, phase=2),
    ),
    "batch_norm, images": (
        lambda F, c, x, w, b: F.batch_norm(x, None, None, w, b, True),
        wave(2, 3, 2, 2),
        wave(3, phase=1),
        wave(3, phase=2),
    ),
    "batch_norm, running": (
        lambda F, c, x, w, b: F.batch_norm(x, c(wave(3, phase=3)), c(share(3)), w, b),
        wave(4, 3),
        wave(3, phase=1),
        wave(3, phase=2),
    ),
    "layer_norm": (lambda F, c, x: F.layer_norm(x, (4,)), wave(3, 4)),
    "layer_norm, affine": (
        lambda F, c, x, w, b: F.layer_norm(x, (3, 4), w, b, 1e-3),
        wave(2, 3, 4),
        wave(3, 4, phase=1),
        wave(3, 4, phase=2),
    ),
    "layer_norm, no bias": (lambda F, c, x, w: F.layer_norm(x, (4,), w), wave(3, 4), wave(4, phase=1)),
    "embedding": (lambda F, c, w: F.embedding(c(np.array([[1, 3, 1], [0, 4, 4]])), w * w), wave(5, 2)),
    "embedding, padding": (
        lambda F, c, w: F.embedding(c(np.array([[1, 3, 1], [0, 4, 4]])), w, padding_idx=1),
        wave(5, 2),
    ),
    "normalize": (lambda F, c, x: F.normalize(x), wave(3, 4)),
    "normalize, cubes": (lambda F, c, x: F.normalize(x, p=3.0, dim=0), wave(3, 4)),
    "normalize, sum": (lambda F, c, x: F.normalize(x, p=1.0), wave(3, 4)),
    "normalize, largest": (lambda F, c, x: F.normalize(x, p=math.inf), wave(3, 4)),
    "normalize, zero": (lambda F, c, x: F.normalize(x), np.array([[0.0, 0.0], [3.0, 4.0]])),
    "pad": (lambda F, c, x: F.pad(x * x, (1, 2, 0, 1), value=2.0), wave(2, 3)),
    "pad, cropping": (lambda F, c, x: F.pad(x * x, (-1, 2)), wave(2, 3)),
    "avg_pool2d": (lambda F, c, x: F.avg_pool2d(x * x, 2), wave(2, 2, 4, 5)),
    "avg_pool2d, overlapping": (
        lambda F, c, x: F.avg_pool2d(x * x, (3, 2), stride=(2, 1), padding=(1, 0)),
        wave(1, 2, 5, 4),
    ),
    "avg_pool2d, without padding": (
        lambda F, c, x: F.avg_pool2d(x * x, 3, stride=2, padding=1, count_include_pad=False),
        wave(1, 2, 5, 4),
    ),
    "max_pool2d": (lambda F, c, x: F.max_pool2d(x * x, 2), wave(2, 2, 4, 5)),
    "max_pool2d, overlapping": (
        lambda F, c, x: F.max_pool2d(x * x, (3, 2), stride=(2, 1), padding=(1, 1)),
        wave(1, 2, 5, 4),
    ),
    "max_pool2d, dilated": (lambda F, c, x: F.max_pool2d(x * x, 2, stride=1, dilation=2), wave(1, 2, 5, 4)),
    "max_pool2d, ties": (
        lambda F, c, x: F.max_pool2d(x, 2, stride=1),
        np.array([[[[1.0, 1.0, 0.0], [1.0, 1.0, 2.0], [2.0, 0.0, 2.0]]]]),
    ),
    "max_pool2d, one image": (lambda F, c, x: F.max_pool2d(x * x, 2), wave(2, 4, 4)),
}

CASES |= {
    "rms_norm": (lambda F, c, x: F.rms_norm(x, (4,)), wave(3, 4)),
    "rms_norm, weighted": (
        lambda F, c, x, w: F.rms_norm(x, (3, 4), w, 1e-3),
        wave(2, 3, 4),
        wave(3, 4, phase=1),
    ),
    "group_norm": (lambda F, c, x: F.group_norm(x, 2), wave(3, 4)),
    "group_norm, affine": (
        lambda F, c, x, w, b: F.group_norm(x, 3, w, b, 1e-3),
        wave(2, 6, 2, 2),
        wave(6, phase=1),
        wave(6, phase=2),
    ),
    "max_pool1d": (lambda F, c, x: F.max_pool1d(x * x, 3, stride=2, padding=1), wave(2, 2, 7)),
    "max_pool1d, dilated": (lambda F, c, x: F.max_pool1d(x * x, 2, 1, dilation=2), wave(2, 7)),
    "avg_pool1d": (lambda F, c, x: F.avg_pool1d(x * x, 3, stride=2, padding=1), wave(2, 2, 7)),
    "avg_pool1d, without padding": (
        lambda F, c, x: F.avg_pool1d(x * x, 2, padding=1, count_include_pad=False),
        wave(2, 6),
    ),
    "adaptive_avg_pool2d": (lambda F, c, x: F.adaptive_avg_pool2d(x * x, (3, 2)), wave(2, 2, 7, 5)),
    "adaptive_avg_pool2d, larger": (lambda F, c, x: F.adaptive_avg_pool2d(x * x, (None, 5)), wave(2, 4, 3)),
    "adaptive_avg_pool1d": (lambda F, c, x: F.adaptive_avg_pool1d(x * x, 4), wave(2, 2, 7)),
    "conv1d": (lambda F, c, x, w, b: F.conv1d(x, w, b), wave(2, 3, 7), wave(4, 3, 2, phase=1), wave(4, phase=2)),
    "conv1d, stride, padding and dilation": (
        lambda F, c, x, w: F.conv1d(x, w, stride=2, padding=3, dilation=2),
        wave(2, 3, 7),
        wave(4, 3, 3, phase=1),
    ),
    "conv1d, same, groups": (
        lambda F, c, x, w: F.conv1d(x, w, padding="same", groups=2),
        wave(4, 6),
        wave(4, 2, 2, phase=1),
    ),
    "attention": (
        lambda F, c, q, k, v: F.scaled_dot_product_attention(q, k, v),
        wave(2, 3, 4),
        wave(2, 5, 4, phase=1),
        wave(2, 5, 3, phase=2),
    ),
    "attention, causal": (
        lambda F, c, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        wave(4, 3),
        wave(4, 3, phase=1),
        wave(4, 2, phase=2),
    ),
    "attention, hidden keys": (
        lambda F, c, q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=c(np.array([[True, False, True], [False, True, True]]))
        ),
        wave(2, 2, 3),
        wave(2, 3, 3, phase=1),
        wave(2, 3, 2, phase=2),
    ),
    "attention, added": (
        lambda F, c, q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        wave(2, 2, 3),
        wave(2, 3, 3, phase=1),
        wave(2, 3, 2, phase=2),
        wave(2, 3, phase=3),
    ),
}

IMAGES, FILTERS, BIAS = wave(2, 2, 5, 4), wave(4, 2, 3, 2, phase=1), wave(4, phase=2)
CONVOLUTIONS = {
    "": {},
    "stride": {"stride": 2},
    "padding": {"padding": 1},
    "stride, padding and dilation": {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)},
    "dilation": {"dilation": (2, 1)},
    "same": {"padding": "same"},
    "same, dilation": {"padding": "same", "dilation": 2},
    "valid": {"padding": "valid"},
}
for name, options in CONVOLUTIONS.items():
    CASES[f"conv2d {name}"] = (lambda F, c, x, w, b, o=options: F.conv2d(x, w, b, **o), IMAGES, FILTERS, BIAS)
CASES |= {
    "conv2d, no bias": (lambda F, c, x, w: F.conv2d(x, w), IMAGES, FILTERS),
    "conv2d, one image": (lambda F, c, x, w, b: F.conv2d(x, w, b), IMAGES[0], FILTERS, BIAS),
    "conv2d, groups": (
        lambda F, c, x, w, b: F.conv2d(x, w, b, groups=2, padding=1),
        IMAGES,
        wave(4, 1, 3, 2, phase=1),
        wave(4, phase=2),
    ),
    "conv2d, depthwise": (
        lambda F, c, x, w: F.conv2d(x, w, groups=2, stride=2),
        IMAGES,
        wave(6, 1, 2, 3, phase=1),
    ),
    "conv2d, 1 by 1": (lambda F, c, x, w, b: F.conv2d(x, w, b), IMAGES, wave(3, 2, 1, 1, phase=1), wave(3, phase=2)),
    "conv2d, 1 by 1, groups and stride": (
        lambda F, c, x, w: F.conv2d(x, w, groups=2, stride=2),
        IMAGES,
        wave(4, 1, 1, 1, phase=1),
    ),
    "conv2d, many images": (lambda F, c, x, w: F.conv2d(x, w).sum(0), wave(30, 1, 3, 3), wave(2, 1, 2, 2, phase=1)),
}

UPSAMPLING = {
    "": {},
    "stride": {"stride": 2},
    "stride, padding and output padding": {"stride": (3, 2), "padding": (1, 0), "output_padding": (2, 1)},
    "dilation": {"dilation": 2, "padding": 1},
}
for name, options in UPSAMPLING.items():
    CASES[f"conv_transpose2d {name}"] = (
        lambda F, c, x, w, b, o=options: F.conv_transpose2d(x, w, b, **o),
        wave(2, 4, 3, 2),
        wave(4, 3, 3, 2, phase=1),
        wave(3, phase=2),
    )
CASES["conv_transpose2d, groups"] = (
    lambda F, c, x, w: F.conv_transpose2d(x, w, groups=2, stride=2),
    wave(4, 3, 2),
    wave(4, 1, 2, 2, phase=1),
)

TARGET = np.array([3, 0, 2, 2, 1])
IGNORING = np.array([3, -100, 2, -100, 1])
WEIGHT = share(4, phase=1)
for reduction in REDUCTIONS:
    r = {"reduction": reduction}
    CASES |= {
        f"mse_loss {reduction}": (lambda F, c, x, y, r=r: F.mse_loss(x, y, **r), wave(3, 4), wave(3, 4, phase=1)),
        f"huber_loss {reduction}": (
            lambda F, c, x, y, r=r: F.huber_loss(x, y, delta=0.7, **r),
            wave(3, 4),
            wave(3, 4, phase=1),
        ),
        f"smooth_l1_loss {reduction}": (
            lambda F, c, x, y, r=r: F.smooth_l1_loss(x, y, beta=0.7, **r),
            wave(3, 4),
            wave(3, 4, phase=1),
        ),
        f"kl_div {reduction}": (lambda F, c, x, y, r=r: F.kl_div(x, y, **r), wave(3, 4), share(3, 4, phase=1)),
        f"kl_div, logarithms {reduction}": (
            lambda F, c, x, y, r=r: F.kl_div(x, y, log_target=True, **r),
            wave(3, 4),
            wave(3, 4, phase=1),
        ),
        f"l1_loss {reduction}": (lambda F, c, x, y, r=r: F.l1_loss(x, y, **r), wave(3, 4), wave(3, 4, phase=1)),
        f"binary_cross_entropy {reduction}": (
            lambda F, c, x, r=r: F.binary_cross_entropy(x, c(share(3, 4, phase=1)), **r),
            share(3, 4),
        ),
        f"binary_cross_entropy, weighted {reduction}": (
            lambda F, c, x, r=r: F.binary_cross_entropy(x, c(share(3, 4, phase=1)), c(share(4)), **r),
            share(3, 4),
        ),
        f"binary_cross_entropy_with_logits {reduction}": (
            lambda F, c, x, y, r=r: F.binary_cross_entropy_with_logits(x, y, **r),
            wave(3, 4, scale=10.0),
            share(3, 4),
        ),
        f"binary_cross_entropy_with_logits, weighted {reduction}": (
            lambda F, c, x, y, r=r: F.binary_cross_entropy_with_logits(
                x, y, weight=c(share(3, 4, phase=2)), pos_weight=c(share(4)), **r
            ),
            wave(3, 4, scale=3.0),
            share(3, 4),
        ),
        f"nll_loss {reduction}": (lambda F, c, x, r=r: F.nll_loss(x, c(TARGET), **r), wave(5, 4)),
        f"nll_loss, weighted {reduction}": (
            lambda F, c, x, r=r: F.nll_loss(x, c(IGNORING), c(WEIGHT), **r),
            wave(5, 4),
        ),
        f"cross_entropy {reduction}": (lambda F, c, x, r=r: F.cross_entropy(x, c(TARGET), **r), wave(5, 4)),
        f"cross_entropy, ignoring {reduction}": (
            lambda F, c, x, r=r: F.cross_entropy(x, c(IGNORING), **r),
            wave(5, 4),
        ),
        f"cross_entropy, ignoring a class {reduction}": (
            lambda F, c, x, r=r: F.cross_entropy(x, c(TARGET), c(WEIGHT), ignore_index=2, **r),
            wave(5, 4),
        ),
        f"cross_entropy, smooth {reduction}": (
            lambda F, c, x, r=r: F.cross_entropy(x, c(IGNORING), c(WEIGHT), label_smoothing=0.2, **r),
            wave(5, 4),
        ),
        f"cross_entropy, smooth, no weights {reduction}": (
            lambda F, c, x, r=r: F.cross_entropy(x, c(IGNORING), label_smoothing=0.2, **r),
            wave(5, 4),
        ),
        f"cross_entropy, one {reduction}": (
            lambda F, c, x, r=r: F.cross_entropy(x, c(np.array(2)), **r),
            wave(4),
        ),
        f"cross_entropy, images {reduction}": (
            lambda F, c, x, r=r: F.cross_entropy(x, c(np.array([[[3, 0], [1, 2]], [[2, -100], [0, 1]]])), **r),
            wave(2, 4, 2, 2),
        ),
        f"cross_entropy, probabilities {reduction}": (
            lambda F, c, x, y, r=r: F.cross_entropy(x, y, **r),
            wave(5, 4),
            probabilities(5, 4),
        ),
        f"cross_entropy, probabilities, weighted and smooth {reduction}": (
            lambda F, c, x, y, r=r: F.cross_entropy(x, y, c(WEIGHT), label_smoothing=0.1, **r),
            wave(2, 4, 3),
            probabilities(2, 4, 3),
        ),
    }

for reduction in REDUCTIONS:
    CASES |= {
        f"margin_ranking_loss {reduction}": (
            lambda F, c, x, y, r=reduction: F.margin_ranking_loss(
                x, y, c(np.array([1.0, -1.0, 1.0, -1.0])), margin=0.3, reduction=r
            ),
            wave(4),
            wave(4, phase=1),
        ),
        f"triplet_margin_loss {reduction}": (
            lambda F, c, x, y, z, r=reduction: F.triplet_margin_loss(x, y, z, margin=2.0, reduction=r),
            wave(4, 3),
            wave(4, 3, phase=1),
            wave(4, 3, phase=2),
        ),
        f"cosine_embedding_loss {reduction}": (
            lambda F, c, x, y, r=reduction: F.cosine_embedding_loss(
                x, y, c(np.array([1.0, -1.0, 1.0, -1.0])), margin=-0.9, reduction=r
            ),
            wave(4, 3),
            wave(4, 3, phase=1),
        ),
        f"ctc_loss {reduction}": (
            lambda F, c, x, r=reduction: F.ctc_loss(
                F.log_softmax(x, dim=-1),
                c(np.array([[1, 2, 2], [3, 0, 0], [2, 1, 0]])),
                c(np.array([6, 5, 2])),
                c(np.array([3, 1, 2])),
                reduction=r,
            ),
            wave(6, 3, 4),
        ),
    }
CASES |= {
    "margin_ranking_loss": (
        lambda F, c, x, y: F.margin_ranking_loss(x, y, c(np.array([1.0, -1.0, -1.0]))),
        wave(3),
        wave(3, phase=1),
    ),
    "triplet_margin_loss, swap": (
        lambda F, c, x, y, z: F.triplet_margin_loss(x, y, z, margin=3.0, p=3.0, swap=True),
        wave(4, 3),
        wave(4, 3, phase=1),
        wave(4, 3, phase=2),
    ),
    "cosine_embedding_loss, vectors": (
        lambda F, c, x, y: F.cosine_embedding_loss(x, y, c(np.array(1.0))),
        wave(3),
        wave(3, phase=1),
    ),
    "ctc_loss, one after the other": (
        lambda F, c, x: F.ctc_loss(
            F.log_softmax(x, dim=-1), c(np.array([1, 3, 3, 0])), [5, 5], [3, 1], blank=2, reduction="sum"
        ),
        wave(5, 2, 4),
    ),
    "ctc_loss, one sequence": (
        lambda F, c, x: F.ctc_loss(F.log_softmax(x, dim=-1), c(np.array([1, 2])), c(np.array(4)), c(np.array(2))),
        wave(4, 3),
    ),
    "ctc_loss, too short": (
        lambda F, c, x: F.ctc_loss(
            F.log_softmax(x, dim=-1),
            c(np.array([[1, 1], [2, 1]])),
            [2, 3],
            [2, 2],
            reduction="none",
            zero_infinity=True,
        ),
        wave(3, 2, 3),
    ),
    "ctc_loss, an empty target": (
        lambda F, c, x: F.ctc_loss(F.log_softmax(x, dim=-1), c(np.array([[1], [0]])), [3, 3], [1, 0]),
        wave(3, 2, 3),
    ),
    "embedding_bag": (
        lambda F, c, w: F.embedding_bag(c(np.array([0, 2, 1, 2, 3])), w, c(np.array([0, 2, 2]))),
        wave(4, 2),
    ),
    "embedding_bag, sum": (
        lambda F, c, w, f: F.embedding_bag(
            c(np.array([0, 2, 1, 2, 3])),
            w,
            c(np.array([0, 2, 5])),
            mode="sum",
            per_sample_weights=f,
            include_last_offset=True,
        ),
        wave(4, 2),
        wave(5, phase=1),
    ),
    "embedding_bag, max": (
        lambda F, c, w: F.embedding_bag(c(np.array([0, 2, 1, 2, 3])), w, c(np.array([0, 1, 1])), mode="max"),
        wave(4, 2),
    ),
    "embedding_bag, rows": (
        lambda F, c, w: F.embedding_bag(c(np.array([[0, 2, 1], [2, 2, 3]])), w, padding_idx=1),
        wave(4, 2),
    ),
}
CASES["kl_div batchmean"] = (
    lambda F, c, x, y: F.kl_div(x, y, reduction="batchmean"),
    wave(3, 4),
    share(3, 4, phase=1),
)

HIDING = np.array([[False, False, True, False], [False, True, True, False], [False, False, False, False]])
PADDING = np.array([[False, True, False, False], [False, False, False, True]])


def rnn(net):
    """``nn.utils.rnn`` of the library that a layer is of."""
    return importlib.import_module(type(net).__module__.partition(".")[0] + ".nn.utils.rnn")


def packed(net, x, *state):
    """Results of three sequences of lengths 2, 4 and 1, of which only these elements count, and the last state."""
    library = rnn(net)
    sequences = library.pack_padded_sequence(x, [2, 4, 1], batch_first=True, enforce_sorted=False)
    results, last = net(sequences, *state)
    return library.pad_packed_sequence(results, batch_first=True)[0], last


#: Layers: how each is made, how it is called (`const` as above), and its operands. Their parameters are `parameter`s.
LAYERS = {
    "PReLU": (lambda nn: nn.PReLU(4), lambda n, c, x: n(x), wave(2, 4, 3)),
    "InstanceNorm1d": (lambda nn: nn.InstanceNorm1d(3, affine=True), lambda n, c, x: n(x), wave(2, 3, 4)),
    "InstanceNorm2d, one image": (lambda nn: nn.InstanceNorm2d(3, affine=True), lambda n, c, x: n(x), wave(3, 4, 2)),
    "ParameterList": (
        lambda nn: nn.ParameterList([nn.Linear(2, 3).weight, nn.Linear(3, 2).weight]),
        lambda n, c, x: x @ n[0].T @ n[1].T,
        wave(4, 2),
    ),
    "ParameterDict": (
        lambda nn: nn.ParameterDict({"w": nn.Linear(2, 3).weight}),
        lambda n, c, x: x @ n["w"].T,
        wave(4, 2),
    ),
    "an upsampling net": (
        lambda nn: nn.Sequential(
            nn.Conv2d(2, 8, 1),
            nn.Mish(),
            nn.PixelShuffle(2),
            nn.SELU(),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.GLU(1),
            nn.ReLU6(),
            nn.Hardtanh(-0.5, 0.5),
            nn.Flatten(),
            nn.Unflatten(1, (2, -1)),
        ),
        lambda n, c, x: n(x),
        wave(1, 2, 2, 1),
    ),
    "TransformerEncoderLayer": (
        lambda nn: nn.TransformerEncoderLayer(6, 2, 5, dropout=0.0),
        lambda n, c, x: n(x),
        wave(4, 2, 6),
    ),
    "TransformerEncoderLayer, norm first, gelu, masked": (
        lambda nn: nn.TransformerEncoderLayer(6, 2, 5, 0.0, "gelu", batch_first=True, norm_first=True, bias=False),
        lambda n, c, x: n(x, src_key_padding_mask=c(PADDING)),
        wave(2, 4, 6),
    ),
    "TransformerEncoder": (
        lambda nn: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 1, 3, 0.0, batch_first=True), 2, nn.LayerNorm(4)
        ),
        lambda n, c, x: n(x),
        wave(2, 3, 4),
    ),
    "Conv1d": (lambda nn: nn.Conv1d(4, 6, 3, 2, 1, 1, 2), lambda n, c, x: n(x), wave(2, 4, 7)),
    "ConvTranspose2d": (
        lambda nn: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2),
        lambda n, c, x: n(x),
        wave(2, 4, 3, 2),
    ),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), lambda n, c, x: n(x), wave(2, 4, 3)),
    "RMSNorm": (lambda nn: nn.RMSNorm(3), lambda n, c, x: n(x), wave(2, 4, 3)),
    "RNN": (lambda nn: nn.RNN(3, 4), lambda n, c, x: n(x), wave(5, 2, 3)),
    "RNN, relu, no bias": (
        lambda nn: nn.RNN(3, 4, nonlinearity="relu", bias=False),
        lambda n, c, x, h: n(x, h),
        wave(5, 3),
        wave(1, 4, phase=1),
    ),
    "RNN, two layers, both ways": (
        lambda nn: nn.RNN(3, 2, 2, batch_first=True, bidirectional=True),
        lambda n, c, x, h: n(x, h),
        wave(2, 5, 3),
        wave(4, 2, 2, phase=1),
    ),
    "LSTM": (lambda nn: nn.LSTM(3, 4), lambda n, c, x: n(x), wave(5, 2, 3)),
    "LSTM, two layers, both ways": (
        lambda nn: nn.LSTM(3, 2, 2, bidirectional=True, batch_first=True),
        lambda n, c, x, h, s: n(x, (h, s)),
        wave(2, 4, 3),
        wave(4, 2, 2, phase=1),
        wave(4, 2, 2, phase=2),
    ),
    "LSTM, one sequence": (lambda nn: nn.LSTM(3, 4, bias=False), lambda n, c, x: n(x), wave(5, 3)),
    "GRU": (lambda nn: nn.GRU(3, 4), lambda n, c, x: n(x), wave(5, 2, 3)),
    "GRU, two layers, both ways": (
        lambda nn: nn.GRU(3, 2, 2, bidirectional=True),
        lambda n, c, x, h: n(x, h),
        wave(5, 2, 3),
        wave(4, 2, 2, phase=1),
    ),
    "RNN, packed": (lambda nn: nn.RNN(3, 4), lambda n, c, x: packed(n, x), wave(3, 5, 3)),
    "LSTM, packed, two layers, both ways": (
        lambda nn: nn.LSTM(3, 2, 2, bidirectional=True),
        lambda n, c, x, h, s: packed(n, x, (h, s)),
        wave(3, 4, 3),
        wave(4, 3, 2, phase=1),
        wave(4, 3, 2, phase=2),
    ),
    "GRU, packed in order": (
        lambda nn: nn.GRU(3, 4, bidirectional=True),
        lambda n, c, x: tuple(n(rnn(n).pack_sequence([x[0, ...], x[1, :2, ...], x[2, :1, ...]]))[0][:1]),
        wave(3, 4, 3),
    ),
    "RNNCell": (lambda nn: nn.RNNCell(3, 4), lambda n, c, x: n(x), wave(2, 3)),
    "RNNCell, relu, no bias": (
        lambda nn: nn.RNNCell(3, 4, bias=False, nonlinearity="relu"),
        lambda n, c, x, h: n(x[1, ...], n(x[0, ...], h)),
        wave(2, 2, 3),
        wave(2, 4, phase=1),
    ),
    "LSTMCell": (lambda nn: nn.LSTMCell(3, 4), lambda n, c, x: n(x[1, ...], n(x[0, ...])), wave(2, 2, 3)),
    "LSTMCell, one sequence": (
        lambda nn: nn.LSTMCell(3, 4),
        lambda n, c, x, h, s: n(x, (h, s)),
        wave(3),
        wave(4, phase=1),
        wave(4, phase=2),
    ),
    "GRUCell": (lambda nn: nn.GRUCell(3, 4), lambda n, c, x, h: n(x, h), wave(2, 3), wave(2, 4, phase=1)),
    "Conv1d, reflect": (
        lambda nn: nn.Conv1d(2, 3, 3, padding=2, padding_mode="reflect"),
        lambda n, c, x: n(x),
        wave(2, 2, 5),
    ),
    "Conv2d, circular, same": (
        lambda nn: nn.Conv2d(2, 3, (2, 3), 1, "same", (1, 2), padding_mode="circular"),
        lambda n, c, x: n(x),
        wave(1, 2, 4, 5),
    ),
    "Conv2d, replicate, one image": (
        lambda nn: nn.Conv2d(2, 3, 3, 2, (1, 4), padding_mode="replicate"),
        lambda n, c, x: n(x),
        wave(2, 4, 3),
    ),
    "Conv3d": (
        lambda nn: nn.Conv3d(4, 2, (2, 3, 2), (2, 1, 1), (1, 1, 0), 1, 2),
        lambda n, c, x: n(x),
        wave(1, 4, 4, 3, 3),
    ),
    "Conv3d, reflect": (
        lambda nn: nn.Conv3d(1, 2, 2, padding=1, padding_mode="reflect", bias=False),
        lambda n, c, x: n(x),
        wave(1, 2, 3, 2),
    ),
    "ConvTranspose1d": (
        lambda nn: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2),
        lambda n, c, x: n(x),
        wave(2, 4, 3),
    ),
    "Transformer": (
        lambda nn: nn.Transformer(4, 2, 1, 2, 3, 0.0),
        lambda n, c, x, y: n(x, y, tgt_mask=n.generate_square_subsequent_mask(3, device=x.device, dtype=x.dtype)),
        wave(4, 2, 4),
        wave(3, 2, 4, phase=1),
    ),
    "Transformer, norm first, gelu, masked": (
        lambda nn: nn.Transformer(4, 2, 2, 1, 3, 0.0, "gelu", batch_first=True, norm_first=True, bias=False),
        lambda n, c, x, y: n(
            x, y, tgt_mask=c(HIDING)[:, :3], src_key_padding_mask=c(PADDING), memory_key_padding_mask=c(PADDING)
        ),
        wave(2, 4, 4),
        wave(2, 3, 4, phase=1),
    ),
    "TransformerDecoderLayer": (
        lambda nn: nn.TransformerDecoderLayer(6, 2, 5, dropout=0.0),
        lambda n, c, x, m: n(x, m),
        wave(4, 2, 6),
        wave(3, 2, 6, phase=1),
    ),
    "TransformerDecoder, norm first, gelu, masked": (
        lambda nn: nn.TransformerDecoder(
            nn.TransformerDecoderLayer(4, 2, 3, 0.0, "gelu", batch_first=True, norm_first=True), 2, nn.LayerNorm(4)
        ),
        lambda n, c, x, m: n(
            x, m, memory_mask=c(HIDING), tgt_mask=c(HIDING)[:, :3], memory_key_padding_mask=c(PADDING)
        ),
        wave(2, 3, 4),
        wave(2, 4, 4, phase=1),
    ),
    "weight_norm": (
        lambda nn: nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 2)),
        lambda n, c, x: n(x),
        wave(2, 3, 4),
    ),
    "weight_norm, other axes": (
        lambda nn: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=1),
            nn.utils.parametrizations.weight_norm(nn.Linear(4, 2), dim=None),
        ),
        lambda n, c, x: n(x),
        wave(5, 3),
    ),
    "weight_norm of a recurrent layer": (
        lambda nn: nn.utils.parametrizations.weight_norm(nn.GRU(3, 2), "weight_hh_l0"),
        lambda n, c, x: n(x),
        wave(4, 2, 3),
    ),
    # so many steps that it does not matter where they begin
    "spectral_norm": (
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=60),
        lambda n, c, x: n(x),
        wave(5, 3),
    ),
    "spectral_norm, transposed": (
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.ConvTranspose2d(3, 2, 2), n_power_iterations=60),
        lambda n, c, x: n(x),
        wave(1, 3, 2, 3),
    ),
    "MultiheadAttention": (
        lambda nn: nn.MultiheadAttention(6, 2),
        lambda n, c, q, k, v: n(q, k, v),
        wave(3, 2, 6),
        wave(4, 2, 6, phase=1),
        wave(4, 2, 6, phase=2),
    ),
    "MultiheadAttention, masks": (
        lambda nn: nn.MultiheadAttention(6, 3, bias=False, batch_first=True),
        lambda n, c, q, k: n(q, k, k, key_padding_mask=c(PADDING), attn_mask=c(HIDING), average_attn_weights=False),
        wave(2, 3, 6),
        wave(2, 4, 6, phase=1),
    ),
    "MultiheadAttention, added mask": (
        lambda nn: nn.MultiheadAttention(4, 2),
        lambda n, c, q, k, v, m: n(q, k, v, attn_mask=m, need_weights=False)[:1],
        wave(3, 4),
        wave(4, 4, phase=1),
        wave(4, 4, phase=2),
        wave(3, 4, phase=3),
    ),
}


def parameter(i, shape):
    """The value of the parameter number `i` of a layer."""
    return wave(*shape, phase=5.0 + i, scale=0.7)


def flat(result):
    """The tensors of a layer's result."""
    return [t for part in result for t in flat(part)] if isinstance(result, tuple) else [result]


def cotangent(shape):
    """What the result's gradient starts from."""
    return wave(*shape, phase=3.0, scale=1.0)


def direction(i, shape):
    """What the gradient by operand `i` is multiplied with before it is differentiated again."""
    return wave(*shape, phase=4.0 + i, scale=1.0)


CASES |= {
    "relu6": (lambda F, c, x: F.relu6(x), wave(3, 4, scale=9.0)),
    "hardtanh": (lambda F, c, x: F.hardtanh(x, -0.5, 1.2), wave(3, 4)),
    "hardtanh, at the bounds": (lambda F, c, x: F.hardtanh(x), np.array([-1.0, -0.5, 1.0, 2.0])),
    "mish": (lambda F, c, x: F.mish(x), wave(3, 4, scale=3.0)),
    "selu": (lambda F, c, x: F.selu(x), wave(3, 4)),
    "glu": (lambda F, c, x: F.glu(x), wave(3, 4)),
    "glu, first axis": (lambda F, c, x: F.glu(x, 0), wave(4, 3)),
    "prelu": (lambda F, c, x, w: F.prelu(x, w), wave(3, 4), np.array([0.3])),
    "prelu, channels": (lambda F, c, x, w: F.prelu(x, w), wave(2, 3, 4), share(3)),
    "instance_norm": (lambda F, c, x, w, b: F.instance_norm(x, weight=w, bias=b), wave(2, 3, 4, 2), share(3), wave(3)),
    "cosine_similarity": (lambda F, c, x, y: F.cosine_similarity(x, y), wave(3, 4), wave(3, 4, phase=1)),
    "cosine_similarity, last axis": (
        lambda F, c, x, y: F.cosine_similarity(x, y, dim=-1),
        wave(2, 1, 4),
        wave(3, 4, phase=1),
    ),
    "cosine_similarity, along a broadcast axis": (
        lambda F, c, x, y: F.cosine_similarity(x, y, dim=-1),
        wave(2, 3, 4),
        wave(3, 1, phase=1),
    ),
    "cosine_similarity, along an axis of one operand": (
        lambda F, c, x, y: F.cosine_similarity(x, y, dim=0),
        wave(2, 3, 4),
        wave(3, 4, phase=1),
    ),
    "pairwise_distance": (lambda F, c, x, y: F.pairwise_distance(x, y), wave(3, 4), wave(3, 4, phase=1)),
    "pairwise_distance, p=1": (
        lambda F, c, x, y: F.pairwise_distance(x, y, p=1, keepdim=True),
        wave(3, 4),
        wave(3, 4, phase=1),
    ),
    "unfold": (lambda F, c, x: F.unfold(x, (2, 3), (2, 1), (1, 2), (1, 2)), wave(2, 2, 4, 5)),
    "unfold, one image": (lambda F, c, x: F.unfold(x, 2), wave(2, 3, 4)),
    "fold": (lambda F, c, x: F.fold(x, (4, 5), (2, 3), (2, 1), (1, 2), (1, 2)), wave(2, 12, 16)),
    "fold, one image": (lambda F, c, x: F.fold(x, (3, 4), 2), wave(8, 6)),
    "conv3d": (
        lambda F, c, x, w, b: F.conv3d(x, w, b, (1, 2, 1), (1, 0, 1), (2, 1, 1), 2),
        wave(1, 4, 3, 4, 3),
        wave(2, 2, 2, 3, 2, phase=1),
        wave(2, phase=2),
    ),
    "conv3d, same": (lambda F, c, x, w: F.conv3d(x, w, padding="same"), wave(1, 3, 3, 2), wave(1, 1, 2, 3, 2, phase=1)),
    "conv_transpose1d": (
        lambda F, c, x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1, 2, 2),
        wave(2, 4, 3),
        wave(4, 1, 3, phase=1),
        wave(2, phase=2),
    ),
    "pixel_shuffle": (lambda F, c, x: F.pixel_shuffle(x, 2), wave(2, 8, 3, 2)),
    "pixel_unshuffle": (lambda F, c, x: F.pixel_unshuffle(x, 3), wave(2, 3, 6)),
    "pad, reflect": (lambda F, c, x: F.pad(x, (2, 1, 0, 2), mode="reflect"), wave(1, 2, 3, 4)),
    "pad, replicate": (lambda F, c, x: F.pad(x, (2, 1, 0, 5), mode="replicate"), wave(1, 2, 3, 4)),
    "pad, circular": (lambda F, c, x: F.pad(x, (2, 4), mode="circular"), wave(1, 2, 4)),
    "pad, reflect and crop": (lambda F, c, x: F.pad(x, (-1, 2), mode="reflect"), wave(1, 2, 5)),
    "interpolate, nearest": (lambda F, c, x: F.interpolate(x, scale_factor=2), wave(1, 2, 3, 2)),
    "interpolate, nearest, sizes": (lambda F, c, x: F.interpolate(x, size=(5, 2)), wave(1, 2, 3, 4)),
    "interpolate, nearest, sequences": (lambda F, c, x: F.interpolate(x, scale_factor=1.7), wave(1, 2, 6)),
    "interpolate, linear": (lambda F, c, x: F.interpolate(x, size=7, mode="linear"), wave(1, 2, 4)),
    "interpolate, bilinear": (
        lambda F, c, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        wave(1, 2, 3, 2),
    ),
    "interpolate, bilinear, smaller": (
        lambda F, c, x: F.interpolate(x, size=(2, 3), mode="bilinear"),
        wave(1, 2, 5, 4),
    ),
    "interpolate, bilinear, by factors": (
        lambda F, c, x: F.interpolate(x, scale_factor=(1.5, 0.6), mode="bilinear"),
        wave(1, 2, 5, 4),
    ),
    "interpolate, bilinear, corners": (
        lambda F, c, x: F.interpolate(x, size=(5, 1), mode="bilinear", align_corners=True),
        wave(1, 2, 3, 4),
    ),
    "interpolate, trilinear": (
        lambda F, c, x: F.interpolate(x, size=(3, 2, 4), mode="trilinear"),
        wave(1, 1, 2, 3, 2),
    ),
    "affine_grid": (lambda F, c, t: F.affine_grid(t, (2, 3, 3, 4), align_corners=False), wave(2, 2, 3)),
    "affine_grid, corners": (lambda F, c, t: F.affine_grid(t, (2, 3, 4, 1), align_corners=True), wave(2, 2, 3)),
    "affine_grid, volumes": (lambda F, c, t: F.affine_grid(t, (1, 1, 2, 3, 2), align_corners=False), wave(1, 3, 4)),
    **{
        f"grid_sample, bilinear, {padding}{', corners' * corners}": (
            lambda F, c, x, g, padding=padding, corners=corners: F.grid_sample(
                x, 1.7 * g, "bilinear", padding, corners
            ),
            wave(2, 3, 4, 5),
            wave(2, 3, 2, 2, phase=1),
        )
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    **{
        f"grid_sample, nearest, {padding}{', corners' * corners}": (
            lambda F, c, x, padding=padding, corners=corners: F.grid_sample(
                x, c(1.7 * wave(2, 3, 2, 2, phase=1)), "nearest", padding, corners
            ),
            wave(2, 3, 4, 5),
        )
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    "grid_sample, volumes": (
        lambda F, c, x, g: F.grid_sample(x, 1.3 * g, align_corners=False),
        wave(1, 2, 3, 2, 4),
        wave(1, 2, 3, 2, 3, phase=1),
    ),
}
