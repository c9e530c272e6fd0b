"""Calls to an operator's wallet, where the balances are the operator's. ``docs/seamless.md``."""
