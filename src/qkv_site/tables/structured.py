"""What a search engine is told of a page, in the words of schema.org."""

from importlib.metadata import version

_LICENCE = "https://spdx.org/licenses/MIT.html"


def data(page, config) -> dict | None:
    """A page, its site, and the way to it; for a site without an address nothing."""
    if not config.site_url or page is None:
        return None
    site = {"@type": "WebSite", "@id": f"{config.site_url}#site", "url": config.site_url}
    site |= {"name": config.site_name, "description": config.site_description, "inLanguage": "en"}
    if page.is_homepage:
        site |= {"license": _LICENCE, "version": version("which-q")}
        return {"@context": "https://schema.org", **site}
    article = {
        "@type": "TechArticle",
        "@id": page.canonical_url,
        "url": page.canonical_url,
        "headline": page.meta.get("title") or page.title,
        "description": page.meta.get("description") or config.site_description,
        "inLanguage": "en",
        "license": _LICENCE,
        "isPartOf": {"@id": site["@id"]},
        "encoding": {
            "@type": "MediaObject",
            "encodingFormat": "text/markdown",
            "contentUrl": f"{page.canonical_url}index.md",
        },
    }
    way = [(config.site_name, config.site_url), *_sections(page), (page.title, page.canonical_url)]
    trail = {
        "@type": "BreadcrumbList",
        "itemListElement": [
            {"@type": "ListItem", "position": position, "name": name, "item": address}
            for position, (name, address) in enumerate(way, start=1)
        ],
    }
    return {"@context": "https://schema.org", "@graph": [article, site, trail]}


def _sections(page):
    """Of each section that the page is in and that has a page of its own: its name and address."""
    for section in reversed(page.ancestors):
        own = next((each for each in section.children if each.is_page and each.is_index), None)
        if own and own is not page:
            yield section.title, own.canonical_url
