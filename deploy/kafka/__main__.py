"""``python -m deploy.kafka``: a broker until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from time import sleep
from types import FrameType

from deploy.kafka import jars
from deploy.kafka.cluster import Cluster
from deploy.kafka.errors import BrokerFailed
from deploy.kafka.lookup import VARIABLE, own

_HELP = f"""\
Run a Kafka broker (or three) on this machine for trying things out.

When it answers, its address is printed as a line for the shell:

    export SABOT_KAFKA=127.0.0.1:40123

Commands with that line in their environment use the broker (tests do with `{VARIABLE}`). It listens on the
loopback interface only, topics are not made by themselves, and what is published is kept until the end.
Ctrl-C (or SIGTERM) stops it and removes all of its data.

It needs Java 17 or newer and Maven, which once fetches the jars of Kafka (54 MB); or else Docker.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 if all went well, 1 if a broker failed."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.kafka", description=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--brokers", type=int, choices=(1, 3), default=1, help="how many; 3 can replicate (default 1)"
    )
    options = parser.parse_args(arguments)
    for number in _ENDINGS:
        signal.signal(number, _end)
    try:
        _run(options.brokers)
    except KeyboardInterrupt:
        return 0
    except BrokerFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def _run(brokers: int) -> None:
    kafka = own(brokers)
    if isinstance(kafka, Cluster) and not jars.folder().is_dir():
        _say("Fetching the jars of Kafka (54 MB, once)…")
    with kafka:
        # The line to be copied is all that standard output gets.
        print(f"export SABOT_KAFKA={kafka.bootstrap}", flush=True)
        if isinstance(kafka, Cluster):
            for index in range(brokers):
                _say(f"broker {index}: process {kafka.pid(index)}, log {kafka.log(index)}")
        _say("Ctrl-C stops it and removes its data.")
        while True:
            kafka.check()
            sleep(0.2)


_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _end(number: int, frame: FrameType | None) -> None:
    # Once is enough: what follows is clearing away, which an impatient second Ctrl-C must not cut short.
    for each in _ENDINGS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
