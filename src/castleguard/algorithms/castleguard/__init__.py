"""CASTLEGUARD (2020): CASTLE on sampled and noisy rows."""
