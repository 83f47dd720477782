"""The project's own tests use pytester; the contracts come with the installed plugin."""

pytest_plugins = ["pytester"]
