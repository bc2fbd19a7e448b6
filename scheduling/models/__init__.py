"""The tables of scheduling, by theme: tenancy, jobs, claims, reservations, records."""

from .claims import Card, Lease, Pledge, PledgeCard, PledgePart
from .jobs import Attempt, ExcludedNode, Job, LogPiece, Part
from .records import AuditEntry, ControlLease, Freeze, JobLog, Ledger, UnknownRun
from .reservations import BookingRule, Reservation, ReservationCard
from .tenancy import Loan, Member, Pool, PoolNode, PriorityClass, Quota, Team
from .usage import RecentUse, UsageEntry, UsageSum

__all__ = [
    "Attempt",
    "AuditEntry",
    "BookingRule",
    "Card",
    "ControlLease",
    "ExcludedNode",
    "Freeze",
    "Job",
    "JobLog",
    "Lease",
    "Ledger",
    "Loan",
    "LogPiece",
    "Member",
    "Part",
    "Pledge",
    "PledgeCard",
    "PledgePart",
    "Pool",
    "PoolNode",
    "PriorityClass",
    "Quota",
    "RecentUse",
    "Reservation",
    "ReservationCard",
    "Team",
    "UnknownRun",
    "UsageEntry",
    "UsageSum",
]
