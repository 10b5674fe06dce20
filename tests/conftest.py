"""For every test: Ctrl-C reaches what a test starts, also where the tests themselves were started in the background.

A shell that starts a command in the background has it ignore SIGINT, and a child of it inherits that: a verb that a test ends by
SIGINT would then never end.
"""

import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
