"""Where problems come from."""

from dilutron.data.glauber import Network, Recording, diluted_network
from dilutron.data.teacher import PATTERNS, Lesson, diluted_teacher, lesson

__all__ = ["PATTERNS", "Lesson", "Network", "Recording", "diluted_network", "diluted_teacher", "lesson"]
