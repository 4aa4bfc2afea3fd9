"""The Content-Security-Policy that each page carries: what this site serves may run, nothing else.

It stands in the page, since hosts such as GitHub Pages send no header of ours. A script that stands
in the page runs by its hash, which is computed from the page as it is written.
"""

import base64
import hashlib
import re

# What may be fetched and run. A test compares it with the README's table.
ALLOWED = {
    "default-src": "'none'",
    "script-src": "'self'",  # and the hashes
    "style-src-elem": "'self'",
    "style-src-attr": "'unsafe-inline'",  # the sizes of what is drawn
    "img-src": "'self' data:",
    "font-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
}
# What the theme's template leaves to be filled.
EMPTY = '<meta http-equiv="Content-Security-Policy" content="">'

_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.DOTALL)
_RUNS = re.compile(r'(?!.*\bsrc=)(?:(?!.*\btype=)|.*\btype="?(?:module|text/javascript)\b)')
_BEFORE = r"(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?"  # attributes; a value may have any sign in it
_BLOCKED = re.compile(
    r"<(?:(?P<style>style\b)"
    rf"|(?P<handler>[a-z]{_BEFORE}\son[a-z]+\s*=)"
    rf"|(?P<link>a\b{_BEFORE}\shref\s*=\s*[\"']?\s*javascript:)"
    rf"|(?P<host>(?:script|img|iframe|audio|video|source|embed|object)\b{_BEFORE}"
    r"\s(?:src|srcset|data|poster)\s*=\s*[\"']?(?:https?:)?//))",
    re.IGNORECASE,
)
_NAMES = {
    "style": "an element <style>",
    "handler": "a handler of events in an attribute",
    "link": "a link that runs a script",
    "host": "a script, a picture or a frame from another host",
}


def policy_of(html: str) -> str:
    """The policy of a page: its own scripts are told from others by their hashes."""
    allowed = ALLOWED | {"script-src": " ".join([ALLOWED["script-src"], *_hashes(html)])}
    return "; ".join(f"{name} {sources}" for name, sources in allowed.items())


def put_into(html: str) -> str:
    """The page with its policy, which a browser reads before it runs anything."""
    return html.replace(EMPTY, EMPTY.replace('""', f'"{policy_of(html)}"'), 1)


def leave_out_of(html: str) -> str:
    """The page without a policy: `mkdocs serve` adds a script that reloads it."""
    return html.replace(EMPTY, "", 1)


def faults(html: str) -> list[str]:
    """What a page has in it that the policy would stop."""
    found = {blocked.lastgroup for blocked in _BLOCKED.finditer(html)}
    return [
        f"{what} is nothing that the page's Content-Security-Policy lets through"
        for name, what in _NAMES.items()
        if name in found
    ]


def _hashes(html: str) -> list[str]:
    bodies = {body for attributes, body in _SCRIPT.findall(html) if _RUNS.match(attributes)}
    return sorted(f"'sha256-{_hash(body)}'" for body in bodies)


def _hash(body: str) -> str:
    return base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
