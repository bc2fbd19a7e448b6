"""Measuring the portal from outside: how soon, how many, and what is left when processes die.

``manage.py bench NAME`` runs one of them. ``latency``, ``throughput`` and ``faults`` are the
stories; ``stage`` gives them a portal of their own, ``crowd`` makes the jobs of a fault round,
``tally`` counts from what the jobs wrote, ``remains`` looks for what was left behind, ``figures``
makes the answer. Jobs go in and out through the API (``portal.client``) as anybody's do; no
service or task of the portal is called. A new measurement is a module with a ``run`` and its line
in the command.
"""
