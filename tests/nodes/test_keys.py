"""Keys of nodes: sealed at rest, rotated without a re-enrolment, told in ssh's own words."""

import subprocess

import pytest
from cryptography.fernet import Fernet

from nodes import keys
from nodes.errors import NodeError


def test_the_private_half_is_never_kept_in_the_clear():
    pair = keys.new_pair()

    assert "PRIVATE KEY" in keys.opened(pair.sealed)
    assert "PRIVATE KEY" not in pair.sealed
    assert pair.public.startswith("ssh-ed25519 AAAA")


def test_a_new_secret_key_in_front_still_opens_what_the_old_one_sealed(settings):
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.GANGWAY_SECRET_KEYS = [old]
    pair = keys.new_pair()

    settings.GANGWAY_SECRET_KEYS = [new, old]
    moved = keys.sealed_anew(pair.sealed)
    settings.GANGWAY_SECRET_KEYS = [new]

    assert "PRIVATE KEY" in keys.opened(moved)
    with pytest.raises(NodeError, match="None of the GANGWAY_SECRET_KEYS opens"):
        keys.opened(pair.sealed)


@pytest.mark.parametrize(("secrets", "cause"), [([], "is empty"), (["short"], "is not 32 bytes")])
def test_without_a_secret_key_one_is_told_how_to_make_one(settings, secrets, cause):
    settings.GANGWAY_SECRET_KEYS = secrets

    with pytest.raises(NodeError, match=cause) as error:
        keys.new_pair()

    command = error.value.next_step.removeprefix("Make one with: ")
    made = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    settings.GANGWAY_SECRET_KEYS = [made.stdout.strip()]
    assert keys.new_pair().public


@pytest.mark.needs("ssh")
def test_the_fingerprint_is_the_one_ssh_keygen_prints(tmp_path):
    public = keys.new_pair().public
    (tmp_path / "key.pub").write_text(public + "\n")
    printed = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True
    )

    assert printed.stdout.split()[1] == keys.fingerprint(public)


def test_the_line_for_authorized_keys_allows_commands_from_here_and_nothing_else():
    line = keys.authorized_line("ssh-ed25519 AAAA", name="a", source="192.0.2.7")

    assert line == 'restrict,from="192.0.2.7" ssh-ed25519 AAAA gangway a'
