"""C programs for tests of `proton`: each argument of the program is a step that it does.

A test gives its own steps as C text with a function

    static int do_step(char **words)

which does the step words[0]: -1 if the program continues, otherwise its exit status. `program` is
the path of the program. Steps of all programs: "fork" (the rest is the child's), "both" (parent and
child do the rest), "spawn" (the rest, in a new program), and "status" (the exit status is 5).
"""

import subprocess
import textwrap
from pathlib import Path

from fake_driver import CC, INCLUDES
from support import run_command

HEAD = r"""
    #include <dlfcn.h>
    #include <stdbool.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>

    static char *program;

    static void wait_for(pid_t child)
    {
        int status;

        waitpid(child, &status, 0);
        printf("child %d %d\n", (int)child, status);
        fflush(stdout);
    }
    """

TAIL = r"""
    static int do_process_step(char **words)
    {
        pid_t child = strcmp(words[0], "status") == 0 ? -1 : fork();

        if (child < 0)
            return 5;
        if (child == 0 && strcmp(words[0], "spawn") == 0) {
            words[0] = program;
            execv(program, words);
        }
        if (child)
            wait_for(child);
        return child && strcmp(words[0], "both") != 0 ? 0 : -1;
    }

    int main(int argc, char **argv)
    {
        static const char *const of_processes[] = {"fork", "both", "spawn", "status"};
        int status = -1;

        program = argv[0];
        for (int i = 1; i < argc && status < 0; i++) {
            bool is_shared = false;

            for (int k = 0; k < 4; k++)
                is_shared = is_shared || strcmp(argv[i], of_processes[k]) == 0;
            status = is_shared ? do_process_step(argv + i) : do_step(argv + i);
        }
        return status < 0 ? 0 : status;
    }
    """


def try_to_build(path: Path, steps: str, *flags: str) -> subprocess.CompletedProcess[str]:
    source = path.with_suffix(".c")
    source.write_text("".join(map(textwrap.dedent, (HEAD, steps, TAIL))))
    return run_command(
        [CC, "-std=gnu11", "-D_GNU_SOURCE", "-w", *INCLUDES, "-o", path, source, *flags, "-ldl"],
        status=None,
    )


def build(path: Path, steps: str, *flags: str) -> str:
    """The path of a program with these steps."""
    built = try_to_build(path, steps, *flags)
    assert built.returncode == 0, built.stderr
    return str(path)
