"""A process that has imported and compiled everything, and forks one child after another to do some work.

    python -m tests.faults.zygote MODULE ...

The function `warm_up` of a module, if it has one, is called first. Requests are pickles on the standard input, each a
function and its arguments; for each there is a line with the child's exit code. Nothing here may leave threads behind
before a fork.
"""

import importlib
import os
import pickle
import sys
import traceback


def main():
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what children print must not mix with the answers
    for name in sys.argv[1:]:
        getattr(importlib.import_module(name), "warm_up", int)()
    while True:
        try:
            function, arguments = pickle.load(requests)
        except EOFError:
            return
        child = os.fork()
        if not child:
            os._exit(exit_code(function, arguments))
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        answers.flush()


def exit_code(function, arguments):
    try:
        function(*arguments)
        return 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
