"""Methods that the papers compare themselves with, written from their descriptions, in numpy and for experiments only.

Each takes coded rows and chooses a box for each row. No gate checks the output: it shows where a method breaks its
promise.
"""
