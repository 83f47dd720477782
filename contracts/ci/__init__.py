"""What CI systems ask: which pairs to judge, the command of one of them, what changed since yesterday."""
