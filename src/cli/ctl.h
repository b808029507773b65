/* Command proton ctl: controls programs that listen (proton_listen()). */
#ifndef CLI_CTL_H
#define CLI_CTL_H

/* `argv` begins with "ctl". Returns the exit status. */
int ctl_run(int argc, char **argv);

#endif
