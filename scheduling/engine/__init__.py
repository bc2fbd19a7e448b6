"""The placement engine: ``plan(world) -> Plan``. Pure, deterministic, no Django.

Read in this order: world.py (the nouns), plan.py (the cycle), order.py, quota.py, fit.py (one
question each), stock.py (what is still free), shortage.py (why a job waits), explain.py and
sentences.py (what people are told). ``docs/placement.md`` says the same in words.
"""
