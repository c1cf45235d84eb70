"""The mechanism obeys simulmt's laws."""

from catch_up import CatchUp
from simulmt.attention import Lookback, Mechanism
from simulmt.laws import hold


def test_laws() -> None:
    hold(Mechanism(CatchUp(k=3, steady=2), Lookback(), name="catch_up"))
