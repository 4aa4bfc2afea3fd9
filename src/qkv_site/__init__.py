"""How the site is built, in three rooms: Markdown extensions, generated data, MkDocs' hooks."""
