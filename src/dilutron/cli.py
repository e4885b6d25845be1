"""The command line: each command checks what it was given, calls the library, and says what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar
except ModuleNotFoundError as missing:
    print(f"dilutron: the command line needs {missing.name}: pip install 'dilutron[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

from dilutron.commands import COMMANDS
from dilutron.commands.saying import stop
from dilutron.experiments import paper
from dilutron.experiments.cluster import cluster
from dilutron.experiments.runner import FAILURES, Progress, WorkersError, processes, run, strangers
from dilutron.experiments.store import Store, StoreError, Trial

QUICK = 10  # instances of a quick look
SHOWN = 10  # failed trials that are listed one by one

app = typer.Typer(
    name="dilutron",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: the same in a terminal, a pipe and a log
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, `sys.argv` where none is given; ends in SystemExit. A wrong flag gets one line, too."""
    try:
        code = app(arguments, prog_name="dilutron", standalone_mode=False)
    except typer.Abort:
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own, whose module differs between its versions
            raise
        context, said = getattr(error, "ctx", None), error.format_message()
        if said.startswith("Usage:") or not said:  # nothing was asked for: the help itself
            print(said)
        else:
            command = context.command_path if context else "dilutron"
            end = "" if said.endswith(("?", ".")) else "."
            typer.echo(f"dilutron: {' '.join(said.split())}{end} See {command} --help", err=True)
        code = 2
    sys.exit(code or 0)


def _version(asked: bool) -> None:
    if asked:
        from dilutron import __version__

        typer.echo(f"dilutron {__version__}")
        raise typer.Exit


