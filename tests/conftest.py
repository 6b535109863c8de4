from __future__ import annotations

import signal

# Where tests are started in the background, programs that they start would not hear Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
