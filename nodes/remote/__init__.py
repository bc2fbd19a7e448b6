"""What runs on a node: a zipapp of small modules, standard library only, Python 3.8 and later.

Owns everything that happens on the machine itself: the claim of a run, its keeper, its files, its
end, and the reading of its cards. Never imports anything else of the project, and nothing else
imports it: the two sides meet in the line protocol of docs/node-protocol.md alone.

A new verb: write its function in a module of its own, enter it in verbs.py, describe it there.
"""
