"""What ``make up`` runs: every process of the portal in one folder, watched until Ctrl-C.

Owns the portal's own folder (``.gangway``), the order of start and stop, and restarts. Decides
nothing about jobs and never imports Django, so it starts at once and its memory stays small.

Read in this order: start.py (the story), options.py, home.py, procfile.py, children.py,
supervise.py, leftovers.py, demo.py, backoff.py.
"""
