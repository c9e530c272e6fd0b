"""A sandbox: a complete wallet of an operator, on the other side of ``docs/seamless.md``.

It shares no code with what calls it but the protocol's models, so that each proves the other.
"""
