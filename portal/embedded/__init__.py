"""PostgreSQL and Valkey out of Python wheels, for machines that offer neither.

Owns: how the two servers are set up, started and asked whether they are ready. Never decides
whether they are wanted (``portal/supervisor`` and ``tests/services_plugin.py`` do: when
``DATABASE_URL`` or ``REDIS_URL`` is unset) and never imports Django, so that it starts fast.

Read in this order: account.py (who PostgreSQL may run as), postgres.py, valkey.py, foreground.py.
"""
