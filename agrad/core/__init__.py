"""The engine room: tensors, nodes, rules and the two directions of differentiation. Imports no array library."""
