"""Programs: what a function of tensors did, as data, and what can be done with it."""
