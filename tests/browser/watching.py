"""What a page asks for, and what goes wrong on it."""


def watch(page, requested, wrong):
    """Hand each address that a page asks for, and each fault, to a function."""
    page.on("request", lambda request: requested(request.url))
    page.on("requestfailed", lambda request: _was_left(request) or wrong(f"failed: {request.url}"))
    page.on("response", lambda r: r.status >= 400 and wrong(f"{r.status}: {r.url}"))
    page.on("console", lambda m: m.type in ("error", "warning") and wrong(m.text))
    page.on("pageerror", lambda error: wrong(str(error)))


def _was_left(request):
    """Whether it asked for the icon of a page that was left at once."""
    return request.failure == "net::ERR_ABORTED" and request.url.endswith("favicon.svg")
