"""What a page asks for, what goes wrong on it, and when it is ready."""

from time import monotonic

import pytest

WITHOUT_SCRIPTS = {"java_script_enabled": False}
PHONE = {"has_touch": True, "viewport": {"width": 390, "height": 844}}
# Adds up, in a page that has not begun to load, how far its content moves by itself.
NOTE_SHIFTS = """
window.shifted = 0
new PerformanceObserver(list => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifted += shift.value
}).observe({type: "layout-shift", buffered: true})
"""


def watch(page, requested, wrong):
    """Hand each address that a page asks for, and each fault, to a function."""
    page.on("request", lambda request: requested(request.url))
    page.on("requestfailed", lambda request: _was_left(request) or wrong(f"failed: {request.url}"))
    page.on("response", lambda r: r.status >= 400 and wrong(f"{r.status}: {r.url}"))
    page.on("console", lambda m: m.type in ("error", "warning") and wrong(m.text))
    page.on("pageerror", lambda error: wrong(str(error)))


def watched_tab(context):
    """A new tab that notes each address that it asks for, and each fault."""
    tab = context.new_page()
    watch(tab, lambda address: tab.requested.append(address), lambda fault: tab.wrong.append(fault))
    return tab


def _was_left(request):
    """Whether it asked for the icon of a page that was left at once."""
    return request.failure == "net::ERR_ABORTED" and request.url.endswith("favicon.svg")


def violations(page, context=None, **options):
    """What axe finds serious."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options |= {"resultTypes": ["violations"]}
    return [
        (violation["id"], violation["nodes"][0]["html"][:200])
        for violation in axe.run(page, context, options).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def until(page, expression, arg=None, seconds=30):
    """Wait for an expression to be true; the pages' own policy stops `wait_for_function`."""
    end = monotonic() + seconds
    while not page.evaluate(expression, arg):
        assert monotonic() < end, f"not true after {seconds} s: {expression}"
        page.wait_for_timeout(20)
