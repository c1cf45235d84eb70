"""Translation while the source arrives: for a program, a pipe, a keyboard, SimulEval."""
