"""The colours of a stylesheet."""

import re


def light(theme: str) -> dict[str, str]:
    """The colours of a theme on paper, `{"ink": "#1b1d27", ...}`."""
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", theme.partition("}\n\n@media")[0]))
