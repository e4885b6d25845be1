"""Where problems come from."""

from dilutron.data.teacher import Lesson, lesson

__all__ = ["Lesson", "lesson"]
