"""Arithmetic with gaming days and with the times of envelopes, both as they are written in events."""

from __future__ import annotations

from datetime import date, timedelta

from schemas.events.accounts import LimitPeriod


def periods_of(day: str) -> dict[str, str]:
    """The day, week (from Monday) and month in which a gaming day lies, as names that sort."""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return {"day": day, "week": f"{year}-W{week:02}", "month": day[:7]}


def first_day_of(day: str, period: LimitPeriod) -> str:
    """The first gaming day of the running period."""
    today = date.fromisoformat(day)
    match period:
        case "week":
            return (today - timedelta(days=today.weekday())).isoformat()
        case "month":
            return today.replace(day=1).isoformat()
        case _:
            return day


def next_period(day: str, period: LimitPeriod) -> str:
    """The first gaming day after the running period."""
    today = date.fromisoformat(day)
    match period:
        case "week":
            return (today + timedelta(days=7 - today.weekday())).isoformat()
        case "month":
            return (today.replace(day=1) + timedelta(days=32)).replace(day=1).isoformat()
        case _:
            return (today + timedelta(days=1)).isoformat()


def minutes_between(since: str, now: str) -> int:
    """Whole minutes between two envelope times (RFC 3339, UTC, microseconds)."""
    return (_seconds(now) - _seconds(since)) // 60


def _seconds(moment: str) -> int:
    days = date.fromisoformat(moment[:10]).toordinal()
    return ((days * 24 + int(moment[11:13])) * 60 + int(moment[14:16])) * 60 + int(moment[17:19])
