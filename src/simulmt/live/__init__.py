"""Translation while the source arrives: from a program, a pipe, a keyboard or SimulEval."""
