"""Who acts: a person, or a named part of the system. First argument of every service."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@dataclass(frozen=True, slots=True)
class Actor:
    """``name`` is what logs show; ``user_id`` is None for the system."""

    name: str
    user_id: int | None = None


CYCLE = Actor("system:cycle")
LAUNCH = Actor("system:launch")
NODES = Actor("system:nodes")
CLOCK = Actor("system:clock")
COMMAND = Actor("system:command line")


def person(user: "User") -> Actor:
    """The actor for a signed-in user."""
    return Actor(user.username, user.pk)
