"""`python -m qkv_site check`: every fault with its page, its line and its rule, without a build."""

import argparse
import sys
from pathlib import Path

from qkv_site import check
from qkv_site.page import Site


def main() -> int:
    """Print the faults; the exit status is 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m qkv_site", description=__doc__)
    parser.add_argument("command", choices=["check"])
    parser.add_argument("docs", nargs="?", type=Path, default=Site.docs, help="the folder of pages")
    found = check.site(Site(parser.parse_args().docs))
    print(*found, sep="\n", end="\n" * bool(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
