"""The names that papers give to mechanisms and policies, for pictures and tables."""

TITLES = {
    "emma": "EMMA",
    "hmt": "HMT",
    "itst": "ITST",
    "luong_global": "Luong global",
    "luong_local_m": "Luong local-m",
    "luong_local_p": "Luong local-p",
    "milk": "MILk",
    "mma_c": "MMA-C",
    "mma_h": "MMA-H",
    "mma_il": "MMA-IL",
    "mocha": "MoChA",
    "monotonic": "hard monotonic",
    "multi_path": "multi-path wait-k",
    "sm2": "SM2",
    "soft": "offline",
    "wait_info": "Wait-info",
    "wait_k": "wait-k",
    "adaptive_wait_k": "adaptive wait-k",
    "align_att": "AlignAtt",
    "confidence": "confidence",
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
