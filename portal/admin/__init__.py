"""Rows that people manage, at /admin/: operators all of them, leads their own subtree.

What a lead may not see is not found. Saving and removing call ``scheduling.services``, never the
ORM past them. To add a table: its scope in ``scope``, its class in the module of its theme.
"""

from . import loans, people, records, rules
from .site import site

__all__ = ["loans", "people", "records", "rules", "site"]
