"""Neural networks: a few modules, and ``nn.functional``."""
