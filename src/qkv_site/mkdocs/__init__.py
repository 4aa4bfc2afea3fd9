"""What MkDocs calls: the hooks of a build, and the theme's overrides."""
