"""How backends are found and what they give: hookspecs, the manager, the `Backend` contract and `Device`."""
