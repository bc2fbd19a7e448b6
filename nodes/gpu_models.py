"""Short names of GPU models, as people and quotas use them: "NVIDIA H100 80GB HBM3" is H100."""

import re

_MAKERS = ("NVIDIA", "Tesla", "Quadro", "GeForce", "Graphics", "Device")
_DETAIL = re.compile(r"(?i)\d+\s*GB|HBM\d?e?|PCIe|SXM\d?|NVL|OAM|MIG.*")


def short(product: str) -> str:
    """The model without maker, memory and form; the whole text if nothing else is left."""
    words = [word for word in product.split() if word not in _MAKERS]
    kept = [word.split("-")[0] for word in words if not _DETAIL.fullmatch(word)]
    return " ".join(kept)[:96] or product[:96]
