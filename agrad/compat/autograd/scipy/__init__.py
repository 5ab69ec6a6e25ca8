"""``autograd.scipy``: the modules of `agrad.scipy`, whose functions give plain arrays of plain arrays."""
