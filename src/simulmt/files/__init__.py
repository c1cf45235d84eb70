"""Run directories, records and metrics: every file of a run has its name here."""
