"""Padding as modules, bags of vectors, losses of pairs and sequences: identities, and what they refuse.

Numbers of PyTorch's are in `test_functional.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag

nn, F = ag.nn, ag.nn.functional
X = np.sin(np.arange(1.0, 61.0)).reshape(1, 1, 3, 4, 5)
MODES = {"Zero": "constant", "Constant": "constant", "Reflection": "reflect", "Replication": "edge", "Circular": "wrap"}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", MODES)
def test_padding_is_numpys(kind, axes):
    widths = [(1, 2), (2, 0), (1, 1)][:axes]
    flat = [n for width in widths for n in width]
    layer = getattr(nn, f"{kind}Pad{axes}d")
    options = {"constant_values": 1.5 if kind == "Constant" else 0.0} if MODES[kind] == "constant" else {}
    value = [1.5] if kind == "Constant" else []
    expected = np.pad(X, [(0, 0)] * (5 - axes) + widths[::-1], mode=MODES[kind], **options)
    np.testing.assert_array_equal(layer(flat, *value)(ag.asarray(X)).numpy(), expected)
    everywhere = np.pad(X, [(0, 0)] * (5 - axes) + [(1, 1)] * axes, mode=MODES[kind], **options)
    np.testing.assert_array_equal(layer(1, *value)(ag.asarray(X)).numpy(), everywhere)
    with pytest.raises(ValueError, match=f"takes a number or {2 * axes} of them, two per axis"):
        layer([1, 2, 3], *value)


def test_padding_says_what_it_is():
    assert repr(nn.ReflectionPad2d((1, 2, 0, 0))) == "ReflectionPad2d((1, 2, 0, 0))"
    assert repr(nn.ConstantPad1d(2, 3.5)) == "ConstantPad1d((2, 2), value=3.5)"


def test_bags_are_sums_of_rows():
    layer = nn.EmbeddingBag(6, 3, mode="sum", padding_idx=-1)
    assert layer.weight[5].tolist() == [0.0, 0.0, 0.0]
    indices, offsets = ag.tensor([0, 5, 2, 4, 4]), ag.tensor([0, 2, 2])
    table = layer.weight.detach().numpy()
    found = layer(indices, offsets)
    np.testing.assert_allclose(found.detach().numpy(), [table[0], [0, 0, 0], table[2] + 2 * table[4]])
    found.sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy()[:, 0], [1, 0, 1, 0, 2, 0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i, w, o: F.embedding_bag(i, w), ValueError, "indices of one axis need offsets"),
        (lambda i, w, o: F.embedding_bag(i.reshape(2, 2), w, o), ValueError, "those of two are bags by themselves"),
        (lambda i, w, o: F.embedding_bag(i, w, o, mode="min"), ValueError, "mode has to be one of sum, mean or max"),
        (lambda i, w, o: F.embedding_bag(i, w, o + 1), ValueError, r"offsets begin with 0.* got \[1, 3\]"),
        (lambda i, w, o: F.embedding_bag(i, w, o * 3), ValueError, "end within the 4 indices"),
        (lambda i, w, o: F.embedding_bag(i, w, o, per_sample_weights=i), ValueError, "for mode='sum' alone"),
        (lambda i, w, o: F.embedding_bag(i + 2, w, o), IndexError, "the table has 3 rows"),
        (lambda i, w, o: nn.Embedding(3, 2, sparse=True), NotImplementedError, "gradients are dense; leave it out"),
    ],
)
def test_bags_refuse(call, error, message):
    with pytest.raises(error, match=message):
        call(ag.tensor([0, 1, 2, 1]), ag.ones((3, 2)), ag.tensor([0, 2]))


def test_dropout_of_channels_takes_rows():
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d"):
        assert nn.Dropout2d(0.5)(ag.ones((4, 3))).shape == (4, 3)
    with pytest.raises(ValueError, match="takes"):
        nn.Dropout2d(0.5)(ag.ones(4))


def paths(time, label):
    """Every alignment of a target: paths of classes whose runs, without blanks, are it."""
    return [
        path
        for path in np.ndindex(*(3,) * time)
        if [k for i, k in enumerate(path) if k and (i == 0 or path[i - 1] != k)] == label
    ]


@pytest.mark.parametrize("label", [[1], [1, 2], [1, 1], [2, 1, 2], []])
def test_ctc_loss_is_the_sum_over_all_alignments(label):
    p = np.abs(np.sin(np.arange(1.0, 16.0))).reshape(5, 3) + 0.1
    total = sum(np.prod([p[t, k] for t, k in enumerate(path)]) for path in paths(5, label))
    x = ag.tensor(np.log(p)[:, None], requires_grad=True)
    loss = F.ctc_loss(x, ag.tensor([label or [1]]), [5], [len(label)], reduction="sum")
    assert loss.item() == pytest.approx(-np.log(total), rel=1e-12)
    assert ag.autograd.gradcheck(
        lambda x: F.ctc_loss(x, ag.tensor([label or [1]]), [5], [len(label)], reduction="sum"), (x,)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ag.zeros((2,)), [[1]], [2], [1]), r"takes log_probs \(T, N, C\)"),
        ((ag.zeros((2, 1, 3)), [[1]], [3], [1]), "input_lengths to have value at most 2, but got 3"),
        ((ag.zeros((2, 1, 3)), [[1]], [2, 2], [1]), "input_lengths must be of size batch_size 1, not 2"),
        ((ag.zeros((2, 1, 3)), ag.tensor([[1]]), [2], [2]), "do not fit target_lengths"),
        ((ag.zeros((2, 1, 3)), [[3]], [2], [1]), "classes from 0 to 2 and not the blank 0; got 3"),
        ((ag.zeros((2, 1, 3)), [[0]], [2], [1]), "not the blank 0; got 0"),
    ],
)
def test_ctc_loss_refuses(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        F.ctc_loss(*arguments)


def test_losses_of_pairs_are_modules():
    x, y, z = (ag.asarray(np.cos(np.arange(6.0) + k).reshape(2, 3)) for k in range(3))
    sides = ag.tensor([1.0, -1.0])
    pairs = [
        (nn.MarginRankingLoss(0.5), F.margin_ranking_loss(x[:, 0], y[:, 0], sides, 0.5), (x[:, 0], y[:, 0], sides)),
        (nn.TripletMarginLoss(2.0, swap=True), F.triplet_margin_loss(x, y, z, 2.0, swap=True), (x, y, z)),
        (nn.CosineEmbeddingLoss(0.1), F.cosine_embedding_loss(x, y, sides, 0.1), (x, y, sides)),
        (
            nn.CTCLoss(blank=2, reduction="sum"),
            F.ctc_loss(x.log_softmax(1), ag.tensor([0]), ag.tensor(2), ag.tensor(1), 2, "sum"),
            (x.log_softmax(1), ag.tensor([0]), ag.tensor(2), ag.tensor(1)),
        ),
    ]
    for module, expected, operands in pairs:
        assert module(*operands).item() == expected.item() > 0
