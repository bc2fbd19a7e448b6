"""A person changes the own password on a page; who does not know the old one does not."""

from django.test import Client

from scheduling.models import AuditEntry

OLD, NEW = "an old one of hers", "a new one of hers, longer"


def change(client: Client, old: str, new: str, again: str | None = None):
    words = {"old_password": old, "new_password1": new, "new_password2": again or new}
    return client.post("/password/", words, follow=True)


def test_a_person_changes_the_own_password_and_it_is_noted(alice, client_of):
    alice.set_password(OLD)
    alice.save()
    answer = change(client_of(alice), OLD, NEW)
    alice.refresh_from_db()
    assert alice.check_password(NEW)
    assert b"Your password is changed" in answer.content
    noted = AuditEntry.objects.get(verb="change_password")
    assert noted.actor == alice.username and NEW not in str(vars(noted))


def test_who_does_not_know_the_old_password_changes_nothing(alice, client_of):
    alice.set_password(OLD)
    alice.save()
    for old, new, again in (("wrong", NEW, NEW), (OLD, NEW, "else"), (OLD, "short", "short")):
        answer = change(client_of(alice), old, new, again)
        alice.refresh_from_db()
        assert alice.check_password(OLD) and b'role="alert"' in answer.content
    assert not AuditEntry.objects.filter(verb="change_password").exists()


def test_other_sessions_end_with_the_old_password(alice):
    alice.set_password(OLD)
    alice.save()
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        client.login(username=alice.username, password=OLD)
    change(here, OLD, NEW)
    assert here.get("/jobs/").status_code == 200
    assert elsewhere.get("/jobs/")["Location"].startswith("/signin/")
