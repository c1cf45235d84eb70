"""Clocks, a file each."""

from simulmt.attention.clocks.full_sentence import FullSentence
from simulmt.attention.clocks.hidden_markov import HiddenMarkov
from simulmt.attention.clocks.multi_path import MultiPath
from simulmt.attention.clocks.prefixes import Prefixes
from simulmt.attention.clocks.wait_info import WaitInfo
from simulmt.attention.clocks.wait_k import WaitK

__all__ = ["FullSentence", "HiddenMarkov", "MultiPath", "Prefixes", "WaitInfo", "WaitK"]
