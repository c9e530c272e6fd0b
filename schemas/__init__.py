"""The language that the services share: events, commands' data, houses, money and cards.

Nothing here knows a service, a database or a bus. The pydantic models in this package are the one
source of the JSON Schemas and of the AsyncAPI document in ``schemas/generated`` (``make schemas``).
"""
