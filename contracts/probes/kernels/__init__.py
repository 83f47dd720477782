"""Stand-ins for compiled code that has no build for the machine at hand.

None of them computes anything at this depth of checking: operators that are only declared, and a module
whose functions raise by name.
"""
