"""The stage between decoding and the engine: leaves rows out (budget, sampling) and adds noise to values.

In the noisy modes no later stage sees raw values.
"""
