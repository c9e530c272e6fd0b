"""What the three services stand on: the ports, the event store, the bus, the one writer, metrics, HTTP.

It knows none of them: a service plugs its pure core in through ``services.runtime.service.Service``.
"""
