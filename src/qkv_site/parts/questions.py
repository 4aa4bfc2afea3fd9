"""The index of questions: a line is a question that links to its answer, and a short answer."""

import re

INDEX = "questions.md"
ENTRY = re.compile(
    r"^- \[(?P<question>(?:[^\n]|\n  )*?)\]\((?P<page>[\w/.-]+\.md)(?:#(?P<id>[\w-]+))?\)"
    r"(?P<answer>[^\n]*(?:\n  [^\n]*)*)",
    re.MULTILINE,
)
