"""A whole room in one process: the three services over the embedded bus, and who plays in it.

The only package that knows all three services. It drives them by their commands alone.
"""
