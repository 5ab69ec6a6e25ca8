"""Recurrent layers and cells: RNN, LSTM and GRU, with PyTorch's arguments, parameter names and order of gates."""

from __future__ import annotations

import math
from typing import Any

from agrad.core.errors import called
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn import init
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.nn.utils.rnn import PackedSequence
from agrad.ops.creation import empty, zeros
from agrad.ops.elementwise import tanh
from agrad.ops.manipulation import concat, expand_dims, moveaxis, squeeze, stack, unstack
from agrad.ops.nn import lstm
from agrad.ops.searching import take

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


class _Step(Module):
    """Base of layers and cells: process a sequence element by element; parameters."""

    #: The number of blocks of `hidden_size` rows in the weights.
    gates: int
    #: The number of tensors in the state.
    states = 1
    #: Whether the bias of the state's product is added to whole blocks, so that it can be part of the input's product.
    adds_bias = True
    hidden_size: int

    def reset_parameters(self) -> None:
        """Draw the parameters again: uniform on ±1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _add_weights(self, width: int, bias: bool, ending: str, device: Any, dtype: Any) -> None:
        """Add the parameters of one layer and direction, for an input of this width."""
        rows = self.gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, self.hidden_size)}
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
        for name, shape in shapes.items():
            setattr(self, name + ending, Parameter(empty(shape, device=device, dtype=dtype)))

    def step(self, x: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        """Return the state after one element of the sequence; `x` is its product with the input's weights."""
        raise NotImplementedError

    def steps(
        self, products: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the results for a sequence, shape (L, N, hidden_size), and the last state."""
        results = []
        for x in unstack(products, axis=0)[:: -1 if backwards else 1]:
            state = self.step(x, state, weight, bias)
            results.append(state[0])
        return stack(results[:: -1 if backwards else 1], axis=0), state


class _ElmanStep(_Step):
    """The step of `RNN`."""

    gates = 1
    nonlinearity: str

    def step(self, x: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        act = tanh if self.nonlinearity == "tanh" else F.relu
        return (act(x + F.linear(state[0], weight, bias)),)


class _LSTMStep(_Step):
    """The step of `LSTM`."""

    gates = 4
    states = 2

    def step(self, x: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        h, c = state
        n = self.hidden_size
        blocks = x + F.linear(h, weight, bias)
        i, f, g, o = (blocks[..., k * n : (k + 1) * n] for k in range(4))
        c = F.sigmoid(f) * c + F.sigmoid(i) * tanh(g)
        return F.sigmoid(o) * tanh(c), c

    def steps(
        self, products: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        dtypes = {held.dtype for held in (products, weight, *state)}
        if len(dtypes) > 1 or tuple(weight.shape) != (4 * self.hidden_size, self.hidden_size):
            return super().steps(products, state, weight, bias, backwards)  # its product raises the error
        h, c = state
        made = lstm(products, h, c, weight, backwards)
        last = 0 if backwards else -1
        return made[0, ...], (made[0, last, ...], made[1, last, ...])


class _GRUStep(_Step):
    """The step of `GRU`."""

    gates = 3
    adds_bias = False

    def step(self, x: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        n, (h,) = self.hidden_size, state
        y = F.linear(h, weight, bias)
        both = F.sigmoid(x[..., : 2 * n] + y[..., : 2 * n])
        r, z = both[..., :n], both[..., n:]
        new = tanh(x[..., 2 * n :] + r * y[..., 2 * n :])
        return (new + z * (h - new),)


class _Recurrent(_Step):
    """Base of the recurrent layers: parameters, layers, directions, axes.

    Every layer and direction has ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0`` and ``bias_hh_l0``, with the layer's
    number, followed by ``_reverse`` for the backward direction.
    """

    weight_hh_l0: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for name, number in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if number < 1:
                raise ValueError(f"{name} must be greater than zero, got {number}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], got {dropout}")
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.num_layers: int = num_layers
        self.bias: bool = bias
        self.batch_first: bool = batch_first
        self.dropout: float = dropout
        self.bidirectional: bool = bidirectional
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self._directions)
            for suffix in self._directions:
                self._add_weights(width, bias, f"_l{layer}{suffix}", device, dtype)
        self.reset_parameters()

    def flatten_parameters(self) -> None:
        """Do nothing: PyTorch packs weights for cuDNN; here each remains a separate array."""

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the results of the last layer and the last state of every layer and direction.

        Parameters
        ----------
        input : Tensor, shape (L, N, input_size), (N, L, input_size) or (L, input_size), or PackedSequence
            The sequences; see `batch_first`. Packed sequences (`agrad.nn.utils.rnn`) each end at their own length.
        hx : Tensor, shape (layers * directions, N, hidden_size), optional
            The initial states. Default: zeros.

        Returns
        -------
        tuple of Tensor
            Results, shape (L, N, directions * hidden_size), packed if the input is, and states, of the shape of `hx`.
        """
        output, (h,) = self._layers(input, None if hx is None else (hx,))
        return output, h

    def _run(
        self, sequence: Tensor, sizes: tuple[int, ...] | None, state: tuple[Tensor, ...], name: str
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the results, shape (L, N, hidden_size), and the last state of one layer in one direction.

        With `sizes`, the sequence and the results are packed.
        """
        weight = getattr(self, f"weight_hh_{name}")
        first, bias = (getattr(self, f"bias_{part}_{name}", None) for part in ("ih", "hh"))
        if self.adds_bias and first is not None and bias is not None:
            first, bias = first + bias, None
        products = F.linear(sequence, getattr(self, f"weight_ih_{name}"), first)
        backwards = name.endswith("_reverse")
        if sizes is None:
            return self.steps(products, state, weight, bias, backwards)
        results = []
        for x in products.split(sizes, 0)[:: -1 if backwards else 1]:
            if x.shape[0] == sizes[0]:
                state = self.step(x, state, weight, bias)
                results.append(state[0])
            else:  # keep the states of sequences that have ended or, read backwards, not begun
                n, before = x.shape[0], state
                changed = self.step(x, tuple(held[:n, ...] for held in before), weight, bias)
                results.append(changed[0])
                state = tuple(concat([new, held[n:, ...]]) for new, held in zip(changed, before, strict=True))
        return concat(results[:: -1 if backwards else 1]), state

    def _layers(self, input: Any, hx: tuple[Any, ...] | None) -> tuple[Any, tuple[Tensor, ...]]:
        """Return the results of the last layer, and the last states of all, with the caller's axes."""
        packed, sizes = input if isinstance(input, PackedSequence) else None, None
        if packed is not None:
            input, sizes = packed.data, packed.batch_sizes
        input = as_operand(input)
        rank = input.ndim if packed is None else 3
        if rank not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {rank}D instead{called()}",
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}\n  in"
                f" {type(self).__name__}, input {tuple(input.shape)}.{called()}"
            )
        batch = 1 if rank == 2 else 0 if self.batch_first else 1
        sequence = input
        if packed is None:
            sequence = expand_dims(input, axis=1) if rank == 2 else moveaxis(input, batch, 1)
        if sequence.shape[0] == 0:
            raise RuntimeError(f"Expected sequence length to be larger than 0 in RNN{called()}")
        if packed is not None and packed.sorted_indices is not None and hx is not None:
            hx = tuple(take(as_operand(state), packed.sorted_indices, axis=1) for state in hx)
        states = self._first(sequence, sequence.shape[1] if sizes is None else sizes[0], hx, rank)
        last: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                sequence = F.dropout(sequence, self.dropout, training=self.training)
            results = []
            for suffix in self._directions:
                state = tuple(held[len(last)] for held in states)
                result, state = self._run(sequence, sizes, state, f"l{layer}{suffix}")
                results.append(result)
                last.append(state)
            sequence = results[0] if len(results) == 1 else concat(results, axis=-1)
        ended = tuple(stack(list(parts), axis=0) for parts in zip(*last, strict=True))
        if packed is not None:
            if packed.unsorted_indices is not None:
                ended = tuple(take(state, packed.unsorted_indices, axis=1) for state in ended)
            return packed._replace(data=sequence), ended
        if rank == 2:
            return squeeze(sequence, 1), tuple(squeeze(state, 1) for state in ended)
        return moveaxis(sequence, 1, batch), ended

    def _first(self, sequence: Tensor, batch: int, hx: tuple[Any, ...] | None, rank: int) -> list[tuple[Tensor, ...]]:
        """Return the initial states, one per layer and direction; zeros if none are given."""
        count = self.num_layers * len(self._directions)
        shape = (count, batch, self.hidden_size)
        if hx is None:
            nothing = zeros(shape[1:], dtype=self.weight_hh_l0.dtype, device=sequence.device)
            return [(nothing,) * count] * self.states
        wanted = shape if rank == 3 else (count, self.hidden_size)
        states = [as_operand(state) for state in hx]
        for state in states:
            if tuple(state.shape) != wanted:
                raise RuntimeError(
                    f"Expected hidden size {wanted}, got {list(state.shape)}\n  {type(self).__name__}: axes are layers"
                    f" times directions, batch, hidden_size.{called()}"
                )
        return [unstack(state if rank == 3 else expand_dims(state, axis=1), axis=0) for state in states]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        for name, usual in (("bias", True), ("batch_first", False), ("dropout", 0), ("bidirectional", False)):
            text += f", {name}={getattr(self, name)}" if getattr(self, name) != usual else ""
        return text


