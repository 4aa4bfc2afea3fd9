"""The kinds of fences that a page may have: one module each.

A module has a subclass of `qkv_site.page.Fence`, which says how its fence begins, which options it
takes, what can be wrong with it, and how it is written. Nothing else names it: a new kind of fence
is a new module.
"""
