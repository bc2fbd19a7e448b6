"""Shapes of quotas, loans and use. Amounts are thousandths of a GPU, and of its seconds."""

from typing import Any

from rest_framework import serializers

from scheduling.models import Loan, UsageEntry


class QuotaSerializer(serializers.Serializer[Any]):
    """What a team may hold of a model ("" is all together); null is no limit."""

    team = serializers.CharField()
    gpu_model = serializers.CharField()
    nominal_milli = serializers.IntegerField(help_text="As it was set.")
    own_milli = serializers.IntegerField(help_text="Its own now: nominal with loans.")
    limit_milli = serializers.IntegerField(allow_null=True)
    held_milli = serializers.IntegerField(help_text="By the team and all below it.")
    borrowed_milli = serializers.IntegerField(help_text="Of that, above its own.")
    borrowing_limit_milli = serializers.IntegerField(allow_null=True)
    lending_limit_milli = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()
    user_milli = serializers.IntegerField(allow_null=True, help_text="The most for one person.")
    cpus = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    gpu_hours_a_month = serializers.IntegerField(allow_null=True)
    budget_is_hard = serializers.BooleanField()
    gpu_hours_used = serializers.IntegerField(allow_null=True, help_text="Of this month's budget.")


class QuotasSerializer(serializers.Serializer[Any]):
    results = QuotaSerializer(many=True)


class LoanSerializer(serializers.Serializer[Loan]):
    """A dated transfer of nominal from one team to another."""

    id = serializers.IntegerField()
    lender = serializers.CharField(source="lender.name")
    borrower = serializers.CharField(source="borrower.name")
    gpu_model = serializers.CharField()
    milli = serializers.IntegerField()
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Given back before its time.")
    reason = serializers.CharField()
    made_by = serializers.SerializerMethodField()
    made_at = serializers.DateTimeField()

    def get_made_by(self, loan: Loan) -> str | None:
        return loan.made_by.get_username() if loan.made_by else None


class LoansSerializer(serializers.Serializer[Any]):
    results = LoanSerializer(many=True)


class LoanOrderSerializer(serializers.Serializer[Any]):
    """What to lend. Times carry a zone."""

    lender = serializers.CharField()
    borrower = serializers.CharField()
    gpus = serializers.IntegerField(min_value=1)
    gpu_model = serializers.CharField(required=False)
    from_at = serializers.DateTimeField(required=False, help_text="Now, if absent.")
    until_at = serializers.DateTimeField()
    reason = serializers.CharField(required=False)


class UsedSerializer(serializers.Serializer[Any]):
    """What one user of a team was charged for a model in the month."""

    team = serializers.CharField()
    user = serializers.CharField()
    gpu_model = serializers.CharField()
    milli_s = serializers.IntegerField(help_text="Thousandths of GPU-seconds.")


class UsageEntrySerializer(serializers.Serializer[UsageEntry]):
    """One line of the accounts; it is never changed."""

    id = serializers.IntegerField()
    team = serializers.CharField(source="team.name")
    user = serializers.CharField(source="user.username")
    job = serializers.IntegerField(source="job_id", allow_null=True)
    gpu_model = serializers.CharField()
    kind = serializers.ChoiceField(UsageEntry.Kind.values)
    milli_s = serializers.IntegerField()
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()


class UsageSerializer(serializers.Serializer[Any]):
    """A month's sums, and its entries page by page, newest first."""

    month = serializers.CharField()
    sums = UsedSerializer(many=True)
    results = UsageEntrySerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)
