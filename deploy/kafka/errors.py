"""What can go wrong, in words for who wanted a broker."""


class BrokerFailed(Exception):
    """A broker did not start, or ended by itself; the message has the end of its log."""


class NoJars(BrokerFailed):
    """Maven could not bring what a broker consists of; there may be no network."""
