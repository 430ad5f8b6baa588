"""Options in messages, named as the caller passes them: in Python or on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_commanded = ContextVar("_commanded", default=False)
_FLAGS = {"held_out": "holdout"}  # others differ in hyphens only


@contextmanager
def on_command_line() -> Iterator[None]:
    """Name options as the command ``crosslearning fit`` does."""
    token = _commanded.set(True)
    try:
        yield
    finally:
        _commanded.reset(token)


def option(name: str, value: object = None) -> str:
    """Name an option, and the value to pass if there is one.

    >>> option("folds"), option("kind", "regression")
    ('`folds`', "kind='regression'")
    >>> with on_command_line():
    ...     option("held_out"), option("kind", "regression"), option("drop_unlabelled", True)
    ('--holdout', '--kind regression', '--drop-unlabelled')
    """
    if not _commanded.get():
        return f"`{name}`" if value is None else f"{name}={value!r}"
    flag = "--" + _FLAGS.get(name, name).replace("_", "-")
    return flag if value in (None, True) else f"{flag} {value}"
