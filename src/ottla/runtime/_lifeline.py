"""The first lines of a child: `python _lifeline.py PIPE PARENT MODULE ARGUMENTS...`.

Ends this process when its parent ends, and then runs MODULE as `python -m` does. Linux sends a
signal at the parent's end (`prctl`). For other systems, and if `prctl` fails, a thread waits for
the end of a pipe that only the parent has open for writing. It imports only what it needs before
it watches, and nothing of Ottla. See `runtime.children`.
"""

import os
import sys
import threading

PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`: sets the signal to receive when the parent thread ends."""


def end_with_parent(pipe: int, parent: int) -> None:
    os.set_inheritable(pipe, False)

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(1)

    threading.Thread(target=wait, name="ottla-parent", daemon=True).start()
    if sys.platform == "linux":
        import contextlib
        import signal

        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before this process watched it


def main() -> None:
    pipe, parent, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    end_with_parent(pipe, parent)
    import runpy

    sys.argv[1:4] = []
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
