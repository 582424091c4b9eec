"""The start of a command line, whose modules take long to import."""

import importlib
import signal


def start(module: str) -> None:
    """Import a module and run its `main`; Ctrl-C meanwhile ends the process without a word."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else the caller ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(module).main
    signal.signal(signal.SIGINT, usual)
    main()
