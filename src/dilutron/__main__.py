"""`dilutron`, also as `python -m dilutron`: the command line, in which Ctrl-C is quiet from the first moment."""

import os
import signal

INTERRUPTED = 130


def main() -> None:
    """Load the commands, which takes a second, and run the one that `sys.argv` asks for."""
    with_python = signal.getsignal(signal.SIGINT)
    if with_python is signal.default_int_handler:  # else Ctrl-C is ignored, as in the background, and stays so
        # Nothing is open yet. An exception, as usual, would come out of the middle of some import, with its traceback.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from dilutron.cli import main as command

    signal.signal(signal.SIGINT, with_python)
    command()


if __name__ == "__main__":
    main()
