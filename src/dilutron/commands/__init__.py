"""Commands over data files: each checks what it was given, calls the library, and says what came of it."""

from dilutron.commands.answers import fit, predict, report
from dilutron.commands.trials import compare_methods, simulate

COMMANDS = (fit, report, predict, simulate, compare_methods)
__all__ = ["COMMANDS", "compare_methods", "fit", "predict", "report", "simulate"]
