"""Slow, literal transcriptions of the papers: the compiled engines are compared with these, row for row.

Nothing here imports the product. Every module is plain Python over lists and dataclasses, so that a reader can hold it
against the paper's text; where the paper leaves a choice open, the docstring says which reading was taken.
"""
