"""How commands speak: one line for an error, a bar or plain lines for progress, names made safe for a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dilutron.tables import RefusedError


def stop(message: str, code: int = 2) -> NoReturn:
    """End with one line on standard error: 2 for what was asked for, 1 for what happened on the way."""
    typer.echo(f"dilutron: {safe(' '.join(message.split()))}", err=True)
    raise typer.Exit(code)


def note(message: str) -> None:
    """Say something beside the answer: on standard error, so that the answer can be piped."""
    typer.echo(safe(message), err=True)


def safe(text: str) -> str:
    """Without the characters by which a name in a file could move the cursor or colour the screen."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Bad files and requests end with 2, a full disk with 1, Ctrl-C with 130; each with one line and no half file."""
    try:
        yield
    except RefusedError as error:
        stop(str(error))
    except BrokenPipeError:
        raise  # the reader of our lines has gone: no failure of ours
    except OSError as error:
        stop(f"{error.filename or 'the system'}: {error.strerror or error}; nothing was written", 1)
    except MemoryError:
        stop("not enough memory; nothing was written. Fewer columns, or a larger machine, would do", 1)
    except KeyboardInterrupt:
        stop("stopped; nothing was written", 130)


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A bar in a terminal, plain lines elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words, share: note(f"{100.0 * share:3.0f} %  {words}")
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(BarColumn(30), TimeElapsedColumn(), text, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda words, share: bar.update(task, completed=share, description=safe(words))


def check_new(file: Path, force: bool) -> None:
    """Stop where a file cannot, or should not, be written: better before the work than after."""
    if file.exists() and not force:
        stop(f"{file} exists: choose another file, or --force to replace it.")
    if not file.parent.is_dir():
        stop(f"{file} cannot be written: there is no folder {file.parent}.")
    if not os.access(file.parent, os.W_OK):
        stop(f"{file} cannot be written: Permission denied: choose another folder.")
