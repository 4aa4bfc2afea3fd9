"""Code that is coloured sparingly: a page with fewer elements is faster."""

from collections.abc import Iterator

from pygments.filter import Filter
from pygments.token import Name, Punctuation, Text, Whitespace

_PLAIN = {Name, Punctuation, Whitespace}


class Plain(Filter):
    """Leaves names, punctuation and spaces as they are, so that they need no element each."""

    def filter(self, lexer, stream) -> Iterator[tuple]:
        """Hand on the tokens of a text, some of them as plain text."""
        for kind, value in stream:
            yield Text if kind in _PLAIN else kind, value
