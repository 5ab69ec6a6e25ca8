"""Cells, packed sequences, windows and samples of classes: what they refuse, identities, transforms.

Numbers of PyTorch's are in `test_layers_against_torch.py` and `test_functional.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.nn.utils import rnn

nn, F = ag.nn, ag.nn.functional
X = ag.asarray(np.sin(np.arange(24.0)).reshape(4, 2, 3))


@pytest.mark.parametrize(
    ("layer", "cell"), [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)], ids=["rnn", "lstm", "gru"]
)
def test_a_cell_is_a_step_of_its_layer(layer, cell):
    whole, step = layer(3, 5), cell(3, 5)
    assert list(step.state_dict()) == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    step.load_state_dict({name.removesuffix("_l0"): value for name, value in whole.state_dict().items()})
    state = None
    for x in X:
        state = step(x, state)
    last = whole(X)[1]
    for mine, its in zip(
        state if cell is nn.LSTMCell else [state], last if cell is nn.LSTMCell else [last], strict=True
    ):
        # a layer adds its biases first, and an LSTM runs as one operation: sums of numbers near 1, which may cancel
        np.testing.assert_allclose(mine.detach().numpy(), its[0].detach().numpy(), rtol=1e-13, atol=1e-15)
    one = step(X[0, 1])
    one = one[0] if cell is nn.LSTMCell else one
    batch = ag.vmap(step)(X[0])
    np.testing.assert_allclose((batch[0] if cell is nn.LSTMCell else batch)[1].detach().numpy(), one.detach().numpy())
    assert ag.autograd.gradgradcheck(step, (X[0].requires_grad_(),))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.RNNCell(3, 4, nonlinearity="gelu"), ValueError, "Unknown nonlinearity 'gelu'"),
        (lambda: nn.GRUCell(3, 4)(X), ValueError, "GRUCell: Expected input to be 1D or 2D, got 3D instead"),
        (lambda: nn.GRUCell(2, 4)(X[0]), RuntimeError, "input has inconsistent input_size: got 3 expected 2"),
        (
            lambda: nn.GRUCell(3, 4)(X[0], ag.ones((2, 5))),
            RuntimeError,
            "hidden0 has inconsistent hidden_size: got 5, expected 4",
        ),
        (
            lambda: nn.GRUCell(3, 4)(X[0], ag.ones((3, 4))),
            RuntimeError,
            "Input batch size 2 doesn't match hidden0 batch size 3",
        ),
        (lambda: nn.LSTMCell(3, 4)(X[0], ag.ones((2, 4))), TypeError, "takes the states as a pair"),
        (
            lambda: rnn.pack_padded_sequence(X, [2, 4]),
            RuntimeError,
            "`lengths` array must be sorted in decreasing order",
        ),
        (lambda: rnn.pack_padded_sequence(X, [2, 0]), RuntimeError, "Length of all samples has to be greater than 0"),
        (
            lambda: rnn.pack_padded_sequence(X, [2, 1, 1]),
            RuntimeError,
            "equal to batch_size, but got 3 \\(batch_size=2\\)",
        ),
        (
            lambda: rnn.pack_padded_sequence(X, [5, 1]),
            RuntimeError,
            "the longest of lengths is 5, the input has 4 places",
        ),
        (lambda: rnn.pad_sequence([X], padding_side="top"), RuntimeError, "padding_side to be one of left or right"),
        (
            lambda: rnn.pad_packed_sequence(rnn.pack_sequence([X]), total_length=3),
            ValueError,
            "at least the length of the longest sequence in input, but got total_length=3",
        ),
        (lambda: nn.Conv1d(2, 2, 3, padding_mode="wrap"), ValueError, "padding_mode must be one of"),
        (lambda: nn.Conv1d(2, 2, 3, padding="all"), ValueError, "Invalid padding string 'all'"),
        (lambda: nn.Conv1d(2, 2, 3, 2, "same"), ValueError, "not supported for strided convolutions"),
        (
            lambda: nn.ConvTranspose1d(2, 2, 3, padding_mode="reflect"),
            ValueError,
            'Only "zeros" padding mode is supported',
        ),
        (
            lambda: nn.Conv3d(2, 2, 2)(X),
            RuntimeError,
            "Expected 4D \\(unbatched\\) or 5D \\(batched\\) input to conv3d",
        ),
        (lambda: nn.Conv3d(3, 2, 2)(X[None]), RuntimeError, "to have 3 channels, but got 1 channels instead"),
        (
            lambda: nn.Conv3d(4, 2, 2)(ag.ones((4, 1, 2, 2))),
            RuntimeError,
            "Kernel size can't be greater than actual input size",
        ),
        (lambda: nn.Conv3d(4, 2, (2, 2)), ValueError, "must be one integer or three"),
        (lambda: F.fold(X, (4, 4), 2), RuntimeError, "match the calculated number of sliding blocks, 9"),
        (lambda: F.unfold(X, 5), RuntimeError, "Kernel size can't be greater than actual input size"),
        (lambda: nn.utils.rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
        (lambda: nn.utils.rnn.pack_padded_sequence(ag.ones((3, 0, 1)), []), RuntimeError, "Cannot pack empty tensors"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_is_packed_comes_back():
    sequences = [X[:2, 0], X[:, 1], X[:1, 0]]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes == (3, 2, 1, 1)
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=5)
    assert lengths.tolist() == [2, 4, 1]
    for row, sequence in zip(padded, sequences, strict=True):
        np.testing.assert_array_equal(row[: len(sequence)].numpy(), sequence.numpy())
        assert (row[len(sequence) :] == -1.0).all()
    left = rnn.pad_sequence(sequences, batch_first=True, padding_side="left")
    np.testing.assert_array_equal(left[2].numpy(), np.concatenate([np.zeros((3, 3)), X[:1, 0].numpy()]))


def test_padding_does_not_reach_a_recurrent_layer():
    layer = nn.LSTM(3, 4, 2, bidirectional=True)
    clean = rnn.pad_sequence([X[:, 0], X[:2, 1]])
    spoilt = clean.clone()
    spoilt[2:, 1] = np.nan
    found = []
    for padded in (clean, spoilt):
        padded.requires_grad_()
        results, (h, c) = layer(rnn.pack_padded_sequence(padded, [4, 2]))
        (results.data.sum() + (h * c).sum()).backward()
        found.append([results.data, h, c, padded.grad])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    assert not found[0][3][2:, 1].numpy().any()


def test_unfold_and_fold_are_adjoint_and_keep_what_is_infinite():
    x, how = (
        ag.asarray(np.sin(np.arange(40.0)).reshape(2, 4, 5)),
        {"kernel_size": (2, 3), "padding": 1, "stride": (1, 2)},
    )
    columns = F.unfold(x, **how)
    other = ag.asarray(np.cos(np.arange(float(columns.size))).reshape(columns.shape))
    assert (columns * other).sum().item() == pytest.approx((x * F.fold(other, (4, 5), **how)).sum().item())
    batch = ag.stack([x, -x])
    np.testing.assert_array_equal(ag.vmap(lambda x: F.unfold(x, **how))(batch).numpy(), F.unfold(batch, **how).numpy())
    folded = ag.vmap(lambda y: F.fold(y, (4, 5), **how))(ag.stack([other, -other]))
    np.testing.assert_array_equal(folded[1].numpy(), -F.fold(other, (4, 5), **how).numpy())
    x[0, 0, 0] = -np.inf
    assert np.isneginf(F.unfold(x, 2).numpy()).sum() == 1


def test_gumbel_softmax_draws_as_often_as_the_probabilities_say():
    generator = ag.random.Generator(3)
    logits = ag.asarray(
        np.log([0.1, 0.6, 0.3]),
    ).requires_grad_()
    many = ag.broadcast_to(logits, (4000, 3))
    hard = F.gumbel_softmax(many, hard=True, generator=generator)
    assert set(np.unique(hard.detach().numpy().round(12))) == {0.0, 1.0}
    np.testing.assert_allclose(hard.detach().numpy().mean(0), [0.1, 0.6, 0.3], atol=0.03)
    generator = ag.random.Generator(3)
    soft = F.gumbel_softmax(many, tau=0.5, generator=generator)
    np.testing.assert_allclose(soft.detach().numpy().sum(-1), 1.0)
    np.testing.assert_array_equal(soft.detach().numpy().argmax(-1), hard.detach().numpy().argmax(-1))
    weights = ag.asarray([1.0, 2.0, 4.0])
    (gradient,) = ag.autograd.grad((soft * weights).sum(), logits)
    generator = ag.random.Generator(3)
    straight = F.gumbel_softmax(many, tau=0.5, hard=True, generator=generator)
    np.testing.assert_allclose(ag.autograd.grad((straight * weights).sum(), logits)[0].numpy(), gradient.numpy())
