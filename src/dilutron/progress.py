"""scikit-learn's callbacks, where its version has them (1.9 on): progress bars, monitors, and early ends of a fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dilutron.posterior import Posterior
from dilutron.wishes import Watch

__all__ = ("CallbackSupportMixin", "Task", "Watched", "begun", "with_callbacks")

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing, before scikit-learn 1.9."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


class Task:
    """A part of a fit, as callbacks are told of it; where there are none, nothing happens.

    `given` is what the whole fit was given: X, y and metadata.
    """

    def __init__(self, estimator: Any, context: Any, given: dict[str, Any]) -> None:
        self.estimator, self.context, self.given = estimator, context, given
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator, **given)

    def part(self, name: str, parts: int | None = 0) -> Task:
        """A task below this one, begun; `parts` will be below it, None if that is not known."""
        context = None if self.context is None else self.context.subcontext(task_name=name, max_subtasks=parts)
        return Task(self.estimator, context, self.given)

    def ended(self, results: Callable[[], dict[str, Any] | None]) -> bool:
        """Say so, with the attributes of an estimator that would end here; True where a callback asks to stop."""
        if self.context is None:
            return False
        told = {"estimator": self.estimator, "reconstruction_attributes": results, **self.given}
        return bool(self.context.call_on_fit_task_end(**told))


def begun(estimator: Any, parts: int | None, **given: Any) -> Task:
    """The task of the whole fit."""
    init = getattr(estimator, "_init_callback_context", None)
    return Task(estimator, None if init is None else init(max_subtasks=parts), given)


class Watched(Watch):
    """Every posterior is a task of its own, at the end of which a callback may ask to stop."""

    def __init__(
        self,
        task: Task,
        results: Callable[[Posterior], dict[str, Any] | None],
        say: Callable[[str], object],
        above: Watched | None = None,
    ) -> None:
        self.task, self.results, self._say, self.above = task, results, say, above
        self.stopped = above is not None and above.stopped

    def say(self, words: str) -> None:
        """To the user."""
        self._say(words)

    def __call__(self, solve: Callable[[], Posterior], name: str) -> Posterior:
        """Solve, and tell of it."""
        task = self.task.part(name)
        posterior = solve()
        self._stop(task.ended(partial(self.results, posterior)))
        return posterior

    def part(self, name: str, *, silent: bool = False) -> Watched:
        """A task below this one. It is of a part of the data: no estimator would end there."""
        return Watched(self.task.part(name, None), _nothing, _nothing if silent else self._say, self)

    def ended(self) -> None:
        """So is the task."""
        self._stop(self.task.ended(partial(_nothing, None)))

    def _stop(self, asked: bool) -> None:
        self.stopped |= asked
        if self.above is not None:
            self.above._stop(asked)


def _nothing(_: Any) -> None:
    return None
