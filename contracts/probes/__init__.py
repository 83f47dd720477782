"""Programs that run inside a side's own interpreter and report facts. They hold no expectation.

Standard library, torch and the side's own library only; of this package they import `facts`, `recipes`
and `checkpoint`, which need nothing else.
"""