class RNN(_ElmanStep, _Recurrent):
    """Elman's network, ``h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``, over a sequence (Elman 1990).

    Parameters
    ----------
    input_size, hidden_size : int
        Lengths of the last axis of the input, and of the state.
    num_layers : int, optional
        The number of layers; each takes the results of the previous one as its input.
    nonlinearity : {"tanh", "relu"}, optional
        The function used in place of tanh.
    bias : bool, optional
        Whether to use ``b_ih`` and ``b_hh``.
    batch_first : bool, optional
        Whether input and results are (batch, sequence, features), not (sequence, batch, features).
    dropout : float, optional
        The probability of zeroing an element passed from one layer to the next, during training.
    bidirectional : bool, optional
        Whether every layer also reads the sequence from its end; the results of both directions are concatenated.
    device, dtype : optional
        For the parameters.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Parameter
        For the first layer, uniform on ±1/sqrt(hidden_size); others have their own number, with ``_reverse`` after it.

    Raises
    ------
    ValueError
        If a size is not positive, `dropout` is not a probability, or `nonlinearity` is unknown.

    Examples
    --------
    >>> import agrad as ag
    >>> output, h = ag.nn.RNN(3, 5)(ag.ones((7, 2, 3)))
    >>> output.shape, h.shape
    ((7, 2, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)


class LSTM(_LSTMStep, _Recurrent):
    """Long short-term memory over a sequence (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

    The four blocks of ``x @ w_ih.T + b_ih + h @ w_hh.T + b_hh`` are `i`, `f`, `g` and `o`; then
    ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        As for `RNN`.

    Raises
    ------
    ValueError
        As for `RNN`.

    Examples
    --------
    >>> import agrad as ag
    >>> output, (h, c) = ag.nn.LSTM(3, 5, batch_first=True)(ag.ones((2, 7, 3)))
    >>> output.shape, h.shape, c.shape
    ((2, 7, 5), (1, 2, 5), (1, 2, 5))
    """

    def forward(self, input: Any, hx: tuple[Any, Any] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Return the results of the last layer and the last states ``(h, c)``; `hx` is such a pair. See `RNN.forward`."""
        if hx is not None and (not isinstance(hx, tuple | list) or len(hx) != 2):
            raise TypeError(f"LSTM takes the states as a pair (h, c), not {type(hx).__name__}{called()}")
        output, (h, c) = self._layers(input, None if hx is None else tuple(hx))
        return output, (h, c)


class GRU(_GRUStep, _Recurrent):
    """Gated recurrent units over a sequence (Cho et al. 2014), in the form of PyTorch and cuDNN.

    The three blocks of ``x @ w_ih.T + b_ih`` and ``h @ w_hh.T + b_hh`` are `r`, `z` and `n`; with ``r`` and ``z`` the
    sigmoids of the sums, ``n = tanh(n_x + r * n_h)`` and ``h = (1 - z) * n + z * h``.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        As for `RNN`.

    Raises
    ------
    ValueError
        As for `RNN`.

    Examples
    --------
    >>> import agrad as ag
    >>> output, h = ag.nn.GRU(3, 5, bidirectional=True)(ag.ones((7, 3)))
    >>> output.shape, h.shape
    ((7, 10), (2, 5))
    """


class _Cell(_Step):
    """Base of the cells: one step of one layer."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.bias: bool = bias
        self._add_weights(input_size, bias, "", device, dtype)
        self.reset_parameters()

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the next state.

        Parameters
        ----------
        input : Tensor, shape (N, input_size) or (input_size,)
            One element of each sequence.
        hx : Tensor, shape (N, hidden_size) or (hidden_size,), optional
            The state; for `LSTMCell` a pair ``(h, c)``. Default: zeros.

        Raises
        ------
        ValueError
            If `input` has another number of axes.
        RuntimeError
            If shapes do not match.
        """
        x, name = as_operand(input), type(self).__name__
        if x.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {x.ndim}D instead{called()}")
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[-1]} expected {self.input_size}\n  in {name}, input"
                f" {tuple(x.shape)}.{called()}"
            )
        wanted = (*x.shape[:-1], self.hidden_size)
        if hx is None:
            hx = (zeros(wanted, dtype=self.weight_hh.dtype, device=x.device),) * self.states
        elif self.states == 1:
            hx = (hx,)
        elif not isinstance(hx, tuple | list) or len(hx) != self.states:
            raise TypeError(f"{name} takes the states as a pair (h, c), not {type(hx).__name__}{called()}")
        state = tuple(map(as_operand, hx))
        for i, held in enumerate(state):
            if tuple(held.shape) != wanted:
                what = f"hidden{i} has inconsistent hidden_size: got {held.shape[-1]}, expected {wanted[-1]}"
                if held.shape[-1] == wanted[-1]:
                    what = f"Input batch size {wanted[0]} doesn't match hidden{i} batch size {held.shape[0]}"
                raise RuntimeError(f"{what}\n  {name} got a state {held.shape}, and wants {wanted}.{called()}")
        state = self.step(F.linear(x, self.weight_ih, self.bias_ih), state, self.weight_hh, self.bias_hh)
        return state[0] if self.states == 1 else state

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_ElmanStep, _Cell):
    """One step of `RNN`.

    Parameters
    ----------
    input_size, hidden_size, bias, nonlinearity, device, dtype
        As for `RNN`.

    Attributes
    ----------
    weight_ih, weight_hh, bias_ih, bias_hh : Parameter
        As for a layer of `RNN`.

    Examples
    --------
    >>> import agrad as ag
    >>> cell, h = ag.nn.RNNCell(3, 5), None
    >>> for x in ag.ones((7, 2, 3)):
    ...     h = cell(x, h)
    >>> h.shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(_LSTMStep, _Cell):
    """One step of `LSTM`: takes and returns the pair ``(h, c)``; see `RNNCell`."""


class GRUCell(_GRUStep, _Cell):
    """One step of `GRU`; see `RNNCell`."""
