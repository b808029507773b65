/* fork(): the child has no sessions, and records nothing until it starts one. */
#ifndef RECORD_SESSION_FORK_H
#define RECORD_SESSION_FORK_H

/* Registers the handlers, once, at the first start. */
void fork_install(void);

#endif