@app.callback()
def dilutron(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Which features tell classes apart, how sure that is, and which labels look wrong.

    \b
    To begin, with a table of which the truth is known, then with your own:
      dilutron simulate --out toy.csv
      dilutron fit toy.csv --label class --id sample --out toy-run/
      dilutron fit patients.csv --label diagnosis --out run/
    """  # noqa: D301 (the mark that keeps lines as they are)


for command in COMMANDS:
    app.command()(command)


@app.command()
def items(
    instances: Annotated[int, typer.Option(min=1, help="Draws of each cell.")] = paper.INSTANCES,
) -> None:
    """List the paper's tables and figures.

    With the number of trials that each takes.

    \b
    Examples:
      dilutron items
      dilutron items --instances 10
    """  # noqa: D301 (the mark that keeps lines as they are)
    for item in paper.ITEMS.values():
        typer.echo(f"{item.name:9} {len(list(item.trials(instances))):6} trials  {item.title}")
    every = len(list(paper.trials(paper.ITEMS.values(), instances)))
    typer.echo(f"{'all':9} {every:6} trials  (those that items share are run once)")


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM", help="As `dilutron items` lists them, or `all`.")
    ] = None,
    instances: Annotated[int | None, typer.Option(min=1, help="Draws of each cell, by default 100.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"A look within minutes: {QUICK} instances.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="METHOD", help="Run this method; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of rows, tables and figures.")] = Path("results"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes, or workers of a local cluster.")] = 2,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS|local", help="Run on a Dask cluster.")] = None,
    budget: Annotated[float | None, typer.Option(metavar="MINUTES", help="Begin and await no trial after.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try again what ended in an error.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Compute anew what another program or version made.")] = False,
) -> None:
    """Run the paper's experiments, draw and compare.

    Every trial is a row in OUT/trials.sqlite the moment it is known: stopped in any way, the same command goes on where
    it ended. Exit code 0: done, or as far as the budget went; 1: trials failed, or the disk or the cluster did; 2: it
    cannot be done, found before any work; 130: Ctrl-C.

    \b
    Examples:
      dilutron reproduce table-3 --quick
      dilutron reproduce all --instances 100 --jobs 8 --out results/
      dilutron reproduce figure-2 --only ep --only amp
      dilutron reproduce all --budget 90
      dilutron reproduce table-3 --retry-failed
      dilutron reproduce table-3 --again
      dilutron reproduce all --dask tcp://10.0.0.1:8786
    """  # noqa: D301
    chosen = _chosen(names or [])
    if quick and instances is not None:
        stop("--quick and --instances exclude each other")
    if budget is not None and not budget > 0.0:
        stop(f"--budget must be positive, got {budget:g}")
    methods, instances = _methods(only, chosen), QUICK if quick else instances or paper.INSTANCES
    wanted = {item.name: [t for t in item.trials(instances) if t.cell["method"] in methods] for item in chosen}
    trials = sorted((trial for some in wanted.values() for trial in some), key=paper.slow)
    publish = _publisher()
    with ExitStack() as stack:
        try:
            store = Store(out / "trials.sqlite")
            if retry_failed:
                store.forget(trial for trial, status in store.ended(trials) if status in FAILURES)
            old = strangers(trials, store)
            missing = len(store.missing(trials)) + (len(old) if again else 0)
            store.check_room(missing)
            executor = stack.enter_context(cluster(dask, jobs)) if dask and missing else processes(jobs)
            _say_what_is_old(old, store, again)  # and forget it only now that there is room and someone to work
        except (StoreError, WorkersError) as error:
            stop(str(error))
        try:
            with _progress(missing) as report:
                run(trials, store, executor, report=report, budget=None if budget is None else 60.0 * budget)
            for item in chosen:
                done = len(wanted[item.name]) - len(store.missing(wanted[item.name]))
                typer.echo(f"{item.name}: {done} of {len(wanted[item.name])} trials")
            for path in publish(chosen, store, out):
                typer.echo(f"  {path}")
        except BrokenPipeError:
            raise  # the reader of our lines has gone, no disk is full
        except (StoreError, WorkersError, OSError) as error:
            stop(f"{error}; {_kept(store, trials)}", 1)
        except KeyboardInterrupt:
            stop(f"stopped; {_kept(store, trials)}", 130)
    _say_what_is_left(store, trials)
    _say_what_failed(store, trials)


def _chosen(names: list[str]) -> list[paper.Item]:
    unknown = [name for name in names if name not in paper.ITEMS and name != "all"]
    if unknown or not names:
        stop(f"no item {', '.join(unknown) or 'given'}; there are {', '.join(paper.ITEMS)}, and all")
    return [paper.ITEMS[name] for name in (paper.ITEMS if "all" in names else dict.fromkeys(names))]


def _methods(only: list[str] | None, chosen: list[paper.Item]) -> set[str]:
    """Those asked for, of those that the items have; commas do as well."""
    known = dict.fromkeys(cell["method"] for item in chosen for sweep in item.sweeps for cell in sweep.cells)
    asked = {name.strip() for some in only or known for name in some.split(",")}
    unknown = sorted(asked - set(known))
    if unknown:
        stop(f"no method {', '.join(unknown)} in these items; there are {', '.join(known)}")
    return asked


def _publisher() -> Callable[[list[paper.Item], Store, Path], list[Path]]:
    """What writes tables and figures. That it can draw must be known before the work, not after."""
    if find_spec("matplotlib") is None:
        stop("figures need matplotlib: pip install 'dilutron[plot]'")
    from dilutron.experiments.outputs import publish

    return publish


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Progress], None]]:
    """A bar in a terminal, else one line at the end; nothing where nothing is to be done."""
    console, began, written = Console(stderr=True), time.monotonic(), 0
    if total == 0:
        yield lambda news: None
    elif console.is_terminal:
        text = TextColumn(
            "{task.completed:.0f}/{task.total:.0f}  {task.fields[pace]}  {task.description}", markup=False
        )
        with Bar(BarColumn(None), text, console=console, expand=True) as bar:  # the bar has what the words leave
            task = bar.add_task("", total=total, pace="")

            def draw(news: Progress) -> None:
                bar.update(task, completed=news.done, pace=_pace(news, began), description=_label(news.trial))

            yield draw
    else:

        def count(news: Progress) -> None:
            nonlocal written
            written = news.done

        yield count
        typer.echo(f"{written} of {total} trials run in {_clock(time.monotonic() - began)}", err=True)


def _pace(news: Progress, began: float) -> str:
    spent = time.monotonic() - began
    left = spent / max(news.done, 1) * (news.total - news.done)
    return f"{60.0 * news.done / max(spent, 1e-9):.0f}/min  {_clock(left)} left"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _label(trial: Trial) -> str:
    """A trial in few words, for a line of 80 columns; of what most trials share, nothing."""
    cell = trial.cell
    words = [
        str(cell.get("patterns") or cell.get("dynamics") or trial.kind),
        f"n={cell['n']}" if cell.get("n", paper.N) != paper.N else "",
        f"a={cell['alpha']:g}" if "alpha" in cell else "",
        f"eta={cell['eta']:g}".replace("=0.", "=.") if cell.get("eta", 1.0) < 1.0 else "",
        "learn" if trial.kind == "learning" or cell.get("learn") else "",
        str(cell.get("method", "")),
        f"#{trial.instance}",
    ]
    return " ".join(filter(None, words))


def _kept(store: Store, trials: list[Trial]) -> str:
    try:
        rows = f"{len([status for _, status in store.ended(trials) if status])} of the rows asked for"
    except StoreError:  # on a full disk SQLite cannot even read
        rows = "rows written so far"
    return f"{rows} are kept in {store.path}: the same command goes on from there"


def _say_what_is_old(old: list[Trial], store: Store, again: bool) -> None:
    """Rows that this program would not have made are kept, or computed anew where that was asked for."""
    if again:
        store.forget(old)
    elif old:
        methods = ", ".join(dict.fromkeys(trial.cell["method"] for trial in old))
        typer.echo(
            f"{len(old)} rows of {methods} were made by another program, version or options: they are kept;"
            " --again computes them anew, another --out folder beside them",
            err=True,
        )


def _say_what_is_left(store: Store, trials: list[Trial]) -> None:
    left = store.missing(trials)
    if left:
        for method in dict.fromkeys(trial.cell["method"] for trial in left):
            of_it = [trial.instance for trial in left if trial.cell["method"] == method]
            typer.echo(f"left out for lack of time: {len(of_it)} trials of {method}, from instance {min(of_it)} on")
        typer.echo("the same command goes on from there")


def _say_what_failed(store: Store, trials: list[Trial]) -> None:
    failed = [(trial, status) for trial, status in store.ended(trials) if status in FAILURES]
    if not failed:
        return
    typer.echo(f"failed: {len(failed)} trials; --retry-failed tries them again")
    for trial, status in failed[:SHOWN]:
        rows = store.rows(trial.kind, [trial.cell])
        message = next((row["message"] for row in rows if row["instance"] == trial.instance), "")
        typer.echo(f"  {status}: {_label(trial)}: {' '.join(message.split())}")
    if len(failed) > SHOWN:
        typer.echo(f"  and {len(failed) - SHOWN} more")
    raise typer.Exit(1)
