"""Depth header: one draft checkpoint judged from its config.json, its safetensors headers and its id maps.

No weight is read, and no library is needed: what each release of the serving library makes of a checkpoint is
recorded (contracts.spelled), and a rule says what that means for the one at hand.
"""
