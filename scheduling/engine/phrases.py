"""Words about time: moments, what is kept for whom from when, who is ahead.

Owns the sentences of ``Priority``, ``Reservation`` and ``Maintenance``; sentences.py lists them.
Moments are absolute and in UTC: a sentence stays true while it is read.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

Numbers = Mapping[str, int | str]


def moment(at_s: int | str) -> str:
    """Return "14:20 UTC on 2 Dec" for seconds since the epoch."""
    at = datetime.fromtimestamp(int(at_s), UTC)
    return f"{at:%H:%M} UTC on {at.day} {at:%b}"


def second(at_s: int | str) -> str:
    """Return "12:03:10 UTC" for seconds since the epoch."""
    return f"{datetime.fromtimestamp(int(at_s), UTC):%H:%M:%S} UTC"


def priority(n: Numbers) -> str:
    """Say who is ahead: jobs that want the same, one that cards are kept for, or a strict queue."""
    if n.get("kept"):
        return (
            f"It could still run at {moment(n['at_s'])}, from when what it needs is kept for "
            f"{_jobs(n)}. With a time limit that ends before, that is no obstacle."
        )
    if n.get("strict"):
        return f"This pool starts jobs strictly in order, and {_jobs(n)} waits ahead of it."
    ahead = int(n["ahead"])
    if ahead == 1:
        return f"1 job is ahead that wants the same cards{_named(n)}."
    return f"{ahead} jobs are ahead that want the same cards{_named(n)}."


def budget(n: Numbers) -> str:
    """Say that a month's GPU-hours are used up, and when new ones come."""
    used, most = (_hours(n[name]) for name in ("held", "budget"))
    kind = f" on {n['model']}" if n["model"] else ""
    return (
        f"{n['team']} has used {used} of its {most} GPU-hours{kind} of this month. "
        f"It starts when new ones come, at {moment(n['renews_s'])}, or when the budget is raised."
    )


def begins(n: Numbers) -> str:
    """Say from when a job asked to be started."""
    return f"It asked not to be started before {moment(n['at_s'])}."


def depends(n: Numbers) -> str:
    """Say which jobs have to end before, or did not end as they had to."""
    more = int(n["count"]) - len(str(n["jobs"]).split(","))
    jobs = f"{_jobs(n)}{f' and {more} more' if more > 0 else ''}"
    if n["lost"]:
        return f"It was to follow the success of {jobs}, and there was none. Cancel it."
    return f"It starts after {jobs}, not ended yet."


def booked(n: Numbers) -> str:
    """Say that a booking of somebody else begins too soon."""
    return (
        f"It could still run at {moment(n['at_s'])}, when {_booking(n)} on {n['names']} begins. "
        "With a time limit that ends before, that is no obstacle; else it waits for other cards."
    )


def maintained(n: Numbers) -> str:
    """Say that a maintenance begins too soon."""
    return (
        f"It could still run at {moment(n['at_s'])}, when maintenance of {n['names']} begins. "
        "With a time limit that ends before, that is no obstacle; else it waits for other nodes."
    )


def awaiting(n: Numbers) -> str:
    """Say whose cards are on their way, from where and until when, and what is kept already."""
    gpus, more = int(n["gpus"]), int(n["more_jobs"])
    if not gpus:
        return "Its cards are free and kept for it. It starts as soon as its team may hold them."
    whose = f"{_jobs(n)}{f' and {more} more' if more else ''}"
    more_nodes = f" and {n['more_nodes']} more" if int(n["more_nodes"]) else ""
    by = f" by {second(n['by_s'])}" if int(n["by_s"]) else ""
    kept = f" {n['kept']} free already are kept for it." if int(n["kept"]) else ""
    cards = f"{gpus} GPU of" if gpus == 1 else f"{gpus} GPUs of"
    leave = "leaves" if gpus == 1 else "leave"
    return f"{cards} {whose} on {n['names']}{more_nodes} {leave}{by}, then it starts.{kept}"


def too_wide(n: Numbers) -> str:
    """Say that room could be made only by stopping more than the pool allows."""
    if int(n["victims"]) > int(n["most_victims"]):
        return (
            f"It would have to stop {n['victims']} running jobs, and this pool allows "
            f"{n['most_victims']} at once. Ask for fewer cards, or wait until jobs end."
        )
    return (
        f"It would have to stop jobs with {n['gpus']} GPUs for the {n['asked']} it asks for, and "
        f"this pool allows {n['most_gpus']}. Wait until jobs end."
    )


def slot_ahead(n: Numbers) -> str:
    """Say when the reservation begins that a job runs in."""
    return f"It runs in reservation {n['booking']}, which begins at {moment(n['at_s'])}."


def slot_full(n: Numbers) -> str:
    """Say what is free of the reservation that a job runs in."""
    return (
        f"It runs in reservation {n['booking']} alone and needs {n['asked']} cards of it; "
        f"{n['free']} of its {n['cards']} are free. It starts when they are, or take it out of "
        "the reservation by submitting it anew."
    )


def booked_quota(n: Numbers) -> str:
    """Say that a booking of its team will need the quota."""
    return (
        f"It could still run at {moment(n['at_s'])}, when reservation {n['booking']} begins and "
        "counts against its team's limit. With a time limit that ends before, it starts."
    )


def _hours(milli_s: int | str) -> str:
    hours = int(milli_s) / 3_600_000
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _booking(n: Numbers) -> str:
    return "a reservation" if "," not in str(n["bookings"]) else "the first of several reservations"


def _jobs(n: Numbers) -> str:
    return f"job{'s' if ',' in str(n['jobs']) else ''} {n['jobs']}"


def _named(n: Numbers) -> str:
    if not n.get("jobs"):
        return ""
    more = int(n["ahead"]) - len(str(n["jobs"]).split(","))
    return f": {_jobs(n)}{f' and {more} more' if more > 0 else ''}"


def are(amount: int | str, one: str, many: str) -> str:
    """Return an amount with its verb, such as "1 is", "3 are"."""
    return f"{amount} {one if int(amount) == 1 else many}"
