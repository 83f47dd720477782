"""Contract tests for the interface between draft-model training and serving.

`pytest -m contracts` runs the real training library (speculators) and the real serving library
(sglang) against each other and says which terms of the interface hold.
"""

__version__ = "0.1.0"
