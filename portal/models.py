"""What the portal itself has to remember about its doors; nothing that scheduling reads."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class IdempotencyKey(models.Model):
    """An answer that was given under an Idempotency-Key, for giving it again.

    Written in the transaction of the act itself, so that both stand or neither. ``mark`` is a
    keyed digest of method, path and body; ``body`` is encrypted, since an answer may hold a token.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    mark = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    location = models.CharField(max_length=200, blank=True)
    body = models.BinaryField(default=bytes)
    made_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_answer_per_key")]

    def __str__(self) -> str:
        return f"{self.key} of user {self.user_id}"


class CalendarKey(models.Model):
    """The secret in the address of a person's calendar feed, known by digest only."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", primary_key=True
    )
    digest = models.CharField(max_length=64, unique=True)
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"calendar of user {self.user_id}"


class TokenName(models.Model):
    """What its owner calls a token; the token itself is knox's row and known by digest only."""

    token = models.OneToOneField(
        "knox.AuthToken", on_delete=models.CASCADE, related_name="named", primary_key=True
    )
    name = models.CharField(max_length=120)

    def __str__(self) -> str:
        return self.name
