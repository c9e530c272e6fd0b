"""Audit: replays every stream, works every coup and posting out again, and keeps the evidence."""
