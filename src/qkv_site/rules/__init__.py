"""Rules that a page keeps beside those of its parts: one module each.

A module has a `NAME` and a function `faults(page)`, which yields what breaks the rule: a line of
the file, or 0, and a message. The message is the rule's documentation: what stands there, what is
expected, and, where that is short, an example. Nothing else names it: a new rule is a new module.
"""
