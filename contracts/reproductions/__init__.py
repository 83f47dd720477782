"""Reproductions of recorded defects that need nothing but sglang: `contracts reproduce CAUSE` prints them."""
