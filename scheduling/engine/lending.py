"""Who has borrowed from whom: may a team's work be taken back for what another team is owed?

Pure questions over quota.py. The tree decides: between two teams it is settled just below the
nearest team above both. There the one that is owed must stay within its nominal, and on the way
down to the borrower each team must hold more than its nominal (0 without a quota); so a branch
that keeps within its own is left alone, whatever its teams lend each other.
"""

from .quota import Ledger


def gives_back(
    ledger: Ledger, borrower: int, gpu_model: str, owed: int, milli: int, more: int = 0
) -> bool:
    """Return whether ``borrower`` holds what team ``owed`` may have back, with ``milli`` more.

    ``more`` is thought to be the borrower's too. Cost: O(depth).
    """
    up, down = ledger.apart(borrower, owed)
    if not up or not down or not _within(ledger, down[-1], gpu_model, milli):
        return False
    return all(_above(ledger, link, gpu_model, more) for link in up)


def _within(ledger: Ledger, team: int, gpu_model: str, milli: int) -> bool:
    own = [(held, nominal) for held, nominal in ledger.held_of(team, gpu_model) if nominal]
    return bool(own) and all(held + milli <= nominal for held, nominal in own)


def _above(ledger: Ledger, team: int, gpu_model: str, more: int) -> bool:
    return any(held + more > nominal for held, nominal in ledger.held_of(team, gpu_model))
