"""`python -m qkv_site check` says each fault with its page, its line and its rule, without a build.

`python -m qkv_site zensical` checks the pages, too, and then builds the site with Zensical.
"""

import argparse
import sys
from pathlib import Path

from qkv_site import check
from qkv_site.page import Site


def main() -> int:
    """Print the faults; the exit status is 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m qkv_site", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check")
    checking.add_argument(
        "docs", nargs="?", type=Path, default=Site.docs, help="the folder of pages"
    )
    building = commands.add_parser("zensical")
    building.add_argument("folder", nargs="?", type=Path, default="site", help="where to build")
    given = parser.parse_args()
    if given.command == "zensical":
        from qkv_site.engine import zensical

        return bool(zensical.build(Path("mkdocs.yml").resolve(), given.folder.resolve()))
    found = check.site(Site(given.docs))
    print(*found, sep="\n", end="\n" * bool(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
