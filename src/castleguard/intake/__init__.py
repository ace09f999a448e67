"""Between decoding and the engine: leaving rows out (budget, sampling) and making their values noisy.

In the noisy modes this is the only stage that sees raw values.
"""
