"""Become another command that ends when the process which asked for it is gone.

``python exec_tethered.py PARENT SIGNAL COMMAND…``: Linux sends SIGNAL when the thread that started this
process has ended, and keeps to that over the exec. A script of its own, since code between fork and exec
(``preexec_fn``) may hang in a process with threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, signal_number, *command = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal_number)):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # Who ended before the prctl sends no signal any more.
    if os.getppid() != int(parent):
        sys.exit("the parent is gone")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
