"""What the papers compare themselves with, written again from their descriptions, in numpy and for experiments only.

Each takes coded rows and says which box each row is published in. Nothing here passes a gate: what a method promises
and does not keep is to be seen in what it publishes.
"""
