"""The names that papers give to mechanisms and policies, for pictures and tables."""

_ACRONYMS = ("emma", "hmt", "itst", "mma_c", "mma_h", "mma_il", "sm2")
TITLES = {name: name.upper().replace("_", "-") for name in _ACRONYMS} | {
    "luong_global": "Luong global",
    "luong_local_m": "Luong local-m",
    "luong_local_p": "Luong local-p",
    "milk": "MILk",
    "mocha": "MoChA",
    "monotonic": "hard monotonic",
    "multi_path": "multi-path wait-k",
    "soft": "offline",
    "wait_info": "Wait-info",
    "wait_k": "wait-k",
    "adaptive_wait_k": "adaptive wait-k",
    "align_att": "AlignAtt",
    "ed_att": "EDAtt",
    "hold_n": "hold-n",
    "local_agreement": "local agreement",
    "newest_token": "newest token",
    "retranslation": "re-translation",
}
"""By the names of simulmt's mechanisms and policies."""


def title(name: str) -> str:
    """Return the name that papers give to a mechanism or a policy; else the name itself."""
    return TITLES.get(name, name)
