"""Nothing to configure: the contracts come with the installed plugin, pytester with pyproject.toml."""
