"""The roles' colours: legible on paper and shade, and apart for colour-blind readers."""

import itertools
import re

import numpy as np
import pytest

from support import ROOT

SCHEMES = {"light": ":root", "dark": '[data-md-color-scheme="slate"]'}
# What draws an edge and a hatching, so that some roles are told apart without their colours.
EDGES = {"source": "dashed", "weight": "double"}
ROLES = ["source", "weight", "query", "key", "value", "output"]

# What dichromats see, as matrices on linear RGB: Machado, Oliveira and Fernandes (2009).
VISION = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                   [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
WHITE = np.array([0.95047, 1, 1.08883])


def colours(scheme):
    css = (ROOT / "docs" / "assets" / "theme.css").read_text()
    block = css.split(SCHEMES[scheme] + " {", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2.2's contrast ratio."""
    darker, lighter = sorted(TO_XYZ[1] @ linear(colour) for colour in (a, b))
    return (lighter + 0.05) / (darker + 0.05)


def lab(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_text_colour_is_legible(scheme):
    found = colours(scheme)
    texts = ["ink", "ink-soft", "link", *(name for name in found if name.startswith("role-"))]
    for text, ground in itertools.product(texts, ["paper", "shade"]):
        assert contrast(found[text], found[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_roles_are_told_apart(scheme, vision):
    found = colours(scheme)
    seen = {role: lab(VISION[vision] @ linear(found[f"role-{role}"])) for role in ROLES}
    for a, b in itertools.combinations(ROLES, 2):
        alike = EDGES.get(a) == EDGES.get(b)
        assert np.linalg.norm(seen[a] - seen[b]) > (20 if alike else 12), (a, b)


def test_what_goes_in_and_what_is_learned_have_edges_of_their_own():
    css = (ROOT / "docs" / "assets" / "formulas.css").read_text()
    edges = dict(re.findall(r"\.role-(\w+) \{ --edge: [\d.]+px (\w+); \}", css))
    assert edges == EDGES
    assert "outline: var(--edge, 1.5px solid);" in css
