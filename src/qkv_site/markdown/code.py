"""Code, coloured sparingly: a page with fewer elements is faster; and short code in a line."""

import re
from collections.abc import Iterator

from pygments.filter import Filter
from pygments.token import Name, Punctuation, Text, Whitespace

_SHORT = re.compile(r"<code>(?=[^<\n]*[ -])((?:[^<&\n]|&#?\w+;){1,28})</code>")
_PLAIN = {Name, Punctuation, Whitespace}


class Plain(Filter):
    """Leaves names, punctuation and spaces as they are, so that they need no element each."""

    def filter(self, lexer, stream) -> Iterator[tuple]:
        """Hand on the tokens of a text, some of them as plain text."""
        for kind, value in stream:
            yield Text if kind in _PLAIN else kind, value


def together(page: str) -> str:
    """A page in whose sentences code that has room on each phone stays on one line."""
    return _SHORT.sub(r'<code class="wq-short">\1</code>', page)
