"""Translation models in plain torch, one file each."""
