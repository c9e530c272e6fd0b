"""What a service can be asked to do. Commands come from outside and may be refused; events may not.

Amounts are already integers of minor units here: whoever takes them from a file or from HTTP converts
them with ``schemas.money`` and refuses what does not convert exactly.
"""
