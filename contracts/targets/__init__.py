"""Tiny targets of every class that sglang can capture from, and what each is asked to capture."""
