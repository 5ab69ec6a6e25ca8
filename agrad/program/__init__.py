"""Programs: the recorded work of a function of tensors, as data, and operations on it."""
