"""The REST API, version 1: JSON in, JSON or a problem document out.

``urls`` lists the routes; ``jobs``, ``job_log``, ``site``, ``tokens`` and ``schema`` answer them,
each view a few lines over ``scheduling``. What all views share: ``endpoint`` (who may come in),
``parsers`` and ``asked`` (reading what was sent), ``idempotency`` (once per key), ``answers``
(ETag), ``errors`` (every refusal). Never: a decision, a query written here, a model saved past a
service. To add a route: a view, its line in ``urls``, its section in docs/api.md.
"""
