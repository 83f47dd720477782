"""Every training release beside every serving release: filled cell by cell, shown as one table."""
