"""The two rows that order writers, and logs to which PostgreSQL lets nobody but add."""

from django.db import migrations

APPEND_ONLY = """
CREATE FUNCTION gangway_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER joblog_append_only BEFORE UPDATE OR DELETE ON scheduling_joblog
    FOR EACH ROW EXECUTE FUNCTION gangway_append_only();
CREATE TRIGGER auditentry_append_only BEFORE UPDATE OR DELETE ON scheduling_auditentry
    FOR EACH ROW EXECUTE FUNCTION gangway_append_only();
INSERT INTO scheduling_ledger (id, version) VALUES (1, 0);
INSERT INTO scheduling_controllease (id, token, holder, last_took_ms) VALUES (1, 0, '', 0);
"""
BACK = """
DROP TRIGGER joblog_append_only ON scheduling_joblog;
DROP TRIGGER auditentry_append_only ON scheduling_auditentry;
DROP FUNCTION gangway_append_only();
DELETE FROM scheduling_ledger;
DELETE FROM scheduling_controllease;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]
    operations = [migrations.RunSQL(APPEND_ONLY, BACK)]
