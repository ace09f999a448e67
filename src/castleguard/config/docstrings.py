"""Docstrings below the fields of a dataclass, which Python itself discards."""

import ast
import inspect
import textwrap
from itertools import pairwise


def field_docstrings(cls: type) -> dict[str, str]:
    """The docstrings of a class's fields, inherited ones included, as single lines; empty without source code."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _own_docstrings(base)
    return found


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    paragraph = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    # A dataclass without a docstring gets its signature instead.
    return "" if paragraph.startswith(f"{cls.__name__}(") else " ".join(paragraph.split())


def _own_docstrings(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = " ".join(text.split())
    return found
