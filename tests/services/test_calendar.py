"""One function defines the gaming day."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.calendar import GamingCalendar, rfc3339
from services.runtime.settings import Settings, SettingsError, settings_from

FROM = datetime(2020, 1, 2, tzinfo=UTC).replace(tzinfo=None)
TO = datetime(2030, 12, 30, tzinfo=UTC).replace(tzinfo=None)
AMSTERDAM = GamingCalendar("Europe/Amsterdam")


def local(text: str, fold: int = 0, zone: str = "Europe/Amsterdam") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


def minutes_of(calendar: GamingCalendar, day: date) -> int:
    """How many minutes have this gaming day, counted one by one."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=24)
    moments = (start + timedelta(minutes=minute) for minute in range(72 * 60))
    return sum(calendar.day(moment) == day for moment in moments)


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2026-07-25 00:30", date(2026, 7, 24)),  # money case 24
        ("2026-07-25 05:59:59.999999", date(2026, 7, 24)),
        ("2026-07-25 06:00", date(2026, 7, 25)),
        ("2026-07-26 05:59", date(2026, 7, 25)),
        ("2026-01-01 00:00", date(2025, 12, 31)),
        ("2026-03-01 03:00", date(2026, 2, 28)),
    ],
)
def test_money_case_24_a_gaming_day_goes_from_cut_off_to_cut_off(moment, day):
    assert AMSTERDAM.day(local(moment)) == day


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        (date(2026, 3, 27), 24),
        (date(2026, 3, 28), 23),  # the clock is put forward in the night of the 28th to the 29th
        (date(2026, 3, 29), 24),
        (date(2026, 10, 24), 25),  # and back in the night of the 24th to the 25th of October
        (date(2026, 10, 25), 24),
    ],
)
def test_money_case_24_the_days_on_which_the_clock_changes(day, hours):
    assert minutes_of(AMSTERDAM, day) == hours * 60


@pytest.mark.parametrize(
    ("cut_off", "first"),
    [
        # 25 October 2026, 03:00 summer time is 02:00 winter time: each of these shows twice.
        (time(2, 0), local("2026-10-25 02:00")),
        (time(2, 30), local("2026-10-25 02:30")),
        (time(3, 0), local("2026-10-25 03:00")),
    ],
)
def test_a_day_that_has_begun_does_not_end_when_the_clock_is_put_back(cut_off, first):
    calendar = GamingCalendar("Europe/Amsterdam", cut_off)
    begin = first.astimezone(UTC)
    assert calendar.day(begin - timedelta(microseconds=1)) == date(2026, 10, 24)
    assert {calendar.day(begin + timedelta(minutes=minute)) for minute in range(24 * 60)} == {
        date(2026, 10, 25)
    }


def test_a_cut_off_that_the_clock_skips_is_when_it_skips_it():
    calendar = GamingCalendar("Europe/Amsterdam", time(2, 30))
    skip = datetime(2026, 3, 29, 1, tzinfo=UTC)  # 02:00 becomes 03:00
    assert calendar.day(skip - timedelta(microseconds=1)) == date(2026, 3, 28)
    assert calendar.day(skip) == date(2026, 3, 29)


@given(
    moments=st.lists(
        st.datetimes(min_value=FROM, max_value=TO, timezones=st.just(UTC)),
        min_size=2,
        max_size=2,
    ),
    cut_off=st.times(),
    zone=st.sampled_from(
        ["UTC", "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"]
    ),
)
def test_the_gaming_day_never_goes_back(moments, cut_off, zone):
    calendar = GamingCalendar(zone, cut_off)
    earlier, later = sorted(moments)
    assert calendar.day(earlier) <= calendar.day(later)


def test_the_moment_may_be_said_in_any_zone():
    moment = datetime(2026, 7, 25, 3, 30, tzinfo=UTC)  # 05:30 in Amsterdam
    assert (
        AMSTERDAM.day(moment) == AMSTERDAM.day(moment.astimezone(ZoneInfo("Asia/Tokyo"))) == date(2026, 7, 24)
    )


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-01T12:00:00.000000Z"),
        (datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC), "2026-03-01T12:00:00.000005Z"),
        (local("2026-07-01 00:30"), "2026-06-30T22:30:00.000000Z"),
    ],
)
def test_times_are_utc_and_of_one_length_so_that_they_sort_as_text(moment, text):
    assert rfc3339(moment) == text


def test_the_operators_zone_and_cut_off_come_from_the_environment():
    settings = settings_from({"SABOT_ZONE": "Europe/Amsterdam", "SABOT_CUT_OFF": "04:00", "PATH": "/bin"})
    assert settings.calendar == GamingCalendar("Europe/Amsterdam", time(4))
    assert settings_from({}) == Settings()
    assert Settings().calendar == GamingCalendar("UTC", time(6))


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SABOT_ZONE", "Europe/Amstelveen", "is not a time zone"),
        ("SABOT_CUT_OFF", "6 o'clock", "SABOT_CUT_OFF: "),
        ("SABOT_CUT_OFF", "06:00Z", "without a zone"),
        ("SABOT_OPERATOR", "a.b", "SABOT_OPERATOR: "),
        ("SABOT_SHARD", "s" * 41, "at most 40 characters"),
        ("SABOT_SEAL_TIMEOUT_SECONDS", "0", "greater than or equal to 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(variable, value, words):
    with pytest.raises(SettingsError, match=variable) as refused:
        settings_from({variable: value})
    assert words in str(refused.value)
